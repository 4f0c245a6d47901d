//! The turn of one Kubernetes Service, or of several that wait for one another: create, register and
//! wait, read again, then deregister what the second plan still removes. Whatever another party was at
//! meanwhile is decided anew. What waits for room in Cloud Map is left open, with all that follows it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use futures_util::{StreamExt, stream};
use tokio::time::timeout_at;

use super::change::Effect;
use super::record::{Identity, Record};
use super::{Outcome, Results, SIDE_BY_SIDE, Task, Terms};
use crate::cloud_map::CloudMap;
use crate::model::{CloudMapService, ServiceKey, ServiceRef};
use crate::plan::{Change, HeldBack, Observation, Place, Stage};
use crate::report::chain;

/// How often one Service is decided: once for its registrations, once for its removals, and once
/// more for what another party did meanwhile.
const LOOKS: usize = 3;
/// How often more where registrations wait for room: removals make it before them and after the first.
const LOOKS_FOR_ROOM: usize = 2;
/// Why something was not tried near the deadline.
pub(super) const NO_TIME: &str = "the time of this invocation is used up";

/// What is done in one turn.
pub(super) struct Turn<'a> {
    pub(super) cloud_map: CloudMap,
    pub(super) observation: Observation,
    pub(super) terms: Terms,
    pub(super) task: &'a Task<'a>,
    /// What Cloud Map said where it takes no more instances.
    pub(super) full: Mutex<BTreeMap<ServiceKey, String>>,
    /// The Services whose turn it is.
    services: BTreeSet<ServiceRef>,
    pub(super) record: Record<'a>,
}

impl<'a> Turn<'a> {
    pub(super) fn new(
        task: &'a Task<'a>,
        observation: Observation,
        terms: Terms,
        settled_before: &'a BTreeSet<Identity>,
    ) -> Self {
        Self {
            cloud_map: task.registry().cloud_map().with(terms.urgency),
            observation,
            terms,
            full: Mutex::default(),
            task,
            services: BTreeSet::new(),
            record: Record::new(settled_before),
        }
    }

    pub(super) async fn take(mut self, changes: BTreeMap<ServiceRef, Vec<Change>>) -> Results {
        self.services = changes.keys().cloned().collect();
        let mut changes = self.record.announce(changes);
        let waiting: Vec<Change> =
            changes.iter().filter(|it| it.waits_for_room()).cloned().collect();
        let looks = LOOKS + if waiting.is_empty() { 0 } else { LOOKS_FOR_ROOM };
        let mut left = Vec::new();
        for look in 1..=looks {
            let (now, later) = due(changes, look);
            let stuck = look > 1 && now.iter().all(|change| self.record.is_settled(change));
            let contested = self.make_all(now).await;
            if later.is_empty() && contested.is_empty() {
                break;
            }
            if look == looks || stuck || !self.terms.deadline.is_open() {
                self.fail_contested(contested);
                left = later;
                break;
            }
            changes = self.decide_again(later, contested).await;
        }
        left.retain(|change| !change.waits_for_room());
        self.record.leave(waiting, left, self.terms.deadline.is_open());
        self.record.results
    }

    /// Makes changes stage by stage, and returns those that another party was at.
    async fn make_all(&mut self, changes: Vec<Change>) -> Vec<Change> {
        let mut contested = Vec::new();
        for stage in Stage::ALL {
            let (turn, services) = (&*self, &self.arns());
            let due = changes.iter().filter(|change| change.stage() == stage);
            let due = due.filter(|change| !turn.record.is_settled(change));
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

    /// Reads what the open changes rest on, and plans them, a second time.
    async fn decide_again(&mut self, later: Vec<Change>, contested: Vec<Change>) -> Vec<Change> {
        let anew: BTreeSet<Place> = contested.iter().map(|it| it.place().clone()).collect();
        let open = [later, contested].concat();
        // Its ARN makes a namespace one that is there, whoever's turn created it.
        for namespace in self.observation.registry.namespaces.values_mut() {
            let created = || self.task.registry().new_namespaces().arn(&namespace.name);
            namespace.arn = namespace.arn.take().or_else(created);
        }
        // What others did to a service itself is seen where it is read as if it were new.
        for change in open.iter().filter(|change| change.stage() == Stage::Update) {
            self.observation.registry.services.remove(&change.place().key);
        }
        let decided = self.task.decide_again(self.observation.clone(), &self.services, &open);
        let mut plan = match timeout_at(self.terms.deadline.stop(), decided).await {
            Ok(Ok((observation, plan))) => {
                self.observation = observation;
                plan
            }
            Ok(Err(error)) => {
                self.settle_all(open, &Outcome::Failed(chain(&error)));
                return Vec::new();
            }
            Err(_) => {
                self.settle_all(open, &Outcome::Undone(NO_TIME.to_owned()));
                return Vec::new();
            }
        };
        self.fail_unreadable(open);
        // What room there is was told by the plan of all.
        let own = |it: &HeldBack| self.services.contains(&it.service) && !it.reason.is_about_room();
        plan.held_back.retain(own);
        self.record.results.held_back.extend(plan.held_back);
        plan.changes.retain(|service, _| self.services.contains(service));
        let mut changes = self.record.remember(plan.changes);
        changes.retain(|change| self.record.is_announced(change, &anew));
        let come = registrations_at(&changes, |_| true);
        changes.retain(|it| it.stage() != Stage::Create || come.contains(it.place()));
        changes
    }

    /// In a service that cannot be read the second time nothing is removed, and that is a failure.
    fn fail_unreadable(&mut self, open: Vec<Change>) {
        for change in open {
            let service = self.observation.registry.services.get(&change.place().key);
            if let Some(problem) = service.and_then(|service| service.unreadable.clone()) {
                self.settle(change, Outcome::Failed(problem));
            }
        }
    }

    fn arns(&self) -> BTreeMap<ServiceKey, String> {
        let services = self.observation.registry.services.iter();
        services.map(|(key, service)| (key.clone(), service.arn.clone())).collect()
    }

    fn created(&mut self, change: &Change, arn: String) {
        if let Change::CreateService { place, service } = change {
            let mut created = CloudMapService::created(arn, service.name.as_str(), service.kind);
            created.custom_health = service.custom_health;
            self.observation.registry.services.insert(place.key.clone(), created);
        }
        self.settle(change.clone(), Outcome::Applied);
    }

    /// What others were at to the end has failed.
    fn fail_contested(&mut self, contested: Vec<Change>) {
        for change in contested {
            let text = format!("cannot {change}: another party keeps changing it");
            self.settle(change, Outcome::Failed(text));
        }
    }

    fn settle_all(&mut self, changes: Vec<Change>, outcome: &Outcome) {
        for change in changes {
            self.settle(change, outcome.clone());
        }
    }

    fn settle(&mut self, change: Change, outcome: Outcome) {
        if outcome == Outcome::Applied {
            self.observation.note(&change);
        }
        self.record.settle(change, outcome);
    }
}

/// Which changes are made at this look, and which after another. Removals are never made on the first
/// look: by the second, registrations are done and everything has been read again. A service is created
/// with its first instance.
fn due(changes: Vec<Change>, look: usize) -> (Vec<Change>, Vec<Change>) {
    let come = registrations_at(&changes, |change| !change.waits_for_room());
    changes.into_iter().partition(|change| match change {
        Change::CreateService { place, .. } => come.contains(place),
        Change::Register { waits_for, .. } => waits_for.is_none(),
        Change::Deregister { waits_for, .. } => look > 1 && waits_for.is_none(),
        _ => true,
    })
}

/// Where an instance is registered by such a change.
fn registrations_at(changes: &[Change], such: impl Fn(&Change) -> bool) -> BTreeSet<Place> {
    let registrations = changes.iter().filter(|it| it.stage() == Stage::Register && such(it));
    registrations.map(|change| change.place().clone()).collect()
}
