//! The counts of a run: the response to a scheduled run, and the fields of a log line. Each cluster's report is
//! counted, then the counts of all clusters are added up.

use std::iter::Sum;
use std::ops::Add;

use serde::{Deserialize, Serialize};

use super::ClusterReport;
use crate::model::{Outcome, Verb};

/// The counts of a run. A change counts if it was made, or if a plan or dry run would make it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Counts {
    /// Cloud Map services and namespaces created.
    pub created: usize,
    /// Our Cloud Map services updated.
    pub updated: usize,
    /// Instances registered.
    pub registered: usize,
    /// Our instances rewritten.
    pub rewritten: usize,
    /// Instances of other owners adopted.
    pub adopted: usize,
    /// Our instances with a health status sent.
    pub health: usize,
    /// Our instances deregistered.
    pub deregistered: usize,
    /// Our Cloud Map services deleted.
    pub deleted: usize,
    /// Objects of imports created, changed or deleted in the clusters.
    #[serde(skip_serializing_if = "is_zero")]
    pub imported: usize,
    /// Names that lost their last instance.
    pub emptied: usize,
    /// Our instances without drift.
    pub unchanged: usize,
    /// Instances of other owners under the same names, left alone.
    pub foreign: usize,
    /// Orphans: our instances of clusters that are gone or no longer configured.
    pub orphaned: usize,
    /// Requests held back.
    pub held_back: usize,
    /// Changes that failed, and services that could not be read.
    pub failed: usize,
    /// Changes that were not attempted.
    pub undone: usize,
    /// Clusters that could not be read.
    pub unreadable: usize,
}

impl Counts {
    /// The counts of the lines of one cluster.
    pub fn of(report: &ClusterReport) -> Self {
        let (held_back, unreadable) = (report.held_back.len(), usize::from(report.error.is_some()));
        let mut counts = Self { held_back, unreadable, ..Self::default() };
        for service in &report.services {
            counts.unchanged += service.unchanged;
            counts.emptied += usize::from(service.emptied);
            counts.foreign += service.foreign.values().sum::<usize>();
            let failed = service.held_back.iter().filter(|line| line.failed).count();
            counts.failed += failed + usize::from(service.unreadable.is_some());
            counts.held_back += service.held_back.len() - failed;
            for line in &service.changes {
                *counts.counter_for(line.change, &line.result) += 1;
            }
        }
        counts
    }

    /// The number of changes that were made, or would be made.
    pub fn changes(&self) -> usize {
        let services = self.created + self.updated + self.deleted;
        let instances = self.registered + self.rewritten + self.adopted + self.deregistered;
        services + instances + self.health + self.imported
    }

    /// The counter for a change with this result.
    pub(super) fn counter_for(&mut self, verb: Verb, result: &Outcome) -> &mut usize {
        match (result, verb) {
            (Outcome::Failed { .. }, _) => &mut self.failed,
            (Outcome::Undone { .. }, _) => &mut self.undone,
            (Outcome::Planned | Outcome::Applied, verb) => self.counter_for_verb(verb),
        }
    }

    fn counter_for_verb(&mut self, verb: Verb) -> &mut usize {
        match verb {
            Verb::CreateNamespace | Verb::Create => &mut self.created,
            Verb::Update => &mut self.updated,
            Verb::Register => &mut self.registered,
            Verb::Rewrite => &mut self.rewritten,
            Verb::Health => &mut self.health,
            Verb::Adopt => &mut self.adopted,
            Verb::Deregister => &mut self.deregistered,
            Verb::Delete => &mut self.deleted,
        }
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            created: self.created + other.created,
            updated: self.updated + other.updated,
            registered: self.registered + other.registered,
            rewritten: self.rewritten + other.rewritten,
            adopted: self.adopted + other.adopted,
            health: self.health + other.health,
            deregistered: self.deregistered + other.deregistered,
            deleted: self.deleted + other.deleted,
            imported: self.imported + other.imported,
            emptied: self.emptied + other.emptied,
            unchanged: self.unchanged + other.unchanged,
            foreign: self.foreign + other.foreign,
            orphaned: self.orphaned + other.orphaned,
            held_back: self.held_back + other.held_back,
            failed: self.failed + other.failed,
            undone: self.undone + other.undone,
            unreadable: self.unreadable + other.unreadable,
        }
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), Add::add)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
pub(super) fn is_zero(count: &usize) -> bool {
    *count == 0
}
