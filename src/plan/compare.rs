//! Compares the instances that a Cloud Map service should have for its holder with those of ours
//! that it has: what is new, what differs, what is as it should be, what nobody asks for.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Change, Difference};
use super::identity::{self, Identity};
use super::wanted::{NewService, Wanted};
use super::{Observation, Place, Reason};
use crate::model::attributes::{
    self, AVAILABILITY_ZONE, INITIAL_HEALTH, IPV4, IPV6, REGION, SCHEMA,
};
use crate::model::{Attributes, ServiceKey};

/// How the instances of ours in one Cloud Map service stand to what its holder asks for.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// The service is to be created first.
    pub create: Option<NewService>,
    /// To register, by id.
    pub register: BTreeMap<String, Attributes>,
    /// To register again, by id.
    pub rewrite: BTreeMap<String, (Attributes, Vec<Difference>)>,
    /// As they should be.
    pub unchanged: BTreeSet<String>,
    /// Ours, and asked for by no ready endpoint.
    pub unwanted: BTreeSet<String>,
    /// Of those, the ones that say what another instance of ours says too.
    pub duplicates: BTreeSet<String>,
    /// What is held back, and why.
    pub held_back: Vec<Reason>,
}

/// Compares what `wanted` asks for with what stands under `key`.
pub fn compare(observation: &Observation, key: &ServiceKey, wanted: Wanted) -> Comparison {
    let present: BTreeMap<&String, &Attributes> = observation.registry.instances(key).collect();
    let (ours, foreign): (BTreeMap<_, _>, BTreeMap<_, _>) =
        present.into_iter().partition(|(_, attributes)| observation.owner.owns(attributes));
    let (by_identity, duplicates) = by_identity(&ours, wanted.tells_ports_apart);
    let mut comparison = Comparison {
        create: wanted.create.filter(|_| !wanted.instances.is_empty()),
        held_back: wanted.held_back,
        ..Comparison::default()
    };
    let mut taken: BTreeSet<&String> =
        wanted.instances.keys().filter_map(|identity| by_identity.get(identity).copied()).collect();
    for (identity, attributes) in wanted.instances {
        let new_id = identity::new_id(&observation.owner, &wanted.service, &identity);
        // An instance whose identity changed, say by a second address, may have the new id already.
        let same_id = ours.get_key_value(&new_id).map(|(id, _)| *id);
        match by_identity.get(&identity).copied().or(same_id.filter(|id| taken.insert(id))) {
            Some(id) => comparison.settle(id, ours[id], &attributes),
            None if foreign.contains_key(&new_id) || ours.contains_key(&new_id) => {
                comparison.held_back.push(Reason::IdTaken(new_id));
            }
            None => _ = comparison.register.insert(new_id, attributes),
        }
    }
    let stays = |attributes: &Attributes| {
        let addresses = [IPV4, IPV6].into_iter().filter_map(|key| attributes.get(key));
        let mut addresses = addresses.filter_map(|text| text.parse().ok());
        addresses.any(|address| wanted.unclear.contains(&address))
    };
    for (id, attributes) in ours.into_iter().filter(|(id, _)| !taken.contains(id)) {
        let group =
            if stays(attributes) { &mut comparison.unchanged } else { &mut comparison.unwanted };
        group.insert(id.clone());
    }
    comparison.duplicates = duplicates;
    comparison
}

/// Our instances by identity; of several with one identity the first by id counts.
fn by_identity<'a>(
    ours: &BTreeMap<&'a String, &Attributes>,
    tells_ports_apart: bool,
) -> (BTreeMap<Identity, &'a String>, BTreeSet<String>) {
    let mut first = BTreeMap::new();
    let mut duplicates = BTreeSet::new();
    for (id, attributes) in ours {
        let same = *first.entry(Identity::of(attributes, tells_ports_apart)).or_insert(*id);
        if same != *id {
            duplicates.insert((*id).clone());
        }
    }
    (first, duplicates)
}

impl Comparison {
    /// Files a present instance of ours under unchanged or rewrite.
    fn settle(&mut self, id: &str, present: &Attributes, wanted: &Attributes) {
        let rewritten = carry_over(present, wanted);
        let differences = differences(present, &rewritten);
        if differences.is_empty() {
            self.unchanged.insert(id.to_owned());
        } else {
            self.rewrite.insert(id.to_owned(), (rewritten, differences));
        }
    }

    /// Whether every endpoint that can be found here is found here.
    pub fn is_whole(&self) -> bool {
        let hinders = |reason: &Reason| {
            // A remark on the service as a whole stands in nobody's way, and an address that is
            // never published is missing nowhere.
            !matches!(reason, Reason::PortNotServed { .. } | Reason::NotPublishable(_))
        };
        self.register.is_empty() && !self.held_back.iter().any(hinders)
    }

    /// Whether one of the endpoints that ask for an instance here is found here.
    pub fn serves_some(&self) -> bool {
        !self.unchanged.is_empty() || !self.rewrite.is_empty()
    }

    /// The changes, removals aside.
    pub fn changes(&self, place: &Place) -> Vec<Change> {
        let place = || place.clone();
        let create = self.create.clone();
        let create = create.map(|service| Change::CreateService { place: place(), service });
        let register = self.register.clone().into_iter().map(|(instance, attributes)| {
            Change::Register { place: place(), instance, attributes }
        });
        let rewrite =
            self.rewrite.clone().into_iter().map(|(instance, (attributes, differences))| {
                Change::Rewrite { place: place(), instance, attributes, differences }
            });
        create.into_iter().chain(register).chain(rewrite).collect()
    }
}

/// Whether we set and repair an attribute. Anything else on an instance of ours somebody added.
fn is_managed(key: &str) -> bool {
    let aws = key.starts_with("AWS_") && key != INITIAL_HEALTH;
    aws || attributes::is_known_mark(key) || [AVAILABILITY_ZONE, REGION].contains(&key)
}

/// What to register: `RegisterInstance` replaces the whole map, so what others added is sent again.
fn carry_over(present: &Attributes, wanted: &Attributes) -> Attributes {
    let others = present.iter().filter(|(key, _)| !is_managed(key));
    let mut rewritten: Attributes =
        others.map(|(key, value)| (key.clone(), value.clone())).collect();
    rewritten.extend(wanted.clone());
    rewritten.insert(SCHEMA.to_owned(), attributes::schema_over(present.get(SCHEMA)));
    rewritten
}

/// The attributes that differ. The version of the marks alone is no difference.
fn differences(present: &Attributes, wanted: &Attributes) -> Vec<Difference> {
    let keys: BTreeSet<&String> = present.keys().chain(wanted.keys()).collect();
    let differing = keys.into_iter().filter(|key| *key != SCHEMA);
    differing
        .filter(|key| present.get(*key) != wanted.get(*key))
        .map(|key| Difference {
            attribute: key.clone(),
            present: present.get(key).cloned(),
            wanted: wanted.get(key).cloned(),
        })
        .collect()
}
