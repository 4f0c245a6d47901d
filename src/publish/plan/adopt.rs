//! The adoption of instances of other owners, which only a person requests. An adopted instance keeps its id and gets
//! our marks, so later syncs treat it as ours. The report has the reason for each instance that is not adopted.
//!
//! If another instance of ours has the same address, one of the two is deregistered after the adoption, like any
//! duplicate. The instances of ServiceExports are never adopted. `records` adopts the records of a cluster, if a person
//! has confirmed that.

use std::collections::BTreeSet;
use std::fmt;

use super::change::{Change, Difference};
use super::observation::{Observation, Plan, PlanPhase};
use super::reason::Reason;
use super::removals::DeregisterReason;
use super::wanted::{OurInstances, WantedInstances};
use crate::clusterset::attributes::is_of_a_clusterset;
use crate::model::attributes::{EC2_INSTANCE, MARK_PREFIX, SIGHTING};
use crate::model::{Attributes, Foreign, Owner, Place, ServiceKey, ServiceRef, Tags};

/// Returns the instances that the holder of a name wants, or the reason why nothing can be registered there: an
/// adoption is a registration.
fn wanted_to_adopt<'a>(
    observation: &'a Observation,
    key: &ServiceKey,
    holder: &ServiceRef,
) -> Result<WantedInstances<'a>, Reason> {
    let mut wanted = WantedInstances::of(observation, key, holder)?;
    wanted.limit(&OurInstances::of(observation, key, &wanted));
    let service = &observation.registry.services[key];
    if matches!(&service.tags, Tags::Read(tags) if tags.managed_by_ecs) {
        return Err(Reason::ServiceConnect);
    }
    wanted.accepted()
}

/// The instances that the caller allows us to adopt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adoption {
    /// The former `OWNER_ID` in their marks; `None` means instances without marks.
    pub owner: Option<String>,
}

/// An instance before its adoption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// All its attributes as they were read. If they have changed since, the instance is left alone.
    pub present: Attributes,
    pub former: Former,
}

/// The owner of an instance before its adoption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Former {
    /// The instance had no marks of this function.
    Unmarked(Foreign),
    /// The instance had marks with this `OWNER_ID`, for the same cluster.
    Owner(String),
}

/// The reason why an instance is not adopted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum NotAdopted {
    /// ECS deregisters its own instances.
    #[error("it is a task of ECS")]
    Ecs,
    /// An unmarked instance whose id is a UUID, as the ids of older ECS tasks.
    #[error("it may be a task of ECS, since its id is a UUID")]
    MaybeEcs,
    /// It has marks, and the caller named no former owner.
    #[error("it is marked as another cluster's or another owner's")]
    Marked,
    /// It has no marks of the named owner for this cluster.
    #[error("it is not marked as {0}'s for this cluster")]
    NotOf(String),
    /// Cloud Map accepts no other attribute beside `AWS_EC2_INSTANCE_ID`, so the instance cannot have marks.
    #[error("Cloud Map allows no marks together with its AWS_EC2_INSTANCE_ID")]
    Ec2Instance,
    /// The Service does not request it.
    #[error("the Service has no ready endpoint with this address and port to register")]
    NotWanted,
    /// With our marks it would exceed Cloud Map's limits for attributes.
    #[error("with our marks it would have {0}")]
    BeyondLimits(String),
    /// AWS's controller registered it for a `ServiceExport`.
    #[error("it belongs to a ServiceExport")]
    Exported,
    /// Another writer changed it after it was read.
    #[error("it was changed or deregistered a moment ago")]
    Changed,
}

impl Adoption {
    /// Plans the adoption of instances under the names that the affected Services hold. The endpoints of these Services
    /// must have been read. The first plan of a run also removes the duplicates that its adoptions would cause. A later
    /// plan removes only duplicates of instances that are ours by then, since Cloud Map may have refused an adoption.
    pub fn plan(&self, observation: &Observation) -> Plan {
        let Observation { holders, affected, .. } = observation;
        let registry = &observation.registry;
        let owner = &observation.owner;
        let mut adopting = Plan::default();
        for (key, holder) in holders.held_clearly_by(affected) {
            if !registry.services.contains_key(key) {
                continue;
            }
            let place = Place::of(key, registry);
            match wanted_to_adopt(observation, key, holder) {
                Ok(wanted) => {
                    for other in
                        registry.instances(key).filter(|(_, attributes)| !owner.owns(attributes))
                    {
                        let adopted = self.adopt(other, &wanted, owner);
                        adopting.add_adoption(holder, &place, other, adopted);
                    }
                }
                Err(reason) => adopting.hold_back(holder, &place, reason),
            }
        }
        // An adoption loses no instances, so the guard is not needed.
        let mut after = Observation { phase: PlanPhase::Group, ..observation.clone() };
        let mut adopted = BTreeSet::new();
        for (service, changes) in &adopting.changes {
            for change in changes {
                after.record_change(service, change);
                adopted.insert(change.place().key.clone());
            }
        }
        after.decide_holders();
        let is_first = observation.phase != PlanPhase::Group;
        let sync_plan = super::plan(if is_first { &after } else { observation });
        adopting.add_duplicates(sync_plan, |key| !is_first || adopted.contains(key));
        adopting.count_foreign(&after);
        adopting.unchanged.retain(|place, _| registry.services.contains_key(&place.key));
        adopting.finish_adoption(observation)
    }

    /// Returns the former owner of the instance, and its attributes after the adoption.
    fn adopt(
        &self,
        (instance, present): (&String, &Attributes),
        wanted: &WantedInstances,
        owner: &Owner,
    ) -> Result<(Former, Attributes), NotAdopted> {
        let former = self.former(instance, present, owner)?;
        if present.contains_key(EC2_INSTANCE) {
            return Err(NotAdopted::Ec2Instance);
        }
        let attributes = wanted.attributes_of(present).ok_or(NotAdopted::NotWanted)?;
        Ok((former, within_limits(present.carry_over(attributes))?))
    }

    fn former(
        &self,
        instance: &str,
        present: &Attributes,
        owner: &Owner,
    ) -> Result<Former, NotAdopted> {
        if present.is_of_ecs(instance) {
            return Err(NotAdopted::Ecs);
        }
        if present.may_be_of_ecs(instance) {
            return Err(NotAdopted::MaybeEcs);
        }
        match &self.owner {
            Some(id) if owner.formerly(id).owns(present) => Ok(Former::Owner(id.clone())),
            Some(id) => Err(NotAdopted::NotOf(id.clone())),
            None if is_of_a_clusterset(present) => Err(NotAdopted::Exported),
            None if present.has_marks() => Err(NotAdopted::Marked),
            None => Ok(Former::Unmarked(present.likely_owner(instance))),
        }
    }
}

impl fmt::Display for Former {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unmarked(unknown @ Foreign::Unknown) => unknown.fmt(f),
            Self::Unmarked(controller) => {
                write!(f, "of the {controller}, which must not run any more")
            }
            Self::Owner(id) => write!(f, "of the owner {id}"),
        }
    }
}

/// Removes the former owner's guard note, and checks the other attributes against Cloud Map's limits.
fn within_limits(mut attributes: Attributes) -> Result<Attributes, NotAdopted> {
    attributes.retain(|key, _| key != SIGHTING);
    match attributes.beyond_limits() {
        Some(problem) => Err(NotAdopted::BeyondLimits(problem)),
        None => Ok(attributes),
    }
}

impl Change {
    /// The adoption of an instance. The marks are not listed as differences.
    pub(super) fn adoption(
        place: Place,
        instance: String,
        present: &Attributes,
        former: Former,
        attributes: Attributes,
    ) -> Self {
        let mut differences = Difference::between(present, &attributes);
        differences.retain(|difference| !difference.attribute.starts_with(MARK_PREFIX));
        let exchange = None;
        let adopted = Some(Box::new(Adopted { present: present.clone(), former }));
        Self::Rewrite { place, instance, attributes, differences, exchange, adopted }
    }
}

impl Plan {
    /// Adds the adoption of an instance, or the reason why it is not adopted.
    fn add_adoption(
        &mut self,
        service: &ServiceRef,
        place: &Place,
        (id, present): (&String, &Attributes),
        adopted: Result<(Former, Attributes), NotAdopted>,
    ) {
        let instance = id.clone();
        match adopted {
            Ok((former, attributes)) => {
                let place = place.clone();
                let change = Change::adoption(place, instance, present, former, attributes);
                self.add(service.clone(), change);
            }
            Err(why) => self.hold_back(service, place, Reason::NotAdopted { instance, why }),
        }
    }

    fn finish_adoption(mut self, observation: &Observation) -> Self {
        self.restrict(observation.rules.policy);
        self.count_present(&observation.registry);
        self.in_order()
    }

    /// Adds the removals of duplicates from the plan of a sync, in the Cloud Map services for which `among` is true.
    fn add_duplicates(&mut self, sync_plan: Self, among: impl Fn(&ServiceKey) -> bool) {
        let duplicate = DeregisterReason::Duplicate;
        let is_duplicate =
            |change: &Change| change.because() == Some(&duplicate) && among(&change.place().key);
        for (service, removals) in sync_plan.only(is_duplicate).changes {
            self.changes.entry(service).or_default().extend(removals);
        }
    }
}
