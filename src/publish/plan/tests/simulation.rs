//! The sync of groups on a Cloud Map in memory (`calls`), in place of `apply`: its reads return the world as it is, and
//! its changes are made in that world.

use std::collections::{BTreeMap, BTreeSet};

use super::clusters::Interruption;
use super::world::World;
use crate::model::{Selection, ServiceKey, ServiceRef};
use crate::publish::group::{GroupSync, Results, Step, Target};
use crate::publish::plan::{
    Adoption, Change, ChangesByService, Extent, Holders, Observation, Permits, Plan, PlanPhase,
    Rules, Stage, Task, depends_on_additions, in_groups, namespaces, plan,
};

/// The course of a sync.
#[derive(Clone, Debug)]
pub struct Course {
    pub rules: Rules,
    /// All Services take their turns at the same time, or one after the other.
    pub side_by_side: bool,
    /// The calls that fail: call n, counted from 0, fails if bit n is set.
    pub failing: u64,
    /// The number of instances that Cloud Map takes in a namespace.
    pub namespace_quota: usize,
}

impl Course {
    /// Nothing comes between, and the Services take their turns in the order of their names.
    pub fn undisturbed() -> Self {
        let rules = Rules::default();
        Self { rules, side_by_side: false, failing: 0, namespace_quota: 2000 }
    }
}

/// The world as it is: its endpoints and instances are the truth.
#[derive(Clone, Debug)]
pub struct Simulation {
    pub world: World,
    pub course: Course,
    pub(super) calls: u32,
    pub(super) writes: u32,
    /// The namespaces in which Cloud Map refused a registration of the present sync.
    pub(super) refusals: BTreeSet<String>,
    /// The holder of each name when the present sync began.
    pub holders: BTreeMap<ServiceKey, ServiceRef>,
    /// Another cluster's sync that comes in the middle of this one's.
    pub interruption: Option<Interruption>,
}

impl Simulation {
    pub fn new(world: World, course: Course) -> Self {
        let mut world = world.under(course.rules.clone());
        namespaces::expect_missing(&mut world.0);
        let (refusals, holders, interruption) = Default::default();
        let calls = 0;
        let writes = 0;
        Self { world, course, calls, writes, refusals, holders, interruption }
    }

    /// The observation of a run. It does not read services that are empty and unclaimed, or endpoints of Services that it
    /// is not about.
    pub fn observe(&self, selection: &Selection) -> Observation {
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
        let mut observed = observation.decided(selection);
        for (name, service) in &mut observed.desired.services {
            service.endpoints.take_if(|_| !observed.affected.contains(name));
        }
        observed
    }

    pub fn plan(&self, selection: &Selection) -> (Plan, BTreeSet<ServiceRef>) {
        let observed = self.observe(selection);
        (plan(&observed), observed.affected)
    }

    /// Adopts instances of others, and returns the changes.
    pub fn adopt(&mut self, adoption: &Adoption) -> Vec<Change> {
        let plan = adoption.plan(&self.observe(&Selection::Everything));
        let changes = plan.changes.into_values().flatten();
        let changes: Vec<Change> = changes.filter(|it| it.stage() == Stage::Adopt).collect();
        for change in &changes {
            self.make(change, false);
        }
        changes
    }

    /// One sync. Returns the number of calls that changed something.
    pub fn sync(&mut self, selection: &Selection) -> u32 {
        let before = self.writes;
        self.refusals.clear();
        let observed = self.observe(selection);
        let plan = plan(&observed);
        let affected = &observed.affected;
        let unparsable_services: Vec<_> =
            plan.changes.keys().filter(|service| !affected.contains(*service)).collect();
        assert!(
            unparsable_services.is_empty(),
            "{unparsable_services:?} are changed by a sync of {affected:?}"
        );
        let held = self.held(&plan);
        self.holders = observed
            .holders
            .with_holders()
            .map(|(key, holder)| (key.clone(), holder.clone()))
            .collect();
        let permits = Permits::of(&plan);
        let failed_targets = BTreeSet::new();
        if depends_on_additions(&observed, &plan) {
            let mut plan = plan;
            let made = self.take(&observed, plan.take_additions(), None, &failed_targets);
            let mut after = observed.clone();
            made.enter(&mut after);
            after.phase = PlanPhase::AfterAdditions;
            after.decide_holders();
            let again = self::plan(&after);
            let permits = Permits::of(&again).intersect(&permits);
            let failed_targets = made.failed_targets().collect();
            self.take(&after, again.changes, Some(&permits), &failed_targets);
        } else {
            self.take(&observed, plan.changes, Some(&permits), &failed_targets);
        }
        self.assert_that_they_stay(&held);
        self.writes - before
    }

    fn take(
        &mut self,
        observed: &Observation,
        changes: ChangesByService,
        permits: Option<&Permits>,
        failed_targets: &BTreeSet<Target>,
    ) -> Results {
        let groups = in_groups(changes).into_iter();
        let mut groups: Vec<GroupSync> = groups
            .map(|changes| GroupSync::new(Task::Sync, observed, changes, permits, failed_targets))
            .collect();
        let mut is_over = vec![false; groups.len()];
        while is_over.iter().any(|is_over| !is_over) {
            for (group, is_over) in groups.iter_mut().zip(&mut is_over) {
                while !*is_over {
                    *is_over = self.step(group);
                    if self.course.side_by_side {
                        break;
                    }
                }
            }
        }
        let mut results = Results::default();
        for group in groups {
            results.extend(group.into_results());
        }
        results
    }

    /// One step of a group. Returns whether the group is over.
    fn step(&mut self, group: &mut GroupSync) -> bool {
        match group.next(true) {
            Step::Make(changes) => {
                // Those of one round are under way together.
                let known = group.observation.registry.capacity.clone();
                for planned in changes {
                    let knows_full = known.refusal(&planned.change.place().key).is_some();
                    let effect = self.make(&planned.change, knows_full);
                    group.record(planned, effect);
                }
            }
            Step::Read(again) => {
                let mut seen = group.observation.clone();
                self.read_again(&mut seen, &again.keys, &again.services);
                group.observed(again.decide(seen));
            }
            Step::ReadEndpoints(read) => {
                let services = read.services.into_keys().collect();
                let mut seen = group.observation.clone();
                self.read_again(&mut seen, &BTreeSet::new(), &services);
                group.endpoints_read(seen.desired);
            }
            Step::Done => return true,
        }
        false
    }

    /// Does the same reads as `ClusterRun::observe_again`.
    fn read_again(
        &self,
        seen: &mut Observation,
        keys: &BTreeSet<ServiceKey>,
        services: &BTreeSet<ServiceRef>,
    ) {
        let truth = &self.world.0;
        seen.registry.namespaces.extend(truth.registry.namespaces.clone());
        for key in keys {
            if let Some(service) = truth.registry.services.get(key) {
                seen.registry.services.insert(key.clone(), service.clone());
            }
        }
        for service in services {
            match truth.desired.services.get(service) {
                Some(it) => _ = seen.desired.services.insert(service.clone(), it.clone()),
                None => _ = seen.desired.services.remove(service),
            }
        }
    }

    /// Time passes between two syncs.
    pub fn wait(&mut self) {
        let wait = self.course.rules.guard.wait;
        self.world.0.now = self.world.0.now.saturating_add(wait).expect("a time");
    }
}
