//! A story as it happens: moves one after the other, invocations beside them, and a look at the registry every few
//! milliseconds. Time stands still but for waiting, so that the same story takes the same course.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cloud_map_sync::function::{Answer, Function};
use cloud_map_sync::report::{NoteKind, Report};
use cloud_map_sync::time::Deadline;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use tokio::sync::{Mutex, OnceCell};
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

use super::clusterset::{CLUSTER_ID, OTHER_REGION};
use super::moves::{Flows, Move};
use super::oracle::invariants::Ledger;
use super::oracle::{self, Registry, clusterset, guard, publish};
use super::world::{CLUSTERS, Namespace, World};
use crate::faults::play::on_a_runtime;
use crate::faults::situation::READER;
use crate::fleet::Fleet;
use crate::multi_cluster::writes;
use crate::queue::failures;
use testbed::Sandbox;
use testbed::clock::tokio_clock;
use testbed::cloud_map::{Behaviour, Call, NamespaceKind};
use testbed::function::TIMEOUT;
use testbed::gate::Gate;
use testbed::kubernetes::{BOUND_GROUP, KubernetesServer};

/// The processes of the function.
pub const PROCESSES: usize = 3;

const LOOK: Duration = Duration::from_millis(25);
const MINUTE: Duration = Duration::from_mins(1);
/// Between two full syncs of a long story.
const SCHEDULE: Duration = Duration::from_mins(30);
/// How long the credentials of a process last in a long story.
const CREDENTIALS: Duration = Duration::from_hours(6);
/// In milliseconds.
const PAUSES: &[u64] = &[0, 0, 10, 50, 200, 1000, 4000];
const LONG_PAUSES: &[u64] = &[0, 1000, 60_000, 1_200_000, 3_600_000, 7_200_000, 14_400_000];
/// After so long nothing that was begun is under way any more, and each process asks anew which APIs a cluster serves.
const REST: Duration = Duration::from_mins(6);
/// A run that ended leaves no operation behind after so long.
const QUIET: Duration = Duration::from_mins(2);
/// Longer than `GUARD_WAIT`.
const GUARD: Duration = Duration::from_mins(11);

/// A full sync that nothing disturbs makes at most so many calls for each flow, and so many more for each namespace, service and
/// instance before and after it.
const CALLS: usize = 20;
const CALLS_OF_EACH: usize = 6;
/// And in trouble so many times as many.
const IN_TROUBLE: usize = 2;

/// More settings of the last process, all but the first four in a clusterset alone: it may see or do less than the
/// others, and so takes out nothing that they keep.
const OTHER_SETTINGS: [&[(&str, &str)]; 7] = [
    &[],
    &[("POLICY", "create-only")],
    &[("POLICY", "upsert-only")],
    &[("DRY_RUN", "true")],
    &[("CLOUD_MAP_NAMESPACES", "clusterset.shop-set"), ("CREATE_NAMESPACES", "false")],
    &[("CLOUD_MAP_NAMESPACES", "shop"), ("CREATE_NAMESPACES", "false")],
    &[("MULTI_CLUSTER", "import")],
];

/// How much happens in a story.
#[derive(Clone, Copy)]
pub struct Length {
    pub rounds: usize,
    pub is_long: bool,
}

/// The moves of a world, and how long operations take in it.
#[derive(Clone)]
pub struct Story {
    flows: Flows,
    is_apart: bool,
    other_settings: &'static [(&'static str, &'static str)],
    /// What is there before the function has run.
    before: Vec<Move>,
    is_converged: bool,
    operation_delay: u64,
    list_lag: u64,
    /// Whether hours pass, with a full sync every half an hour.
    is_long: bool,
    /// What happens until trouble ends, and then again.
    rounds: Vec<Vec<(Move, u64)>>,
    last: usize,
}

/// Random stories of all moves. `FLOWS=annotated`, `exported` or `both` plays those alone.
pub fn story(length: Length) -> impl Strategy<Value = Story> {
    let flows = |has_annotated, has_exported| Flows { has_annotated, has_exported };
    let of_flows = match std::env::var("FLOWS").as_deref() {
        Ok("annotated") => Just(flows(true, false)).boxed(),
        Ok("exported") => Just(flows(false, true)).boxed(),
        Ok("both") => Just(flows(true, true)).boxed(),
        _ => prop_oneof![
            5 => Just(flows(true, false)),
            4 => Just(flows(false, true)),
            1 => Just(flows(true, true)),
        ]
        .boxed(),
    };
    of_flows.prop_flat_map(move |flows| of_flows_alone(flows, length))
}

fn of_flows_alone(flows: Flows, length: Length) -> impl Strategy<Value = Story> {
    let pauses = if length.is_long { LONG_PAUSES } else { PAUSES };
    let is_apart = prop::bool::weighted(0.4).prop_map(move |it| it && !flows.has_annotated);
    let other_settings =
        if flows.has_exported { &OTHER_SETTINGS[..] } else { &OTHER_SETTINGS[..4] };
    let all = (
        vec(flows.before(), 2..10),
        (prop::bool::weighted(0.8), is_apart, select(other_settings)),
        select(&[30, 30, 300, 3000, 20_000, 90_000][..]),
        select(&[0, 0, 0, 500][..]),
        vec(vec((flows.any(), select(pauses)), 2..24), length.rounds),
        0..PROCESSES,
    );
    all.prop_map(move |(before, functions, operation_delay, list_lag, rounds, last)| {
        let (is_converged, is_apart, other_settings) = functions;
        Story {
            flows,
            is_apart,
            other_settings,
            before,
            is_converged,
            operation_delay,
            list_lag,
            is_long: length.is_long,
            rounds,
            last,
        }
    })
}

impl fmt::Display for Story {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operations, lag) = (self.operation_delay, self.list_lag);
        if self.is_apart {
            writeln!(text, "Each cluster has a function of its own.")?;
        }
        if !self.other_settings.is_empty() {
            writeln!(text, "The last process has {:?}.", self.other_settings)?;
        }
        writeln!(text, "Operations take {operations} ms, lists lag by {lag} ms. Before:")?;
        self.before.iter().try_for_each(|it| writeln!(text, "- {it}"))?;
        if self.is_converged {
            writeln!(text, "- a full sync")?;
        }
        for steps in &self.rounds {
            writeln!(text, "Then:")?;
            steps.iter().try_for_each(|(it, pause)| writeln!(text, "- {it}; {pause} ms"))?;
            writeln!(text, "Trouble ends, and process {} syncs.", self.last)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Story {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, text)
    }
}

/// Plays a story on a runtime of its own; returns the rule that it breaks.
pub fn play(story: &Story) -> Result<(), String> {
    on_a_runtime(async { LocalSet::new().run_until(Scene::play(story)).await })
}

/// The ids of services that a good sync did not read.
type Unread = Vec<String>;

/// The world, the stand-ins that show it, and the processes of the function.
pub struct Scene {
    pub world: World,
    pub fleet: Fleet,
    pub ledger: Ledger,
    pub imports: clusterset::Ledger,
    green: KubernetesServer,
    behaviour: Behaviour,
    other_settings: &'static [(&'static str, &'static str)],
    processes: Vec<Arc<Process>>,
    runs: Vec<(usize, JoinHandle<()>)>,
    quiet: Duration,
    is_long: bool,
    /// Since the last full sync of the schedule.
    unsynced: Duration,
}

/// One process: created by its first invocation, with one invocation at a time.
struct Process {
    settings: Vec<(&'static str, String)>,
    sandbox: Sandbox,
    function: OnceCell<Function>,
    turn: Mutex<()>,
}

impl Process {
    async fn invoke(&self, payload: &Value, time: Duration) -> Option<Answer> {
        let _turn = self.turn.lock().await;
        let new = async {
            let settings: Vec<_> =
                self.settings.iter().map(|(key, it)| (*key, it.as_str())).collect();
            self.sandbox.function(&settings).await.with_clock(tokio_clock())
        };
        let function = Box::pin(self.function.get_or_init(|| new)).await;
        let answer = timeout(time, function.invoke(payload, Deadline::after(time))).await.ok();
        if std::env::var_os("WORLD").is_some() {
            let report = answer.as_ref().and_then(|it| it.report.as_ref());
            println!("{payload}: {}", report.map_or("no report".to_owned(), in_full));
        }
        answer
    }
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
            scene.come_to_rest(story.last, left).await?;
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
            unsynced: Duration::ZERO,
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

    /// Ends all processes, and starts others with the settings of the world.
    pub fn deploy(&mut self) {
        self.runs.drain(..).for_each(|(_, run)| run.abort());
        self.processes = (0..PROCESSES).map(|number| self.process(number)).collect();
        let arns = CLUSTERS.map(|cluster| self.fleet.sandbox.cluster_arn(cluster));
        self.fleet.cloud_map.watch_over(self.world.settings.owner, &[&arns[0], &arns[1]]);
        self.ledger.forget();
    }

    fn process(&self, number: usize) -> Arc<Process> {
        let mut settings: BTreeMap<_, _> = self.world.settings.variables().into_iter().collect();
        settings.extend(self.world.clusterset.variables(number, &self.world.settings));
        if number + 1 == PROCESSES {
            settings.extend(self.other_settings.iter().map(|(key, it)| (*key, (*it).to_owned())));
        }
        let settings = settings.into_iter().collect();
        let sandbox = if self.is_long {
            self.fleet.sandbox.with_credentials_for(CREDENTIALS)
        } else {
            self.fleet.sandbox.another_process()
        };
        let (function, turn) = (OnceCell::new(), Mutex::default());
        Arc::new(Process { settings, sandbox, function, turn })
    }

    /// Begins an invocation in each of two processes, and lets their calls in by turns: so many of the first one, so many
    /// of the second one, and so on. A process that has no call to make loses its turn.
    pub fn overlap(&mut self, payloads: [Value; 2], turns: Vec<usize>) {
        let keys = [0, 1].map(|it| self.processes[it].sandbox.access_key().id.clone());
        let gate = Gate::holding(&[&keys[0], &keys[1]]);
        self.fleet.cloud_map.hold_at(&gate);
        (0..CLUSTERS.len()).for_each(|cluster| self.cluster(cluster).hold_at(&gate));
        for (process, payload) in payloads.into_iter().enumerate() {
            self.invoke(process, payload, TIMEOUT);
        }
        let run = spawn_local(async move {
            for (turn, calls) in turns.into_iter().enumerate() {
                for _ in 0..calls {
                    sleep(Duration::from_millis(1)).await;
                    if gate.admit(turn % 2).is_none() {
                        break;
                    }
                }
            }
            gate.open();
        });
        self.runs.push((PROCESSES, run));
    }

    /// The processes whose full syncs, one after the other, reach the wanted state. The first of two functions sees the
    /// exports of the other only in its second sync.
    fn all_clusters(&self, last: usize) -> Vec<usize> {
        if self.world.clusterset.is_apart { vec![0, 1, 0] } else { vec![last % self.agreeing()] }
    }

    /// The number of processes whose settings agree.
    fn agreeing(&self) -> usize {
        if self.other_settings.is_empty() { PROCESSES } else { PROCESSES - 1 }
    }

    /// Serves the definitions of exports and imports in a cluster.
    pub fn serve_definitions(&self, cluster: usize) {
        self.cluster(cluster).serve_multi_cluster_versions(&["v1beta1", "v1alpha1"]);
    }

    /// Ends a process in the middle of what it does.
    pub fn kill(&mut self, number: usize) {
        self.runs.iter().filter(|(of, _)| *of == number).for_each(|(_, run)| run.abort());
        self.processes[number] = self.process(number);
    }

    /// Begins an invocation, which takes its turn in its process.
    pub fn invoke(&mut self, process: usize, payload: Value, time: Duration) {
        let invoked = self.processes[process].clone();
        let run = spawn_local(async move { drop(Box::pin(invoked.invoke(&payload, time)).await) });
        self.runs.push((process, run));
    }

    /// Delivers messages, and twice more those that come back, as a queue does.
    pub fn deliver(&mut self, process: usize, mut batch: Value, time: Duration) {
        let invoked = self.processes[process].clone();
        let run = spawn_local(async move {
            for _ in 0..3 {
                let answer = Box::pin(invoked.invoke(&batch, time)).await;
                let failed = answer.as_ref().map(failures);
                let Some(records) = batch["Records"].as_array_mut() else { return };
                records.retain(|it| {
                    failed.as_ref().is_none_or(|all| all.iter().any(|id| it["messageId"] == **id))
                });
                if records.is_empty() {
                    return;
                }
                sleep(MINUTE).await;
            }
        });
        self.runs.push((process, run));
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
            self.look()?;
        }
        Ok(())
    }

    /// The number of namespaces, services and instances.
    fn size(&self) -> usize {
        let cloud_map = &self.fleet.cloud_map;
        let services = cloud_map.namespaces().into_keys().map(|id| cloud_map.services(&id));
        let of_service =
            |it: testbed::cloud_map::ServiceView| 1 + cloud_map.instances(&it.id).len();
        services.map(|it| 1 + it.into_iter().map(of_service).sum::<usize>()).sum()
    }

    pub fn registry(&self) -> Registry {
        oracle::registry(&self.fleet, &self.world)
    }

    fn settle(&mut self) {
        self.ledger.is_quiet();
        self.imports.is_quiet();
    }

    fn look(&mut self) -> Result<(), String> {
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

    fn take_writes_but(&self, is_excused: impl Fn(&Call) -> bool) -> Vec<String> {
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

    /// All trouble ends, and what is under way comes to its end.
    async fn end_trouble(&mut self) -> Result<(), String> {
        let settings = self.world.settings.clone();
        self.world.settings.is_dry = false;
        let is_left_out = |cluster: usize| !oracle::is_served(&self.world, cluster);
        let is_elsewhere = settings.clusters.contains(OTHER_REGION);
        let is_on = self.world.clusterset.is_on;
        if is_on && (is_elsewhere || (0..CLUSTERS.len()).any(is_left_out)) {
            self.world.settings.clusters = "blue,green";
        }
        // What an API server refused once is not sent again by the same process.
        let has_refused = std::mem::take(&mut self.world.clusterset.has_refused);
        if settings != self.world.settings || has_refused {
            self.deploy();
        }
        self.heal();
        self.behave(|it| *it = Behaviour::default());
        for number in 0..CLUSTERS.len() {
            self.cluster(number).give_back();
            if self.world.clusterset.is_on {
                self.serve_definitions(number);
                self.cluster(number)
                    .cluster_property(CLUSTER_ID, self.world.clusterset.ids[number]);
            }
        }
        self.adopt();
        self.finish(REST).await?;
        // A purge that was cut short may leave imports without the record that makes Cloud Map familiar.
        if self.world.clusterset.has_lost_records {
            for process in self.all_clusters(0) {
                self.invoke(process, json!({ "action": "confirm" }), TIMEOUT);
            }
            self.finish(REST).await?;
        }
        self.look()?;
        self.settle();
        self.look()
    }

    /// What is under way comes to its end.
    async fn finish(&mut self, least: Duration) -> Result<(), String> {
        let mut waited = Duration::ZERO;
        while waited < least || !self.runs.is_empty() {
            let pause = Duration::from_secs(1);
            sleep(pause).await;
            waited += pause;
            self.runs.retain(|(_, run)| !run.is_finished());
            if waited > 8 * TIMEOUT {
                return Err("an invocation does not end within its time".to_owned());
            }
        }
        Ok(())
    }

    /// A full sync beside which nothing happens but trouble: what it may leave to the next one.
    async fn sync_in_trouble(&mut self, last: usize) -> Result<Option<Unread>, String> {
        if self.world.settings.is_dry || self.world.clusterset.is_on {
            return Ok(None);
        }
        // What was begun is done only some time after the run that began it.
        self.finish(Duration::ZERO).await?;
        self.finish(QUIET).await?;
        let report = self.direct(last % self.agreeing(), IN_TROUBLE).await?;
        Ok(self.may_leave(&report))
    }

    /// `None` if a sync says that something is left to do. Else it leaves what it may not read, and says so: a service
    /// in which its process has seen nothing of ours (`~ not read` in docs/runbook.md).
    fn may_leave(&self, report: &Report) -> Option<Unread> {
        if !report.ok || report.counts.held_back > 0 {
            return None;
        }
        let services = report.clusters.iter().flat_map(|it| &it.services);
        let unread = services.filter(|it| it.notes.iter().any(|it| it.note == NoteKind::NotRead));
        let unread: BTreeSet<_> = unread.map(|it| (it.namespace.clone(), &*it.name)).collect();
        let cloud_map = &self.fleet.cloud_map;
        let all = cloud_map.namespaces().into_iter().flat_map(|(id, name)| {
            cloud_map.services(&id).into_iter().map(move |it| (name.clone(), it))
        });
        let all = all.filter(|(namespace, it)| unread.contains(&(namespace.clone(), &*it.name)));
        Some(all.map(|(_, it)| it.id).collect())
    }

    /// One full sync, whose rules hold on the way.
    async fn sync(&mut self, number: usize) -> Result<Report, String> {
        self.direct(number, 1).await
    }

    /// Such a sync, of at most so many times the calls that are enough.
    async fn direct(&mut self, number: usize, times: usize) -> Result<Report, String> {
        let payload = json!({ "action": "sync" });
        let process = self.processes[number].clone();
        let before = self.size();
        self.fleet.cloud_map.forget_calls();
        let run = spawn_local(async move { Box::pin(process.invoke(&payload, TIMEOUT)).await });
        while !run.is_finished() {
            sleep(LOOK).await;
            self.look()?;
        }
        let answer = run.await.map_err(|error| format!("an invocation panicked: {error}"))?;
        let answer = answer.ok_or("an invocation does not end within its time")?;
        let calls = self.fleet.cloud_map.calls().len();
        let size = before + self.size();
        let flows = if self.world.clusterset.is_on { 2 } else { 1 };
        let most = times * (flows * CALLS + CALLS_OF_EACH * size);
        if calls > most {
            return Err(format!("an invocation makes {calls} calls, and {most} are enough"));
        }
        answer.report.ok_or_else(|| "an invocation has no report".to_owned())
    }

    /// Within two full syncs all is as the oracle has it, exports and imports after one, and then no process has anything
    /// to write. A sync that says that nothing is left to do leaves nothing to the next one.
    async fn come_to_rest(&mut self, last: usize, left: Option<Unread>) -> Result<(), String> {
        let (start, stood) = (self.registry(), clusterset::Stood::of(self));
        let mut reports = self.sync_all(last).await?;
        let first = self.registry();
        self.nothing_was_left(left)?;
        let left: Option<Vec<Unread>> = reports.iter().map(|it| self.may_leave(it)).collect();
        let left = left.filter(|_| !self.world.clusterset.is_on).map(|it| it.concat());
        // Of two functions the second one sees a loss of imports after the first one has let that of its exports pass.
        let waits = if self.world.clusterset.is_apart { 2 } else { 1 };
        for _ in 0..if self.world.settings.guard_minimum < 1000 { waits } else { 0 } {
            sleep(GUARD).await;
            reports.extend(self.sync_all(last).await?);
        }
        let shown = |problem: String, reports: &[Report]| {
            let reports: Vec<_> = reports.iter().map(in_full).collect();
            format!("{problem}\n{}", reports.join("\n"))
        };
        let is_whole = self.world.clusterset.is_on && self.world.settings.policy == "sync";
        // What a cluster had under a former id leaves the imports one sync after its records.
        if is_whole && !self.world.clusterset.has_lost_records {
            clusterset::at_rest(self).map_err(|it| shown(it, &reports))?;
        }
        reports.extend(self.sync_all(last).await?);
        self.nothing_was_left(left).map_err(|it| shown(it, &reports))?;
        let rest = self.registry();
        publish::at_rest(&self.world, &start, &rest).map_err(|it| shown(it, &reports))?;
        stood.at_rest(self).map_err(|it| shown(it, &reports))?;
        guard::held(&self.world, &start, &first, &rest).map_err(|it| shown(it, &reports))?;
        if is_whole {
            clusterset::at_rest(self).map_err(|it| shown(it, &reports))?;
        }
        if reports.last().is_none_or(|it| !it.ok) {
            return Err(shown("the last full sync is not good".to_owned(), &reports));
        }
        for number in 0..self.agreeing() {
            reports.push(self.sync(number).await?);
            let writes = self.take_writes();
            if !writes.is_empty() {
                return Err(shown(format!("at rest process {number} writes {writes:?}"), &reports));
            }
        }
        Ok(())
    }

    /// After a sync that says that nothing is left to do the next one writes nothing, but in the services that it may
    /// leave. A TTL rises one sync after another cluster has left the name.
    fn nothing_was_left(&self, left: Option<Unread>) -> Result<(), String> {
        let is_left = |it: &Call| {
            let unread = left.as_ref().zip(it.service.as_ref());
            it.operation == "UpdateService" || unread.is_some_and(|(all, it)| all.contains(it))
        };
        match &self.take_writes_but(is_left)[..] {
            writes if left.is_some() && !writes.is_empty() => {
                Err(format!("after a good sync the next one writes {writes:?}"))
            }
            _ => Ok(()),
        }
    }

    async fn sync_all(&mut self, last: usize) -> Result<Vec<Report>, String> {
        let mut reports = Vec::new();
        for process in self.all_clusters(last) {
            reports.push(self.sync(process).await?);
        }
        Ok(reports)
    }
}

fn in_full(report: &Report) -> String {
    let text = report.to_string();
    let parts = report.clusters.iter().filter_map(|it| it.multi_cluster.as_ref());
    let parts: Vec<_> = parts.map(|it| serde_json::to_string(it).expect("JSON")).collect();
    format!("{text}\n{}", parts.join("\n"))
}
