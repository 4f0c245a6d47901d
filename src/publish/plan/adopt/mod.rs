//! The adoption of instances of other owners, if a person requests it. `candidate` has the conditions; every instance
//! that does not meet them is reported with the reason. `exports` takes over those of AWS's controller, for a cluster
//! that exports, and `former` those of a former `OWNER_ID`.
//!
//! An adopted instance keeps its id and counts as ours from then on. If another instance of ours has the same address,
//! one of the two is deregistered after the adoption, like any duplicate.

mod candidate;
pub mod exports;
mod former;

use std::collections::BTreeSet;

use super::instances::endpoints::wanted;
use super::instances::present::Present;
use super::instances::sharing::assign_shared;
use super::instances::wanted::Wanted;
use super::{Basis, Change, DeregisterReason, Extent, Holders, Observation, Place, Plan, Reason};
use crate::model::{Attributes, ServiceKey, ServiceRef, Tags};

pub use candidate::{Adoption, Former, NotAdopted};
pub use exports::{ExportAdoption, adopt_exports, to_adopt};
pub use former::adopt_former;

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
