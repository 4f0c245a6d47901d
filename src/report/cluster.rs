//! The lines of a cluster's report: the changes in each Cloud Map service, the held-back requests and the remarks, and
//! the cluster's id and imports in its clusterset. `publish` and `reconcile` add lines from plans and their outcomes.
//! Tables, metrics and the log read the lines.
//!
//! The lines decide whether the report is complete. A message returns to the queue if a retry can complete work of its
//! scope.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;
use std::ops::Add;

use serde::{Deserialize, Serialize};

use super::ClusterReport;
use crate::error::chain;
use crate::model::{
    EMPTIED, EXPORTED, Foreign, GuardState, Line, Outcome, Selection, ServiceRef, Verb, count_each,
    join, join_or,
};

impl ClusterReport {
    pub fn unreadable(cluster: &str, error: &dyn Error) -> Self {
        let counts = Counts { unreadable: 1, ..Counts::default() };
        Self { cluster: cluster.to_owned(), error: Some(chain(error)), counts, ..Self::default() }
    }

    /// Whether the cluster and all Cloud Map services under its names were read, every change was made, and the cluster
    /// is not frozen as a member of a clusterset. A held-back request does not make the report incomplete, since a
    /// retry does not help.
    pub fn is_complete(&self) -> bool {
        let unfinished =
            self.multi_cluster.as_ref().map_or(0, MultiClusterReport::count_unfinished);
        let is_read = self.error.is_none() && self.unread_names == 0;
        is_read && self.counts.failed == 0 && self.counts.undone == 0 && unfinished == 0
    }

    /// Whether the exports and imports of the cluster were read, and no change of a selected Service failed that a
    /// retry can make. True for a cluster in no clusterset.
    fn is_clusterset_complete_for(&self, selection: &Selection) -> bool {
        let Some(member) = &self.multi_cluster else { return true };
        !member.has_failed() && !member.unfinished.iter().any(|service| selection.contains(service))
    }

    /// Whether a retry can complete no further work for the selected Services. A Cloud Map service that was not read
    /// yet counts as such work, since a deleted Service may have instances there. In a full sync it does not count,
    /// since the next full sync reads the service. A failed read that names no Service may concern any Service.
    pub fn is_complete_for(&self, selection: &Selection) -> bool {
        let is_read = self.unread == 0 || *selection == Selection::Everything;
        let is_concerned = |line: &Line| {
            line.is_unfinished()
                && line.service.as_ref().is_none_or(|service| selection.contains(service))
        };
        self.error.is_none()
            && is_read
            && !self.all_lines().any(is_concerned)
            && self.is_clusterset_complete_for(selection)
    }

    /// Returns the lines of the cluster's Cloud Map services, and the lines that belong to no Cloud Map service.
    pub fn all_lines(&self) -> impl Iterator<Item = &Line> {
        self.services.iter().flat_map(|service| &service.lines).chain(&self.lines)
    }

    /// Returns the guard's verdicts on the instances of the cluster and on its imported endpoints.
    pub fn guards(&self) -> impl Iterator<Item = &GuardReport> {
        let multi_cluster = self.multi_cluster.as_ref();
        self.guard
            .iter()
            .chain(multi_cluster.and_then(|multi_cluster| multi_cluster.guard.as_ref()))
    }

    /// Returns the reasons of held-back requests and remarks, each with its number. `None` if there is no reason.
    pub fn reasons(&self) -> Option<String> {
        let lines = self.all_lines().filter(|line| line.has_reason());
        let reasons = count_each(lines.map(|line| &line.code));
        let texts = reasons.iter().map(|(reason, count)| format!("{count} {reason}"));
        (!reasons.is_empty()).then(|| join(texts, ", "))
    }

    /// Returns the error of a cluster that could not be read, and whether anything was changed. A full sync makes
    /// additions while it reads Cloud Map. If the read fails, `services` has the additions that were made.
    pub fn described_error(&self) -> Option<String> {
        let outcome = if self.services.is_empty() {
            "not read, so nothing was changed in Cloud Map"
        } else {
            "not read to the end, so only additions were made in Cloud Map"
        };
        Some(format!("{outcome}: {}", self.error.as_ref()?))
    }

    /// Adds the report of another run for the same cluster. Instances of other owners under the same name are counted
    /// once.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        for service in other.services {
            let same = |known: &&mut ServiceReport| {
                (&known.namespace, &known.name) == (&service.namespace, &service.name)
            };
            match self.services.iter_mut().find(same) {
                Some(known) => known.add(service),
                None => self.services.push(service),
            }
        }
        self.lines.extend(other.lines);
        self.unread = self.unread.max(other.unread);
        self.unread_names = self.unread_names.max(other.unread_names);
        self.oldest_read = self.oldest_read.max(other.oldest_read);
        self.guard = match (self.guard.take(), other.guard) {
            (Some(verdict), Some(other)) => Some(verdict.join(other)),
            (verdict, other) => verdict.or(other),
        };
        self.error = self.error.or(other.error);
        let imported = self.counts.imported + other.counts.imported;
        self.counts = Counts { imported, ..Counts::of(&self) };
        self
    }
}

impl ServiceReport {
    /// Returns the Cloud Map service as `NAMESPACE/NAME`.
    pub fn place(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Returns the changes, with any outcome.
    pub fn changes(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.is_change())
    }

    /// Whether the name lost its last instance, or would lose it.
    pub fn is_emptied(&self) -> bool {
        self.lines.iter().any(|line| line.code == EMPTIED)
    }

    fn add(&mut self, other: Self) {
        self.unchanged += other.unchanged;
        let is_emptied = self.is_emptied() && other.is_emptied();
        self.lines.extend(other.lines);
        if !is_emptied {
            self.lines.retain(|line| line.code != EMPTIED);
        }
        self.rejected.extend(other.rejected);
    }
}

/// A loss that exceeds the guard's limits: numbers for alarms and scripts, and one sentence for people.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GuardReport {
    pub state: GuardState,
    /// The number of instances to deregister.
    pub loss: usize,
    /// The number of instances before the loss.
    pub instances: usize,
    /// `GUARD_SHARE`, in per cent.
    pub share: u8,
    /// `GUARD_MINIMUM`.
    pub minimum: usize,
    /// The time of the first full sync with this loss, in UTC. `None` if it is not known.
    pub first_seen: Option<String>,
    /// Whether an operator must decide: an earlier full sync saw the same loss, or the loss could not be noted for a
    /// later one.
    pub needs_operator: bool,
    /// The time from which a full sync with the same loss carries it out. `None` without `first_seen`.
    pub lifts_from: Option<String>,
    /// The Services that lose instances.
    pub services: Vec<LosingService>,
    /// All fields as one sentence for people.
    pub detail: String,
}

impl GuardReport {
    /// Joins the verdicts on both flows of a cluster. A verdict that holds a loss comes first, since alarms count its
    /// loss.
    fn join(self, other: Self) -> Self {
        let is_held = |verdict: &Self| verdict.state == GuardState::Held;
        let (mut first, second) =
            if is_held(&other) && !is_held(&self) { (other, self) } else { (self, other) };
        if first.state == second.state {
            first.loss += second.loss;
            first.instances += second.instances;
            first.needs_operator |= second.needs_operator;
            first.services.extend(second.services);
        }
        first.detail = format!("{}; {}", first.detail, second.detail);
        first
    }
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
    /// The number of our instances without drift.
    pub unchanged: usize,
    /// The number of instances of other owners, which are left alone.
    pub foreign: BTreeMap<Foreign, usize>,
    /// The changes, the failed reads, the held-back requests and the remarks.
    pub lines: Vec<Line>,
    /// The registrations that Cloud Map rejects as invalid, for the metrics.
    #[serde(skip)]
    pub rejected: Vec<Line>,
}

// The section of a cluster's report about its clusterset. The Cloud Map services of its exports are among the others.

/// A cluster in its clusterset.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MultiClusterReport {
    /// The cluster's id in the clusterset. `None` if the cluster did not join.
    pub cluster_id: Option<String>,
    /// The id of the clusterset. `None` if the cluster did not join.
    pub clusterset: Option<String>,
    /// The number of the cluster's exports.
    pub exports: usize,
    /// The number of our ServiceImports in the cluster after the run, or after the changes of a plan.
    pub imports: usize,
    /// The number of ready endpoints in these imports.
    pub imported_endpoints: usize,
    /// The guard's verdict on a loss of imported endpoints. `None` unless the loss exceeds the limits.
    pub guard: Option<GuardReport>,
    /// The obstacles that keep the cluster from exporting or importing, the stale members, the changes of exports and
    /// imports, the held-back exports and imports, and the exports in conflict with those of other clusters.
    pub lines: Vec<Line>,
    /// The names with a change that failed and that a retry can make: of an export, its conditions or an import.
    #[serde(skip)]
    pub unfinished: BTreeSet<ServiceRef>,
}

impl From<Box<Line>> for MultiClusterReport {
    fn from(obstacle: Box<Line>) -> Self {
        Self { lines: vec![*obstacle], ..Self::default() }
    }
}

impl MultiClusterReport {
    /// Returns the report with only the ids, the numbers and the guard's verdict.
    pub(super) fn counts(&self) -> Self {
        Self {
            cluster_id: self.cluster_id.clone(),
            clusterset: self.clusterset.clone(),
            exports: self.exports,
            imports: self.imports,
            imported_endpoints: self.imported_endpoints,
            guard: self.guard.clone(),
            ..Self::default()
        }
    }

    /// Whether the report has no change of an object, no held-back request, no obstacle and no verdict of the guard.
    pub fn is_quiet(&self) -> bool {
        let needs_no_action =
            |line: &Line| line.outcome == Outcome::Remark || line.code == EXPORTED;
        self.lines.iter().all(needs_no_action) && self.guard.is_none()
    }

    /// Whether the report has an obstacle that a retry may resolve.
    pub fn has_failed(&self) -> bool {
        self.lines.iter().any(|line| line.is_obstacle() && line.is_unfinished())
    }

    /// Whether an obstacle keeps the exports or imports of the cluster unchanged until a person acts.
    pub fn is_frozen(&self) -> bool {
        self.lines.iter().any(|line| line.outcome == Outcome::KeptOut)
    }

    /// Returns the held-back exports and imports.
    pub fn held_back(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.service.is_some() && line.outcome.is_held_back())
    }

    /// Returns the exports in conflict with those of other clusters.
    pub fn conflicts(&self) -> impl Iterator<Item = &Line> {
        let remarks = self.lines.iter().filter(|line| line.outcome == Outcome::Remark);
        remarks.filter(|line| line.service.is_some())
    }

    /// Returns the number of changes of objects that were made, or would be made.
    pub fn count_made(&self) -> usize {
        let made = self.lines.iter().filter(|line| line.outcome.is_made());
        made.filter(|line| line.code != EXPORTED).count()
    }

    /// Returns the number of unfinished changes and failed reads, and 1 more if the cluster is frozen.
    pub(super) fn count_unfinished(&self) -> usize {
        let unfinished =
            self.lines.iter().filter(|line| line.is_unfinished() && line.code != EXPORTED);
        unfinished.count() + usize::from(self.is_frozen())
    }

    /// Returns the lines in the order of the table.
    pub fn lines_in_order(&self) -> Vec<&Line> {
        let mut lines: Vec<&Line> = self.lines.iter().collect();
        lines.sort_by_key(|line| match (&line.outcome, &line.service) {
            (Outcome::Remark, None) => 0,
            (_, None) => 1,
            _ if line.is_change() => 2,
            (Outcome::Remark, Some(_)) => 4,
            _ => 3,
        });
        lines
    }
}

// The counts of a run: the response to a scheduled run, and the fields of a log line. The lines of each cluster's
// report are counted, and the counts of all clusters are added up.

/// Defines the counts, each with its words in a sentence: after a run, and in a plan if the words differ there.
macro_rules! counts {
    ($($(#[$doc:meta])* $count:ident: $done:literal $(, $planned:literal)?;)+) => {
        /// The counts of a run. A change counts if it was made, or if a plan or dry run would make it.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct Counts {
            $($(#[$doc])* pub $count: usize,)+
        }

        impl Add for Counts {
            type Output = Self;

            fn add(self, other: Self) -> Self {
                Self { $($count: self.$count + other.$count,)+ }
            }
        }

        impl Counts {
            /// Returns the counts in their order, each with its words.
            fn in_words(&self, is_planned: bool) -> impl Iterator<Item = (usize, &'static str)> {
                let words = |done, planned: &[&'static str]| match planned {
                    [planned] if is_planned => *planned,
                    _ => done,
                };
                [$((self.$count, words($done, &[$($planned)?]))),+].into_iter()
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
    /// Our instances deregistered.
    deregistered: "deregistered", "to deregister";
    /// Objects of imports created, changed or deleted in the clusters.
    #[serde(skip_serializing_if = "is_zero")]
    imported: "written in clusters", "to write in clusters";
    /// Names that lost their last instance.
    emptied: "name(s) empty";
    /// Our instances without drift.
    unchanged: "unchanged";
    /// Instances of other owners under the same names, left alone.
    foreign: "not ours";
    /// Orphans: our instances of clusters that are not configured for their Cloud Map.
    orphaned: "orphaned";
    /// Requests held back.
    held_back: "held back";
    /// Changes that failed, and services that could not be read.
    failed: "failed";
    /// Changes that were not attempted.
    undone: "not done";
    /// Changes of imports and of conditions that were not made, and reads of clustersets that failed.
    #[serde(skip_serializing_if = "is_zero")]
    unfinished: "not done in clusters";
    /// Clusters that could not be read.
    unreadable: "cluster(s) not read";
}

impl Counts {
    pub fn of(report: &ClusterReport) -> Self {
        let unreadable = usize::from(report.error.is_some());
        let mut counts = Self { unreadable, ..Self::default() };
        for service in &report.services {
            counts.unchanged += service.unchanged;
            counts.foreign += service.foreign.values().sum::<usize>();
        }
        report.all_lines().for_each(|line| counts.add_line(line));
        counts
    }

    /// Adds the exports and imports of a cluster.
    pub fn add_multi_cluster(&mut self, report: &MultiClusterReport) {
        self.imported += report.count_made();
        self.held_back += report.held_back().count();
        self.unfinished += report.count_unfinished();
    }

    fn add_line(&mut self, line: &Line) {
        let counter = match (&line.outcome, line.verb()) {
            (Outcome::KeptOut | Outcome::HeldBack, _) => &mut self.held_back,
            (Outcome::NotAttempted { .. }, _) => &mut self.undone,
            _ if line.is_unfinished() => &mut self.failed,
            _ if line.code == EMPTIED => &mut self.emptied,
            (_, Some(Verb::CreateNamespace | Verb::Create)) => &mut self.created,
            (_, Some(Verb::Update)) => &mut self.updated,
            (_, Some(Verb::Register)) => &mut self.registered,
            (_, Some(Verb::Rewrite)) => &mut self.rewritten,
            (_, Some(Verb::Adopt)) => &mut self.adopted,
            (_, Some(Verb::Deregister)) => &mut self.deregistered,
            (_, None) => return,
        };
        *counter += 1;
    }

    /// Returns the number of changes that were made, or would be made.
    pub fn changes(&self) -> usize {
        let services = self.created + self.updated;
        let instances = self.registered + self.rewritten + self.adopted + self.deregistered;
        services + instances + self.imported
    }

    /// Returns the counts that are not zero, in a sentence. `is_planned` selects the words of a plan or dry run.
    pub fn sentence(&self, is_planned: bool) -> String {
        let parts = self.in_words(is_planned).filter(|(count, _)| *count > 0);
        let parts = parts.map(|(count, words)| {
            format!("{count} {}", words.replace("(s)", if count == 1 { "" } else { "s" }))
        });
        join_or(parts, ", ", "nothing to do")
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence(false))
    }
}

impl std::iter::Sum for Counts {
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
    fn import_that_could_not_be_written_is_in_the_sentence() {
        let error = "it is refused".to_owned();
        let line = Line::new('~', "update", String::new(), Outcome::Failed { error });
        let report = MultiClusterReport { lines: vec![line], ..MultiClusterReport::default() };
        let mut counts = Counts { unchanged: 40, ..Counts::default() };
        counts.add_multi_cluster(&report);
        assert_eq!(counts.to_string(), "40 unchanged, 1 not done in clusters");
    }

    #[test]
    fn import_that_is_held_back_is_in_the_counts_and_an_obstacle_is_not() {
        let obstacle = Line::new('!', "NoIdentity", "", Outcome::HeldBack);
        let import = Line::new('!', "ForeignObject", "", Outcome::HeldBack);
        let lines = vec![obstacle, import.about(ServiceRef::new("shop", "web"))];
        let report = MultiClusterReport { lines, ..MultiClusterReport::default() };
        let mut counts = Counts::default();
        counts.add_multi_cluster(&report);
        assert_eq!(counts.to_string(), "1 held back");
    }

    #[test]
    fn report_with_lines_of_another_run_keeps_counts_without_lines() {
        let unread = ClusterReport::unreadable("blue", &std::io::Error::other("no answer"));
        let counts = Counts { imported: 2, ..Counts::default() };
        let both = unread.with(ClusterReport { counts, ..ClusterReport::default() });
        assert_eq!((both.counts.unreadable, both.counts.imported), (1, 2));
    }
}
