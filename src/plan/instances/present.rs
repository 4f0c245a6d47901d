//! What stands under a name in Cloud Map, as the comparison looks at it: which ids are in use, which
//! instances are ours, and which of those is kept for which wanted one.

use std::collections::{BTreeMap, BTreeSet};

use super::health;
use super::identity::{Identity, new_id};
use super::maximum::{Maximum, SetBy};
use super::wanted::Wanted;
use crate::model::{
    Attributes, CloudMapService, Health, KnownHealth, ServiceKey, ServiceRef,
};
use crate::plan::Observation;

/// What stands under a key.
pub struct Present<'a> {
    observation: &'a Observation,
    service: Option<&'a CloudMapService>,
    tells_ports_apart: bool,
    /// The ids that are in use, ours and foreign.
    pub ids: BTreeSet<&'a String>,
    /// The instances of ours.
    pub ours: BTreeMap<&'a String, &'a Attributes>,
    /// The instances of ours with each identity.
    by_identity: BTreeMap<Identity, Vec<&'a String>>,
}

impl<'a> Present<'a> {
    /// Looks at what was read of it.
    pub fn of(observation: &'a Observation, key: &ServiceKey, tells_ports_apart: bool) -> Self {
        let ours: BTreeMap<&String, &Attributes> = observation.ours(key).collect();
        let mut by_identity: BTreeMap<Identity, Vec<&String>> = BTreeMap::new();
        for (id, attributes) in &ours {
            let identity = Identity::of(attributes, tells_ports_apart);
            by_identity.entry(identity).or_default().push(id);
        }
        let ids = observation.registry.instances(key).map(|(id, _)| id).collect();
        let service = observation.registry.services.get(key);
        Self { observation, service, tells_ports_apart, ids, ours, by_identity }
    }

    /// What an instance of ours states of its address and port.
    pub fn identity(&self, id: &String) -> Identity {
        Identity::of(self.ours[id], self.tells_ports_apart)
    }

    /// The instance of ours that states an identity; of several the first by id.
    pub fn found(&self, identity: &Identity) -> Option<&'a String> {
        self.by_identity.get(identity)?.first().copied()
    }

    /// Whether an instance of ours is marked as this Service's.
    pub fn is_marked(&self, id: &String, service: &ServiceRef) -> bool {
        self.observation.owner.service_of(self.ours[id]).as_ref() == Some(service)
    }

    /// The id for a new instance if an instance of ours has `new_id` and stands for another endpoint, as after an
    /// exchange in a full place: the id that was made for that endpoint. Returns `None` if that is not free either.
    pub fn spare_id(&self, new_id: &str) -> Option<String> {
        let mut id = new_id.to_owned();
        for _ in 0..=self.ours.len() {
            if !self.ids.contains(&id) {
                return Some(id);
            }
            let attributes = self.ours.get(&id)?;
            let identity = Identity::of(attributes, self.tells_ports_apart);
            id = own_id(self.observation, attributes, &identity)?;
        }
        None
    }

    /// What is known of the health of an instance of ours.
    pub fn health(&self, id: &String) -> Health {
        health::present(self.service, id, self.ours[id])
    }

    /// Why the health of the instances is not known, where that was tried in vain.
    pub fn health_unreadable(&self) -> Option<&String> {
        match self.service.map(|service| &service.health) {
            Some(KnownHealth::Unreadable(problem)) => Some(problem),
            _ => None,
        }
    }

    /// Takes out of `wanted` what is beyond its maximum, and says which of ours that concerns. What is
    /// kept for it comes first, unless that is marked for one of the `others` who share the name.
    pub fn beyond_maximum(
        &self,
        wanted: &mut Wanted,
        others: &[ServiceRef],
    ) -> BTreeMap<String, SetBy> {
        let Some(Maximum { set_by, .. }) = wanted.maximum else { return BTreeMap::new() };
        let kept: BTreeMap<String, String> = self
            .kept_for([&*wanted])
            .into_iter()
            .map(|(new_id, id)| (new_id.clone(), id.clone()))
            .collect();
        let own = |id: &String| {
            let mut others = others.iter().filter(|other| **other != wanted.holder);
            !others.any(|other| self.is_marked(id, other))
        };
        let own: BTreeSet<String> =
            kept.iter().filter(|(_, id)| own(id)).map(|(new_id, _)| new_id.clone()).collect();
        let beyond = wanted.keep_within_maximum(|new_id| own.contains(new_id));
        beyond.iter().filter_map(|new_id| Some((kept.get(new_id)?.clone(), set_by))).collect()
    }

    /// The instance of ours that is kept for each wanted one, by the latter's new id: one with its
    /// identity, else the one that has the new id already, since its addresses changed, say by a second
    /// one.
    pub fn kept_for<'w>(
        &self,
        all: impl IntoIterator<Item = &'w Wanted<'w>>,
    ) -> BTreeMap<&'w String, &'a String> {
        let instances: BTreeMap<&String, &Identity> = all
            .into_iter()
            .flat_map(|wanted| &wanted.instances)
            .map(|(new_id, (identity, _))| (new_id, identity))
            .collect();
        let same = instances.iter().filter_map(|(new_id, identity)| {
            let found = self.by_identity.get(*identity)?;
            // An id that is made for another wanted instance is left to that one, if there is a choice.
            let is_free = |id: &&&String| **id == *new_id || !instances.contains_key(**id);
            Some((*new_id, *found.iter().find(is_free).or(found.first())?))
        });
        let mut kept: BTreeMap<&String, &String> = same.collect();
        let taken: BTreeSet<&String> = kept.values().copied().collect();
        for new_id in instances.into_keys().filter(|new_id| !taken.contains(new_id)) {
            if let Some((id, _)) = self.ours.get_key_value(new_id) {
                kept.entry(new_id).or_insert(id);
            }
        }
        kept
    }
}

/// The id that is made for an endpoint of the Service in an instance's marks.
fn own_id(
    observation: &Observation,
    attributes: &Attributes,
    identity: &Identity,
) -> Option<String> {
    let owner = &observation.owner;
    Some(new_id(owner, &owner.service_of(attributes)?, identity))
}
