//! The processes of the function: how each is set, when it begins and ends, and what it is invoked with.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::report::Report;
use cloud_map_sync::time::{Clock, Deadline};
use serde_json::Value;
use tokio::sync::{Mutex, OnceCell};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use super::play::Scene;
use super::world::{AMBER, CLUSTERS};
use crate::queue::failures;
use testbed::Sandbox;
use testbed::clock::{StandInClock, tokio_clock};
use testbed::function::{Answer, TIMEOUT, invoke_until};
use testbed::gate::Gate;

/// The processes of the function.
pub const PROCESSES: usize = 3;

/// How long the credentials of a process last in a long story.
const CREDENTIALS: Duration = Duration::from_hours(6);
/// Until a message comes back.
const REDELIVERY: Duration = Duration::from_mins(1);

/// One process: created by its first invocation, with one invocation at a time.
pub struct Process {
    settings: Vec<(&'static str, String)>,
    sandbox: Sandbox,
    max_instance_reads: Option<usize>,
    clock: Clock,
    function: OnceCell<Function>,
    turn: Mutex<()>,
    /// The ids of services in which it saw something of ours in a good full sync.
    pub ours: RefCell<BTreeSet<String>>,
}

impl Process {
    /// The function, which begins with its first invocation.
    pub async fn function(&self) -> &Function {
        let new = async {
            let settings: Vec<_> =
                self.settings.iter().map(|(key, it)| (*key, it.as_str())).collect();
            let function = self.sandbox.function(&settings).await.with_clock(self.clock.clone());
            match self.max_instance_reads {
                Some(reads) => function.with_max_instance_reads(reads),
                None => function,
            }
        };
        Box::pin(self.function.get_or_init(|| new)).await
    }

    pub async fn invoke(&self, payload: &Value, time: Duration) -> Option<Answer> {
        let _turn = self.turn.lock().await;
        let function = self.function().await;
        let answer =
            timeout(time, invoke_until(function, payload, Deadline::after(time))).await.ok();
        if super::IS_SHOWN.load(Ordering::Relaxed) {
            let report = answer.as_ref().and_then(|it| it.report.as_ref());
            println!("{payload}: {}", report.map_or("no report".to_owned(), in_full));
        }
        answer
    }
}

impl Scene {
    /// Ends all processes, and starts others with the settings of the world.
    pub fn deploy(&mut self) {
        self.runs.drain(..).for_each(|(_, run)| run.abort());
        self.processes = (0..PROCESSES).map(|number| self.process(number)).collect();
        let [blue, green] = CLUSTERS.map(|cluster| self.fleet.sandbox.cluster_arn(cluster));
        let amber = blue.replace(CLUSTERS[0], AMBER);
        self.fleet.cloud_map.watch_over(self.world.settings.owner, &[&blue, &green, &amber]);
        self.ledger.forget();
        self.events = self.events();
    }

    fn process(&self, number: usize) -> Rc<Process> {
        let mut settings: BTreeMap<_, _> = self.world.settings.variables().into_iter().collect();
        settings.extend(self.world.clusterset.variables(number, &self.world.settings));
        settings.extend(self.more_settings.iter().map(|(key, it)| (*key, (*it).to_owned())));
        if number + 1 == PROCESSES {
            settings.extend(self.other_settings.iter().map(|(key, it)| (*key, (*it).to_owned())));
        }
        let settings = settings.into_iter().collect();
        let sandbox = if self.is_long {
            self.fleet.sandbox.with_credentials_for(CREDENTIALS)
        } else {
            self.fleet.sandbox.another_process()
        };
        let function = OnceCell::new();
        let turn = Mutex::default();
        let max_instance_reads = self.max_instance_reads;
        let ours = RefCell::default();
        let clock = self.stopped.as_ref().map_or_else(tokio_clock, StandInClock::clock);
        Rc::new(Process { settings, sandbox, max_instance_reads, clock, function, turn, ours })
    }

    /// Lets time pass for the function.
    pub async fn wait(&self, time: Duration) {
        match &self.stopped {
            Some(clock) => clock.advance(time),
            None => sleep(time).await,
        }
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
                    if !gate.admit(turn % 2) {
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
    pub fn all_clusters(&self, last: usize) -> Vec<usize> {
        if self.world.clusterset.is_apart { vec![0, 1, 0] } else { vec![last % self.agreeing()] }
    }

    /// The number of processes whose settings agree.
    pub fn agreeing(&self) -> usize {
        if self.other_settings.is_empty() { PROCESSES } else { PROCESSES - 1 }
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
                sleep(REDELIVERY).await;
            }
        });
        self.runs.push((process, run));
    }
}

pub fn in_full(report: &Report) -> String {
    let text = report.to_string();
    let parts = report.clusters.iter().filter_map(|it| it.multi_cluster.as_ref());
    let parts: Vec<_> = parts.map(|it| serde_json::to_string(it).expect("JSON")).collect();
    format!("{text}\n{}", parts.join("\n"))
}
