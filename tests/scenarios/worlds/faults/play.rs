//! Plays the cases of a situation, each on a world and a runtime of its own. Time stands still except for waiting.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use super::super::play::{LOOK, Scene, on_a_runtime};
use super::super::world::CLUSTERS;
use super::outcome::{self, State};
use super::situation::Situation;
use super::trouble::{Calls, Case};
use crate::logged::invoke_logged;
use crate::multi_cluster::writes;
use testbed::clock::StandInClock;
use testbed::cloud_map::Call;
use testbed::function::{Answer, TIMEOUT};

/// The number of cases of a situation that are played by default.
const SAMPLE: usize = 8;
/// After this time nothing that was begun is under way any more.
pub const REST: Duration = Duration::from_mins(2);
/// A process ends so soon after the fault.
const AT_ONCE: Duration = Duration::from_millis(1);

/// The beginnings of the names of cases that broke once, which are always played.
const FOUND: [&str; 1] =
    ["mass loss / ListTagsForResource 2, Error(400, \"ResourceNotFoundException\""];

/// The calls that come before those to Cloud Map and to the clusters.
const OF_EKS_AND_STS: [&str; 3] = ["DescribeCluster", "AssumeRole", "GetCallerIdentity"];

/// The most runs without faults that lead to the wanted state.
const RUNS: usize = 1;

/// One fault may make a run read everything again: it has twice the calls of an undisturbed run, and these.
const SPARE_CALLS: usize = 20;

/// The process in which a call goes wrong: one that has just begun.
const DISTURBED: usize = 1;

/// Plays an undisturbed run, then the cases that are asked for.
pub fn all(situation: &Situation) {
    let (calls, wanted) = on_a_runtime(undisturbed(situation));
    let budget = 2 * calls.cloud_map.len() + SPARE_CALLS;
    let chosen = chosen(calls.cases(), situation.name);
    let count = chosen.len();
    let mut runs = [0; RUNS + 1];
    let mut broken = Vec::new();
    for case in chosen {
        match on_a_runtime(disturbed(situation, &case, (&wanted, budget))) {
            Ok(needed) => runs[needed] += 1,
            Err(problem) => broken.push(format!("{} / {case}: {problem}", situation.name)),
        }
    }
    let name = situation.name;
    println!("{name}: {count} cases, by the runs that they needed afterwards: {runs:?}");
    assert!(broken.is_empty(), "{} of {count} broke:\n{}", broken.len(), broken.join("\n\n"));
}

/// The same ones each time, spread over all calls, and those of `FOUND`, unless `SINGLE_FAULTS` asks for others.
fn chosen(cases: Vec<Case>, situation: &str) -> Vec<Case> {
    let named = |case: &Case| format!("{situation} / {case}");
    match std::env::var("SINGLE_FAULTS").ok().as_deref() {
        Some("all") => cases,
        Some(text) => cases.into_iter().filter(|case| named(case).contains(text)).collect(),
        None => {
            // A step that has no divisor in common with the kinds of a call meets all of them.
            let step = (cases.len() / SAMPLE).max(1) | 1;
            let is_found = |case: &Case| FOUND.iter().any(|it| named(case).starts_with(it));
            let all = cases.into_iter().enumerate();
            let chosen = all.filter(|(at, case)| at % step == step / 2 || is_found(case));
            chosen.map(|(_, case)| case).collect()
        }
    }
}

/// The calls of the run, and the state that it leads to, which is right by the oracle of the worlds.
async fn undisturbed(situation: &Situation) -> (Calls, State) {
    let (mut scene, calls, answer) = after_a_run(situation).await;
    let problem = answer.report.as_ref().map(ToString::to_string);
    let wanted = State::of(&scene);
    let rest = scene.leads_to(situation, &wanted).await;
    assert_eq!(rest, Ok(0), "{} without any fault: {problem:?}", situation.name);
    if let Err(broken) = scene.come_to_rest(DISTURBED, None).await {
        panic!("{} without any fault: {broken}", situation.name);
    }
    (calls, wanted)
}

/// The state that the run leads to.
pub async fn reached(situation: &Situation) -> State {
    State::of(&after_a_run(situation).await.0)
}

/// The world after an undisturbed run, with the calls of the run and its answer.
async fn after_a_run(situation: &Situation) -> (Scene, Calls, Answer) {
    let mut scene = Scene::of(situation).await;
    scene.changed(situation).await;
    let run = scene.run((situation.cause)(), false).await;
    let calls = scene.made();
    let (answer, _) = run.expect("its rules hold").expect("an undisturbed run ends");
    sleep(REST).await;
    (scene, calls, answer)
}

/// Returns the number of runs without faults that were needed.
async fn disturbed(
    situation: &Situation,
    case: &Case,
    (wanted, budget): (&State, usize),
) -> Result<usize, String> {
    let mut scene = Scene::of(situation).await;
    let before = State::of(&scene);
    scene.changed(situation).await;
    outcome::keep(&mut scene, &before, wanted, case.denies_a_service());
    case.strike(&scene);
    let run = scene.run((situation.cause)(), case.kills).await?;
    let calls = scene.fleet.cloud_map.calls().len();
    let found = match &run {
        Some((answer, log)) => outcome::of_run(&scene, case, answer, wanted)
            .await
            .and(outcome::without_secrets(&scene, answer, log))
            .and(outcome::within(case, calls, budget)),
        None => Ok(()),
    };
    if case.kills {
        scene.kill(DISTURBED);
    }
    sleep(REST).await;
    scene.heal();
    let rest = scene.leads_to(situation, wanted).await;
    let report = run.and_then(|(it, _)| it.report).map_or("killed".to_owned(), |it| it.to_string());
    let in_full = |problem: String| format!("{problem}\nThe disturbed run:\n{report}");
    found.and(outcome::untouched(&mut scene)).and(rest).map_err(in_full)
}

impl Scene {
    /// The world as it is before the change.
    pub async fn of(situation: &Situation) -> Self {
        let mut scene =
            Self::begin(situation.has_exports, |it| it.stopped = Some(StandInClock::new())).await;
        scene.configure(situation.settings);
        (situation.before)(&mut scene);
        scene.deploy();
        if situation.is_converged {
            let report = scene.sync(0).await.expect("its rules hold");
            assert!(report.ok, "{}: before any fault: {report}", situation.name);
            sleep(REST).await;
        }
        scene
    }

    /// Makes the change, and lets the time pass that comes after it.
    pub async fn changed(&mut self, situation: &Situation) {
        (situation.change)(self);
        self.wait(situation.pauses[0]).await;
        self.forget_calls();
    }

    fn configure(&mut self, settings: &'static [(&'static str, &'static str)]) {
        for (key, value) in settings {
            let known = &mut self.world.settings;
            match *key {
                "CLUSTERS" => known.clusters = value,
                "CREATE_NAMESPACES" => known.creates_namespaces = true,
                "GUARD_MINIMUM" => known.guard_minimum = value.parse().expect("a number"),
                _ => self.more_settings.push((key, value)),
            }
        }
    }

    /// One invocation of the process that is disturbed, which ends within its time, with the lines of its log; nothing if
    /// it is killed when the fault has struck.
    pub async fn run(
        &mut self,
        payload: Value,
        kills: bool,
    ) -> Result<Option<(Answer, Vec<String>)>, String> {
        let process = self.processes[DISTURBED].clone();
        let run = spawn_local(async move {
            let run = async { invoke_logged(process.function().await, &payload).await };
            timeout(TIMEOUT, Box::pin(run)).await.ok()
        });
        while !run.is_finished() {
            sleep(if kills { AT_ONCE } else { LOOK }).await;
            self.look_at_changes()?;
            if kills && self.has_struck() {
                run.abort();
                return Ok(None);
            }
        }
        let answer = run.await.map_err(|error| format!("an invocation panicked: {error}"))?;
        answer.map(Some).ok_or_else(|| "the run did not end within its time".to_owned())
    }

    /// Whether no call is left that is to fail.
    fn has_struck(&self) -> bool {
        let mut clusters = (0..CLUSTERS.len()).map(|number| self.cluster(number).is_sound());
        clusters.all(|it| it) && self.fleet.cloud_map.is_sound()
    }

    fn forget_calls(&self) {
        self.fleet.sandbox.aws().forget_requests();
        self.take_writes();
    }

    /// The calls since they were forgotten.
    fn made(&self) -> Calls {
        let requests = |number: usize| self.cluster(number).requests();
        let clusters =
            CLUSTERS.into_iter().enumerate().map(|(number, name)| (name, requests(number)));
        let mut aws = BTreeMap::new();
        for request in self.fleet.sandbox.aws().requests() {
            if OF_EKS_AND_STS.contains(&request.operation.as_str()) {
                *aws.entry(request.operation).or_default() += 1;
            }
        }
        Calls { cloud_map: self.fleet.cloud_map.calls(), clusters: clusters.collect(), aws }
    }

    /// So many runs at most lead to the wanted state, and the one after writes nothing. Returns how many were needed.
    pub async fn leads_to(
        &mut self,
        situation: &Situation,
        wanted: &State,
    ) -> Result<usize, String> {
        let was_wanted = State::of(self) == *wanted;
        let mut reports = String::new();
        for _ in 0..RUNS {
            reports += &self.again(situation).await?;
            sleep(REST).await;
        }
        let is = State::of(self);
        if is != *wanted {
            let difference = is.difference(wanted);
            return Err(format!("after {RUNS} runs without faults {difference}\n{reports}"));
        }
        self.forget_calls();
        reports += &self.again(situation).await?;
        let calls = self.fleet.cloud_map.calls().into_iter();
        let calls: Vec<_> = calls.filter(Call::is_write).collect();
        let requests = [0, 1].map(|number| writes(self.cluster(number))).concat();
        if calls.is_empty() && requests.is_empty() {
            return Ok(if was_wanted { 0 } else { RUNS });
        }
        Err(format!("at rest it writes {calls:?} {requests:?}\n{reports}"))
    }

    async fn again(&mut self, situation: &Situation) -> Result<String, String> {
        self.wait(situation.pauses[1]).await;
        let (answer, _) = self.run((situation.again)(), false).await?.expect("no fault");
        let report = answer.report.map(|report| report.to_string());
        report.ok_or_else(|| format!("no report without faults: {:?}", answer.response))
    }
}
