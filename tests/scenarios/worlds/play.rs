//! A story as it happens: moves one after the other, invocations beside them (`processes`), and a look at the registry
//! every few milliseconds. Time stands still but for waiting, so that the same story takes the same course.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::sleep;

use super::oracle::invariants::Ledger;
use super::oracle::{self, Registry, clusterset};
use super::processes::Process;
use super::story::Story;
use super::world::{CLUSTERS, Namespace, World};
use crate::faults::play::on_a_runtime;
use crate::faults::situation::READER;
use crate::fleet::Fleet;
use crate::multi_cluster::writes;
use testbed::cloud_map::{Behaviour, Call, NamespaceKind};
use testbed::function::TIMEOUT;
use testbed::kubernetes::{BOUND_GROUP, KubernetesServer};

/// Between two looks.
pub const LOOK: Duration = Duration::from_millis(25);
const MINUTE: Duration = Duration::from_mins(1);
/// Between two full syncs of a long story.
const SCHEDULE: Duration = Duration::from_mins(30);
/// A run that ended leaves no operation behind after so long.
pub const QUIET: Duration = Duration::from_mins(2);

/// Plays a story on a runtime of its own; returns the rule that it breaks.
pub fn play(story: &Story) -> Result<(), String> {
    on_a_runtime(async { LocalSet::new().run_until(Scene::play(story)).await })
}

/// The world, the stand-ins that show it, and the processes of the function.
pub struct Scene {
    pub world: World,
    pub fleet: Fleet,
    pub ledger: Ledger,
    pub imports: clusterset::Ledger,
    pub green: KubernetesServer,
    pub behaviour: Behaviour,
    pub other_settings: &'static [(&'static str, &'static str)],
    pub processes: Vec<Arc<Process>>,
    pub runs: Vec<(usize, JoinHandle<()>)>,
    quiet: Duration,
    pub is_long: bool,
    pub most_reads: Option<usize>,
    /// Since the last full sync of the schedule.
    unsynced: Duration,
    /// What the last look rested on.
    seen: Option<(u64, [u64; 2], bool)>,
}

impl Scene {
    async fn play(story: &Story) -> Result<(), String> {
        let mut scene = Self::set(story).await;
        for it in &story.before {
            it.make(&mut scene);
        }
        if story.is_converged {
            for process in scene.all_clusters(0) {
                scene.sync(process).await?;
            }
        }
        scene.look()?;
        for steps in &story.rounds {
            for (it, pause) in steps {
                it.make(&mut scene);
                scene.look()?;
                scene.pass(Duration::from_millis(*pause)).await?;
            }
            let left = scene.sync_in_trouble(story.last).await?;
            scene.end_trouble().await?;
            scene.come_to_rest(story.last, left.as_deref()).await?;
        }
        Ok(())
    }

    async fn set(story: &Story) -> Self {
        let fleet = Fleet::start().await;
        let green = fleet.green().await;
        fleet.sandbox.role(READER, None);
        green.grant(READER, &[BOUND_GROUP]);
        let mut world = World::default();
        for (id, name, kind) in [
            (&fleet.http, "prod", NamespaceKind::Http),
            (&fleet.dns, "prod.local", NamespaceKind::DnsPrivate),
        ] {
            world.namespaces.push(Namespace {
                id: id.clone(),
                name,
                kind,
                is_shared: false,
                is_withdrawn: false,
            });
        }
        if story.flows.has_exported {
            world.clusterset.begin(story.is_apart, &fleet, &green);
        }
        let time = Duration::from_millis;
        let behaviour = Behaviour {
            operation_delay: time(story.operation_delay),
            list_lag: time(story.list_lag),
            ..Behaviour::default()
        };
        fleet.cloud_map.behave(behaviour.clone());
        let mut scene = Self {
            world,
            fleet,
            ledger: Ledger::default(),
            imports: clusterset::Ledger::default(),
            green,
            behaviour,
            other_settings: story.other_settings,
            processes: Vec::new(),
            runs: Vec::new(),
            quiet: Duration::ZERO,
            is_long: story.is_long,
            most_reads: story.most_reads,
            unsynced: Duration::ZERO,
            seen: None,
        };
        scene.deploy();
        scene
    }

    /// The API server of a cluster.
    pub fn cluster(&self, number: usize) -> &KubernetesServer {
        if number == 0 { &self.fleet.cluster } else { &self.green }
    }

    /// Whether every run has read, or will read, all that is registered.
    pub fn shows_all(&self) -> bool {
        self.behaviour.list_lag.is_zero() || self.is_idle()
    }

    /// Changes how Cloud Map behaves.
    pub fn behave(&mut self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.behaviour);
        self.fleet.cloud_map.behave(self.behaviour.clone());
    }

    /// Brings a Service of a cluster's API server to what the world has.
    pub fn project(&mut self, place: (usize, usize)) {
        let server = self.cluster(place.0).clone();
        self.world.project(place, &server);
    }

    /// Whether no run is under way, nor any operation, and lists show what the last ones did.
    pub fn is_idle(&self) -> bool {
        let shown = self.behaviour.operation_delay + self.behaviour.list_lag;
        self.runs.is_empty() && self.quiet >= shown
    }

    /// Serves the definitions of exports and imports in a cluster.
    pub fn serve_definitions(&self, cluster: usize) {
        self.cluster(cluster).serve_multi_cluster_versions(&["v1beta1", "v1alpha1"]);
    }

    /// Lets time pass, and looks at the registry meanwhile.
    async fn pass(&mut self, time: Duration) -> Result<(), String> {
        let mut left = time;
        while !left.is_zero() {
            let pause = if self.runs.is_empty() && self.is_long { MINUTE } else { LOOK };
            let pause = pause.min(left);
            sleep(pause).await;
            left -= pause;
            self.unsynced += pause;
            if self.is_long && self.unsynced >= SCHEDULE {
                self.unsynced = Duration::ZERO;
                self.invoke(0, json!({ "action": "sync" }), TIMEOUT);
            }
            self.runs.retain(|(_, run)| !run.is_finished());
            self.quiet = if self.runs.is_empty() { self.quiet + pause } else { Duration::ZERO };
            if self.quiet >= QUIET {
                self.settle();
            }
            self.look_at_changes()?;
        }
        Ok(())
    }

    pub fn registry(&self) -> Registry {
        oracle::registry(&self.fleet, &self.world)
    }

    pub fn settle(&mut self) {
        self.ledger.is_quiet();
        self.imports.is_quiet();
    }

    /// Looks, unless nothing has changed since the last look.
    pub fn look_at_changes(&mut self) -> Result<(), String> {
        if self.seen == Some(self.revisions()) { Ok(()) } else { self.look() }
    }

    /// What a look rests on beside the world.
    fn revisions(&self) -> (u64, [u64; 2], bool) {
        let clusters = [0, 1].map(|number| self.cluster(number).revision());
        (self.fleet.cloud_map.revision(), clusters, self.shows_all())
    }

    pub fn look(&mut self) -> Result<(), String> {
        self.seen = Some(self.revisions());
        let registry = self.registry();
        self.ledger.look(&self.world, &registry)?;
        if self.world.clusterset.is_on {
            let mut imports = std::mem::take(&mut self.imports);
            let found = imports.look(self);
            self.imports = imports;
            found?;
        }
        if self.world.settings.is_dry {
            let writes = self.take_writes();
            if !writes.is_empty() {
                return Err(format!("DRY_RUN is on, and the function writes: {writes:?}"));
            }
        }
        match &self.fleet.cloud_map.take_violations()[..] {
            [] => Ok(()),
            violations => Err(format!("something foreign was touched: {}", violations.join("\n"))),
        }
    }

    /// What was written since the last time. What Cloud Map refuses is tried again at once in a run that a person begins.
    pub fn take_writes(&self) -> Vec<String> {
        self.take_writes_but(|_| false)
    }

    pub fn take_writes_but(&self, is_excused: impl Fn(&Call) -> bool) -> Vec<String> {
        let calls = self.fleet.cloud_map.calls().into_iter();
        let calls = calls.filter(|it| it.is_write() && it.status == 200 && !is_excused(it));
        let calls = calls.map(|it| it.operation);
        let clusters = [&self.fleet.cluster, &self.green];
        let all = calls.chain(clusters.map(writes).concat()).collect();
        self.fleet.cloud_map.forget_calls();
        clusters.into_iter().for_each(KubernetesServer::forget_requests);
        all
    }

    /// No call fails any more.
    pub fn heal(&self) {
        self.fleet.cloud_map.heal();
        self.fleet.sandbox.aws().faults.clear();
        self.fleet.sandbox.role(READER, None);
        (0..CLUSTERS.len()).for_each(|number| self.cluster(number).clear_faults());
    }
}
