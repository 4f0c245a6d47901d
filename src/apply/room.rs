//! Another turn for the Services whose instances wait for room: when the others are done, there is what
//! they made. It is decided on another read, and goes on while there is progress.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::timeout_at;

use super::record::{Identity, identity};
use super::turn::NO_TIME;
use super::{Applied, Outcome, Results, Task, Terms, take_turns};
use crate::model::ServiceRef;
use crate::plan::{Change, Observation, Plan, Stage};
use crate::report::chain;

/// How often: the last instance under a name goes after the first newcomer, and gives its place to one
/// that may be what another Service waits for.
const TIMES: usize = 3;

/// What is open, by the Service that it is made for.
type Changes = BTreeMap<ServiceRef, Vec<Change>>;

/// The removals among these changes. In no later turn anything else goes: the first plan saw all Services, and the
/// guard what it would lose.
pub(super) fn removals(changes: &Changes) -> BTreeSet<Identity> {
    let all = changes.values().flatten();
    all.filter(|change| change.stage() == Stage::Deregister).map(identity).collect()
}

/// Goes on where the turns of `results`, which were taken on `observation`, left something waiting.
pub(super) async fn take_more_turns(
    task: &Task<'_>,
    mut observation: Observation,
    mut results: Results,
    announced: &BTreeSet<Identity>,
    terms: Terms,
) -> Results {
    observation.registry.room = observation.room();
    observation.note_all(&results.applied);
    for _ in 0..TIMES {
        let changes = match decide(task, &mut observation, &results.waiting, terms).await {
            Ok(plan) => results.go_on_with(plan, announced),
            Err(outcome) => {
                results.give_up(|_| outcome.clone());
                break;
            }
        };
        let settled = results.applied.iter().map(|applied| identity(&applied.change)).collect();
        let more = take_turns(task, &observation, changes, terms, &settled).await;
        observation.note_all(&more.applied);
        let progress = more.applied.iter().any(|applied| applied.outcome == Outcome::Applied);
        results.applied.extend(more.applied);
        results.held_back.extend(more.held_back);
        results.waiting = more.waiting;
        if !progress || results.waiting.is_empty() {
            break;
        }
    }
    let open = terms.deadline.is_open();
    results.give_up(|change| Outcome::of_waiting(change, open));
    results
}

/// Reads again what the waiting changes rest on, and plans their Services anew.
async fn decide(
    task: &Task<'_>,
    observation: &mut Observation,
    waiting: &Changes,
    terms: Terms,
) -> Result<Plan, Outcome> {
    let open: Vec<Change> = waiting.values().flatten().cloned().collect();
    let services: BTreeSet<ServiceRef> = waiting.keys().cloned().collect();
    let decided = task.decide_again(observation.clone(), &services, &open);
    match timeout_at(terms.deadline.stop(), decided).await {
        Ok(Ok((seen, plan))) => {
            *observation = seen;
            Ok(plan)
        }
        Ok(Err(error)) => Err(Outcome::Failed(chain(&error))),
        Err(_) => Err(Outcome::Undone(NO_TIME.to_owned())),
    }
}

impl Observation {
    fn note_all(&mut self, applied: &[Applied]) {
        let done = applied.iter().filter(|applied| applied.outcome == Outcome::Applied);
        done.for_each(|applied| self.note(&applied.change));
    }
}

impl Results {
    /// The changes of the Services that were waiting, as they are planned now.
    fn go_on_with(&mut self, mut plan: Plan, announced: &BTreeSet<Identity>) -> Changes {
        let waiting = std::mem::take(&mut self.waiting);
        plan.held_back.retain(|held_back| waiting.contains_key(&held_back.service));
        self.held_back.extend(plan.held_back);
        plan.changes.retain(|service, _| waiting.contains_key(service));
        for changes in plan.changes.values_mut() {
            changes.retain(|change| {
                change.stage() != Stage::Deregister || announced.contains(&identity(change))
            });
        }
        plan.changes
    }

    /// What still waits has waited in vain.
    fn give_up(&mut self, outcome: impl Fn(&Change) -> Outcome) {
        for (service, changes) in std::mem::take(&mut self.waiting) {
            let applied = changes.into_iter().map(|change| {
                let outcome = outcome(&change);
                Applied { service: service.clone(), change, outcome }
            });
            self.applied.extend(applied);
        }
    }
}
