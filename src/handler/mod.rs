//! One invocation: reads the payload, resolves which Services of which clusters it is about, has each
//! cluster reconciled apart from the others, logs what was done and answers as the caller expects.

mod answer;
mod doctor;
mod explain;
mod hand_on;
mod log;
mod named;
mod orphans;
mod purge;
mod scopes;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use aws_config::SdkConfig;
use futures_util::{StreamExt, stream};
use serde_json::Value;

use crate::clients::{Clients, RegistryKey};
use crate::clock::Clock;
use crate::deadline::Deadline;
use crate::event::{self, Action, Command, Scope};
use crate::model::Selection;
use crate::observe::{Memory, SharedRegistry};
use crate::own_queue::OwnQueue;
use crate::plan::{Adoption, Claimed};
use crate::reconcile::Invocation;
use crate::report::{ClusterReport, Dropped, EmptyServices, Mode, Report};
use crate::settings::Settings;

use answer::Run;
pub use answer::{Answer, Error};
use hand_on::Hops;
use scopes::Selections;

/// How many clusters are served side by side.
const CLUSTERS_SIDE_BY_SIDE: usize = 8;

/// The function: its settings, and clients that warm invocations use again.
pub struct Function {
    settings: Settings,
    clients: Clients,
    memories: Mutex<BTreeMap<RegistryKey, Arc<Memory>>>,
    own_queue: Option<OwnQueue>,
    clock: Clock,
}

impl Function {
    /// The function with `settings`, whose AWS clients are configured by `config`.
    pub fn new(settings: Settings, config: SdkConfig) -> Self {
        let own_queue = settings.fan_out.as_ref().map(|url| OwnQueue::new(&config, url));
        let clients = Clients::new(config, settings.quota_share);
        let (memories, clock) = (Mutex::default(), Clock::system());
        Self { settings, clients, memories, own_queue, clock }
    }

    /// The same function by another clock.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Serves one payload.
    pub async fn invoke(&self, payload: &Value, deadline: Deadline) -> Answer {
        let invocation = match event::read(payload) {
            Ok(invocation) => invocation,
            Err(error) => return Answer::refused(Error::Event(error)),
        };
        match invocation {
            event::Invocation::Schedule => self.schedule(deadline).await,
            event::Invocation::Queue(messages) => {
                let (run, served) = self.messages(messages, deadline).await;
                Answer::to_queue(run, served)
            }
            event::Invocation::AuditLog(messages) => {
                Answer::to_schedule(self.messages(messages, deadline).await.0)
            }
            event::Invocation::Direct(command) => self.direct(&command, deadline).await,
        }
    }

    async fn schedule(&self, deadline: Deadline) -> Answer {
        if let Some(answer) = self.fan_out().await {
            return answer;
        }
        let selections = Selections::everything(&self.settings.clusters);
        let mut run = Box::pin(self.run(&self.invocation(true, deadline), &selections)).await;
        self.hand_on(&mut run, &selections, &Hops::new()).await;
        Answer::to_schedule(run)
    }

    async fn direct(&self, command: &Command, deadline: Deadline) -> Answer {
        if command.action == Action::Purge {
            return Box::pin(self.purge(command, deadline)).await;
        }
        let selections = match Box::pin(self.selections(&command.scope)).await {
            Ok(selections) => selections,
            Err(unknown) => return Answer::refused(Error::Cluster(unknown)),
        };
        let invocation = match command.action {
            Action::Status => return Box::pin(self.status(&selections, deadline)).await,
            Action::Doctor => return Box::pin(self.doctor(&selections, deadline)).await,
            Action::Explain => return Box::pin(self.explain(&selections, command, deadline)).await,
            Action::Sync => self.invocation(true, deadline),
            Action::Plan | Action::Purge => self.invocation(false, deadline),
            Action::Confirm => Invocation { confirmed: true, ..self.invocation(true, deadline) },
            Action::Adopt => Invocation {
                adoption: Some(Adoption { owner: command.owner.clone() }),
                ..self.invocation(command.confirm, deadline)
            },
        };
        Answer::to_direct(Box::pin(self.run(&invocation, &selections)).await)
    }

    /// One reconcile per cluster over all scopes that the batch names, however many messages name
    /// them. Returns which messages asked for what, too.
    async fn messages(
        &self,
        messages: Vec<event::Message>,
        deadline: Deadline,
    ) -> (Run, Vec<(Selections, Vec<String>)>) {
        let mut selections = Selections::default();
        let mut asked: BTreeMap<Scope, Vec<String>> = BTreeMap::new();
        let mut dropped = Vec::new();
        for message in messages {
            match message.reading {
                Ok(scope) => asked.entry(scope).or_default().push(message.id),
                Err(unusable) => {
                    dropped.push(drop(message.id, unusable.reason(), &unusable));
                }
            }
        }
        let (mut served, mut hops) = (Vec::new(), Hops::new());
        for (scope, ids) in asked {
            match Selections::of(&scope, &self.settings.clusters) {
                Ok(of_scope) => {
                    selections = selections.union(&of_scope);
                    hand_on::count_hops(&mut hops, &scope, &of_scope);
                    served.push((of_scope, ids));
                }
                Err(unknown) => {
                    let ids = ids.into_iter();
                    dropped.extend(ids.map(|id| drop(id, unknown.reason(), &unknown)));
                }
            }
        }
        let mut run = Box::pin(self.run(&self.invocation(true, deadline), &selections)).await;
        self.hand_on(&mut run, &selections, &hops).await;
        run.0.dropped = dropped;
        (run, served)
    }

    /// What all clusters of an invocation share; `writes` is whether it shall change Cloud Map.
    fn invocation(&self, writes: bool, deadline: Deadline) -> Invocation<'_> {
        let mode = match writes {
            false => Mode::Plan,
            true if self.settings.dry_run => Mode::DryRun,
            true => Mode::Sync,
        };
        let (settings, clients) = (&self.settings, &self.clients);
        let (now, confirmed) = (self.clock.now(), false);
        Invocation { settings, clients, mode, adoption: None, confirmed, now, deadline }
    }

    /// Reconciles every selected cluster; a failing one stops no other. The reports are returned by
    /// the cluster's place in the settings, too.
    async fn run(&self, invocation: &Invocation<'_>, selections: &Selections) -> Run {
        let clusters = selections.iter().map(|(index, _)| &self.settings.clusters[index]);
        let registries =
            self.registries(clusters.map(|cluster| self.clients.registry_of(cluster))).await;
        let runs = selections.iter().map(|(index, selection)| {
            let registries = &registries;
            async move { (index, self.one(invocation, registries, index, selection).await) }
        });
        let runs: BTreeMap<usize, (ClusterReport, Option<Claimed>)> =
            stream::iter(runs).buffer_unordered(CLUSTERS_SIDE_BY_SIDE).collect().await;
        let of_clusters = runs.values().map(|(report, _)| report.clone()).collect();
        let mut report = Report::new(invocation.mode, of_clusters);
        report.whole = selections.is_everything(&self.settings.clusters);
        if report.whole && invocation.adoption.is_none() {
            let orphans = Box::pin(self.orphans(invocation, &registries, &runs)).await;
            report = report.with_orphans(orphans);
        }
        if report.whole && invocation.may_delete_services() {
            for empty in self.empty_services(invocation, &registries, &runs).await {
                log::empty_services(&empty, invocation.mode);
                report = report.with_empty_services(empty);
            }
        }
        log::run(&report);
        (report, runs.into_iter().map(|(index, (report, _))| (index, report)).collect())
    }

    /// One cluster's report, and what it claims where it could be read.
    async fn one(
        &self,
        invocation: &Invocation<'_>,
        registries: &BTreeMap<RegistryKey, SharedRegistry>,
        index: usize,
        selection: &Selection,
    ) -> (ClusterReport, Option<Claimed>) {
        let cluster = &self.settings.clusters[index];
        let registry = &registries[&self.clients.registry_of(cluster)];
        let reconciled = Box::pin(invocation.reconcile(cluster, registry, selection)).await;
        let (report, claimed) = match reconciled {
            Ok((report, claimed)) => (report, Some(claimed)),
            Err(error) => (ClusterReport::unreadable(cluster.label(), &error), None),
        };
        log::cluster(&report, invocation.mode);
        (report, claimed)
    }

    /// Services that nobody needs, in one registry after the other.
    async fn empty_services(
        &self,
        invocation: &Invocation<'_>,
        registries: &BTreeMap<RegistryKey, SharedRegistry>,
        runs: &BTreeMap<usize, (ClusterReport, Option<Claimed>)>,
    ) -> Vec<EmptyServices> {
        let mut claimed = Claimed::default();
        let mut unknown = Vec::new();
        for (report, of_cluster) in runs.values() {
            match of_cluster {
                Some(of_cluster) => claimed = claimed.and(of_cluster.clone()),
                None => unknown.push(format!("cluster {} could not be read", report.cluster)),
            }
        }
        let (mut seen, mut reports) = (BTreeSet::new(), Vec::new());
        for registry in registries.values() {
            let empty = invocation.delete_empty_services(registry, &claimed, &unknown, &mut seen);
            reports.push(empty.await);
        }
        reports
    }

    /// What the process remembers of a registry.
    fn memory(&self, key: &RegistryKey) -> Arc<Memory> {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        memories.entry(key.clone()).or_default().clone()
    }

    /// Registries, each to be read at most once.
    async fn registries(
        &self,
        keys: impl Iterator<Item = RegistryKey>,
    ) -> BTreeMap<RegistryKey, SharedRegistry> {
        let mut registries = BTreeMap::new();
        for key in keys {
            let cloud_map = self.clients.cloud_map(&key).await;
            let only = self.settings.rules.namespaces.clone();
            let (memory, now) = (self.memory(&key), self.clock.now());
            let registry = || SharedRegistry::new(cloud_map, only, memory, now);
            registries.entry(key).or_insert_with(registry);
        }
        registries
    }
}

/// Records and logs a message that is not delivered again.
fn drop(message: String, reason: &'static str, why: &dyn std::fmt::Display) -> Dropped {
    let dropped = Dropped { message, reason: reason.into(), detail: why.to_string() };
    log::dropped(&dropped);
    dropped
}
