//! The counts of a run: the response to a scheduled run, and the fields of a log line. Each cluster's report is
//! counted, then the counts of all clusters are added up.

use std::fmt;
use std::iter::Sum;
use std::ops::Add;

use serde::{Deserialize, Serialize};

use super::ClusterReport;
use crate::model::{Outcome, Verb, join_or};

/// The counts with their words in a sentence: after a run, and in a plan if they differ there.
macro_rules! counts {
    ($($(#[$of_count:meta])* $count:ident: $done:literal $(, $planned:literal)?;)+) => {
        /// The counts of a run. A change counts if it was made, or if a plan or dry run would make it.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct Counts {
            $($(#[$of_count])* pub $count: usize,)+
        }

        impl Add for Counts {
            type Output = Self;

            fn add(self, other: Self) -> Self {
                Self { $($count: self.$count + other.$count,)+ }
            }
        }

        impl Counts {
            /// The counts in their order, each with its words.
            fn in_words(&self, is_planned: bool) -> impl Iterator<Item = (usize, &'static str)> {
                let of_plan = |done, planned: &[&'static str]| match planned {
                    [planned] if is_planned => *planned,
                    _ => done,
                };
                [$((self.$count, of_plan($done, &[$($planned)?]))),+].into_iter()
            }
        }
    };
}

counts! {
    /// Cloud Map services and namespaces created.
    created: "created", "to create";
    /// Our Cloud Map services updated.
    updated: "updated", "to update";
    /// Instances registered.
    registered: "registered", "to register";
    /// Our instances rewritten.
    rewritten: "rewritten", "to rewrite";
    /// Instances of other owners adopted.
    adopted: "adopted", "to adopt";
    /// Our instances with a health status sent.
    health: "health reported", "health to report";
    /// Our instances deregistered.
    deregistered: "deregistered", "to deregister";
    /// Our Cloud Map services deleted.
    deleted: "deleted", "to delete";
    /// Objects of imports created, changed or deleted in the clusters.
    #[serde(skip_serializing_if = "is_zero")]
    imported: "written in clusters", "to write in clusters";
    /// Names that lost their last instance.
    emptied: "name(s) empty";
    /// Our instances without drift.
    unchanged: "unchanged";
    /// Instances of other owners under the same names, left alone.
    foreign: "not ours";
    /// Orphans: our instances of clusters that are gone or no longer configured.
    orphaned: "orphaned";
    /// Requests held back.
    held_back: "held back";
    /// Changes that failed, and services that could not be read.
    failed: "failed";
    /// Changes that were not attempted.
    undone: "not done";
    /// Clusters that could not be read.
    unreadable: "cluster(s) not read";
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

    /// The counts that are not zero, in a sentence: of a plan or dry run, or of a run that was made.
    pub fn sentence(&self, is_planned: bool) -> String {
        let parts = self.in_words(is_planned).filter(|(count, _)| *count > 0);
        let parts = parts.map(|(count, words)| {
            format!("{count} {}", words.replace("(s)", if count == 1 { "" } else { "s" }))
        });
        join_or(parts, ", ", "nothing to do")
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

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence(false))
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
