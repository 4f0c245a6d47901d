//! Plays the cases of a situation, each on a world and a runtime of its own. Time stands still except for waiting.

use std::collections::BTreeMap;
use std::time::Duration;

use cloud_map_sync::function::{Answer, Function};
use cloud_map_sync::time::Deadline;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::outcome::{self, State};
use super::situation::Situation;
use super::trouble::{Calls, Case};
use crate::fleet::Fleet;
use crate::logged::invoke_logged;
use testbed::clock::StandInClock;
use testbed::function::TIMEOUT;
use testbed::kubernetes::KubernetesServer;

/// The number of cases of a situation that are played if nobody asks for more.
const SAMPLE: usize = 8;
/// After this time nothing that was begun is under way any more.
pub const REST: Duration = Duration::from_mins(2);

/// The calls that come before those to Cloud Map and to the clusters.
const OF_EKS_AND_STS: [&str; 3] = ["DescribeCluster", "AssumeRole", "GetCallerIdentity"];

/// The most runs without faults that lead to the wanted state.
const RUNS: usize = 1;

/// One fault may make a run read everything again: it has twice the calls of an undisturbed run, and these.
const SPARE_CALLS: usize = 20;

/// The world of a case.
pub struct Stage {
    pub fleet: Fleet,
    pub green: KubernetesServer,
    pub clock: StandInClock,
    settings: &'static [(&'static str, &'static str)],
}

/// Plays an undisturbed run, then the cases that are asked for.
pub fn all(situation: &Situation) {
    let (calls, wanted) = on_a_runtime(undisturbed(situation));
    let budget = 2 * calls.cloud_map.len() + SPARE_CALLS;
    let cases = calls.cases();
    let chosen = chosen(cases, situation.name);
    let count = chosen.len();
    let (mut runs, mut broken) = ([0; RUNS + 1], Vec::new());
    for case in chosen {
        match on_a_runtime(disturbed(situation, &case, (&wanted, budget))) {
            Ok(needed) => runs[needed] += 1,
            Err(problem) => broken.push(format!("{} / {case}: {problem}", situation.name)),
        }
    }
    println!(
        "{}: {count} cases, by the runs that they needed afterwards: {runs:?}",
        situation.name
    );
    assert!(broken.is_empty(), "{} of {count} broke:\n{}", broken.len(), broken.join("\n\n"));
}

/// The same ones each time, spread over all calls, unless `SINGLE_FAULTS` asks for others.
fn chosen(cases: Vec<Case>, situation: &str) -> Vec<Case> {
    let named = |case: &Case| format!("{situation} / {case}");
    match std::env::var("SINGLE_FAULTS").ok().as_deref() {
        Some("all") => cases,
        Some(text) => cases.into_iter().filter(|case| named(case).contains(text)).collect(),
        None => {
            // A step that has no divisor in common with the kinds of a call meets all of them.
            let step = (cases.len() / SAMPLE).max(1) | 1;
            cases.into_iter().skip(step / 2).step_by(step).collect()
        }
    }
}

/// Does the work on a runtime of its own, in which time stands still except for waiting.
pub fn on_a_runtime<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().start_paused(true).build().expect("a runtime");
    runtime.block_on(Box::pin(work))
}

/// The calls of the run, and the state that it leads to.
async fn undisturbed(situation: &Situation) -> (Calls, State) {
    let stage = Stage::set(situation).await;
    let process = stage.process().await;
    (situation.change)(&stage);
    stage.forget_calls();
    let (answer, _) = stage.invoke(&process, situation).await.expect("an undisturbed run ends");
    let problem = answer.report.as_ref().map(ToString::to_string);
    let calls = stage.calls();
    sleep(REST).await;
    let wanted = State::of(&stage);
    let rest = outcome::rest(&stage, situation, &process, &wanted, RUNS).await;
    assert_eq!(rest, Ok(0), "{} without any fault: {problem:?}", situation.name);
    (calls, wanted)
}

/// The state that the run leads to.
pub async fn reached(situation: &Situation) -> State {
    let stage = Stage::set(situation).await;
    let process = stage.process().await;
    (situation.change)(&stage);
    stage.invoke(&process, situation).await.expect("an undisturbed run ends");
    sleep(REST).await;
    State::of(&stage)
}

/// Returns the number of runs without faults that were needed.
async fn disturbed(
    situation: &Situation,
    case: &Case,
    (wanted, budget): (&State, usize),
) -> Result<usize, String> {
    let stage = Stage::set(situation).await;
    let mut process = stage.process().await;
    let before = State::of(&stage);
    (situation.change)(&stage);
    if case.denies_a_service() {
        // A member's service can be deleted only once its records are gone, so without it its imports go rightly.
        outcome::keep_instances(&stage, &before, wanted);
    } else {
        outcome::keep(&stage, &before, wanted);
    }
    stage.forget_calls();
    case.strike(&stage);
    let answer = tokio::select! {
        answer = stage.invoke(&process, situation) => Some(answer?),
        () = stage.struck(), if case.kills => None,
    };
    let calls = stage.fleet.cloud_map.calls().len();
    let found = match &answer {
        Some((answer, log)) => outcome::of_run(&stage, case, answer, wanted)
            .await
            .and(outcome::without_secrets(&stage, answer, log))
            .and(outcome::within(case, calls, budget)),
        None => Ok(()),
    };
    if case.kills {
        process = stage.process().await;
    }
    sleep(REST).await;
    stage.heal();
    let rest = outcome::rest(&stage, situation, &process, wanted, RUNS).await;
    let report =
        answer.and_then(|(it, _)| it.report).map_or("killed".to_owned(), |it| it.to_string());
    let in_full = |problem: String| format!("{problem}\nThe disturbed run:\n{report}");
    let untouched = outcome::untouched(&stage, &before, wanted);
    found.and(untouched).and(rest).map_err(in_full)
}

impl Stage {
    /// The world as it is before the change.
    pub async fn set(situation: &Situation) -> Self {
        let fleet = Fleet::start().await;
        let green = fleet.green().await;
        let settings = situation.settings;
        let stage = Self { fleet, green, clock: StandInClock::new(), settings };
        (situation.before)(&stage);
        if situation.is_converged {
            let process = stage.process().await;
            let sync = serde_json::json!({ "action": "sync" });
            let answer = process.invoke(&sync, Deadline::after(TIMEOUT)).await;
            let report = answer.report.expect("a report");
            assert!(report.ok, "{}: before any fault: {report}", situation.name);
            sleep(REST).await;
        }
        stage
    }

    /// A process of the function that has just been started.
    pub async fn process(&self) -> Function {
        let settings = [("CLUSTERS", "blue,green"), ("GUARD_MINIMUM", "1000")];
        let own = settings.iter().filter(|(key, _)| self.settings.iter().all(|(it, _)| it != key));
        let all: Vec<_> = own.chain(self.settings).copied().collect();
        self.fleet.sandbox.function(&all).await.with_clock(self.clock.clock())
    }

    pub fn cluster(&self, name: &str) -> &KubernetesServer {
        if name == "blue" { &self.fleet.cluster } else { &self.green }
    }

    pub fn clusters(&self) -> [(&'static str, &KubernetesServer); 2] {
        [("blue", &self.fleet.cluster), ("green", &self.green)]
    }

    /// One invocation, which ends within its time, and the lines of its log.
    pub async fn invoke(
        &self,
        process: &Function,
        situation: &Situation,
    ) -> Result<(Answer, Vec<String>), String> {
        let payload: Value = (situation.cause)(self);
        let run = invoke_logged(process, &payload);
        timeout(TIMEOUT, run).await.map_err(|_| "the run did not end within its time".to_owned())
    }

    /// Returns when the fault has struck.
    async fn struck(&self) {
        let is_sound = || {
            let clusters = self.clusters().into_iter().all(|(_, cluster)| cluster.is_sound());
            clusters && self.fleet.cloud_map.is_sound()
        };
        while !is_sound() {
            sleep(Duration::from_millis(1)).await;
        }
    }

    fn heal(&self) {
        self.fleet.cloud_map.heal();
        self.fleet.sandbox.aws().faults.clear();
        self.clusters().into_iter().for_each(|(_, cluster)| cluster.clear_faults());
    }

    pub fn forget_calls(&self) {
        self.fleet.cloud_map.forget_calls();
        self.fleet.sandbox.aws().forget_requests();
        self.clusters().into_iter().for_each(|(_, cluster)| cluster.forget_requests());
    }

    fn calls(&self) -> Calls {
        let clusters = self.clusters().map(|(name, cluster)| (name, cluster.requests()));
        let mut aws = BTreeMap::new();
        for request in self.fleet.sandbox.aws().requests() {
            if OF_EKS_AND_STS.contains(&request.operation.as_str()) {
                *aws.entry(request.operation).or_default() += 1;
            }
        }
        Calls { cloud_map: self.fleet.cloud_map.calls(), clusters: clusters.into(), aws }
    }
}
