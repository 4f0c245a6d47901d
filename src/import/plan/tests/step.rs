//! One sync of a random history: the objects before it, its plan, and the objects after each of its changes. In the
//! history before it syncs were cut short, and other writers deleted objects or took them over.

use std::fmt;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::arbitrary;
use super::cluster::Cluster;
use super::world::{World, described};
use crate::import::plan::{Kind, Metadata, OWNER_LABEL, Plan, ServiceImport, Slice};

#[derive(Clone)]
pub struct Step {
    history: Vec<(World, Disturbance)>,
    pub world: World,
    pub before: Cluster,
    pub plan: Plan,
    /// The objects after each change.
    pub states: Vec<Cluster>,
}

/// A fault in a sync of the history. The numbers choose an object.
#[derive(Clone, Copy, Debug)]
enum Disturbance {
    None,
    /// Only this many changes of the plan were made.
    CutAfter(usize),
    /// Another writer took over the object.
    TakenOver(usize),
    Deleted(usize),
    /// All labels but the owner's are gone, and the owner references.
    Stripped(usize),
}

impl Step {
    fn new(history: Vec<(World, Disturbance)>, world: World) -> Self {
        let mut before = Cluster::default();
        for (world, disturbance) in &history {
            disturbance.sync(world, &mut before);
        }
        let plan = world.plan(&before);
        let mut states = Vec::new();
        let mut cluster = before.clone();
        cluster.carry_out(&plan, |state| states.push(state.clone()));
        Self { history, world, before, plan, states }
    }

    /// The objects after all changes.
    pub fn after(&self) -> &Cluster {
        self.states.last().unwrap_or(&self.before)
    }
}

impl Disturbance {
    /// Makes a sync with this fault.
    fn sync(self, world: &World, cluster: &mut Cluster) {
        let mut plan = world.plan(cluster);
        if let Self::CutAfter(count) = self {
            plan.changes.truncate(count);
        }
        cluster.carry_out(&plan, |_| {});
        let (Self::TakenOver(index) | Self::Deleted(index) | Self::Stripped(index)) = self else {
            return;
        };
        let keys: Vec<(Kind, String)> = cluster.objects.keys().cloned().collect();
        let Some(key) = keys.get(index) else { return };
        match (self, cluster.objects.get_mut(key)) {
            (Self::TakenOver(_), Some(object)) => {
                object["metadata"]["labels"][OWNER_LABEL] = json!("another");
            }
            (Self::Stripped(_), Some(object)) => {
                let owner = object["metadata"]["labels"][OWNER_LABEL].take();
                object["metadata"]["labels"] = json!({OWNER_LABEL: owner});
                object["metadata"]["ownerReferences"] = json!([]);
            }
            _ => {
                cluster.objects.remove(key);
                cluster.collect_garbage();
            }
        }
    }
}

/// For a person who reads a failure.
impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (world, disturbance) in &self.history {
            writeln!(f, "\n  {world:?} [{disturbance:?}]")?;
        }
        write!(f, "then\n  {:?}\n{}", self.world, described(&self.plan))
    }
}

pub fn step() -> impl Strategy<Value = Step> {
    let disturbance = prop_oneof![
        4 => Just(Disturbance::None),
        3 => (0..8_usize).prop_map(Disturbance::CutAfter),
        1 => (0..6_usize).prop_map(Disturbance::TakenOver),
        1 => (0..6_usize).prop_map(Disturbance::Deleted),
        1 => (0..6_usize).prop_map(Disturbance::Stripped),
    ];
    let history = vec((arbitrary::world(), disturbance), 0..4);
    (history, arbitrary::world()).prop_map(|(history, world)| Step::new(history, world))
}

pub fn is_ours(metadata: &Metadata) -> bool {
    metadata.labels.get(OWNER_LABEL).is_some_and(|it| it == "cloud-map-sync")
}

/// The slices that are ours.
pub fn slices(cluster: &Cluster) -> Vec<Arc<Slice>> {
    let slices = cluster.present().slices.into_iter();
    slices.filter(|slice| is_ours(&slice.metadata)).collect()
}

/// The ServiceImport, if it is ours.
pub fn import(cluster: &Cluster) -> Option<ServiceImport> {
    cluster.present().import.filter(|import| is_ours(&import.metadata))
}

/// The objects that are not ours.
pub fn foreign(cluster: &Cluster) -> Vec<((Kind, String), Value)> {
    let label = |object: &Value| object["metadata"]["labels"][OWNER_LABEL] != "cloud-map-sync";
    let objects = cluster.objects.iter().filter(|(_, object)| label(object));
    objects.map(|(key, object)| (key.clone(), object.clone())).collect()
}
