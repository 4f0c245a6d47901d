//! What the guard tells people: who would lose how much, which limits that is past, since when, and
//! what lets it pass. The report carries it as numbers, every held-back line as a sentence.

use std::fmt::{self, Display, Formatter};

use crate::model::{ClusterArn, GuardState, ServiceRef, Timestamp};

/// How many Services a sentence names.
const NAMED: usize = 3;

/// A Service that would lose instances.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceLoss {
    /// The Service.
    pub service: ServiceRef,
    /// How many.
    pub instances: usize,
    /// Whether this run read the Service itself.
    pub was_read: bool,
}

/// What the guard says of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GuardStatus {
    /// Where the loss stands.
    pub state: GuardState,
    /// Who loses, in order.
    pub losses: Vec<ServiceLoss>,
    /// How many instances in all.
    pub loss: usize,
    /// Of how many.
    pub instances: usize,
    /// How many more are in Cloud Map services that could not be read.
    pub unread: usize,
    /// `GUARD_SHARE`.
    pub share: u8,
    /// `GUARD_MINIMUM`.
    pub minimum: usize,
    /// When the loss was first seen.
    pub first_seen: Option<Timestamp>,
    /// Whether this run is not the one that saw it first.
    pub later_look: bool,
    /// From when on a full sync that sees the same lets it pass.
    pub lifts_from: Option<Timestamp>,
    /// The cluster.
    pub cluster: ClusterArn,
}

impl GuardStatus {
    /// The Services, as many as a reader takes in.
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

    /// Since when it is held, and what ends that.
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
                write!(f, "{who} would lose {limits}; the same was seen before, so they go")
            }
            GuardState::Confirmed => write!(f, "{who} would lose {limits}; confirmed, so they go"),
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
