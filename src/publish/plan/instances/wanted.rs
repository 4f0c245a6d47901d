//! The instances that one holder of a name wants in a Cloud Map service, with the changes of the service itself.
//! [`super::endpoints`] makes them of the claim and the endpoints of its Service.

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
    /// The Cloud Map service to create first, if there is none.
    pub create: Option<NewService>,
    /// The changes of an existing Cloud Map service.
    pub update: Option<ServiceUpdate>,
    /// A remark on it for the report.
    pub note: Option<Note>,
    /// Whether instances that differ in their port alone are different instances.
    pub tells_ports_apart: bool,
    /// Each instance, by the id that it gets if it is new.
    pub instances: BTreeMap<String, (Identity, Attributes)>,
    /// Those that it asks for, too, and that are another holder's.
    pub owned_by_sharer: BTreeSet<Identity>,
    /// Addresses of endpoints that could not be shaped: instances registered for them stay.
    pub unclear: BTreeSet<IpAddr>,
    /// Whether one of the endpoints is ready, also one that could not be shaped.
    pub ready: bool,
    /// The most instances to keep or register, and its source.
    pub maximum: Option<Maximum>,
    /// The instances of ours that are beyond it.
    pub beyond_maximum: BTreeMap<String, SetBy>,
    /// Which addresses may be published.
    pub permit: Permit<'a>,
    /// Whether the Service wants none, and keeps its claim.
    pub withdrawn: bool,
    /// The fate of instances that no endpoint asks for.
    pub surplus: Surplus,
    /// Why no registration can succeed here, if none can.
    pub refused: Option<Reason>,
    /// Why something is held back.
    pub held_back: Vec<Reason>,
}

/// The fate of instances that no endpoint asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surplus {
    /// They are deregistered.
    Deregister,
    /// They stay while no endpoint is ready at all.
    KeepIfNoneReady,
    /// They stay: there may be more endpoints than those that were read.
    Keep,
}

impl Wanted<'_> {
    /// Adds an instance. Pods on the host's network share their address, and so are one instance, as healthy as the
    /// best of them. If one of them has a second address, that one stands for all.
    pub fn add(&mut self, id: String, mut instance: (Identity, Attributes)) {
        let known = self.instances.entry(id).or_insert_with(|| instance.clone());
        let best = health::initial(&known.1).min(health::initial(&instance.1));
        for (_, attributes) in [&mut *known, &mut instance] {
            attributes.entry(INITIAL_HEALTH.to_owned()).and_modify(|it| *it = best.to_string());
        }
        if instance > *known {
            *known = instance;
        }
    }

    /// Takes out the instances beyond the maximum, healthy ones last, and of those that are equally healthy
    /// those that are `present` last. Returns the ids taken out.
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

    /// The identity of an instance here.
    pub fn identity_of(&self, attributes: &Attributes) -> Identity {
        Identity::of(attributes, self.tells_ports_apart)
    }

    /// The attributes to write now over an instance. While none is ready and the last ones stay, those
    /// that are healthy stay healthy, too.
    pub fn attributes_over(&self, attributes: &Attributes, present: Health) -> Attributes {
        let mut attributes = attributes.clone();
        if let Some(initial) = attributes.get_mut(INITIAL_HEALTH)
            && self.keeps_last_set()
        {
            *initial = present.to_string();
        }
        attributes
    }

    /// Whether an instance serves as well as any of the endpoints could: it is healthy, or none is.
    pub fn serves(&self, attributes: &Attributes) -> bool {
        health::initial(attributes) == Health::Healthy || !self.ready
    }

    /// Whether an instance that no endpoint asks for stays nevertheless.
    pub fn keeps_surplus(&self) -> bool {
        self.keeps_all() || self.keeps_last_set()
    }

    /// Whether it stays since there may be more endpoints than those that were read.
    pub fn keeps_all(&self) -> bool {
        self.surplus == Surplus::Keep
    }

    /// Whether nothing is ready and the last instances stay.
    pub fn keeps_last_set(&self) -> bool {
        self.surplus == Surplus::KeepIfNoneReady && !self.ready
    }

    /// Whether an endpoint asks for an instance, also one that could not be shaped or is another holder's.
    pub fn has_endpoints(&self) -> bool {
        !self.instances.is_empty() || !self.owned_by_sharer.is_empty() || !self.unclear.is_empty()
    }
}
