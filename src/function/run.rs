//! A run over the selected Services of some clusters: reconciles each cluster independently of the others, looks for
//! orphans in the Cloud Maps of fully synced clusters, and builds the report. The scopes of the messages of a queue, or
//! of the lines of a log, are merged first, so that each cluster is synced once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use futures_util::{StreamExt, stream};

use super::clustersets::Clustersets;
use super::{Function, Selections, log};
use crate::clients::RegistryKey;
use crate::event::{self, Scope, Unusable};
use crate::model::{Line, Selection};
use crate::publish::observe::{Memory, ReadLimit, SharedRegistry};
use crate::publish::shuffle;
use crate::reconcile::{CONCURRENT_CLUSTERS, Error, Invocation};
use crate::report::{ClusterReport, Dropped, Report};
use crate::settings::Cluster;
use crate::time::Deadline;

/// The report of each cluster by its index in the settings.
pub(super) type ReportsByIndex = BTreeMap<usize, ClusterReport>;

/// The Cloud Maps of a run.
pub(super) type Registries = BTreeMap<RegistryKey, SharedRegistry>;

impl Function {
    /// Reconciles every selected cluster. A failure of one cluster does not stop the others. Returns the report, and
    /// the index in the settings of each cluster in it.
    pub(super) async fn run(
        &self,
        invocation: &Invocation<'_>,
        selections: &Selections,
    ) -> (Report, Vec<usize>) {
        let limit = self.read_limit(invocation);
        let clusters = self.clusters_of_run(invocation, selections);
        let registries = self.registries_of(clusters.iter().copied(), limit).await;
        let run = Run { function: self, invocation, registries };
        for cluster in clusters {
            let own = self.settings.account.as_deref();
            if let Some(account) = cluster.registry_account(own) {
                run.registry(cluster).set_account(account);
            }
        }
        // The order differs each minute, so that slow clusters do not always starve the same others.
        let in_order = shuffle(invocation.now, selections.iter().collect());
        let runs = in_order.into_iter().map(|(index, selection)| {
            let run = run.cluster(&self.settings.clusters[index], selection);
            async move { (index, Box::pin(run).await) }
        });
        let reports =
            stream::iter(runs).buffer_unordered(CONCURRENT_CLUSTERS).collect::<ReportsByIndex>();
        // The two flows run concurrently.
        let registries = &run.registries;
        let clustersets = Box::pin(self.sync_clustersets(invocation, registries, selections));
        let (mut reports, (members, synced)) = tokio::join!(reports, clustersets);
        let clustersets =
            Clustersets { function: self, invocation, registries, selections, members: &members };
        Box::pin(clustersets.report(synced, &mut reports)).await;
        for (index, selection) in selections.iter() {
            self.out_of_step.record(&reports[&index], selection, invocation.now);
        }
        let indexes = reports.keys().copied().collect();
        let whole = selections.is_everything(&self.settings.clusters);
        let orphans = run.orphans(&self.fully_synced_registries(invocation, selections)).await;
        let report = Report::new(invocation.mode, reports.into_values().collect());
        let mut report = Report { whole, ..report.with_orphans(orphans) };
        report.oldest = self.out_of_step.oldest(invocation.now);
        log::run(&report);
        (report, indexes)
    }

    /// Returns the clusters that a run is about, and all clusters that take part in a clusterset.
    fn clusters_of_run(
        &self,
        invocation: &Invocation<'_>,
        selections: &Selections,
    ) -> Vec<&Cluster> {
        let importers = self.importers(selections).into_keys();
        let importers = importers.map(|index| &self.settings.clusters[index]);
        let importers = importers.filter(|cluster| invocation.takes_part(cluster));
        self.selected_clusters(selections).chain(importers).collect()
    }

    /// Returns the Cloud Maps of the clusters that this run fully syncs.
    fn fully_synced_registries(
        &self,
        invocation: &Invocation<'_>,
        selections: &Selections,
    ) -> BTreeSet<RegistryKey> {
        let whole = selections.iter().filter(|(_, selection)| {
            **selection == Selection::Everything && invocation.adoption.is_none()
        });
        let clusters = whole.map(|(index, _)| &self.settings.clusters[index]);
        clusters.map(|cluster| self.clients.registry_of(cluster)).collect()
    }

    fn memory(&self, key: &RegistryKey) -> Arc<Memory> {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        memories.entry(key.clone()).or_default().clone()
    }

    pub(super) fn read_limit(&self, invocation: &Invocation<'_>) -> ReadLimit {
        let deadline = invocation.deadline;
        if invocation.reads_without_budget() {
            return ReadLimit::of_person(deadline);
        }
        let period = self.settings.rules.guard.period.unsigned_abs();
        let limit = ReadLimit::of_schedule(self.settings.quota_share, deadline, period);
        self.max_instance_reads.map_or(limit, |calls| limit.of_calls(calls))
    }

    /// Returns the registries of these clusters, each read at most once, within `limit`.
    pub(super) async fn registries_of(
        &self,
        clusters: impl IntoIterator<Item = &Cluster>,
        limit: ReadLimit,
    ) -> Registries {
        let keys = clusters.into_iter().map(|cluster| self.clients.registry_of(cluster));
        self.registries(keys.collect(), limit).await
    }

    pub(super) async fn registries(
        &self,
        keys: BTreeSet<RegistryKey>,
        limit: ReadLimit,
    ) -> Registries {
        let mut registries = BTreeMap::new();
        for key in keys {
            let cloud_map = self.clients.cloud_map(&key).await;
            let only = self.settings.rules.namespaces.clone();
            let memory = self.memory(&key);
            let now = self.clock.now();
            let registry = SharedRegistry::new(cloud_map, only, memory, now, limit);
            registries.insert(key, registry);
        }
        registries
    }

    /// Syncs each cluster once over all scopes of the batch. Returns the report, and the ids of the messages to deliver
    /// again: their scope has unfinished work that a retry can complete.
    pub(super) async fn sync_messages(
        &self,
        messages: Vec<event::Message>,
        deadline: Deadline,
    ) -> (Report, Vec<String>) {
        let mut selections = Selections::default();
        let mut requested: BTreeMap<Scope, Vec<String>> = BTreeMap::new();
        let mut dropped = Vec::new();
        for message in messages {
            match message.reading {
                Ok(scope) => requested.entry(scope).or_default().push(message.id),
                // A message about our own write is ignored without a report.
                Err(Unusable::Imported | Unusable::OwnEvent) => {}
                Err(unusable) => {
                    dropped.push(drop_message(message.id, unusable.reason(), &unusable));
                }
            }
        }
        let mut served = Vec::new();
        for (scope, ids) in requested {
            match Selections::resolve(&scope, &self.settings.clusters) {
                Ok(selected) => {
                    selections.extend(&selected);
                    served.push((selected, ids));
                }
                Err(unknown) => {
                    let ids = ids.into_iter();
                    dropped.extend(ids.map(|id| drop_message(id, unknown.reason(), &unknown)));
                }
            }
        }
        let invocation = self.invocation(true, deadline);
        let (mut report, indexes) = Box::pin(self.run(&invocation, &selections)).await;
        report.dropped = dropped;
        let clusters = indexes.iter().zip(&report.clusters).collect();
        let failed = served.into_iter().filter(|(selections, _)| !are_done(selections, &clusters));
        let failed = failed.flat_map(|(_, ids)| ids).collect();
        (report, failed)
    }
}

/// Whether the selected clusters have no unfinished work that a retry can complete. A failed import in another cluster
/// does not count: the next full sync of that cluster repeats it. `clusters` has the reports by the cluster's index in
/// the settings.
fn are_done(selections: &Selections, clusters: &BTreeMap<&usize, &ClusterReport>) -> bool {
    let is_complete = |(index, selection)| {
        clusters.get(&index).is_some_and(|cluster| cluster.is_complete_for(selection))
    };
    selections.iter().all(is_complete)
}

/// Returns the report of a cluster. For a cluster that could not be read, the report has the error and the changes made
/// before it.
fn conclude(cluster: &Cluster, reconciled: Result<ClusterReport, Error>) -> ClusterReport {
    match reconciled {
        Ok(report) => report,
        Err(error) => {
            let report = ClusterReport::unreadable(cluster.arn.as_str(), &error);
            error.into_partial_report().into_iter().fold(report, ClusterReport::with)
        }
    }
}

/// Logs a message that is not delivered again, and returns its line for the report.
fn drop_message(message: String, reason: &'static str, why: &dyn std::fmt::Display) -> Dropped {
    let dropped = Dropped { message, reason: reason.into(), detail: why.to_string() };
    log::dropped(&dropped);
    dropped
}

/// A run over clusters, with the Cloud Maps that it reads.
pub(super) struct Run<'a> {
    pub(super) function: &'a Function,
    pub(super) invocation: &'a Invocation<'a>,
    pub(super) registries: Registries,
}

impl Run<'_> {
    pub(super) fn registry(&self, cluster: &Cluster) -> &SharedRegistry {
        &self.registries[&self.function.clients.registry_of(cluster)]
    }

    /// Reconciles one cluster.
    async fn cluster(&self, cluster: &Cluster, selection: &Selection) -> ClusterReport {
        let Self { function, invocation, .. } = self;
        let is_whole = *selection == Selection::Everything;
        let registry = self.registry(cluster);
        let reconciled = Box::pin(invocation.reconcile(cluster, registry, selection)).await;
        let mut report = conclude(cluster, reconciled);
        report.whole = is_whole;
        if is_whole {
            report.lines.extend(cluster.repetition_warnings().map(Line::warning));
        }
        report.quiet = !function.settings.pages(cluster);
        // An adoption holds back other requests than a sync does, so their lines are compared separately.
        let kind = if invocation.adoption.is_some() { "adoption" } else { "services" };
        function.log_new_lines(kind, &report, (invocation.mode, is_whole));
        log::summary(&report, invocation.mode);
        report
    }
}
