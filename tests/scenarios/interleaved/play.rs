//! Plays a pair in one order. Time stands still but for waiting: if it goes on by a millisecond, both processes wait for
//! the gate or for a time of their own. Then the next step is chosen.

use std::cell::Cell;
use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::time::Deadline;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::pair::Pair;
use super::schedule::{Each, Schedule};
use crate::faults::outcome::{self, State};
use crate::faults::play::{REST, Stage, on_a_runtime};
use testbed::cloud_map::Behaviour;
use testbed::function::TIMEOUT;
use testbed::gate::Gate;

/// The processes, and beside them the change of the world.
const CHANGE: usize = 2;

/// The states before and after the change.
pub struct Rehearsed {
    /// What stays of it in the other one is ready throughout.
    kept: State,
    wanted: State,
}

/// Plays the orders that `INTERLEAVINGS` asks for.
pub fn all(pair: &Pair) {
    let Ok(asked) = std::env::var("INTERLEAVINGS") else { return };
    let interruptions = if asked == "all" { usize::MAX } else { asked.parse().expect("a number") };
    let rehearsed = Rehearsed::of(pair);
    let mut each = Each::with(interruptions);
    let (mut count, mut broken) = (0, Vec::new());
    loop {
        each.begin();
        broken.extend(on_a_runtime(played(pair, &rehearsed, &mut each)).err());
        count += 1;
        if !each.next() {
            break;
        }
    }
    println!("{}: {count} orders", pair.situation.name);
    assert!(broken.is_empty(), "{} of {count} broke:\n{}", broken.len(), broken.join("\n\n"));
}

/// Plays one order, and returns the problem.
pub fn once(pair: &Pair, rehearsed: &Rehearsed, schedule: &mut impl Schedule) -> Option<String> {
    on_a_runtime(played(pair, rehearsed, schedule)).err()
}

impl Rehearsed {
    /// The states to which full syncs lead, with nothing beside them.
    pub fn of(pair: &Pair) -> Self {
        on_a_runtime(async {
            let stage = Stage::set(&pair.situation).await;
            (pair.already)(&stage);
            let kept = in_step(&stage).await;
            (pair.situation.change)(&stage);
            Self { kept, wanted: in_step(&stage).await }
        })
    }
}

async fn in_step(stage: &Stage) -> State {
    sync(&stage.process().await).await;
    sleep(REST).await;
    State::of(stage)
}

async fn played(
    pair: &Pair,
    rehearsed: &Rehearsed,
    schedule: &mut impl Schedule,
) -> Result<(), String> {
    let stage = Stage::set(&pair.situation).await;
    let mut processes = Vec::new();
    for _ in 0..2 {
        let (process, key) = stage.another_process().await;
        // It knows the names from then on, as a process does that has run before.
        sync(&process).await;
        processes.push((process, key));
    }
    let before = State::of(&stage);
    (pair.already)(&stage);
    outcome::keep(&stage, &rehearsed.kept, &rehearsed.wanted);
    let operation_delay = pair.operations;
    stage.fleet.cloud_map.behave(Behaviour { operation_delay, ..Behaviour::default() });
    let gate = Gate::holding(&[&processes[0].1, &processes[1].1]);
    stage.hold_at(&gate);
    let ended = [Cell::new(false), Cell::new(false)];
    let run = async |index: usize| {
        let (process, payload): (&Function, &Value) = (&processes[index].0, &pair.causes[index]);
        drop(process.invoke(payload, Deadline::after(TIMEOUT)).await);
        ended[index].set(true);
    };
    let steps = Cell::new(Vec::new());
    let order = async { steps.set(order(pair, &stage, &gate, &ended, schedule).await) };
    tokio::join!(run(0), run(1), order);
    gate.open();
    sleep(REST).await;
    let wanted = &rehearsed.wanted;
    let rest = outcome::rest(&stage, &pair.situation, &processes[0].0, wanted, 1).await;
    let untouched = outcome::untouched(&stage, &before, wanted);
    let in_full = |problem: String| format!("{problem}\nThe steps:\n{}", steps.take().join("\n"));
    untouched.and(rest.map(drop)).map_err(in_full)
}

/// Lets one call in after the other until both invocations have ended, and returns the steps.
async fn order(
    pair: &Pair,
    stage: &Stage,
    gate: &Gate,
    ended: &[Cell<bool>; 2],
    schedule: &mut impl Schedule,
) -> Vec<String> {
    let (mut taken, mut last, mut is_changed) = (Vec::new(), None, false);
    while !is_changed || !ended.iter().all(Cell::get) {
        sleep(Duration::from_millis(1)).await;
        let waiting = gate.waiting();
        let mut steps: Vec<usize> = (0..2).filter(|index| waiting[*index]).collect();
        let is_waited_for = !steps.is_empty() || ended.iter().all(Cell::get);
        steps.extend((!is_changed && is_waited_for).then_some(CHANGE));
        if steps.is_empty() {
            continue;
        }
        let goes_on = last.is_some_and(|last| steps.contains(&last));
        steps.sort_by_key(|step| Some(*step) != last);
        let step = steps[schedule.choose(steps.len(), goes_on)];
        match step {
            CHANGE => {
                (pair.situation.change)(stage);
                is_changed = true;
                taken.push("the world changes".to_owned());
            }
            process => {
                let call = gate.admit(process);
                taken.extend(call.map(|call| format!("{} {call}", ["A", "B"][process])));
            }
        }
        last = Some(step);
    }
    taken
}

async fn sync(process: &Function) {
    let answer = process.invoke(&json!({ "action": "sync" }), Deadline::after(TIMEOUT)).await;
    let report = answer.report.expect("a report");
    assert!(report.ok, "{report}");
}
