//! The rules of the guard against mass deletion, for both flows: the limits of a loss ([`Guard`]), the loss of each name
//! ([`Losses`]), the memory of a loss as one line of text ([`Sighting`]), and the verdict ([`Measure::judge`]) with its
//! sentence ([`GuardStatus`]). Pure, and without a word about changes: `publish::plan` counts the instances that a plan
//! would deregister, `import` the endpoints that would leave the imports, and each takes the held ones out of its plan.

mod losses;
mod sighting;
mod status;
#[cfg(test)]
mod tests;
mod verdict;

use crate::model::{ClusterArn, ServiceRef, SignedDuration, Timestamp};

pub use losses::{Loss, Losses};
pub use sighting::{Age, Sighting};
pub use status::{GuardStatus, ServiceLoss, Subject};
pub use verdict::{Measure, Verdict};

/// `GUARD_SHARE`, `GUARD_MINIMUM`, `GUARD_WAIT` and `SCHEDULE_MINUTES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// A loss of up to this percentage of a cluster's instances is let pass.
    pub share: u8,
    /// A loss of up to this number of instances is let pass.
    pub minimum: usize,
    /// A loss that is seen again after this time is let pass.
    pub wait: SignedDuration,
    /// The longest time between two full syncs of the schedule.
    pub period: SignedDuration,
}

impl Default for Guard {
    fn default() -> Self {
        let (wait, period) = (SignedDuration::from_mins(10), SignedDuration::from_mins(1));
        Self { share: 50, minimum: 10, wait, period }
    }
}

impl Guard {
    /// Whether a loss is past both limits.
    fn is_passed_by(self, lost: usize, instances: usize) -> bool {
        lost > self.minimum && lost * 100 > usize::from(self.share) * instances
    }
}

/// The part of a cluster that a plan covers; it decides the rules of the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The whole cluster: a full sync.
    Everything,
    /// The whole cluster, and a person has confirmed every loss.
    Confirmed,
    /// The Services that an event names.
    Part,
    /// The changes that a judged plan has left open.
    Remainder,
}

impl Extent {
    pub fn is_whole(self) -> bool {
        matches!(self, Self::Everything | Self::Confirmed)
    }
}

/// The circumstances of a run that a verdict depends on.
pub trait Circumstances {
    fn guard(&self) -> Guard;
    fn now(&self) -> Timestamp;
    /// The cluster that would lose something.
    fn cluster(&self) -> &ClusterArn;
    /// What it would lose.
    fn subject(&self) -> Subject;
    /// Whether this run read that the name itself still stands, so that its loss is no accident of a read.
    fn was_read(&self, service: &ServiceRef) -> bool;
    /// Whether the first look of this run held the loss of the name.
    fn was_held(&self, _: &ServiceRef) -> bool {
        false
    }
}
