//! Several clusters on one registry, under the same names: each is synced by a function that knows its own cluster
//! alone, in any order, and some in the middle of others.

use std::mem::swap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::arbitrary;
use super::convergence::{ROUNDS, assert_right, assert_settled, passes_on};
use super::seeds::config;
use super::simulation::{Course, Simulation};
use super::world::{World, owner_of};
use crate::model::{Attributes, Owner, Registry, Selection, ServiceKey};
use crate::publish::plan::{Policy, Reason, Rules};

/// A sync of another cluster that begins after this number of calls of a sync.
#[derive(Clone, Debug)]
pub struct Interruption {
    after: u32,
    by: Box<Simulation>,
    is_over: bool,
}

impl Simulation {
    /// Runs the other cluster's sync if it is due.
    pub(super) fn interrupt(&mut self) {
        let Some(mut interruption) = self.interruption.take_if(|it| !it.is_over) else { return };
        if interruption.after == 0 {
            self.sync_other(&mut interruption.by);
            interruption.is_over = true;
        } else {
            interruption.after -= 1;
        }
        self.interruption = Some(interruption);
    }

    /// Whether another cluster changed the registry during this sync, so that its read may be older.
    pub(super) fn was_interrupted(&self) -> bool {
        self.interruption.as_ref().is_some_and(|it| it.is_over)
    }

    /// A full sync of another cluster on the registry as it is now.
    fn sync_other(&mut self, other: &mut Self) -> u32 {
        let registry = &mut self.world.0.registry;
        swap(registry, &mut other.world.0.registry);
        let calls = other.sync(&Selection::Everything);
        swap(&mut self.world.0.registry, &mut other.world.0.registry);
        calls
    }
}

/// An instance with the Cloud Map service that it is in and its id.
type Instance = (ServiceKey, String, Attributes);

/// The clusters and their common parts.
struct Fleet {
    clusters: Vec<Simulation>,
    registry: Registry,
}

impl Fleet {
    /// The registry is that of the first world, and all namespaces that any cluster expects.
    fn new(worlds: Vec<(World, Course)>) -> Self {
        let names = ["blue", "green", "red"];
        // A missing namespace is in the registry if it may be created: by all of them or by none.
        let create_namespaces = worlds[0].1.rules.create_namespaces;
        let clusters = names.into_iter().zip(worlds).map(|(name, (mut world, course))| {
            world.0.owner = owner_of(name);
            Simulation::new(world, alone(&course, create_namespaces))
        });
        let mut clusters: Vec<Simulation> = clusters.collect();
        let expected = clusters.iter().flat_map(|it| it.world.0.registry.namespaces.clone());
        let namespaces = expected.collect();
        let mut registry = Registry::default();
        swap(&mut registry, &mut clusters[0].world.0.registry);
        registry.namespaces = namespaces;
        Self { clusters, registry }
    }

    fn cluster(&self, index: Index) -> usize {
        index.index(self.clusters.len())
    }

    /// A full sync of one cluster, to which everything else is foreign.
    fn sync(&mut self, index: usize) -> u32 {
        let cluster = &mut self.clusters[index];
        let before = foreign(&self.registry, &[&cluster.world.0.owner]);
        swap(&mut self.registry, &mut cluster.world.0.registry);
        let calls = cluster.sync(&Selection::Everything);
        swap(&mut self.registry, &mut cluster.world.0.registry);
        let is_alone = cluster.interruption.as_ref().is_none_or(|it| !it.is_over);
        let after = foreign(&self.registry, &[&cluster.world.0.owner]);
        assert!(!is_alone || after == before, "something foreign was touched");
        calls
    }

    /// The same, but after this number of its calls a full sync of another cluster runs.
    fn sync_interrupted(&mut self, index: usize, other: usize, after: u32) {
        if index != other {
            let by = Box::new(self.clusters[other].clone());
            self.clusters[index].interruption = Some(Interruption { after, by, is_over: false });
        }
        self.sync(index);
        if let Some(interruption) = self.clusters[index].interruption.take() {
            self.clusters[other] = *interruption.by;
        }
    }

    /// The instances of the registry that belong to no cluster.
    fn of_others(&self) -> Vec<Instance> {
        let owners: Vec<&Owner> = self.clusters.iter().map(|it| &it.world.0.owner).collect();
        foreign(&self.registry, &owners)
    }

    /// Calls `visit` for each cluster with the registry.
    fn each(&mut self, visit: impl Fn(&Simulation)) {
        for cluster in &mut self.clusters {
            swap(&mut self.registry, &mut cluster.world.0.registry);
            visit(cluster);
            swap(&mut self.registry, &mut cluster.world.0.registry);
        }
    }

    /// Whether one sync of each cluster reaches its state, as if it were the only one. There are two exceptions in
    /// these worlds: an id of another cluster is free only after a sync of that cluster, an endpoint that the records
    /// of a new service would not carry may fit into the service that another cluster creates.
    fn needs_one_sync_each(&mut self) -> bool {
        let mut needs_one = true;
        for cluster in &mut self.clusters {
            swap(&mut self.registry, &mut cluster.world.0.registry);
            let (plan, _) = cluster.plan(&Selection::Everything);
            needs_one &= !plan.held_back.iter().any(|it| waits_for_another(&it.reason));
            let mut alone = cluster.clone();
            alone.sync(&Selection::Everything);
            needs_one &= alone.sync(&Selection::Everything) == 0 && !passes_on(&cluster.world);
            swap(&mut self.registry, &mut cluster.world.0.registry);
        }
        needs_one
    }
}

/// Whether a sync of another cluster can end the obstacle to an endpoint.
fn waits_for_another(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::IdTaken(_)
            | Reason::RecordTypeMismatch { .. }
            | Reason::RecordsMisfit { .. }
            | Reason::PortNeeded { .. }
    )
}

/// The instances with marks of none of the owners. The marks are read separately here, so that a mistake in them shows.
fn foreign(registry: &Registry, owners: &[&Owner]) -> Vec<Instance> {
    let all = registry.services.keys().flat_map(|key| {
        registry.instances(key).map(move |(id, it)| (key.clone(), id.clone(), it.clone()))
    });
    let is_marked = |it: &Attributes, owner: &Owner| {
        it.get("cloud-map-sync/owner") == Some(&owner.id)
            && it.get("cloud-map-sync/cluster").is_some_and(|it| it == owner.cluster.as_str())
    };
    all.filter(|(_, _, it)| !owners.iter().any(|owner| is_marked(it, owner))).collect()
}

/// A course without guard, limits and name policy, which properties of one cluster are about.
fn alone(course: &Course, create_namespaces: bool) -> Course {
    let Course { side_by_side, failing, .. } = *course;
    let policy = course.rules.policy;
    let rules = Rules { policy, create_namespaces, guard: arbitrary::OFF, ..Rules::default() };
    let mut alone = Course { rules, ..Course::undisturbed() };
    (alone.side_by_side, alone.failing) = (side_by_side, failing);
    alone
}

fn worlds() -> impl Strategy<Value = Vec<(World, Course)>> {
    vec((arbitrary::world(), arbitrary::course()), 2..=3)
}

/// Syncs one after the other, or with another cluster's in the middle.
fn disturbances() -> impl Strategy<Value = Vec<(Index, Index, u32)>> {
    vec((any::<Index>(), any::<Index>(), 0..12_u32), 0..=4)
}

fn without_ttls(worlds: &mut [(World, Course)]) {
    let services = worlds.iter_mut().flat_map(|(world, _)| world.0.desired.services.values_mut());
    for claims in services.filter_map(|service| service.claims.as_mut().ok()) {
        claims.ttl = None;
    }
}

fn assert_convergence(
    worlds: Vec<(World, Course)>,
    disturbances: Vec<(Index, Index, u32)>,
    order: [usize; 3],
    same_ttl: bool,
) {
    let mut fleet = Fleet::new(worlds);
    let others = fleet.of_others();
    for (index, other, after) in disturbances {
        fleet.sync_interrupted(fleet.cluster(index), fleet.cluster(other), after);
    }
    for cluster in &mut fleet.clusters {
        cluster.course.failing = 0;
    }
    // A TTL is raised when the instances of a cluster that asked for a smaller one are gone.
    let rounds = if same_ttl && fleet.needs_one_sync_each() { 1 } else { ROUNDS };
    let order: Vec<usize> = order.into_iter().filter(|it| *it < fleet.clusters.len()).collect();
    for _ in 0..rounds {
        for index in &order {
            fleet.sync(*index);
        }
    }
    fleet.each(|cluster| {
        let (plan, _) = cluster.plan(&Selection::Everything);
        assert_settled(cluster, &plan);
        if cluster.course.rules.policy == Policy::Sync {
            assert_right(cluster, &plan);
        }
    });
    for index in order {
        assert_eq!(fleet.sync(index), 0, "calls for the cluster {index} in the end");
    }
    assert_eq!(fleet.of_others(), others);
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn clusters_of_one_registry_leave_one_another_alone_and_come_to_rest(
        mut worlds in worlds(),
        disturbances in disturbances(),
        order in Just([0, 1, 2]).prop_shuffle(),
    ) {
        without_ttls(&mut worlds);
        assert_convergence(worlds, disturbances, order, true);
    }

    #[test]
    fn clusters_that_ask_for_different_ttls_come_to_rest(
        worlds in worlds(),
        disturbances in disturbances(),
        order in Just([0, 1, 2]).prop_shuffle(),
    ) {
        assert_convergence(worlds, disturbances, order, false);
    }
}
