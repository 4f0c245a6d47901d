//! Apply: carries a plan out, one Kubernetes Service after another and several side by side. Within
//! a Service: create, register and wait, read again, then deregister what the second plan still
//! removes. One Service's failure stops no other, and near the deadline nothing new begins.

mod change;

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};

use crate::cloud_map::CloudMap;
use crate::deadline::Deadline;
use crate::model::{CloudMapService, ServiceKey, ServiceRef};
use crate::observe::{self, World};
use crate::plan::{Again, Change, Holders, Observation, Policy, Reason, Stage, plan};

use change::Effect;

/// How many Services are served side by side. The calls themselves are bounded by the client.
const SIDE_BY_SIDE: usize = 32;
/// How often one Service is read and decided again: once for its removals, once more for what
/// another party did meanwhile.
const LOOKS: usize = 3;

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Not tried: a plan, or a dry run.
    Planned,
    /// Cloud Map has carried it out.
    Applied,
    /// Not done, and a retry would not help.
    HeldBack(Reason),
    /// Tried, and failed.
    Failed(String),
    /// Not tried, since there was no time or something before it failed.
    Undone(String),
}

/// A change of one Kubernetes Service and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The Service whose turn it was.
    pub service: ServiceRef,
    /// The change.
    pub change: Change,
    /// What became of it.
    pub outcome: Outcome,
}

/// Carries out the changes of a plan, made from `observation` under `policy`. `rotation` shifts which Service comes first, so that runs that
/// are cut short do not starve the same ones.
pub async fn apply(
    world: &World<'_>,
    observation: &Observation,
    policy: Policy,
    changes: BTreeMap<ServiceRef, Vec<Change>>,
    deadline: Deadline,
    rotation: usize,
) -> Vec<Applied> {
    let mut turns: Vec<(ServiceRef, Vec<Change>)> = changes.into_iter().collect();
    let holders = Holders::decide(observation);
    let count = turns.len().max(1);
    turns.rotate_left(rotation % count);
    let turns = turns.into_iter().map(|(service, changes)| {
        let again = Again::of(&holders, &service, &changes);
        let turn = Turn {
            world,
            cloud_map: world.registry.cloud_map(),
            observation: again.narrow(observation, &holders),
            service,
            policy,
            deadline,
            settled: BTreeSet::new(),
            announced: BTreeSet::new(),
            applied: Vec::new(),
        };
        turn.take(changes)
    });
    let mut applied: Vec<Applied> =
        stream::iter(turns).buffer_unordered(SIDE_BY_SIDE).collect::<Vec<_>>().await.concat();
    applied.sort_by(|a, b| a.change.order().cmp(&b.change.order()));
    applied
}

/// What is done for one Kubernetes Service.
struct Turn<'a> {
    world: &'a World<'a>,
    cloud_map: &'a CloudMap,
    observation: Observation,
    service: ServiceRef,
    policy: Policy,
    deadline: Deadline,
    /// The changes that have an outcome: none is made twice.
    settled: BTreeSet<Identity>,
    /// The removals of the first plan.
    announced: BTreeSet<Identity>,
    applied: Vec<Applied>,
}

/// What tells two changes of one Service apart.
type Identity = (Stage, ServiceKey, Option<String>);

impl Turn<'_> {
    async fn take(mut self, mut changes: Vec<Change>) -> Vec<Applied> {
        let removals = changes.iter().filter(|change| change.stage() == Stage::Deregister);
        self.announced = removals.map(identity).collect();
        for look in 1..=LOOKS {
            let (now, later) = due(changes, look);
            let stuck =
                look > 1 && now.iter().all(|change| self.settled.contains(&identity(change)));
            let contested = self.make_all(now).await;
            if later.is_empty() && contested.is_empty() {
                break;
            }
            if look == LOOKS || stuck || !self.deadline.is_open() {
                self.leave(later, contested);
                break;
            }
            let open: Vec<Change> = [later, contested].concat();
            changes = match self.decide_again(&open).await {
                Ok(changes) => changes,
                Err(error) => {
                    let outcome = Outcome::Failed(crate::report::chain(&error));
                    for change in open {
                        self.settle(change, outcome.clone());
                    }
                    break;
                }
            };
        }
        self.applied
    }

    /// Makes changes stage by stage, and returns those that another party was at.
    async fn make_all(&mut self, changes: Vec<Change>) -> Vec<Change> {
        let mut contested = Vec::new();
        for stage in [Stage::Create, Stage::Register, Stage::Deregister] {
            let (turn, services) = (&*self, &self.services());
            let due = changes.iter().filter(|change| change.stage() == stage);
            let due = due.filter(|change| !turn.settled.contains(&identity(change)));
            let made: Vec<(&Change, Effect)> = stream::iter(due)
                .map(|change| async move { (change, turn.make(change, services).await) })
                .buffer_unordered(SIDE_BY_SIDE)
                .collect()
                .await;
            for (change, effect) in made {
                match effect {
                    Effect::Is(outcome) => self.settle(change.clone(), outcome),
                    Effect::Again => contested.push(change.clone()),
                    Effect::Created(arn) => self.created(change, arn),
                }
            }
            if stage == Stage::Create && !contested.is_empty() {
                // What was to be registered there is decided anew, on what is there now.
                break;
            }
        }
        contested
    }

    /// Reads what the changes rest on a second time, and plans it a second time.
    async fn decide_again(&mut self, open: &[Change]) -> Result<Vec<Change>, observe::Error> {
        let holders = Holders::decide(&self.observation);
        let again = Again::of(&holders, &self.service, open);
        let observation = self.observation.clone();
        let services = &again.services;
        self.observation = self.world.observe_again(observation, &again.keys, services).await?;
        let mut plan = plan(&self.observation, self.policy, services);
        let changes = plan.changes.remove(&self.service).unwrap_or_default();
        // Only what the first plan removed is removed: the rest was not announced and can wait.
        let keep = |change: &Change| {
            change.stage() != Stage::Deregister || self.announced.contains(&identity(change))
        };
        Ok(changes.into_iter().filter(keep).collect())
    }

    fn services(&self) -> BTreeMap<ServiceKey, String> {
        let services = self.observation.registry.services.iter();
        services.map(|(key, service)| (key.clone(), service.arn.clone())).collect()
    }

    fn created(&mut self, change: &Change, arn: String) {
        if let Change::CreateService { place, service } = change {
            let id = arn.rsplit('/').next().unwrap_or_default().to_owned();
            let created = CloudMapService::created(id, arn, service.name.as_str(), service.kind);
            self.observation.registry.services.insert(place.key.clone(), created);
        }
        self.settle(change.clone(), Outcome::Applied);
    }

    /// Removals that still wait stay, and say what for. What others were at to the end has failed.
    fn leave(&mut self, later: Vec<Change>, contested: Vec<Change>) {
        let open = self.deadline.is_open();
        for change in later {
            let outcome = match &change {
                Change::Deregister { instance, waits_for: Some(wait), .. } if open => {
                    let (instance, waits_for) = (instance.clone(), wait.to_string());
                    Outcome::HeldBack(Reason::Waiting { instance, waits_for })
                }
                _ => Outcome::Undone("the time of this invocation is used up".to_owned()),
            };
            self.settle(change, outcome);
        }
        for change in contested {
            let text = format!("cannot {change}: another party keeps changing it");
            self.settle(change, Outcome::Failed(text));
        }
    }

    fn settle(&mut self, change: Change, outcome: Outcome) {
        self.settled.insert(identity(&change));
        self.applied.push(Applied { service: self.service.clone(), change, outcome });
    }
}

/// Which changes are made at this look, and which after another. Removals are never made on the first
/// look: by the second, registrations are done and everything has been read again.
fn due(changes: Vec<Change>, look: usize) -> (Vec<Change>, Vec<Change>) {
    changes.into_iter().partition(|change| match change {
        Change::Deregister { waits_for, .. } => look > 1 && waits_for.is_none(),
        _ => true,
    })
}

fn identity(change: &Change) -> Identity {
    let instance = change.instance().map(str::to_owned);
    (change.stage(), change.place().key.clone(), instance)
}
