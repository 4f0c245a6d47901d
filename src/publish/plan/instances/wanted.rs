//! The instances that one holder of a name wants in a Cloud Map service, with the changes of the service itself.
//! [`super::endpoints`] derives them from the claim and the endpoints of its Service.

use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::health;
use super::identity::Identity;
use super::subset;
use crate::model::attributes::INITIAL_HEALTH;
use crate::model::{Attributes, Health, ServiceRef};
use crate::publish::plan::maximum::Maximum;
use crate::publish::plan::{NewService, Note, Permit, Reason, ServiceUpdate, SetBy};

/// The instances that a Cloud Map service should have for one holder of the name.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// The Kubernetes Service that holds the name, alone or with others.
    pub holder: ServiceRef,
    /// The Cloud Map service to create first, if it does not exist.
    pub create: Option<NewService>,
    /// The changes of an existing Cloud Map service.
    pub update: Option<ServiceUpdate>,
    /// A remark on the Cloud Map service for the report.
    pub note: Option<Note>,
    /// Whether instances that differ only in their port are different instances.
    pub tells_ports_apart: bool,
    /// By the id that the instance gets if it is new. Nodes of a map that are larger than 1,023 bytes make glibc's
    /// allocator tidy up at each of them, which took half of the time of a plan; these have 992.
    pub instances: BTreeMap<String, (Identity, Attributes)>,
    /// Instances that it requests, and that another holder of the name registers.
    pub owned_by_sharer: BTreeSet<Identity>,
    /// Addresses for which no instance could be derived: instances registered for them stay.
    pub unclear: BTreeSet<IpAddr>,
    /// Whether one of the endpoints is ready, including those without a derived instance.
    pub ready: bool,
    /// The most instances to keep or register, and its source.
    pub maximum: Option<Maximum>,
    /// The present instances of ours that exceed the maximum.
    pub beyond_maximum: BTreeMap<String, SetBy>,
    /// The addresses that may be published.
    pub permit: Permit<'a>,
    /// Whether the Service requests no instances, and keeps its claim.
    pub withdrawn: bool,
    pub surplus: Surplus,
    /// The reason why no registration can succeed here.
    pub refused: Option<Reason>,
    /// The reasons for held-back requests.
    pub held_back: Vec<Reason>,
}

/// The treatment of instances that no endpoint requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surplus {
    Deregister,
    /// Keep them while no endpoint is ready.
    KeepIfNoneReady,
    /// Keep them, since there may be more endpoints than were read.
    Keep,
}

impl Wanted<'_> {
    /// Adds an instance. Pods on the host's network share their address, so they are one instance with the best health
    /// of them. If one of them has a second address, its attributes are used.
    pub fn add(&mut self, id: String, mut instance: (Identity, Attributes)) {
        let known = match self.instances.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                new.insert(instance);
                return;
            }
        };
        let best = health::initial(&known.1).min(health::initial(&instance.1));
        for (_, attributes) in [&mut *known, &mut instance] {
            health::set_initial(attributes, best);
        }
        if instance > *known {
            *known = instance;
        }
    }

    /// Removes the instances that exceed the maximum, and returns their ids. Healthy instances have priority, then
    /// `present` ones.
    pub fn keep_within_maximum(&mut self, present: impl Fn(&String) -> bool) -> BTreeSet<String> {
        let exceeded = |maximum: &Maximum| self.instances.len() > maximum.count;
        let Some(Maximum { count, set_by }) = self.maximum.filter(exceeded) else {
            return BTreeSet::new();
        };
        let mut in_order = subset::in_order(self.instances.keys(), present);
        in_order.sort_by_key(|id| health::initial(&self.instances[*id].1));
        let beyond: BTreeSet<String> = in_order.into_iter().skip(count).cloned().collect();
        let wanted = self.instances.len();
        self.held_back.push(Reason::Maximum { maximum: count, set_by, wanted });
        self.instances.retain(|id, _| !beyond.contains(id));
        beyond
    }

    /// The identity of an instance in this Cloud Map service.
    pub fn identity_of(&self, attributes: &Attributes) -> Identity {
        Identity::of(attributes, self.tells_ports_apart)
    }

    /// The attributes that replace those of an instance. While no endpoint is ready and the last instances stay, their
    /// health does not change either.
    pub fn attributes_over<'a>(
        &self,
        attributes: &'a Attributes,
        present: Health,
    ) -> Cow<'a, Attributes> {
        let mut attributes = Cow::Borrowed(attributes);
        if attributes.contains_key(INITIAL_HEALTH) && self.keeps_last_set() {
            attributes.to_mut().insert(INITIAL_HEALTH, present.as_str());
        }
        attributes
    }

    /// Whether an instance is as healthy as any endpoint: it is healthy, or no endpoint is ready.
    pub fn serves(&self, attributes: &Attributes) -> bool {
        health::initial(attributes) == Health::Healthy || !self.ready
    }

    /// Whether instances stay that no endpoint requests.
    pub fn keeps_surplus(&self) -> bool {
        self.keeps_all() || self.keeps_last_set()
    }

    /// Whether they stay since there may be more endpoints than were read.
    pub fn keeps_all(&self) -> bool {
        self.surplus == Surplus::Keep
    }

    /// Whether the last instances stay since no endpoint is ready.
    pub fn keeps_last_set(&self) -> bool {
        self.surplus == Surplus::KeepIfNoneReady && !self.ready
    }

    /// Whether an endpoint requests an instance, even if none could be derived or another holder registers it.
    pub fn has_endpoints(&self) -> bool {
        !self.instances.is_empty() || !self.owned_by_sharer.is_empty() || !self.unclear.is_empty()
    }
}
