//! A story as it happens: moves one after the other, invocations beside them, and a look at the registry every few
//! milliseconds. Time stands still but for waiting, so that the same story takes the same course.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cloud_map_sync::function::{Answer, Function};
use cloud_map_sync::report::Report;
use cloud_map_sync::time::Deadline;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use tokio::sync::{Mutex, OnceCell};
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

use super::moves::{self, Move};
use super::oracle::invariants::Ledger;
use super::oracle::{self, Registry, publish};
use super::world::{CLUSTERS, Namespace, World};
use crate::faults::play::on_a_runtime;
use crate::fleet::Fleet;
use testbed::Sandbox;
use testbed::clock::tokio_clock;
use testbed::cloud_map::{Behaviour, Call, NamespaceKind};
use testbed::function::TIMEOUT;
use testbed::kubernetes::KubernetesServer;

/// The processes of the function.
pub const PROCESSES: usize = 3;

const LOOK: Duration = Duration::from_millis(25);
/// After so long nothing that was begun is under way any more.
const REST: Duration = Duration::from_mins(2);
/// A run that ended leaves no operation behind after so long.
const QUIET: Duration = Duration::from_mins(2);
/// Longer than `GUARD_WAIT`.
const GUARD: Duration = Duration::from_mins(11);

/// A full sync that nothing disturbs makes at most so many calls, and so many more for each namespace, service and
/// instance before and after it.
const CALLS: usize = 20;
const CALLS_OF_EACH: usize = 6;

/// The moves of a world, and how long operations take in it.
#[derive(Clone)]
pub struct Story {
    /// What is there before the function has run.
    before: Vec<Move>,
    is_converged: bool,
    operation_delay: u64,
    list_lag: u64,
    steps: Vec<(Move, u64)>,
    last: usize,
}

/// Random stories of all moves.
pub fn story() -> impl Strategy<Value = Story> {
    let pauses = select(&[0, 0, 10, 50, 200, 1000, 4000][..]);
    let all = (
        vec(moves::of_world(), 2..10),
        prop::bool::weighted(0.8),
        select(&[30, 30, 300, 3000, 20_000, 90_000][..]),
        select(&[0, 0, 0, 500][..]),
        vec((moves::any(), pauses), 2..24),
        0..PROCESSES,
    );
    all.prop_map(|(before, is_converged, operation_delay, list_lag, steps, last)| Story {
        before,
        is_converged,
        operation_delay,
        list_lag,
        steps,
        last,
    })
}

impl fmt::Display for Story {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operations, lag) = (self.operation_delay, self.list_lag);
        writeln!(text, "Operations take {operations} ms, lists lag by {lag} ms. Before:")?;
        self.before.iter().try_for_each(|it| writeln!(text, "- {it}"))?;
        if self.is_converged {
            writeln!(text, "- a full sync")?;
        }
        writeln!(text, "Then:")?;
        self.steps.iter().try_for_each(|(it, pause)| writeln!(text, "- {it}; {pause} ms"))?;
        writeln!(text, "Trouble ends, and process {} syncs.", self.last)
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

/// The world, the stand-ins that show it, and the processes of the function.
pub struct Scene {
    pub world: World,
    pub fleet: Fleet,
    pub ledger: Ledger,
    green: KubernetesServer,
    behaviour: Behaviour,
    processes: Vec<Arc<Process>>,
    runs: Vec<(usize, JoinHandle<()>)>,
    quiet: Duration,
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
        timeout(time, function.invoke(payload, Deadline::after(time))).await.ok()
    }
}

/// The number of services and instances.
fn size(registry: &Registry) -> usize {
    registry.values().map(|held| 1 + held.instances.len()).sum()
}

impl Scene {
    async fn play(story: &Story) -> Result<(), String> {
        let mut scene = Self::set(story).await;
        for it in &story.before {
            scene.make(it);
        }
        if story.is_converged {
            scene.sync(0).await?;
        }
        scene.look()?;
        for (it, pause) in &story.steps {
            scene.make(it);
            scene.look()?;
            scene.pass(Duration::from_millis(*pause)).await?;
        }
        scene.end_trouble().await?;
        scene.come_to_rest(story.last).await
    }

    async fn set(story: &Story) -> Self {
        let fleet = Fleet::start().await;
        let green = fleet.green().await;
        let mut world = World::default();
        for (id, name, kind) in [
            (&fleet.http, "prod", NamespaceKind::Http),
            (&fleet.dns, "prod.local", NamespaceKind::DnsPrivate),
        ] {
            world.namespaces.push(Namespace { id: id.clone(), name, kind, is_shared: false });
        }
        let time = Duration::from_millis;
        let behaviour = Behaviour {
            operation_delay: time(story.operation_delay),
            list_lag: time(story.list_lag),
            ..Behaviour::default()
        };
        fleet.cloud_map.behave(behaviour.clone());
        let (ledger, runs, processes) = (Ledger::default(), Vec::new(), Vec::new());
        let quiet = Duration::ZERO;
        let mut scene = Self { world, fleet, ledger, green, behaviour, processes, runs, quiet };
        scene.deploy();
        scene
    }

    /// The API server of a cluster.
    pub fn cluster(&self, number: usize) -> &KubernetesServer {
        if number == 0 { &self.fleet.cluster } else { &self.green }
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
        self.processes = (0..PROCESSES).map(|_| self.process()).collect();
        let arns = CLUSTERS.map(|cluster| self.fleet.sandbox.cluster_arn(cluster));
        self.fleet.cloud_map.watch_over(self.world.settings.owner, &[&arns[0], &arns[1]]);
        self.ledger.forget();
    }

    fn process(&self) -> Arc<Process> {
        let (settings, sandbox) = (self.world.settings.variables(), self.fleet.sandbox.clone());
        let (function, turn) = (OnceCell::new(), Mutex::default());
        Arc::new(Process { settings, sandbox, function, turn })
    }

    /// Ends a process in the middle of what it does.
    pub fn kill(&mut self, number: usize) {
        self.runs.iter().filter(|(of, _)| *of == number).for_each(|(_, run)| run.abort());
        self.processes[number] = self.process();
    }

    /// Begins an invocation, which takes its turn in its process.
    pub fn invoke(&mut self, process: usize, payload: Value, time: Duration) {
        let invoked = self.processes[process].clone();
        let run = spawn_local(async move { drop(Box::pin(invoked.invoke(&payload, time)).await) });
        self.runs.push((process, run));
    }

    fn make(&mut self, it: &Move) {
        it.make(self);
    }

    /// Lets time pass, and looks at the registry meanwhile.
    async fn pass(&mut self, time: Duration) -> Result<(), String> {
        let mut left = time;
        while !left.is_zero() {
            let pause = LOOK.min(left);
            sleep(pause).await;
            left -= pause;
            self.runs.retain(|(_, run)| !run.is_finished());
            self.quiet = if self.runs.is_empty() { self.quiet + pause } else { Duration::ZERO };
            if self.quiet >= QUIET {
                self.ledger.is_quiet();
            }
            self.look()?;
        }
        Ok(())
    }

    pub fn registry(&self) -> Registry {
        oracle::registry(&self.fleet, &self.world)
    }

    fn look(&mut self) -> Result<(), String> {
        let registry = self.registry();
        self.ledger.look(&self.world, &registry)?;
        if self.world.settings.is_dry {
            let calls = self.fleet.cloud_map.calls().into_iter();
            let writes: Vec<_> = calls.filter(Call::is_write).map(|it| it.operation).collect();
            self.fleet.cloud_map.forget_calls();
            if !writes.is_empty() {
                return Err(format!("DRY_RUN is on, and the function writes: {writes:?}"));
            }
        }
        match &self.fleet.cloud_map.take_violations()[..] {
            [] => Ok(()),
            violations => Err(format!("something foreign was touched: {}", violations.join("\n"))),
        }
    }

    /// All trouble ends, and what is under way comes to its end.
    async fn end_trouble(&mut self) -> Result<(), String> {
        if self.world.settings.is_dry {
            self.world.settings.is_dry = false;
            self.deploy();
        }
        self.fleet.cloud_map.heal();
        self.fleet.sandbox.aws().faults.clear();
        self.behave(|it| *it = Behaviour::default());
        for number in 0..CLUSTERS.len() {
            self.cluster(number).clear_faults();
            self.cluster(number).give_back();
        }
        let mut waited = Duration::ZERO;
        while waited < REST || !self.runs.is_empty() {
            let pause = Duration::from_secs(1);
            sleep(pause).await;
            waited += pause;
            self.runs.retain(|(_, run)| !run.is_finished());
            if waited > 4 * TIMEOUT {
                return Err("an invocation does not end within its time".to_owned());
            }
        }
        self.look()?;
        self.ledger.is_quiet();
        self.look()
    }

    /// One full sync, whose rules hold on the way.
    async fn sync(&mut self, number: usize) -> Result<Report, String> {
        self.direct(number, json!({ "action": "sync" })).await
    }

    async fn direct(&mut self, number: usize, payload: Value) -> Result<Report, String> {
        let process = self.processes[number].clone();
        let before = size(&self.registry());
        self.fleet.cloud_map.forget_calls();
        let run = spawn_local(async move { Box::pin(process.invoke(&payload, TIMEOUT)).await });
        while !run.is_finished() {
            sleep(LOOK).await;
            self.look()?;
        }
        let answer = run.await.map_err(|error| format!("an invocation panicked: {error}"))?;
        let answer = answer.ok_or("an invocation does not end within its time")?;
        let calls = self.fleet.cloud_map.calls().len();
        let size = self.world.namespaces.len() + before + size(&self.registry());
        let most = CALLS + CALLS_OF_EACH * size;
        if calls > most {
            return Err(format!("an invocation makes {calls} calls, and {most} are enough"));
        }
        answer.report.ok_or_else(|| "an invocation has no report".to_owned())
    }

    /// Within two full syncs all is as the oracle has it, and then no process has anything to write.
    async fn come_to_rest(&mut self, last: usize) -> Result<(), String> {
        let start = self.registry();
        let first = self.sync(last).await?;
        if self.world.settings.guard_minimum < 1000 {
            sleep(GUARD).await;
            self.sync(last).await?;
        }
        let second = self.sync(last).await?;
        let rest = self.registry();
        let shown = |problem: String| format!("{problem}\n{first}\n{second}");
        publish::at_rest(&self.world, &start, &rest).map_err(shown)?;
        if !second.ok {
            return Err(shown("the second full sync is not good".to_owned()));
        }
        self.fleet.cloud_map.forget_calls();
        for number in 0..PROCESSES {
            let report = self.sync(number).await?;
            // What Cloud Map refuses is tried again at once in a run that a person begins.
            let calls = self.fleet.cloud_map.calls().into_iter();
            let calls = calls.filter(|it| it.is_write() && it.status == 200);
            let calls: Vec<_> = calls.map(|it| it.operation).collect();
            if !calls.is_empty() {
                return Err(shown(format!("at rest process {number} writes {calls:?}:\n{report}")));
            }
        }
        Ok(())
    }
}
