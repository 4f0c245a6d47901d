//! The rules of the guard against mass deletion, for both flows: the limits of a loss ([`Guard`], from the settings),
//! the loss of each name ([`Losses`]), the memory of a loss as one line of text ([`Sighting`]), and the verdict
//! ([`Measure::judge`]) with its sentence ([`GuardStatus`]). Pure, and without a word about changes: `publish::plan`
//! counts the instances that a plan would deregister, `import` the endpoints that would leave the imports, and each
//! takes the held ones out of its plan.

mod sighting;
mod status;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::BTreeMap;

use crate::model::{ClusterArn, ServiceRef, Timestamp};

pub use crate::model::Guard;

pub use sighting::{Age, Sighting};
pub use status::{GuardStatus, Subject};
pub use verdict::{Measure, Verdict};

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
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    pub guard: Guard,
    pub now: Timestamp,
    /// The cluster that would lose something.
    pub cluster: &'a ClusterArn,
    /// What it would lose.
    pub subject: Subject,
}

/// The loss of one Service or import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    /// The number of instances or endpoints lost.
    pub lost: usize,
    /// The number of those left.
    pub left: usize,
    /// Whether this run read that the name itself still stands, so that its loss is no accident of a read.
    pub was_read: bool,
    /// Whether the first look of this run held the loss of the name.
    pub was_held: bool,
}

/// Every Service or import that would lose something.
pub type Losses = BTreeMap<ServiceRef, Loss>;

/// The number lost by all together.
pub fn total(losses: &Losses) -> usize {
    losses.values().map(|loss| loss.lost).sum()
}

/// Whether a single name loses something and was itself read in this run. Then a read error is not the cause, and
/// no other name is concerned.
fn is_of_one_that_was_read(losses: &Losses) -> bool {
    losses.len() == 1 && losses.values().all(|loss| loss.was_read)
}
