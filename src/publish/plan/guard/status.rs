//! The status of the guard for people: the Services that would lose instances, the limits that are exceeded, since
//! when, and the condition that lets the loss pass. The report has it as numbers, every held-back line as a sentence.

use std::fmt::{self, Display, Formatter};

use crate::model::{ClusterArn, GuardState, ServiceRef, Timestamp};

/// The number of Services that a sentence names.
const NAMED: usize = 3;

/// A Service that would lose instances.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceLoss {
    pub service: ServiceRef,
    /// The number of instances that the Service would lose.
    pub instances: usize,
    /// Whether this run read the Service itself.
    pub was_read: bool,
}

/// The status of the guard in one run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GuardStatus {
    /// Whether the loss is held or let pass, and why.
    pub state: GuardState,
    /// The Services that lose instances, in order.
    pub losses: Vec<ServiceLoss>,
    /// The number of instances lost by all Services.
    pub loss: usize,
    /// The number of instances that the loss is measured against.
    pub instances: usize,
    /// The number of further instances, in Cloud Map services that could not be read.
    pub unread: usize,
    /// `GUARD_SHARE`.
    pub share: u8,
    /// `GUARD_MINIMUM`.
    pub minimum: usize,
    /// The time at which the loss was first seen.
    pub first_seen: Option<Timestamp>,
    /// Whether an earlier run saw the loss first.
    pub later_look: bool,
    /// The time from which a full sync that sees the same loss lets it pass.
    pub lifts_from: Option<Timestamp>,
    pub cluster: ClusterArn,
}

impl GuardStatus {
    /// The names of the Services, at most [`NAMED`] of them.
    fn who(&self) -> String {
        let names = self.losses.iter().take(NAMED).map(|loss| loss.service.to_string());
        let names: Vec<String> = names.collect();
        match self.losses.as_slice() {
            [one] if one.was_read => format!("Service {}", one.service),
            [one] => format!("Service {}, which is not in the cluster,", one.service),
            all if all.len() > NAMED => {
                format!("Services {} and {} more", names.join(", "), all.len() - NAMED)
            }
            _ => format!("Services {}", names.join(", ")),
        }
    }

    fn limits(&self) -> String {
        let Self { loss, instances, share, minimum, .. } = self;
        format!(
            "{loss} of {instances} instances at once, past GUARD_SHARE ({share} %) and GUARD_MINIMUM ({minimum})"
        )
    }

    /// Since when the loss is held, and the condition that ends it.
    fn until(&self) -> String {
        let (Some(first_seen), Some(lifts_from)) = (self.first_seen, self.lifts_from) else {
            return String::new();
        };
        let cluster = &self.cluster;
        let confirm = format!("{{\"action\":\"confirm\",\"cluster\":\"{cluster}\"}}");
        format!(
            "first seen {first_seen}; the full sync lets the same loss pass from {lifts_from} on, {confirm} at once"
        )
    }
}

impl Display for GuardStatus {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (who, limits) = (self.who(), self.limits());
        match self.state {
            GuardState::Held => write!(f, "{who} would lose {limits}; {}", self.until()),
            GuardState::Lifted => {
                write!(
                    f,
                    "{who} would lose {limits}; the same loss was seen before, so they are deregistered"
                )
            }
            GuardState::Confirmed => write!(
                f,
                "{who} would lose {limits}; the loss is confirmed, so they are deregistered"
            ),
            GuardState::LeftToFullSync => {
                write!(
                    f,
                    "{who} would lose {limits}; this targeted sync leaves it to the full sync"
                )
            }
            GuardState::HeldUntilRead => {
                let Self { loss, instances, unread, share, minimum, .. } = self;
                write!(
                    f,
                    "{who} would lose {loss} of {instances} instances, and Cloud Map services with {unread} more could not be read: together past GUARD_SHARE ({share} %) and GUARD_MINIMUM ({minimum}); they stay until a full sync has read those"
                )
            }
            GuardState::HeldByFullSync => {
                let loss = self.loss;
                write!(f, "{who} would lose {loss} instances that the full sync holds")?;
                match self.first_seen {
                    Some(_) => write!(f, "; {}", self.until()),
                    None => Ok(()),
                }
            }
        }
    }
}
