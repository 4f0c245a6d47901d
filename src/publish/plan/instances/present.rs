//! The instances of ours under a name in Cloud Map, by id and by identity, and which of them is kept for which wanted
//! instance.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;

use super::health::{self, HealthDifference};
use super::identity::{Identity, new_id};
use super::wanted::Wanted;
use crate::model::{
    Attributes, CloudMapService, Health, KnownHealth, Owner, ServiceKey, ServiceRef,
};
use crate::publish::plan::Observation;

/// The instances of ours under a key.
pub struct Present<'a> {
    owner: &'a Owner,
    service: Option<&'a CloudMapService>,
    /// The instances of ours, by id.
    pub ours: BTreeMap<&'a String, Ours<'a>>,
    by_identity: BTreeMap<Identity, Vec<&'a String>>,
}

/// An instance of ours.
pub struct Ours<'a> {
    /// All its attributes.
    pub attributes: &'a Attributes,
    /// Its address and port, as far as the service tells ports apart.
    pub identity: Identity,
}

/// The identity and the holder of each wanted instance, by its new id.
type ByNewId<'w> = BTreeMap<&'w String, (&'w Identity, &'w ServiceRef)>;

impl<'a> Present<'a> {
    /// The instances that were read under a key.
    pub fn of(observation: &'a Observation, key: &ServiceKey, tells_ports_apart: bool) -> Self {
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

    /// The instance of ours with an identity; of several the first by id.
    pub fn found(&self, identity: &Identity) -> Option<&'a String> {
        self.by_identity.get(identity)?.first().copied()
    }

    /// Whether an instance of ours is marked as this Service's.
    pub fn is_marked(&self, id: &String, service: &ServiceRef) -> bool {
        self.owner.marks_for(self.ours[id].attributes, service)
    }

    /// The id for a new instance if an instance of ours has `wanted_id` and is kept for another endpoint, as after an
    /// exchange in a full place. Returns `None` if none is free.
    pub fn spare_id(&self, wanted_id: &str) -> Option<String> {
        self.ids_from(wanted_id).find(|id| !self.is_used(id))
    }

    /// An id, then the one that was made for the endpoint of the instance of ours that has it, and so on.
    fn ids_from(&self, first: &str) -> impl Iterator<Item = String> {
        let next = |id: &String| {
            let Ours { attributes, identity } = self.ours.get(id)?;
            Some(new_id(self.owner, &self.owner.service_of(attributes)?, identity))
        };
        successors(Some(first.to_owned()), next).take(self.ours.len() + 1)
    }

    /// Whether an instance has this id, ours or not.
    fn is_used(&self, id: &str) -> bool {
        let mut instances = self.service.iter().filter_map(|service| service.instances.as_ref());
        instances.any(|instances| instances.contains_key(id))
    }

    /// The health of an instance of ours, as far as it is known.
    pub fn health(&self, id: &String) -> Health {
        health::present(self.service, id, self.ours[id].attributes)
    }

    /// How its health differs from these attributes, if it is ours to write and could be read.
    pub fn health_difference(
        &self,
        id: &String,
        attributes: &Attributes,
    ) -> Option<HealthDifference> {
        let difference = health::difference(attributes, self.health(id));
        difference.filter(|_| self.health_unreadable().is_none())
    }

    /// Why the health of the instances is not known, if that was tried.
    pub fn health_unreadable(&self) -> Option<&String> {
        match self.service.map(|service| &service.health) {
            Some(KnownHealth::Unreadable(problem)) => Some(problem),
            _ => None,
        }
    }

    /// The instance of ours that is kept for each wanted one, by the latter's new id: one with its identity, else the
    /// one that has the new id already, since its addresses changed, say by a second one. If that one is kept for
    /// another, because its address was edited, it is the next one on the way to a spare id that is kept for none.
    pub fn kept_for<'w>(
        &self,
        all: impl IntoIterator<Item = &'w Wanted<'w>>,
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

    /// The instance of ours with the identity of each wanted one. An id that is made for another wanted instance is
    /// left to that one, if there is a choice.
    fn with_same_identity<'w>(&self, instances: &ByNewId<'w>) -> BTreeMap<&'w String, &'a String> {
        let same = instances.iter().filter_map(|(new_id, (identity, _))| {
            let found = self.by_identity.get(*identity)?;
            let is_free = |id: &&&String| **id == *new_id || !instances.contains_key(**id);
            Some((*new_id, *found.iter().find(is_free).or(found.first())?))
        });
        same.collect()
    }
}
