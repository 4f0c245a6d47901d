//! A story as it happens: moves one after the other, invocations beside them (`processes`), and a look at the registry
//! every few milliseconds. Time stands still but for waiting, so that the same story takes the same course.

use std::rc::Rc;
use std::time::Duration;

use serde_json::json;
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::sleep;

use super::faults::situation::READER;
use super::oracle::invariants::Ledger;
use super::oracle::{self, Registry, clusterset};
use super::processes::Process;
use super::story::{Ending, Story};
use super::world::{CLUSTERS, Namespace, SHOP, TEAM, World};
use crate::fleet::Fleet;
use crate::multi_cluster::writes;
use testbed::clock::StandInClock;
use testbed::cloud_map::{Behaviour, Call, NamespaceKind};
use testbed::function::TIMEOUT;
use testbed::kubernetes::{BOUND_GROUP, KubernetesServer};

/// Between two looks.
pub const LOOK: Duration = Duration::from_millis(25);
/// What a call rests on was read at most so long before it, or before its last retry.
const READ: Duration = Duration::from_secs(8);
const RETRIED: Duration = Duration::from_mins(1);
/// Longer than any play.
const NEVER: Duration = Duration::from_hours(10_000);
const MINUTE: Duration = Duration::from_mins(1);
/// Between two full syncs of a long story.
const SCHEDULE: Duration = Duration::from_mins(30);
/// A run that ended leaves no operation behind after so long.
pub const QUIET: Duration = Duration::from_mins(2);

/// Plays a story on a runtime of its own; returns the rule that it breaks.
pub fn play(story: &Story) -> Result<(), String> {
    on_a_runtime(Scene::play(story))
}

/// Does the work on a runtime of its own, in which time stands still except for waiting.
pub fn on_a_runtime<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().start_paused(true).build().expect("a runtime");
    runtime.block_on(Box::pin(LocalSet::new().run_until(work)))
}

/// The items of a page of a list: few if no process has the time to read all pages.
pub fn page_of(max_instance_reads: Option<usize>) -> usize {
    if max_instance_reads.is_some() { 2 } else { Behaviour::default().page_limit }
}

/// The world, the stand-ins that show it, and the processes of the function.
pub struct Scene {
    pub world: World,
    pub fleet: Fleet,
    pub ledger: Ledger,
    pub imports: clusterset::Ledger,
    pub green: KubernetesServer,
    pub behaviour: Behaviour,
    /// Settings of all processes beside those of the world, and more of the last one.
    pub more_settings: Vec<(&'static str, &'static str)>,
    pub other_settings: &'static [(&'static str, &'static str)],
    /// The numbers of Events when the function was deployed.
    pub events: [usize; 2],
    /// The clock of processes whose time stands still.
    pub stopped: Option<StandInClock>,
    pub processes: Vec<Rc<Process>>,
    pub runs: Vec<(usize, JoinHandle<()>)>,
    /// Whether one of the runs may be an adoption.
    pub is_adopting: bool,
    quiet: Duration,
    pub is_long: bool,
    pub max_instance_reads: Option<usize>,
    /// Since the last full sync of the schedule.
    unsynced: Duration,
    /// What the last look rested on.
    seen: Option<(u64, [u64; 2], bool)>,
    /// How long a change takes at most, from its call to its end, if that is known.
    pub slowest: Duration,
    /// Whether any call failed or was slow.
    pub is_disturbed: bool,
}

impl Scene {
    async fn play(story: &Story) -> Result<(), String> {
        let mut scene = Self::set(story).await;
        for it in &story.before {
            it.make(&mut scene);
        }
        if story.is_converged {
            for process in scene.all_clusters(story.last) {
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
            let left = match story.ending {
                Ending::Sync => scene.sync_in_trouble(story.last).await?,
                Ending::Messages => scene.hear_of_all().await?,
                Ending::Nothing => None,
            };
            scene.end_trouble().await?;
            scene.come_to_rest(story.last, left.as_deref()).await?;
        }
        Ok(())
    }

    async fn set(story: &Story) -> Self {
        Self::begin(story.flows.has_exported, |scene| {
            let time = Duration::from_millis;
            scene.world.clusterset.is_apart = story.is_apart;
            scene.other_settings = story.other_settings;
            scene.is_long = story.is_long;
            scene.max_instance_reads = story.max_instance_reads;
            scene.world.has_few_reads = story.max_instance_reads.is_some();
            scene.behave(|it| {
                it.operation_delay = time(story.operation_delay);
                it.list_lag = time(story.list_lag);
                it.page_limit = page_of(story.max_instance_reads);
            });
            scene.slowest = time(story.operation_delay);
        })
        .await
    }

    /// Two clusters and two namespaces with nothing in them, and the processes of the function.
    pub async fn begin(has_exported: bool, change: impl FnOnce(&mut Self)) -> Self {
        let fleet = Fleet::start().await;
        fleet.sandbox.aws().identities.trust();
        let green = fleet.green().await;
        fleet.sandbox.role(READER, None);
        green.grant(READER, &[BOUND_GROUP]);
        let mut world = World::default();
        world.namespaces.extend([
            Namespace::new(fleet.http.clone(), "prod", NamespaceKind::Http),
            Namespace::new(fleet.dns.clone(), "prod.local", NamespaceKind::DnsPrivate),
        ]);
        if has_exported {
            world.clusterset.begin(&fleet, &green);
        }
        let mut scene = Self {
            world,
            fleet,
            events: [0; 2],
            ledger: Ledger::default(),
            imports: clusterset::Ledger::default(),
            green,
            behaviour: Behaviour::default(),
            more_settings: Vec::new(),
            other_settings: &[],
            stopped: None,
            processes: Vec::new(),
            runs: Vec::new(),
            is_adopting: false,
            quiet: Duration::ZERO,
            is_long: false,
            max_instance_reads: None,
            unsynced: Duration::ZERO,
            seen: None,
            slowest: NEVER,
            is_disturbed: false,
        };
        change(&mut scene);
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
        let Behaviour { operation_delay, list_lag, latency, .. } = self.behaviour;
        let shown = operation_delay + list_lag + latency;
        self.runs.is_empty() && self.quiet >= shown
    }

    /// Serves the definitions of exports and imports in a cluster.
    pub fn serve_definitions(&mut self, cluster: usize) {
        self.world.clusterset.lacks_definitions[cluster] = false;
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
            // A run may begin and end between two looks.
            self.quiet = if self.runs.is_empty() { self.quiet + pause } else { Duration::ZERO };
            self.runs.retain(|(_, run)| !run.is_finished());
            if self.quiet >= QUIET {
                self.settle();
            }
            if self.is_idle() {
                self.imports.is_idle();
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
        if let Some(id) = self.fleet.cloud_map.find_namespace(TEAM) {
            self.world.has_created(id);
        }
        let registry = self.registry();
        let read = if self.is_disturbed { RETRIED } else { READ };
        self.ledger.look(&self.world, &registry, read + self.slowest)?;
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
        let kept = match self.world.settings.events {
            "none" => &[0, 1][..],
            "warnings" => &[1],
            _ => &[],
        };
        if !kept.is_empty() {
            let now = self.events();
            if kept.iter().any(|it| now[*it] != self.events[*it]) {
                let Self { world, events, .. } = &self;
                return Err(format!("EVENTS is {}: {now:?}, {events:?}", world.settings.events));
            }
        }
        match &self.fleet.cloud_map.take_violations()[..] {
            [] => Ok(()),
            violations => Err(format!("something foreign was touched: {}", violations.join("\n"))),
        }
    }

    /// The numbers of warnings and of other Events on Services.
    pub fn events(&self) -> [usize; 2] {
        let all = [0, 1].map(|number| self.cluster(number).events(SHOP)).concat();
        let warnings = all.iter().filter(|it| it["type"] == "Warning").count();
        [warnings, all.len() - warnings]
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
