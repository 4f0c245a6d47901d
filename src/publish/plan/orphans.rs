//! Instances that this installation registered for a cluster that it does not keep in sync any more: the cluster does
//! not exist in EKS, was removed from the settings, or is kept in another Cloud Map. They are reported, and stay,
//! unless the installation enables the purge of dead clusters. Then the first full sync that finds the cluster gone
//! notes the time on one of them, and a full sync that still finds it gone after the waiting time purges them.
//!
//! Orphans are read as the owner of their own cluster: owner id and ARN must match exactly. A purge reads no Services,
//! since the cluster itself may be gone: the marks identify the owner of an instance, as everywhere.

use std::collections::BTreeSet;
use std::fmt;

use super::mark::NotePlace;
use super::observation::{Observation, Plan};
use super::removals::DeregisterReason;
use crate::model::attributes::{ORPHANED, SIGHTING};
use crate::model::{ClusterArn, Existence, Owner, Place, Policy, Registry, Timestamp, join_first};

/// The number of names of Cloud Map services that a sentence lists.
const NAMED: usize = 3;

impl Registry {
    /// Every owner in the marks of instances of this installation: a cluster with one of the flows.
    pub fn marked_owners(&self, owner_id: &str) -> BTreeSet<Owner> {
        let all = self.services.keys().flat_map(|key| self.instances(key));
        let owners = all.filter_map(|(_, attributes)| Owner::of(attributes));
        owners.filter(|owner| owner.id == owner_id).collect()
    }

    /// Its services in namespaces that another Cloud Map does not contain, by the namespaces' ARNs.
    #[must_use]
    pub fn not_shown(&self, shown: &BTreeSet<String>) -> Self {
        let is_shown = |id: &String| {
            let arn = self.namespaces.get(id).and_then(|namespace| namespace.arn.as_ref());
            arn.is_some_and(|arn| shown.contains(arn))
        };
        let mut left = self.clone();
        left.services.retain(|key, _| !is_shown(&key.namespace));
        left
    }
}

/// The orphans of one cluster in one Cloud Map, and the step taken for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphans {
    pub cluster: ClusterArn,
    /// Whether EKS knows the cluster.
    pub existence: Existence,
    /// The number of orphans.
    pub instances: usize,
    /// The names that they are registered under.
    pub names: BTreeSet<String>,
    /// The time when the cluster was first found gone, if it is known.
    pub since: Option<Timestamp>,
    /// The time from which they are purged.
    pub purged_from: Option<Timestamp>,
    /// The step taken in this run.
    pub step: OrphanStep,
    /// The Cloud Map that the cluster is kept in now, if it is another one.
    pub moved_to: Option<String>,
    /// Set if the time has no place in Cloud Map; the error, if one is the cause.
    no_note: Option<String>,
    policy: Policy,
}

/// The step taken for the orphans of a cluster in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrphanStep {
    /// No change.
    Leave,
    /// Note the time at which the cluster was found gone.
    Note,
    /// Remove such a note.
    TakeNoteBack,
    /// Deregister them: the cluster was first found gone at this time.
    Purge(Timestamp),
}

impl Orphans {
    /// Decides the step for the instances that belong to the observation's owner.
    pub fn of(observation: &Observation, existence: Existence) -> Self {
        let registry = &observation.registry;
        let keys = registry.services.keys().filter(|key| observation.has_ours(key));
        let noted = observation.orphaned_since();
        let rules = &observation.rules;
        let after = rules.purge_dead_clusters_after.filter(|_| rules.policy == Policy::Sync);
        let gone = after.filter(|_| existence == Existence::Gone);
        let counts = gone.filter(|_| noted.is_some() || observation.place_for_time().is_some());
        let since = counts.map(|_| noted.unwrap_or(observation.now));
        let purged_from =
            counts.zip(since).and_then(|(after, since)| since.checked_add(after).ok());
        let is_due = noted.is_some() && purged_from.is_some_and(|from| from <= observation.now);
        let is_noted = observation.notes(ORPHANED).next().is_some();
        let step = match (since, &existence) {
            (Some(since), _) if is_due => OrphanStep::Purge(since),
            (Some(_), _) if noted.is_none() => OrphanStep::Note,
            (_, Existence::Exists) if is_noted => OrphanStep::TakeNoteBack,
            _ => OrphanStep::Leave,
        };
        Self {
            cluster: observation.owner.cluster.clone(),
            existence,
            instances: keys.clone().map(|key| observation.ours(key).count()).sum(),
            names: keys.map(|key| Place::of(key, registry).to_string()).collect(),
            since,
            purged_from,
            step,
            moved_to: None,
            no_note: (gone != counts).then(|| {
                let problem = observation.unreadable_notes().map(|problem| format!(" ({problem})"));
                problem.unwrap_or_default()
            }),
            policy: rules.policy,
        }
    }

    /// The same orphans, of a cluster that is kept in another Cloud Map now.
    #[must_use]
    pub fn moved_to(self, registry: String) -> Self {
        Self { moved_to: Some(registry), ..self }
    }

    /// A stable word for the state.
    pub fn code(&self) -> &'static str {
        match self.existence {
            Existence::Gone => "ClusterGone",
            _ if self.moved_to.is_some() => "ClusterMoved",
            Existence::Unknown(_) => "ClusterUnknown",
            _ => "ClusterNotConfigured",
        }
    }
}

impl OrphanStep {
    /// The changes to the instances that belong to the observation's owner.
    pub fn plan(self, observation: &Observation) -> Plan {
        let mut plan = Plan::default();
        match self {
            Self::Leave => {}
            Self::Note => observation.note_time(&mut plan),
            Self::TakeNoteBack => observation.remove_notes(ORPHANED, |_| true, &mut plan),
            Self::Purge(since) => return purge(observation, &DeregisterReason::ClusterGone(since)),
        }
        plan.in_order()
    }
}

impl Observation {
    /// Notes the time, on one instance if one has room.
    fn note_time(&self, plan: &mut Plan) {
        let at = self.place_for_time().filter(|_| self.orphaned_since().is_none());
        if let Some(at) = at {
            self.put_note(&at, (ORPHANED, Some(&self.now.to_string())), plan);
        }
    }

    /// The place for the time.
    fn place_for_time(&self) -> Option<NotePlace> {
        let text = self.now.to_string();
        self.place_for_note((ORPHANED, &text), std::iter::empty(), &Plan::default())
    }

    /// The noted time; if there are several, the latest. A time in the future was not written by this function.
    fn orphaned_since(&self) -> Option<Timestamp> {
        let notes = self.notes(ORPHANED);
        let times = notes.filter_map(|(_, text)| text.parse::<Timestamp>().ok());
        times.filter(|time| *time <= self.now).max()
    }
}

impl fmt::Display for Orphans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.instances == 1 { "" } else { "s" };
        let names = join_first(&self.names, NAMED);
        write!(f, "{} instance{plural} in {names}", self.instances)?;
        match (&self.existence, &self.moved_to) {
            (Existence::Gone, _) => f.write_str(": not found in EKS")?,
            (_, Some(registry)) => {
                write!(f, ": this cluster is kept in another Cloud Map now ({registry})")?;
            }
            (Existence::NotAsked, _) => f.write_str(": this cluster is not in CLUSTERS")?,
            (Existence::Exists, _) => {
                f.write_str(": this cluster is not in CLUSTERS, but exists in EKS")?;
            }
            (Existence::Unknown(why), _) => {
                write!(
                    f,
                    ": this cluster is not in CLUSTERS, and it is unknown whether it exists in EKS ({why})"
                )?;
            }
        }
        if let Some(problem) = &self.no_note {
            return write!(
                f,
                ", and the time has no place: no instance has room for it, and no Cloud Map service that carries our tag has it{problem}: they stay until they are purged"
            );
        }
        match (self.step, self.since, self.purged_from) {
            (OrphanStep::Purge(since), _, _) => {
                write!(f, ", first noticed at {since}: they are deregistered")
            }
            (_, Some(since), Some(from)) => {
                write!(f, ", first noticed at {since}: they will be deregistered from {from} on")
            }
            _ if self.policy != Policy::Sync => {
                write!(f, ": they stay because of POLICY={}", self.policy)
            }
            _ => f.write_str(": they stay until they are purged"),
        }
    }
}

/// Plans the removal of every instance that is the observation's owner's.
pub fn purge(observation: &Observation, because: &DeregisterReason) -> Plan {
    let mut plan = Plan::with_unreadable(observation);
    for key in observation.registry.services.keys() {
        let place = Place::of(key, &observation.registry);
        for instance in observation.marked(key) {
            let change = instance.removal(&place, because.clone(), None);
            plan.add(instance.service, change);
        }
    }
    // Those on Cloud Map services: the others go with the instances.
    for mark in [SIGHTING, ORPHANED] {
        observation.remove_notes(mark, |at| matches!(at, NotePlace::Service(_)), &mut plan);
    }
    plan.note_foreign(observation);
    plan.note_present(&observation.registry);
    plan.in_order()
}
