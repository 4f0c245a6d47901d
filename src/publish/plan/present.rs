//! Our instances under a name in Cloud Map, by id and by identity, and the wanted instance that each is kept for. If
//! several Services share the name and select the same pod, its instance is registered for one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;

use super::instance::{Identity, initial_health, new_id, present_health, set_initial_health};
use super::observation::Observation;
use super::wanted::WantedInstances;
use crate::model::attributes::HEALTH;
use crate::model::{Attributes, CloudMapService, Health, Owner, ServiceKey, ServiceRef};

/// Our instances under a key.
pub struct Present<'a> {
    owner: &'a Owner,
    service: Option<&'a CloudMapService>,
    /// Our instances by id.
    pub ours: BTreeMap<&'a String, Ours<'a>>,
    by_identity: BTreeMap<Identity, Vec<&'a String>>,
}

/// An instance of ours.
pub struct Ours<'a> {
    /// All its attributes.
    pub attributes: &'a Attributes,
    /// Its addresses, and its port if the service distinguishes ports.
    pub identity: Identity,
}

/// The identity and the holder of each wanted instance, by its new id.
type ByNewId<'w> = BTreeMap<&'w String, (&'w Identity, &'w ServiceRef)>;

impl<'a> Present<'a> {
    /// Our instances among those that were read under a key, compared as the holders of the name want theirs.
    pub fn of(observation: &'a Observation, key: &ServiceKey, all: &[WantedInstances]) -> Self {
        let tells_ports_apart = all.first().is_some_and(|it| it.template.tells_ports_apart());
        let mut ours = BTreeMap::new();
        let mut by_identity: BTreeMap<Identity, Vec<&String>> = BTreeMap::new();
        for (id, attributes) in observation.ours(key) {
            let identity = Identity::of(attributes, tells_ports_apart);
            by_identity.entry(identity.clone()).or_default().push(id);
            ours.insert(id, Ours { attributes, identity });
        }
        let service = observation.registry.services.get(key);
        Self { owner: &observation.owner, service, ours, by_identity }
    }

    /// Our instance with an identity. If there are several, the first by id.
    pub fn found(&self, identity: &Identity) -> Option<&'a String> {
        self.by_identity.get(identity)?.first().copied()
    }

    /// Whether an instance of ours is marked for this Service.
    pub fn is_marked(&self, id: &String, service: &ServiceRef) -> bool {
        self.owner.marks_for(self.ours[id].attributes, service)
    }

    /// The Service that an instance of ours is marked for.
    pub fn marked(&self, id: &String) -> Option<ServiceRef> {
        self.owner.service_of(self.ours[id].attributes)
    }

    /// The id for a new instance if an instance of ours has `wanted_id` and is kept for another endpoint, as after an
    /// exchange in a full namespace. Returns `None` if none is free.
    pub fn spare_id(&self, wanted_id: &str) -> Option<String> {
        let used = self.service.and_then(|service| service.instances.as_ref());
        self.ids_from(wanted_id).find(|id| !used.is_some_and(|used| used.contains_key(id)))
    }

    /// An id, then the id for the endpoint of our instance that has the first id, and so on.
    fn ids_from(&self, first: &str) -> impl Iterator<Item = String> {
        let next = |id: &String| {
            let Ours { attributes, identity } = self.ours.get(id)?;
            Some(new_id(self.owner, &self.owner.service_of(attributes)?, identity))
        };
        successors(Some(first.to_owned()), next).take(self.ours.len() + 1)
    }

    /// The known health of an instance of ours.
    pub fn health(&self, id: &String) -> Health {
        present_health(self.service, id, self.ours[id].attributes)
    }

    /// Whether it is healthy as far as we report it. The health of an instance without `health: custom` is not
    /// ours to judge.
    pub fn serves(&self, id: &String) -> bool {
        !self.ours[id].attributes.contains_key(HEALTH) || self.health(id) == Health::Healthy
    }

    /// The health in the attributes, if we report the health of this instance, and it differs from the known one and that
    /// could be read.
    pub fn health_to_report(&self, id: &String, attributes: &Attributes) -> Option<Health> {
        let wanted = initial_health(attributes);
        let is_read = self.health_unreadable().is_none();
        let differs = attributes.contains_key(HEALTH) && wanted != self.health(id);
        (is_read && differs).then_some(wanted)
    }

    /// The reason why the health of the instances could not be read.
    pub fn health_unreadable(&self) -> Option<&String> {
        self.service?.health.problem()
    }

    /// Our instance that is kept for each wanted instance, by the new id of the latter. It has the same identity, or it
    /// has the new id already, for example if the endpoint gained a second address. If that instance is kept for
    /// another endpoint, since its address was edited, the next one on the way to a spare id is kept.
    pub fn kept_for<'w>(
        &self,
        all: impl IntoIterator<Item = &'w WantedInstances<'w>>,
    ) -> BTreeMap<&'w String, &'a String> {
        let instances: ByNewId<'w> = all
            .into_iter()
            .flat_map(|wanted| wanted.instances.iter().map(move |it| (it, &wanted.holder)))
            .map(|((new_id, (identity, _)), holder)| (new_id, (identity, holder)))
            .collect();
        let mut kept = self.with_same_identity(&instances);
        let mut taken: BTreeSet<&String> = kept.values().copied().collect();
        for new_id in instances.keys().copied() {
            if let Some((id, _)) = self.ours.get_key_value(new_id)
                && !kept.contains_key(new_id)
                && taken.insert(id)
            {
                kept.insert(new_id, id);
            }
        }
        for (new_id, (_, holder)) in instances {
            let next = || self.ids_from(new_id).find(|id| !taken.contains(id));
            if !kept.contains_key(new_id)
                && let Some((id, _)) = next().and_then(|id| self.ours.get_key_value(&id))
                && self.is_marked(id, holder)
            {
                taken.insert(id);
                kept.insert(new_id, id);
            }
        }
        kept
    }

    /// Our instance with the identity of each wanted instance. If there is a choice, an id that belongs to another wanted
    /// instance is left to it.
    fn with_same_identity<'w>(&self, instances: &ByNewId<'w>) -> BTreeMap<&'w String, &'a String> {
        let same = instances.iter().filter_map(|(new_id, (identity, _))| {
            let found = self.by_identity.get(*identity)?;
            let is_free = |id: &&&String| **id == *new_id || !instances.contains_key(**id);
            Some((*new_id, *found.iter().find(is_free).or(found.first())?))
        });
        same.collect()
    }
}

/// Assigns each instance to one of the holders, which are ordered by age.
pub fn assign_shared(all: &mut [WantedInstances], present: &Present) {
    let holders: BTreeSet<ServiceRef> = all.iter().map(|wanted| wanted.holder.clone()).collect();
    for wanted in &mut *all {
        // Those beyond the maximum are left out. Registered instances have priority, unless they are marked for another
        // holder.
        let Some((_, set_by)) = wanted.maximum() else { continue };
        let kept = present.kept_for([&*wanted]).into_iter();
        let kept: BTreeMap<_, _> = kept.map(|(new_id, id)| (new_id.clone(), id)).collect();
        let holder = wanted.holder.clone();
        let is_own = |new_id: &String| {
            kept.get(new_id).is_some_and(|id| {
                present.marked(id).is_none_or(|it| it == holder || !holders.contains(&it))
            })
        };
        let beyond = wanted.keep_within_maximum(is_own);
        let beyond = beyond.iter().filter_map(|new_id| kept.get(new_id));
        wanted.beyond_maximum = beyond.map(|id| ((*id).clone(), set_by)).collect();
    }
    assign_each(all, present);
}

/// Assigns every instance to the holder it is marked for, or to the oldest that requests it. It is healthy if one of
/// them reports it healthy.
///
/// An id has the Service in its hash. If blue and green share a name and both select pod 10.0.0.1, each would register
/// it: clients would find it twice, and one of the two would be deregistered as a duplicate in every sync.
fn assign_each(all: &mut [WantedInstances], present: &Present) {
    // Each holder by its place, with the id under which it requests the instance.
    let mut requesting: BTreeMap<Identity, Vec<(usize, String)>> = BTreeMap::new();
    for (index, wanted) in all.iter().enumerate() {
        for (id, (identity, _)) in &wanted.instances {
            requesting.entry(identity.clone()).or_default().push((index, id.clone()));
        }
    }
    requesting.retain(|_, requesting| requesting.len() > 1);
    for (identity, requesting) in requesting {
        let has = |(index, _): &(usize, String)| {
            let found = present.found(&identity);
            found.is_some_and(|id| present.is_marked(id, &all[*index].holder))
        };
        let keeps = requesting.iter().position(has).unwrap_or(0);
        let stated = requesting.iter().filter_map(|(index, id)| all[*index].instances.get(id));
        let best = stated.map(|(_, attributes)| initial_health(attributes)).min();
        for (place, (index, id)) in requesting.into_iter().enumerate() {
            let wanted = &mut all[index];
            if place != keeps {
                wanted.instances.remove(&id);
                wanted.owned_by_sharer.insert(identity.clone());
            } else if let (Some(best), Some((_, attributes))) =
                (best, wanted.instances.get_mut(&id))
            {
                set_initial_health(attributes, best);
            }
        }
    }
}
