//! The lines of a cluster's report: the changes in each Cloud Map service, the held-back requests and the notes. `publish`
//! fills them from the plan and its outcomes; tables, metrics and the log read them.
//!
//! The state of the report as a whole follows from them: unreadable, complete, with changes left undone, or with a loss that
//! the guard holds. What a retry can complete decides which messages return to the queue.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;
use std::iter::Sum;
use std::ops::Add;

use serde::{Deserialize, Serialize};

use super::{ClusterReport, MultiClusterReport, Word};
use crate::error::chain;
use crate::model::{
    Foreign, GuardState, Outcome, Selection, ServiceRef, Verb, count_each, join, join_or, words,
};
impl ClusterReport {
    /// The report of a cluster that could not be read.
    pub fn unreadable(cluster: &str, error: &dyn Error) -> Self {
        let counts = Counts { unreadable: 1, ..Counts::default() };
        Self { cluster: cluster.to_owned(), error: Some(chain(error)), counts, ..Self::default() }
    }

    /// The report of an entry of the settings that is not served, as another one serves the cluster.
    pub fn held_back(entry: &str, error: &dyn Error) -> Self {
        let counts = Counts { held_back: 1, ..Counts::default() };
        Self { cluster: entry.to_owned(), warnings: vec![chain(error)], counts, ..Self::default() }
    }

    /// Whether the cluster was read and every change was made. A held-back change does not count, since a retry does
    /// not help.
    pub fn is_complete(&self) -> bool {
        let open = self.multi_cluster.as_ref().map_or(0, MultiClusterReport::open);
        self.error.is_none() && self.counts.failed == 0 && self.counts.undone == 0 && open == 0
    }

    /// The reasons for which something is held back, each with its number; `None` if nothing is.
    pub fn reasons(&self) -> Option<String> {
        let lines = self.services.iter().flat_map(|service| &service.held_back);
        let reasons = count_each(lines.chain(&self.held_back).map(|line| &line.reason));
        let texts = reasons.iter().map(|(reason, count)| format!("{count} {reason}"));
        (!reasons.is_empty()).then(|| join(texts, ", "))
    }

    /// The report with the lines of another run for the same cluster. Instances of other owners are counted once.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        for service in other.services {
            let same = |it: &&mut ServiceReport| {
                (&it.namespace, &it.name) == (&service.namespace, &service.name)
            };
            match self.services.iter_mut().find(same) {
                Some(known) => known.add(service),
                None => self.services.push(service),
            }
        }
        self.held_back.extend(other.held_back);
        self.warnings.extend(other.warnings);
        self.unread = self.unread.max(other.unread);
        self.oldest_read = self.oldest_read.max(other.oldest_read);
        self.guard = self.guard.or(other.guard);
        self.error = self.error.or(other.error);
        let imported = self.counts.imported + other.counts.imported;
        self.counts = Counts { imported, ..Counts::of(&self) };
        self
    }
}

impl ServiceReport {
    /// The Cloud Map service with its namespace.
    pub fn place(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    fn add(&mut self, other: Self) {
        self.unchanged += other.unchanged;
        self.emptied &= other.emptied;
        self.unreadable = self.unreadable.take().or(other.unreadable);
        self.changes.extend(other.changes);
        self.held_back.extend(other.held_back);
        self.notes.extend(other.notes);
        self.refused.extend(other.refused);
    }
}

impl ChangeLine {
    /// Whether the change failed or was not attempted.
    pub fn is_left_undone(&self) -> bool {
        !self.result.is_made()
    }
}

/// A loss that exceeds the guard's limits: numbers for alarms and scripts, and one sentence for people.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GuardReport {
    /// The guard's decision.
    pub state: GuardState,
    /// The number of instances to deregister.
    pub loss: usize,
    /// The number of instances before the loss.
    pub instances: usize,
    /// `GUARD_SHARE`, in per cent.
    pub share: u8,
    /// `GUARD_MINIMUM`.
    pub minimum: usize,
    /// The time of the first full sync with this loss, in UTC.
    pub first_seen: Option<String>,
    /// Whether an earlier full sync saw the same loss.
    pub later_look: bool,
    /// The time from which a full sync with the same loss carries it out.
    pub lifts_from: Option<String>,
    /// The Services that lose instances.
    pub services: Vec<LosingService>,
    /// All of this as one sentence.
    pub detail: String,
}

/// A Service that loses instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LosingService {
    pub service: ServiceRef,
    pub instances: usize,
}

/// The changes in one Cloud Map service.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceReport {
    /// The Cloud Map namespace's name.
    pub namespace: String,
    /// The Cloud Map service's name.
    pub name: String,
    /// Our instances without drift.
    pub unchanged: usize,
    /// Instances of other owners, left alone.
    pub foreign: BTreeMap<Foreign, usize>,
    /// Whether the name lost its last instance, or would lose it.
    pub emptied: bool,
    /// The error that keeps its instances unknown, if that leaves a change undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// The changes.
    pub changes: Vec<ChangeLine>,
    /// The held-back requests.
    pub held_back: Vec<HeldBackLine>,
    /// Remarks that neither fail nor hold back a change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<NoteLine>,
    /// The registrations that Cloud Map rejects as invalid, for the metrics.
    #[serde(skip)]
    pub refused: Vec<InvalidRegistration>,
}

/// A remark about a Cloud Map service. It appears only in the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteLine {
    /// Its kind.
    pub note: NoteKind,
    /// The sentence.
    pub detail: String,
}

words! {
    /// The kinds of notes.
    pub enum NoteKind {
        /// The Cloud Map service was not read, which is no failure.
        NotRead = "not read",
        /// A setting of the service waits for other clusters.
        Waits = "waits",
    }
}

/// A registration that Cloud Map rejects as invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidRegistration {
    /// The Kubernetes Service.
    pub service: ServiceRef,
    /// The instance.
    pub instance: Option<String>,
}

/// One change.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeLine {
    /// The kind of change.
    pub change: Verb,
    /// The instance; absent if the change is to the Cloud Map service itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The Kubernetes Service of the instance.
    pub service: ServiceRef,
    /// Address and pod, the difference, or the reason to deregister.
    pub detail: String,
    /// The outcome.
    #[serde(flatten)]
    pub result: Outcome,
}

/// A held-back request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldBackLine {
    /// The Kubernetes Service that requests it.
    pub service: ServiceRef,
    /// The reason's stable code.
    pub reason: Word,
    /// The cause and its remedy.
    pub detail: String,
    /// Whether a retry may help; the run is incomplete then.
    pub failed: bool,
    /// Whether a request stays out of Cloud Map until the Service's owner acts, for the metrics.
    #[serde(skip)]
    pub keeps_out: bool,
}

/// The unfinished work of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// A read failed, so the Services concerned are unknown.
    unread: bool,
    /// Services in Cloud Map were not read yet, which may have instances of a Service that is gone.
    is_partly_read: bool,
    /// The Services with a change that failed, or for which there was no time.
    failed: BTreeSet<ServiceRef>,
    /// Whether a read of the clusterset failed.
    unread_clusterset: bool,
    /// The names with a failed change of the clusterset.
    of_clusterset: BTreeSet<ServiceRef>,
}

impl Unfinished {
    /// The unfinished work in a report.
    pub fn of(report: &ClusterReport) -> Self {
        let (unread, is_partly_read) = (report.error.is_some(), report.unread > 0);
        let mut open = Self { unread, is_partly_read, ..Self::default() };
        if let Some(part) = &report.multi_cluster {
            open.unread_clusterset |= part.has_failed();
            open.of_clusterset.extend(part.unfinished.iter().cloned());
        }
        for service in &report.services {
            open.unread |= service.unreadable.is_some();
            let held_back = service.held_back.iter().filter(|line| line.failed);
            open.failed.extend(held_back.map(|line| line.service.clone()));
            let changes = service.changes.iter().filter(|line| line.is_left_undone());
            open.failed.extend(changes.map(|line| line.service.clone()));
        }
        open
    }

    /// Whether no failed change of the clusterset is left that a retry can make for the selected Services. A cluster that
    /// could not be read follows by its own full sync, unless a message names it.
    pub fn is_followed(&self, selection: &Selection) -> bool {
        !self.of_clusterset.iter().any(|service| selection.contains(service))
    }

    /// The same for a cluster that a message names.
    pub fn is_imported(&self, selection: &Selection) -> bool {
        !self.unread_clusterset && self.is_followed(selection)
    }

    /// Whether no work that a retry can complete is left for the selected Services. A full sync is followed by the next one.
    pub fn is_complete_for(&self, selection: &Selection) -> bool {
        let is_read = !self.is_partly_read || *selection == Selection::Everything;
        !self.unread
            && is_read
            && !self.failed.iter().any(|service| selection.contains(service))
            && self.is_imported(selection)
    }
}

// The counts of a run: the response to a scheduled run, and the fields of a log line. Each cluster's report is
// counted, then the counts of all clusters are added up.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_with_lines_of_another_run_keeps_counts_without_lines() {
        let unread = ClusterReport::unreadable("blue", &std::io::Error::other("no answer"));
        let counts = Counts { imported: 2, ..Counts::default() };
        let both = unread.with(ClusterReport { counts, ..ClusterReport::default() });
        assert_eq!((both.counts.unreadable, both.counts.imported), (1, 2));
    }
}
