//! A Cloud Map in memory and a small model of `apply`: registrations first, then everything that the
//! changes rest on is read again, and only what the second plan still removes, waiting for nothing,
//! goes. Every single call is checked against what must never happen.

use std::collections::{BTreeMap, BTreeSet};

use super::world::{World, tagged};
use crate::model::{Attributes, CloudMapService, Selection, ServiceKey, ServiceKind, ServiceRef};
use crate::plan::{
    Adoption, Again, Change, Extent, Holders, Observation, Plan, Rules, Stage, adopt, affected,
    in_turns, plan,
};

/// How often one Service is read and decided again, as in `apply`.
const LOOKS: usize = 3;

/// How a sync goes on.
#[derive(Clone, Debug)]
pub struct Course {
    pub rules: Rules,
    /// All Services take their turns at the same time, or one after the other.
    pub side_by_side: bool,
    /// Which calls fail, by their number from 0: those whose bit is set.
    pub failing: u64,
}

/// The world as it is: what it says of endpoints and instances is the truth.
#[derive(Clone, Debug)]
pub struct Simulation {
    pub world: World,
    pub course: Course,
    calls: u32,
    /// Who held each name when the present sync began.
    pub holders: BTreeMap<ServiceKey, ServiceRef>,
}

type Settled = (Stage, ServiceKey, Option<String>);

/// The turn of one Kubernetes Service, or of several that wait for one another.
struct Turn {
    services: BTreeSet<ServiceRef>,
    observation: Observation,
    changes: Vec<Change>,
    announced: BTreeSet<Settled>,
    settled: BTreeSet<Settled>,
}

impl Simulation {
    pub fn new(world: World, course: Course) -> Self {
        let world = world.under(course.rules.clone());
        Self { world, course, calls: 0, holders: BTreeMap::new() }
    }

    /// What a run sees: services that are empty and unclaimed are not read, nor are the endpoints of
    /// Services that it is not about.
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
        for (name, service) in &mut observation.desired.services {
            service.endpoints.take_if(|_| !affected.contains(name));
        }
        (observation, affected)
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
        let (observation, affected) = self.observe(selection);
        let plan = plan(&observation, &affected);
        let strangers: Vec<_> = plan.changes.keys().filter(|it| !affected.contains(*it)).collect();
        assert!(strangers.is_empty(), "{strangers:?} are changed by a sync of {affected:?}");
        let held = self.held(&plan);
        let holders = Holders::decide(&observation);
        self.holders = holders.held().map(|(key, it)| (key.clone(), it.clone())).collect();
        let turns = in_turns(plan.changes).into_iter();
        let mut turns: Vec<Turn> =
            turns.map(|changes| Turn::new(changes, &observation, &holders)).collect();
        if self.course.side_by_side {
            for look in 1..=LOOKS {
                for turn in &mut turns {
                    self.look(turn, look);
                }
            }
        } else {
            for turn in &mut turns {
                (1..=LOOKS).for_each(|look| self.look(turn, look));
            }
        }
        self.assert_that_they_stay(&held);
        self.calls - before
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
        let (mut now, later): (Vec<_>, Vec<_>) =
            turn.changes.drain(..).partition(|change| match change {
                Change::Deregister { waits_for, .. } => look > 1 && waits_for.is_none(),
                _ => true,
            });
        now.sort_by_key(Change::stage);
        for change in now {
            if turn.settled.insert(identity(&change)) {
                self.make(&change);
            }
        }
        turn.changes = later;
    }

    /// Reads again what is open, as `World::observe_again` does, and plans it again.
    fn decide_again(&self, turn: &mut Turn) {
        if turn.changes.is_empty() {
            return;
        }
        let holders = Holders::decide(&turn.observation);
        let again = Again::of(&holders, &turn.services, &turn.changes);
        let (truth, seen) = (&self.world.0, &mut turn.observation);
        for key in &again.keys {
            if let Some(service) = truth.registry.services.get(key) {
                seen.registry.services.insert(key.clone(), service.clone());
            }
        }
        for service in &again.services {
            match truth.desired.services.get(service) {
                Some(it) => _ = seen.desired.services.insert(service.clone(), it.clone()),
                None => _ = seen.desired.services.remove(service),
            }
        }
        let mut plan = plan(seen, &again.services);
        plan.changes.retain(|service, _| turn.services.contains(service));
        turn.changes = plan.changes.into_values().flatten().collect();
        turn.changes.retain(|change| {
            change.stage() != Stage::Deregister || turn.announced.contains(&identity(change))
        });
    }

    /// One call. It fails where the course says so, and where there is no service to call it for.
    fn make(&mut self, change: &Change) {
        let fails = self.course.failing.checked_shr(self.calls).unwrap_or(0) & 1 == 1;
        self.calls += 1;
        if fails {
            return;
        }
        let key = change.place().key.clone();
        if let Change::CreateService { service, .. } = change {
            let (arn, name) = (format!("arn-{}", key.name), service.name.as_str());
            let mut created = CloudMapService::created(arn, name, service.kind);
            if service.kind != ServiceKind::Http {
                created.ttls.insert(service.ttl);
            }
            created.tags = tagged(&self.world.0.owner.id);
            let former = self.world.0.registry.services.insert(key, created);
            assert_eq!(former, None, "{change}: it exists");
            return;
        }
        if !self.world.0.registry.services.contains_key(&key) {
            return;
        }
        match change {
            Change::Register { instance, attributes, .. } => {
                let present = self.instance(&key, instance);
                assert_eq!(present, None, "{change}: somebody has that id");
                self.instances(&key).insert(instance.clone(), attributes.clone());
            }
            Change::Rewrite { instance, attributes, .. } => {
                self.assert_ours(change);
                self.instances(&key).insert(instance.clone(), attributes.clone());
            }
            Change::Adopt { instance, present, attributes, .. } => {
                assert_eq!(self.instance(&key, instance), Some(present), "{change}");
                self.instances(&key).insert(instance.clone(), attributes.clone());
            }
            Change::Deregister { instance, .. } => {
                self.assert_may_go(change);
                self.instances(&key).remove(instance);
                self.assert_still_served(change);
            }
            Change::UpdateService { update, .. } => {
                let registry = &mut self.world.0.registry;
                let service = registry.services.get_mut(&key).expect("the service is there");
                assert_eq!(service.tags, tagged("cloud-map-sync"), "{change}: it is not ours");
                assert_eq!(service.kind, ServiceKind::Dns(update.records), "{change}");
                service.ttls = [update.ttl].into();
            }
            Change::CreateService { .. } => {}
        }
    }

    fn instances(&mut self, key: &ServiceKey) -> &mut BTreeMap<String, Attributes> {
        let service = self.world.0.registry.services.get_mut(key).expect("the service is there");
        service.instances.as_mut().expect("its instances were read")
    }

    pub fn instance(&self, key: &ServiceKey, id: &str) -> Option<&Attributes> {
        self.world.0.registry.services[key].instances.as_ref()?.get(id)
    }

    /// Everything that is not ours.
    pub fn foreign(&self) -> Vec<(ServiceKey, String, Attributes)> {
        let registry = &self.world.0.registry;
        let all = registry.services.keys().flat_map(|key| {
            registry.instances(key).map(move |(id, attributes)| (key, id, attributes))
        });
        let foreign = all.filter(|(_, _, it)| !self.world.0.owner.owns(it));
        foreign.map(|(key, id, it)| (key.clone(), id.clone(), it.clone())).collect()
    }
}

impl Turn {
    fn new(
        changes: BTreeMap<ServiceRef, Vec<Change>>,
        observation: &Observation,
        holders: &Holders,
    ) -> Self {
        let services = changes.keys().cloned().collect();
        let changes: Vec<Change> = changes.into_values().flatten().collect();
        let again = Again::of(holders, &services, &changes);
        let observation = again.narrow(observation, holders);
        let removals = changes.iter().filter(|change| change.stage() == Stage::Deregister);
        let announced = removals.map(identity).collect();
        Self { services, observation, changes, announced, settled: BTreeSet::new() }
    }
}

fn identity(change: &Change) -> Settled {
    let instance = change.instance().map(str::to_owned);
    (change.stage(), change.place().key.clone(), instance)
}
