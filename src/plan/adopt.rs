//! Which instances of others become ours: a person asks for it, and it happens to no other. What an
//! instance must be is in [`Adoption::of`]; all others are named with the reason for which they stay.
//!
//! An adopted instance keeps its id and counts as ours from then on. Where one of ours stands beside
//! it with the same address, one of the two goes after the adoption, as any duplicate does.

use std::collections::BTreeSet;
use std::fmt;

use super::instances::endpoints::wanted;
use super::instances::present::Present;
use super::instances::rewrite;
use super::instances::sharing::assign_shared;
use super::instances::wanted::Wanted;
use super::ownership::{Foreign, foreign, is_ecs};
use super::{Basis, Because, Change, Extent, Holders, Observation, Place, Plan, Reason};
use crate::model::attributes::{EC2_INSTANCE, MARK_PREFIX, ORPHANED, SIGHTING};
use crate::model::{Attributes, Owner, ServiceKey, ServiceRef, Tags};

/// Which instances a person lets us take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adoption {
    /// The `OWNER_ID` in their marks, one from before; none: those without marks.
    pub owner: Option<String>,
}

/// Whose an adopted instance was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Former {
    /// It had no marks of this function.
    Unmarked(Foreign),
    /// It was marked with this `OWNER_ID`, for the same cluster.
    Owner(String),
}

/// Why an instance is not adopted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum NotAdopted {
    /// ECS takes its own instances out by itself.
    #[error("it is a task of ECS")]
    Ecs,
    /// It has marks, and no older owner was named.
    #[error("it is marked as another cluster's or another owner's")]
    Marked,
    /// It is not marked as the named owner's for this cluster.
    #[error("it is not marked as {0}'s for this cluster")]
    NotOf(String),
    /// Cloud Map takes nothing beside this attribute, so no marks either.
    #[error("Cloud Map takes no marks beside its AWS_EC2_INSTANCE_ID")]
    Ec2Instance,
    /// The Service does not ask for it.
    #[error("the Service has no ready endpoint with this address and port to register")]
    NotWanted,
    /// With our marks it would have more attributes than Cloud Map takes.
    #[error("with our marks it would have {0}")]
    BeyondLimits(String),
    /// It changed between plan and call.
    #[error("it was changed or taken out a moment ago")]
    Changed,
}

/// Plans the adoption of instances under the names that the affected Services hold, whose endpoints
/// must have been read.
pub fn adopt(basis: Basis<'_>, adoption: &Adoption) -> Plan {
    let Basis { observation, holders, affected } = basis;
    // Nothing is lost by an adoption, so the guard has nothing to judge.
    let after = Observation { extent: Extent::Again, ..observation.clone() };
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
    plan.standing.retain(|place, _| exists(&place.key));
    observation.rules.policy.restrict(&mut plan);
    plan.note_present(&observation.registry);
    plan.in_order()
}

/// An adoption that is being planned.
struct Adopting<'a> {
    observation: &'a Observation,
    adoption: &'a Adoption,
    plan: Plan,
    /// What will be there after it.
    after: Observation,
    /// The Cloud Map services in which something is adopted.
    adopted: BTreeSet<ServiceKey>,
}

impl<'a> Adopting<'a> {
    /// Looks at every instance of others in one Cloud Map service, for those of its holders that ask.
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

    /// Adopts an instance of others for whoever may have it. Where nobody can, the oldest hears why.
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

    /// What the holders of a name may have registered there.
    fn wanted(&self, key: &ServiceKey, holders: &[ServiceRef]) -> Result<Vec<Wanted<'a>>, Reason> {
        let mut all = wanted(self.observation, key, holders)?;
        if let Some(tells_ports_apart) = all.first().map(|wanted| wanted.tells_ports_apart) {
            assign_shared(&mut all, &Present::of(self.observation, key, tells_ports_apart));
        }
        let service = &self.observation.registry.services[key];
        if matches!(service.tags, Tags::Read { managed_by_ecs: true, .. }) {
            return Err(Reason::ServiceConnect);
        }
        // An adoption registers, too.
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
    /// Adds the removals of duplicates that a sync would make, in some of the Cloud Map services.
    pub fn add_duplicates(&mut self, of_sync: Self, among: impl Fn(&ServiceKey) -> bool) {
        for (service, mut changes) in of_sync.changes {
            changes.retain(|change| {
                let duplicate =
                    matches!(change, Change::Deregister { because: Because::Duplicate, .. });
                duplicate && among(&change.place().key)
            });
            self.changes.entry(service).or_default().extend(changes);
        }
    }
}

impl Adoption {
    /// Whose the instance was and what it becomes.
    fn of(
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
        let mut attributes = rewrite::carry_over(present, attributes);
        // What another owner noted for itself is not ours to remember.
        for note in [SIGHTING, ORPHANED] {
            attributes.remove(note);
        }
        match rewrite::beyond_limits(&attributes) {
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
        let marked = present.keys().any(|key| key.starts_with(MARK_PREFIX));
        match (&self.owner, foreign(instance, present, owner)) {
            (Some(id), _) => {
                let before = Owner { id: id.clone(), cluster: owner.cluster.clone() };
                let of_before = before.owns(present);
                of_before
                    .then(|| Former::Owner(id.clone()))
                    .ok_or_else(|| NotAdopted::NotOf(id.clone()))
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
