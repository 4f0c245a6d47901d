//! The adoption of instances of other owners, if a person requests it. [`Adoption`] has the conditions; every instance
//! that does not meet them is reported with the reason. An adopted instance keeps its id and counts as ours from then on.
//! If another instance of ours has the same address, one of the two is deregistered after the adoption, like any
//! duplicate.
//!
//! Of a former `OWNER_ID` all instances and records of the exports get our mark under their ids, also those that no
//! endpoint asks for. Any reader counts them before and after, so no name has a gap, and the next sync does the rest.

use std::collections::BTreeSet;
use std::fmt;

use super::change::Change;
use super::claims::Holders;
use super::instance::{beyond_limits, carry_over};
use super::observation::{Basis, Observation};
use super::ownership::{foreign, is_ecs, may_be_ecs};
use super::present::{Present, assign_shared};
use super::reason::Reason;
use super::removals::DeregisterReason;
use super::result::Plan;
use super::wanted::{Wanted, wanted};
use crate::clusterset::attributes::is_of_a_clusterset;
use crate::guard::Extent;
use crate::model::attributes::{EC2_INSTANCE, MARK_PREFIX, ORPHANED, SIGHTING};
use crate::model::{Attributes, Foreign, Owner, Place, ServiceKey, ServiceRef, Tags};

/// Plans the adoption of instances under the names that the affected Services hold. The endpoints of these Services
/// must have been read.
pub fn adopt(basis: Basis<'_>, adoption: &Adoption) -> Plan {
    let Basis { observation, holders, affected } = basis;
    // An adoption loses no instances, so the guard is not needed.
    let after = Observation { extent: Extent::Remainder, ..observation.clone() };
    let (plan, adopted) = (Plan::default(), BTreeSet::new());
    let mut adopting = Adopting { observation, adoption, plan, after, adopted };
    let exists = |key: &ServiceKey| observation.registry.services.contains_key(key);
    for key in holders.keys().filter(|key| exists(key)) {
        adopting.look_under(key, holders.holders(key), &holders.asking(key, affected));
    }
    let Adopting { mut plan, after, adopted, .. } = adopting;
    let decided = Holders::decide(&after);
    let after = Basis { observation: &after, holders: &decided, affected };
    plan.add_duplicates(super::plan(after), |key| adopted.contains(key));
    plan.note_foreign(after);
    plan.unchanged.retain(|place, _| exists(&place.key));
    observation.rules.policy.restrict(&mut plan);
    plan.note_present(&observation.registry);
    plan.in_order()
}

/// The state while an adoption is planned.
struct Adopting<'a> {
    observation: &'a Observation,
    adoption: &'a Adoption,
    plan: Plan,
    /// The observation with the adopted instances.
    after: Observation,
    /// The Cloud Map services with adopted instances.
    adopted: BTreeSet<ServiceKey>,
}

impl<'a> Adopting<'a> {
    /// Checks every instance of other owners in one Cloud Map service, for the holders in `asking`.
    fn look_under(&mut self, key: &ServiceKey, holders: &[ServiceRef], asking: &[&ServiceRef]) {
        if asking.is_empty() {
            return;
        }
        let place = Place::of(key, &self.observation.registry);
        let mut all = match self.wanted(key, holders) {
            Ok(all) => all,
            Err(reason) => {
                for holder in asking {
                    self.plan.hold_back(holder, &place, reason.clone());
                }
                return;
            }
        };
        all.retain(|wanted| asking.contains(&&wanted.holder));
        let observation = self.observation;
        let others = observation.registry.instances(key);
        for (instance, present) in others.filter(|(_, it)| !observation.owner.owns(it)) {
            self.look_at(&place, (instance, present), &all);
        }
    }

    /// Adopts an instance for the first holder whose conditions it meets. If there is none, the oldest gets the reason.
    fn look_at(&mut self, place: &Place, other: (&String, &Attributes), all: &[Wanted]) {
        let owner = &self.observation.owner;
        let of = |wanted| self.adoption.of(other.0, other.1, wanted, owner);
        let mut looks: Vec<_> = all.iter().map(|wanted| (&wanted.holder, of(wanted))).collect();
        looks.sort_by_key(|(_, look)| look.is_err());
        let Some((holder, look)) = looks.into_iter().next() else { return };
        let (place, instance) = (place.clone(), other.0.clone());
        match look {
            Ok((former, attributes)) => {
                let present = other.1.clone();
                let change = Change::Adopt { place, instance, present, attributes, former };
                self.take(holder, change);
            }
            Err(why) => self.plan.hold_back(holder, &place, Reason::NotAdopted { instance, why }),
        }
    }

    /// The instances that the holders of a name request, if registrations are possible there.
    fn wanted(&self, key: &ServiceKey, holders: &[ServiceRef]) -> Result<Vec<Wanted<'a>>, Reason> {
        let mut all = wanted(self.observation, key, holders)?;
        if let Some(tells_ports_apart) = all.first().map(|wanted| wanted.tells_ports_apart) {
            assign_shared(&mut all, &Present::of(self.observation, key, tells_ports_apart));
        }
        let service = &self.observation.registry.services[key];
        if matches!(service.tags, Tags::Read { managed_by_ecs: true, .. }) {
            return Err(Reason::ServiceConnect);
        }
        // An adoption is a registration.
        if let Some(refused) = all.iter().find_map(|wanted| wanted.refused.clone()) {
            return Err(refused);
        }
        Ok(all)
    }

    fn take(&mut self, holder: &ServiceRef, change: Change) {
        if let Change::Adopt { place, instance, attributes, .. } = &change {
            let service = self.after.registry.services.get_mut(&place.key);
            if let Some(instances) = service.and_then(|service| service.instances.as_mut()) {
                instances.insert(instance.clone(), attributes.clone());
            }
            self.adopted.insert(place.key.clone());
        }
        self.plan.changes.entry(holder.clone()).or_default().push(change);
    }
}

impl Plan {
    /// Adds the removals of duplicates from the plan of a sync, in the Cloud Map services for which `among` is true.
    pub fn add_duplicates(&mut self, of_sync: Self, among: impl Fn(&ServiceKey) -> bool) {
        for (service, mut changes) in of_sync.changes {
            changes.retain(|change| {
                let duplicate = matches!(
                    change,
                    Change::Deregister { because: DeregisterReason::Duplicate, .. }
                );
                duplicate && among(&change.place().key)
            });
            self.changes.entry(service).or_default().extend(changes);
        }
    }
}

/// The instances that the caller allows us to adopt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adoption {
    /// The former `OWNER_ID` in their marks; `None` means instances without marks.
    pub owner: Option<String>,
    /// Whether the exports of the cluster are adopted, too. Then the annotated Services leave the instances of exports
    /// alone.
    pub exports: bool,
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
    /// The id of an unmarked instance is one that tasks of ECS have.
    #[error("it may be a task of ECS, since its id is a UUID")]
    MaybeEcs,
    /// It has marks, and the caller named no former owner.
    #[error("it is marked as another cluster's or another owner's")]
    Marked,
    /// It has no marks of the named owner for this cluster.
    #[error("it is not marked as {0}'s for this cluster")]
    NotOf(String),
    /// Cloud Map accepts no attributes besides this one, so no marks.
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
    /// The former owner of the instance, and its attributes after the adoption.
    pub(super) fn of(
        &self,
        instance: &str,
        present: &Attributes,
        wanted: &Wanted,
        owner: &Owner,
    ) -> Result<(Former, Attributes), NotAdopted> {
        let former = self.former(instance, present, owner)?;
        if present.contains_key(EC2_INSTANCE) {
            return Err(NotAdopted::Ec2Instance);
        }
        let identity = wanted.identity_of(present);
        let mut instances = wanted.instances.values();
        let (_, attributes) =
            instances.find(|(wanted, _)| *wanted == identity).ok_or(NotAdopted::NotWanted)?;
        let mut attributes = carry_over(present, attributes);
        // The notes of another owner concern its own runs.
        for note in [SIGHTING, ORPHANED] {
            attributes.remove(note);
        }
        match beyond_limits(&attributes) {
            Some(problem) => Err(NotAdopted::BeyondLimits(problem)),
            None => Ok((former, attributes)),
        }
    }

    fn former(
        &self,
        instance: &str,
        present: &Attributes,
        owner: &Owner,
    ) -> Result<Former, NotAdopted> {
        if is_ecs(instance, present) {
            return Err(NotAdopted::Ecs);
        }
        if may_be_ecs(instance, present) {
            return Err(NotAdopted::MaybeEcs);
        }
        let marked = present.keys().any(|key| key.starts_with(MARK_PREFIX));
        match (&self.owner, foreign(instance, present, owner)) {
            (Some(id), _) => {
                let is_former = owner.formerly(id).owns(present);
                is_former
                    .then(|| Former::Owner(id.clone()))
                    .ok_or_else(|| NotAdopted::NotOf(id.clone()))
            }
            (None, Some(_)) if self.exports && is_of_a_clusterset(present) => {
                Err(NotAdopted::Exported)
            }
            (None, Some(kind)) if !marked => Ok(Former::Unmarked(kind)),
            (None, _) => Err(NotAdopted::Marked),
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

/// Plans the adoption of everything that belongs to `former`: another installation for the same cluster.
pub fn adopt_former(observation: &Observation, former: &Owner) -> Plan {
    let mut plan = Plan::default();
    for (key, service) in &observation.registry.services {
        let place = Place::of(key, &observation.registry);
        if let Some(problem) = &service.unreadable {
            plan.unchanged.entry(place.clone()).or_default().unreadable = Some(problem.clone());
        }
        for (id, present) in observation.registry.instances(key) {
            let marked = former.service_of(present).filter(|_| *former != observation.owner);
            let Some(name) = marked else { continue };
            let mut attributes = present.clone();
            observation.owner.mark(&mut attributes);
            // The notes of another owner concern its own runs.
            for note in [SIGHTING, ORPHANED] {
                attributes.remove(note);
            }
            let (place, instance, present) = (place.clone(), id.clone(), present.clone());
            if let Some(problem) = beyond_limits(&attributes) {
                let why = NotAdopted::BeyondLimits(problem);
                plan.hold_back(&name, &place, Reason::NotAdopted { instance, why });
                continue;
            }
            let former = Former::Owner(former.id.clone());
            let change = Change::Adopt { place, instance, present, attributes, former };
            plan.changes.entry(name).or_default().push(change);
        }
    }
    observation.rules.policy.restrict(&mut plan);
    plan.note_present(&observation.registry);
    plan.in_order()
}
