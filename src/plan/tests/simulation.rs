//! A small model of `apply` on a Cloud Map in memory (`calls`): registrations first, then everything
//! that the changes rest on is read again, and only what the second plan still removes, waiting for
//! nothing, goes.

use std::collections::{BTreeMap, BTreeSet};

use super::turn::{self, Settled, Turn, identity};
use super::world::World;
use crate::model::{KnownHealth, Selection, ServiceKey, ServiceRef};
use crate::plan::{
    Adoption, Again, Change, Extent, Holders, Observation, Plan, Rules, Stage, adopt, affected,
    health_needed, plan,
};

/// How often those that wait for room get another turn, as in `apply`.
const MORE_TURNS: usize = 3;

/// How a sync goes on.
#[derive(Clone, Debug)]
pub struct Course {
    pub rules: Rules,
    /// All Services take their turns at the same time, or one after the other.
    pub side_by_side: bool,
    /// Which calls fail, by their number from 0: those whose bit is set.
    pub failing: u64,
    /// A registration over an instance starts its health anew; if it does not, that is seen later.
    pub resets: bool,
    /// The health of what this sync registered is not told before the next one.
    pub late: bool,
}

impl Course {
    /// Nothing comes between, and whoever is first by name takes its turn first.
    pub fn undisturbed() -> Self {
        let rules = Rules::default();
        Self { rules, side_by_side: false, failing: 0, resets: true, late: false }
    }
}

/// The world as it is: what it says of endpoints and instances is the truth.
#[derive(Clone, Debug)]
pub struct Simulation {
    pub world: World,
    pub course: Course,
    pub(super) calls: u32,
    /// What the present sync registered.
    pub(super) fresh: BTreeSet<(ServiceKey, String)>,
    /// Who held each name when the present sync began.
    pub holders: BTreeMap<ServiceKey, Vec<ServiceRef>>,
}

impl Simulation {
    pub fn new(world: World, course: Course) -> Self {
        let mut world = world.under(course.rules.clone());
        world.0.expect_namespaces();
        Self { world, course, calls: 0, fresh: BTreeSet::new(), holders: BTreeMap::new() }
    }

    /// What a run sees: services that are empty and unclaimed are not read, nor are the endpoints of
    /// Services that it is not about, nor is health where nobody asks for it.
    pub fn observe(&self, selection: &Selection) -> (Observation, BTreeSet<ServiceRef>) {
        let mut observation = self.world.0.clone();
        observation.extent = match selection {
            Selection::Everything => Extent::Everything,
            Selection::Only { .. } => Extent::Part,
        };
        let holders = Holders::decide(&observation);
        for (key, service) in &mut observation.registry.services {
            if holders.holder(key).is_none() {
                service.instances.take_if(|instances| instances.is_empty());
            }
        }
        let affected = affected(&observation, selection);
        let read = Holders::decide(&observation).with_sharers(&affected);
        for (name, service) in &mut observation.desired.services {
            service.endpoints.take_if(|_| !read.contains(name));
        }
        self.read_health(&mut observation, &affected);
        (observation, affected)
    }

    fn read_health(&self, observation: &mut Observation, services: &BTreeSet<ServiceRef>) {
        let asked = health_needed(observation, services);
        for (key, service) in &mut observation.registry.services {
            if !asked.contains(key) {
                service.health = KnownHealth::Unread;
            } else if let KnownHealth::Read(known) = &mut service.health {
                let is_fresh = |id: &String| self.fresh.contains(&(key.clone(), id.clone()));
                known.retain(|id, _| !(self.course.late && is_fresh(id)));
            }
        }
    }

    pub fn plan(&self, selection: &Selection) -> (Plan, BTreeSet<ServiceRef>) {
        let (observation, affected) = self.observe(selection);
        (plan(&observation, &affected), affected)
    }

    /// One adoption, as far as it takes instances of others. Returns them.
    pub fn adopt(&mut self, adoption: &Adoption) -> Vec<Change> {
        let (observation, affected) = self.observe(&Selection::Everything);
        let plan = adopt(&observation, &affected, adoption);
        let changes = plan.changes.into_values().flatten();
        let changes: Vec<Change> = changes.filter(|it| it.stage() == Stage::Adopt).collect();
        for change in &changes {
            self.make(change);
        }
        changes
    }

    /// One sync. Returns how many calls it made.
    pub fn sync(&mut self, selection: &Selection) -> u32 {
        let before = self.calls;
        self.fresh.clear();
        let (observation, affected) = self.observe(selection);
        let plan = plan(&observation, &affected);
        let strangers: Vec<_> = plan.changes.keys().filter(|it| !affected.contains(*it)).collect();
        assert!(strangers.is_empty(), "{strangers:?} are changed by a sync of {affected:?}");
        let held = self.held(&plan);
        let holders = Holders::decide(&observation);
        self.holders =
            holders.keys().map(|key| (key.clone(), holders.holders(key).to_vec())).collect();
        let removals = plan.changes.values().flatten().filter(|it| it.stage() == Stage::Deregister);
        let announced: BTreeSet<Settled> = removals.map(identity).collect();
        let mut turns = turn::all(plan.changes, &observation, &BTreeSet::new());
        for _ in 0..=MORE_TURNS {
            self.take(&mut turns);
            turns = self.turns_of_those_that_wait_for_room(turns, &announced);
        }
        self.assert_that_they_stay(&held);
        self.calls - before
    }

    fn take(&mut self, turns: &mut [Turn]) {
        if self.course.side_by_side {
            for look in 1..=turns.iter().map(Turn::looks).max().unwrap_or(0) {
                let turns = turns.iter_mut().filter(|turn| look <= turn.looks());
                turns.for_each(|turn| self.look(turn, look));
            }
        } else {
            for turn in turns {
                (1..=turn.looks()).for_each(|look| self.look(turn, look));
            }
        }
    }

    /// As in `apply`: when all have had their turn, those that wait for room are looked at again, and
    /// nothing goes that the first plan did not announce.
    fn turns_of_those_that_wait_for_room(
        &self,
        turns: Vec<Turn>,
        announced: &BTreeSet<Settled>,
    ) -> Vec<Turn> {
        let turns: Vec<Turn> = turns.into_iter().filter(|turn| !turn.left().is_empty()).collect();
        let waiting: BTreeSet<ServiceRef> =
            turns.iter().flat_map(|it| it.services.clone()).collect();
        let open: Vec<Change> = turns.iter().flat_map(Turn::left).collect();
        let (mut observation, _) = self.observe(&Selection::Everything);
        observation.extent = Extent::Again;
        let again = Again::of(&Holders::decide(&observation), &waiting, &open);
        let mut changes = plan(&observation, &again.services).changes;
        changes.retain(|service, _| waiting.contains(service));
        for changes in changes.values_mut() {
            changes.retain(|change| {
                change.stage() != Stage::Deregister || announced.contains(&identity(change))
            });
        }
        let settled = turns.into_iter().flat_map(|turn| turn.settled).collect();
        turn::all(changes, &observation, &settled)
    }

    /// Time passes between two syncs.
    pub fn wait(&mut self) {
        let wait = self.course.rules.guard.wait;
        self.world.0.now = self.world.0.now.saturating_add(wait).expect("a time");
    }

    fn look(&mut self, turn: &mut Turn, look: usize) {
        if look > 1 {
            self.decide_again(turn);
        }
        for change in turn.due(look) {
            if turn.settled.insert(identity(&change)) && self.make(&change) {
                turn.observation.note(&change);
            }
        }
    }

    /// Reads again what is open, as `World::observe_again` does, and plans it again.
    fn decide_again(&self, turn: &mut Turn) {
        if turn.changes.is_empty() {
            return;
        }
        let holders = Holders::decide(&turn.observation);
        let again = Again::of(&holders, &turn.services, &turn.changes);
        let (truth, seen) = (&self.world.0, &mut turn.observation);
        let there = truth.registry.namespaces.clone();
        seen.registry.namespaces.extend(there);
        for key in &again.keys {
            if let Some(service) = truth.registry.services.get(key) {
                seen.registry.services.insert(key.clone(), service.clone());
            }
        }
        for service in &again.read {
            match truth.desired.services.get(service) {
                Some(it) => _ = seen.desired.services.insert(service.clone(), it.clone()),
                None => _ = seen.desired.services.remove(service),
            }
        }
        self.read_health(seen, &again.services);
        let mut plan = plan(seen, &again.services);
        plan.changes.retain(|service, _| turn.services.contains(service));
        turn.go_on(plan.changes);
    }
}
