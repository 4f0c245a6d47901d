//! A run over the selected Services of some clusters: reconciles each cluster independently of the others, after a full
//! sync of all clusters cleans up, and builds the report. The scopes of the messages of a queue, or of the lines of a
//! log, are merged first, so that each cluster is synced once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use super::clusters::Selections;
use super::clustersets::Clustersets;
use super::{Function, RunResult, drift, log};
use crate::clients::RegistryKey;
use crate::event::{self, Scope, Subject, Unusable};
use crate::model::{Selection, ServiceRef, Timestamp, Verb};
use crate::publish::observe::{Memory, ReadLimit, SharedRegistry};
use crate::publish::plan::Claimed;
use crate::reconcile::{Error, Invocation};
use crate::report::{ClusterReport, Dropped, Mode, OldestOutOfStep, Unfinished};
use crate::settings::{Cluster, MultiCluster};
use crate::time::Deadline;

/// The report of each cluster by its index in the settings, with its claims if it could be read.
pub(super) type Runs = BTreeMap<usize, (ClusterReport, Option<Claimed>)>;

/// The Cloud Maps of a run.
pub(super) type Registries = BTreeMap<RegistryKey, SharedRegistry>;

/// The number of clusters that are read or written at once.
pub(super) const CONCURRENT_CLUSTERS: usize = 8;

impl Function {
    /// Reconciles every selected cluster. A failure of one does not stop the others.
    pub(super) async fn run(
        &self,
        invocation: &Invocation<'_>,
        selections: &Selections,
    ) -> RunResult {
        let time = time_to_read(invocation);
        let mut registries = self.registries_of(self.selected_clusters(selections), time).await;
        let runs = selections.iter().map(|(index, selection)| {
            let registries = &registries;
            async move {
                let run = self.run_cluster(invocation, registries, index, selection);
                (index, Box::pin(run).await)
            }
        });
        let runs = stream::iter(runs).buffer_unordered(CONCURRENT_CLUSTERS).collect::<Runs>();
        // What is annotated does not wait for the clusters that import.
        let (members, mut runs) = tokio::join!(Box::pin(self.join(invocation, selections)), runs);
        let others = members.keys().map(|index| &self.settings.clusters[*index]);
        let others = others.map(|cluster| self.clients.registry_of(cluster));
        let others = others.filter(|key| !registries.contains_key(key)).collect();
        registries.extend(self.registries(others, time).await);
        if !members.is_empty() {
            let (registries, members) = (&registries, &members);
            let clustersets =
                Clustersets { function: self, invocation, registries, selections, members };
            Box::pin(clustersets.run(&mut runs)).await;
        }
        for (index, selection) in selections.iter() {
            self.out_of_step.record(&runs[&index].0, selection, invocation.now);
        }
        let open =
            runs.iter().map(|(index, (report, _))| (*index, Unfinished::of(report))).collect();
        let whole = selections.is_everything(&self.configured());
        let mut report = self.report_runs(invocation, &registries, runs, whole).await;
        report.oldest = self.out_of_step.oldest(invocation.now);
        log::run(&report);
        RunResult { report, open }
    }

    /// Reconciles one cluster. Returns its report, and its claims if it could be read.
    async fn run_cluster(
        &self,
        invocation: &Invocation<'_>,
        registries: &Registries,
        index: usize,
        selection: &Selection,
    ) -> (ClusterReport, Option<Claimed>) {
        let cluster = &self.settings.clusters[index];
        let is_whole = *selection == Selection::Everything;
        let registry = &registries[&self.clients.registry_of(cluster)];
        let reconciled = Box::pin(invocation.reconcile(cluster, registry, selection)).await;
        let is_served = !reconciled.as_ref().is_err_and(Error::is_named_twice);
        let (mut report, claimed) = conclude(cluster, reconciled);
        if is_whole && claimed.is_some() && is_served {
            report = Box::pin(invocation.adopt_former(cluster, registry, report)).await;
        }
        report.whole = is_whole && is_served;
        report.quiet = !self.settings.pages(cluster);
        report.awaited = report.whole && !report.quiet && self.full_sync_queue.is_some();
        if report.awaited {
            // Its 1 would not be in the series with the 0 of the queued message if it had the name.
            let arn = self.clients.arn_of(cluster).map(|arn| arn.to_string());
            report.cluster = arn.unwrap_or(report.cluster);
        }
        // An adoption holds back other things than a sync does.
        let kind = if invocation.adoption.is_some() { "adoption" } else { "services" };
        self.log_lines(kind, &report, (invocation.mode, is_whole));
        log::summary(&report, invocation.mode);
        (report, claimed)
    }

    /// The memory of this process about a registry.
    fn memory(&self, key: &RegistryKey) -> Arc<Memory> {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        memories.entry(key.clone()).or_default().clone()
    }

    /// The registries of these clusters, each read at most once, in this time.
    pub(super) async fn registries_of(
        &self,
        clusters: impl IntoIterator<Item = &Cluster>,
        time: Option<Duration>,
    ) -> Registries {
        let keys = clusters.into_iter().map(|cluster| self.clients.registry_of(cluster));
        self.registries(keys.collect(), time).await
    }

    /// These registries.
    pub(super) async fn registries(
        &self,
        keys: BTreeSet<RegistryKey>,
        time: Option<Duration>,
    ) -> Registries {
        let mut registries = BTreeMap::new();
        for key in keys {
            let cloud_map = self.clients.cloud_map(&key).await;
            let only = self.settings.rules.namespaces.clone();
            let (memory, now) = (self.memory(&key), self.clock.now());
            let limit = time.map(|time| {
                let times = (time, self.settings.rules.guard.period.unsigned_abs());
                let limit = ReadLimit::new(self.settings.quota_share, times, self.sharing(&key));
                let limit = self.most_reads.map_or(limit, |calls| limit.of_calls(calls));
                // A new member may be on any page of the list of services, and without it its endpoints would leave the
                // imports.
                let multi_cluster_of = |cluster| self.settings.multi_cluster_of(cluster);
                let has_members =
                    self.clusters_in(&key).any(|it| multi_cluster_of(it) != MultiCluster::Off);
                if has_members { limit.with_whole_lists() } else { limit }
            });
            let registry = SharedRegistry::new(cloud_map, only, memory, (now, limit));
            registries.insert(key, registry);
        }
        registries
    }

    /// The clusters that are kept in a registry.
    pub(super) fn clusters_in(&self, key: &RegistryKey) -> impl Iterator<Item = &Cluster> {
        let clusters = self.settings.clusters.iter();
        clusters.filter(move |cluster| self.clients.registry_of(cluster) == *key)
    }

    /// The number of runs that share the rates of a registry: with `FAN_OUT` each of its clusters has one of its own.
    fn sharing(&self, key: &RegistryKey) -> usize {
        self.full_sync_queue.as_ref().map_or(1, |_| self.clusters_in(key).count())
    }

    /// Syncs each cluster once over all scopes of the batch. Returns the run, and the message ids of each scope.
    pub(super) async fn sync_messages(
        &self,
        messages: Vec<event::Message>,
        deadline: Deadline,
    ) -> (RunResult, Vec<(Selections, Vec<String>)>) {
        let mut selections = Selections::default();
        let mut requested: BTreeMap<Scope, Vec<String>> = BTreeMap::new();
        let (mut events, mut dropped) = (Vec::new(), Vec::new());
        if messages.iter().any(|message| message.is_part) {
            self.parts_are_old.call_once(|| tracing::info!("{OLD_PARTS}"));
        }
        for message in messages {
            match message.reading {
                Ok(Subject::Scope(scope)) => requested.entry(scope).or_default().push(message.id),
                Ok(Subject::Drift(drift)) => events.push((drift, message.id)),
                // Our own write is not reported.
                Err(Unusable::Imported | Unusable::OwnEvent) => {}
                Err(unusable) => {
                    dropped.push(drop_message(message.id, unusable.reason(), &unusable));
                }
            }
        }
        let configured = self.configured();
        for scope in requested.keys() {
            if let Ok(of_scope) = Selections::resolve(scope, &configured) {
                selections.extend(&of_scope);
            }
        }
        let invocation = self.invocation(true, deadline);
        let mut drifted = Box::pin(self.find_drift(events, invocation.now, deadline)).await;
        for (of_event, _) in &drifted.served {
            selections.extend(of_event);
        }
        let mut run = Box::pin(self.run(&invocation, &selections)).await;
        self.looks.note(&drifted, &run.report, invocation.now);
        let (reason, why) = drift::FOREIGN;
        let foreign = drifted.foreign.drain(..);
        dropped.extend(foreign.map(|id| drop_message(id, reason, &why)));
        // The run has read ARNs that decide which cluster a message means. One that is not decided yet may mean a cluster
        // that was not read, so it returns.
        let (mut served, configured) = (drifted.served, self.configured());
        for (scope, ids) in requested {
            match Selections::resolve(&scope, &configured) {
                Ok(of_scope) => served.push((of_scope, ids)),
                Err(unknown) => {
                    let ids = ids.into_iter();
                    dropped.extend(ids.map(|id| drop_message(id, unknown.reason(), &unknown)));
                }
            }
        }
        run.report.dropped = dropped;
        (run, served)
    }
}

/// The time that an invocation has for its reads of Cloud Map; `None` if it takes as long as it needs. A person who
/// confirms, adopts or asks for a plan has everything read.
fn time_to_read(invocation: &Invocation<'_>) -> Option<Duration> {
    let reads_all = invocation.mode != Mode::Sync
        || invocation.adoption.is_some()
        || invocation.confirmed
        || invocation.is_fresh;
    let stop = invocation.deadline.stop;
    (!reads_all).then(|| stop.saturating_duration_since(Instant::now()))
}

/// The report of a cluster, and its claims if they are known. An entry that is held back has none of its own.
pub(super) fn conclude(
    cluster: &Cluster,
    reconciled: Result<(ClusterReport, Claimed), Error>,
) -> (ClusterReport, Option<Claimed>) {
    match reconciled {
        Ok((report, claimed)) => (report, Some(claimed)),
        Err(error) if error.is_named_twice() => {
            (ClusterReport::held_back(cluster.label(), &error), Some(Claimed::default()))
        }
        Err(error) => {
            let report = ClusterReport::unreadable(cluster.label(), &error);
            (error.into_made().into_iter().fold(report, ClusterReport::with), None)
        }
    }
}

const OLD_PARTS: &str = "messages for a part of a cluster, which an earlier release has sent, are taken for all of it: \
                         shard, hop and held in them are ignored";

/// Records and logs a message that is not delivered again.
fn drop_message(message: String, reason: &'static str, why: &dyn std::fmt::Display) -> Dropped {
    let dropped = Dropped { message, reason: reason.into(), detail: why.to_string() };
    log::dropped(&dropped);
    dropped
}

// The age of drift: the endpoints that runs of this process left undone, each with the time of the first such run. Only the
// metrics use it. No decision depends on it, and a new process starts empty.

/// An endpoint of a cluster under a name, with its pending change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PendingEndpoint {
    cluster: String,
    service: ServiceRef,
    place: String,
    change: Verb,
    instance: Option<String>,
}

/// The endpoints that are out of step, with the time of the first run that left them so.
#[derive(Debug, Default)]
pub(super) struct OutOfStep(Mutex<BTreeMap<PendingEndpoint, Timestamp>>);

impl OutOfStep {
    /// Records the changes that a run over the selected Services left undone. The report of an unreadable cluster is
    /// ignored.
    pub(super) fn record(&self, report: &ClusterReport, selection: &Selection, now: Timestamp) {
        if report.error.is_some() {
            return;
        }
        let mut open = BTreeSet::new();
        for at in &report.services {
            let left = at.changes.iter().filter(|line| line.is_left_undone());
            let left = left.map(|line| (&line.service, line.change, &line.instance));
            let refused = at.refused.iter().map(|it| (&it.service, Verb::Register, &it.instance));
            open.extend(left.chain(refused).map(|(service, change, instance)| PendingEndpoint {
                cluster: report.cluster.clone(),
                service: service.clone(),
                place: at.place(),
                change,
                instance: instance.clone(),
            }));
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_covered = |endpoint: &PendingEndpoint| {
            endpoint.cluster == report.cluster && selection.contains(&endpoint.service)
        };
        known.retain(|endpoint, _| !is_covered(endpoint) || open.contains(endpoint));
        for endpoint in open {
            known.entry(endpoint).or_insert(now);
        }
    }

    /// The age of the oldest ones.
    pub(super) fn oldest(&self, now: Timestamp) -> OldestOutOfStep {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let age = |change: Verb| {
            let since = known.iter().filter(|(it, _)| it.change == change).map(|(_, since)| *since);
            let seconds = since.map(|since| now.as_second() - since.as_second()).max();
            usize::try_from(seconds.unwrap_or_default()).unwrap_or_default()
        };
        OldestOutOfStep { missing: age(Verb::Register), leftover: age(Verb::Deregister) }
    }
}
