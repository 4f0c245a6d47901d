//! The instances that the holder of a name wants in its Cloud Map service, derived from its claim and its endpoints,
//! and the match of our registered instances with the wanted ones. If a maximum excludes some instances, registered
//! ones have priority.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::fate::{InstanceFate, InstanceFates};
use super::identity::{Identity, hash_of, is_managed};
use super::instance_template::InstanceTemplate;
use super::names::MaximumSource;
use super::observation::Observation;
use super::reason::Reason;
use super::services::{may_register_in, new_service};
use crate::model::{
    Attributes, Claims, CloudMapService, Endpoint, INSTANCES_OF_NAME, INSTANCES_OF_SERVICE, Marks,
    Owner, PublishedService, ServiceKey, ServiceKind, ServiceRef,
};

/// The instances that a Cloud Map service should have for the holder of the name.
#[derive(Clone, Debug)]
pub struct WantedInstances<'a> {
    pub holder: ServiceRef,
    pub template: InstanceTemplate<'a>,
    /// The instances, by the id that each would get as a new instance. A node of this map has 992 bytes. For nodes of
    /// more than 1,023 bytes glibc's allocator consolidates its memory each time, which took half of the time of a
    /// plan.
    pub instances: BTreeMap<String, (Identity, Attributes)>,
    /// The largest number of instances here by the limits of the function, and the limit that sets it.
    pub function_limit: (usize, MaximumSource),
    /// Addresses for which no instance could be derived: instances registered for them stay.
    pub unclear: BTreeSet<IpAddr>,
    /// Whether the Service has a ready endpoint: one with an instance, or one for which no instance could be derived.
    pub has_ready_endpoint: bool,
    /// Our present instances that exceed the maximum, each with the source of the maximum.
    pub beyond_maximum: BTreeMap<String, MaximumSource>,
    /// The reason why no registration can succeed here.
    pub blocked_by: Option<Reason>,
    /// The reasons for held-back requests.
    pub held_back: Vec<Reason>,
    /// The fates that were decided, if the plan records them.
    pub fates: Option<InstanceFates>,
}

impl<'a> WantedInstances<'a> {
    /// The instances that the holder of `key` wants in its Cloud Map service. A service that does not exist is created
    /// with the settings of the holder.
    ///
    /// # Errors
    /// Returns the reason if nothing can be registered there.
    pub fn of(
        observation: &'a Observation,
        key: &ServiceKey,
        holder: &ServiceRef,
    ) -> Result<Self, Reason> {
        let limits = observation.name_limits(holder, key).map_err(Reason::NotAllowed)?;
        let (published, claims) = claims_and_endpoints(observation, holder)?;
        let existing = observation.registry.services.get(key);
        existing.map_or(Ok(()), |service| may_register_in(observation, service, key))?;
        let new = || new_service(observation, key, holder).map(|service| service.kind);
        let kind = existing.map(|service| service.kind).or_else(new);
        let kind = kind.unwrap_or(ServiceKind::Http);
        let is_checked = existing.is_some_and(|service| service.health_check.is_some());
        let template = InstanceTemplate { kind, is_checked, published, claims, limits };
        let is_blocked = matches!(kind, ServiceKind::Dns(_)) && observation.rules.lacks_dns_rights;
        let mut wanted = Self {
            holder: holder.clone(),
            instances: BTreeMap::new(),
            function_limit: function_limit(observation, key, holder, template),
            unclear: BTreeSet::new(),
            has_ready_endpoint: false,
            beyond_maximum: BTreeMap::new(),
            blocked_by: is_blocked.then_some(Reason::DnsNotAllowed),
            held_back: template.remarks(),
            fates: None,
            template,
        };
        if claims.publish {
            wanted.add_endpoints(observation);
        }
        Ok(wanted)
    }

    /// Adds an instance. Pods on the host's network share their address, so they are one instance. If one of them has a
    /// second address, its attributes are used.
    pub fn add(&mut self, id: String, instance: (Identity, Attributes)) {
        let Some(known) = self.instances.get_mut(&id) else {
            self.instances.insert(id, instance);
            return;
        };
        if instance > *known {
            *known = instance;
        }
    }

    /// Removes the instances beyond the maximum. Instances of endpoints that do not terminate have priority, then
    /// registered instances, then new instances that Cloud Map accepts: any other instance would count towards the
    /// maximum and never be registered.
    pub fn limit(&mut self, present: &OurInstances) {
        let wanted = self.instances.len();
        let (mut maximum, set_by) = self.maximum();
        if wanted <= maximum {
            return;
        }
        // Instances of all owners count in Cloud Map.
        let others = present.count_others();
        if set_by == MaximumSource::LimitPerName {
            maximum = maximum.saturating_sub(others);
        }
        let mut kept = BTreeMap::new();
        for (new_id, id) in present.match_to(self) {
            kept.insert(new_id.clone(), id.clone());
        }
        let is_present = |new_id: &String| kept.contains_key(new_id);
        let endpoints = self.template.published.read_endpoints().iter();
        let not_terminating =
            endpoints.filter(|endpoint| !endpoint.terminating).flat_map(Endpoint::addresses);
        let not_terminating: BTreeSet<IpAddr> = not_terminating.collect();
        let mut in_order = in_order(self.instances.keys(), is_present);
        in_order.sort_by_key(|id| {
            let (identity, attributes) = &self.instances[*id];
            let is_mismatched =
                Reason::record_type_mismatch(self.template.kind, attributes).is_some();
            let terminates =
                !identity.addresses().any(|address| not_terminating.contains(&address));
            (terminates, is_mismatched && !is_present(id))
        });
        let beyond: BTreeSet<String> = in_order.into_iter().skip(maximum).cloned().collect();
        let reason = match set_by {
            MaximumSource::LimitPerName => {
                Reason::ServiceFull { wanted, fit: maximum, limit: INSTANCES_OF_NAME, others }
            }
            _ => Reason::Maximum { maximum, set_by, wanted },
        };
        if let Some(fates) = &mut self.fates {
            for new_id in &beyond {
                let registered = |id: &String| InstanceFate::registered(id, Some(&reason));
                let left_out = || InstanceFate::LeftOut(reason.clone());
                let fate = kept.get(new_id).map_or_else(left_out, registered);
                fates.insert(new_id.clone(), fate);
            }
        }
        self.held_back.push(reason);
        self.instances.retain(|id, _| !beyond.contains(id));
        for registered in beyond.iter().filter_map(|new_id| kept.get(new_id)) {
            self.beyond_maximum.insert(registered.clone(), set_by);
        }
    }

    /// The wanted attributes for an instance with the attributes `present`. `None` if no endpoint has its address and
    /// port.
    pub fn attributes_of(&self, present: &Attributes) -> Option<&Attributes> {
        let identity = Identity::of(present, self.template.distinguishes_ports());
        let mut instances = self.instances.values();
        instances.find(|(wanted, _)| *wanted == identity).map(|(_, attributes)| attributes)
    }

    /// The largest number of instances to keep or register, with its source: the smallest of the annotated number, the
    /// number that `NAME_POLICY` allows and the limits of the function.
    pub fn maximum(&self) -> (usize, MaximumSource) {
        self.template
            .maximum()
            .map_or(self.function_limit, |maximum| maximum.min(self.function_limit))
    }

    /// Returns the instances.
    ///
    /// # Errors
    /// Returns the reason if no registration can succeed.
    pub fn accepted(self) -> Result<Self, Reason> {
        self.blocked_by.clone().map_or(Ok(self), Err)
    }

    /// Whether instances that no endpoint requests stay, since the cluster truncated the list of endpoints.
    pub fn keeps_all(&self) -> bool {
        self.template.claims.publish && self.template.published.truncated
    }

    /// Whether the last instances stay since no endpoint is ready.
    pub fn keeps_last_set(&self) -> bool {
        let InstanceTemplate { claims, published, .. } = &self.template;
        claims.publish && claims.keeps_last && !published.truncated && !self.has_ready_endpoint
    }

    /// Whether an endpoint requests an instance, even if none could be derived.
    pub fn has_endpoints(&self) -> bool {
        !self.instances.is_empty() || !self.unclear.is_empty()
    }

    /// Adds the instances of the endpoints.
    fn add_endpoints(&mut self, observation: &Observation) {
        let template @ InstanceTemplate { published, claims, .. } = self.template;
        let owner = &observation.owner;
        let marks = Marks { service: self.holder.clone(), pod: None }.write(owner);
        let mut held_back = BTreeSet::new();
        for endpoint in published.read_endpoints() {
            if !endpoint.is_published(claims) {
                continue;
            }
            // Further instances would exceed the limit anyway. Each of a few thousand endpoints may have twenty ports.
            if self.instances.len() >= INSTANCES_OF_SERVICE {
                break;
            }
            let derived = template.instances_of(endpoint, &marks, owner.cluster.region());
            self.has_ready_endpoint |= !derived.instances.is_empty() || !derived.unclear.is_empty();
            for (identity, attributes) in derived.instances {
                let id = identity.new_id(owner, &self.holder);
                self.add(id, (identity, attributes));
            }
            self.unclear.extend(derived.unclear);
            // A thousand endpoints may lack the same port, which is one reason.
            held_back.extend(derived.held_back);
        }
        self.held_back.extend(held_back);
    }
}

/// The largest number of instances of the holder under `key` by the limits of the function. The limit of the Service is
/// divided among the names that it holds: each has room for its registered instances, and the rest is for new instances
/// in the order of the annotation. The limit of a name is the most.
///
/// Say ten names have 500 pods each, and a rollout adds 125 pods. If the first names took all that they want, the last
/// ones would lose the pods that are registered there.
fn function_limit(
    observation: &Observation,
    key: &ServiceKey,
    holder: &ServiceRef,
    template: InstanceTemplate<'_>,
) -> (usize, MaximumSource) {
    let claims = template.claims;
    let mut limit = INSTANCES_OF_SERVICE;
    if claims.names.len() > INSTANCES_OF_SERVICE / INSTANCES_OF_NAME {
        let keys = claims.names.iter();
        let keys = keys.filter_map(|name| observation.key(holder, &claims.namespace, name).ok());
        let held = keys.filter(|key| observation.holders.holds(key, holder));
        let registered: Vec<(ServiceKey, usize)> = held
            .map(|key| {
                let count = observation.count_marked(&key).remove(holder).unwrap_or_default();
                (key, count)
            })
            .collect();
        let all_registered = registered.iter().map(|(_, count)| count).sum();
        let mut free = INSTANCES_OF_SERVICE.saturating_sub(all_registered);
        for (name, count) in &registered {
            if name == key {
                free += count;
                break;
            }
            let existing = observation.registry.services.get(name);
            let kind = existing.map_or(template.kind, |service| service.kind);
            let wanted = InstanceTemplate { kind, ..template }.most_instances();
            free = free.saturating_sub(wanted.saturating_sub(*count));
        }
        limit = free;
    }
    if limit < INSTANCES_OF_NAME {
        (limit, MaximumSource::LimitPerService)
    } else {
        (INSTANCES_OF_NAME, MaximumSource::LimitPerName)
    }
}

fn claims_and_endpoints<'a>(
    observation: &'a Observation,
    holder: &ServiceRef,
) -> Result<(&'a PublishedService, &'a Claims), Reason> {
    let unread = || Reason::Unreadable("its claim was not read".to_owned());
    let published = observation.desired.services.get(holder).ok_or_else(unread)?;
    let claims = published.claims.as_ref().map_err(|_| unread())?;
    if published.endpoints.is_none() {
        return Err(Reason::Unreadable("the Service's endpoints were not read".to_owned()));
    }
    Ok((published, claims))
}

/// The ids by priority, highest first: registered instances, then by the hash in the id, so that every run chooses the
/// same instances.
///
/// Say a canary is one of ten pods: `max-instances: 1`. An update of an EndpointSlice may change the order of its list,
/// so in that order the next sync would replace the canary by another pod. By name or age, the pods of one node or
/// rollout would come first in every Service.
pub fn in_order<'a>(
    ids: impl IntoIterator<Item = &'a String>,
    present: impl Fn(&String) -> bool,
) -> Vec<&'a String> {
    let mut ids: Vec<&String> = ids.into_iter().collect();
    ids.sort_by_key(|&id| (!present(id), hash_of(id), id));
    ids
}

/// Our instances under a key.
pub struct OurInstances<'a> {
    owner: &'a Owner,
    service: Option<&'a CloudMapService>,
    pub ours: BTreeMap<&'a String, OurInstance<'a>>,
    by_identity: BTreeMap<Identity, Vec<&'a String>>,
}

/// An instance of ours.
pub struct OurInstance<'a> {
    pub attributes: &'a Attributes,
    /// Its addresses, and its port if the service distinguishes ports.
    pub identity: Identity,
}

impl<'a> OurInstances<'a> {
    /// Our instances that were read under a key. Their identities have a port if those of the wanted instances do.
    pub fn of(observation: &'a Observation, key: &ServiceKey, wanted: &WantedInstances) -> Self {
        let distinguishes_ports = wanted.template.distinguishes_ports();
        let mut ours = BTreeMap::new();
        let mut by_identity: BTreeMap<Identity, Vec<&String>> = BTreeMap::new();
        for (id, attributes) in observation.our_instances(key) {
            let identity = Identity::of(attributes, distinguishes_ports);
            by_identity.entry(identity.clone()).or_default().push(id);
            ours.insert(id, OurInstance { attributes, identity });
        }
        let service = observation.registry.services.get(key);
        Self { owner: &observation.owner, service, ours, by_identity }
    }

    /// Whether an instance of ours is marked for this Service.
    pub fn is_marked(&self, id: &String, service: &ServiceRef) -> bool {
        self.owner.marks_for(self.ours[id].attributes, service)
    }

    /// The number of instances that are not ours.
    fn count_others(&self) -> usize {
        let all = self.service.and_then(|service| service.instances.as_ref());
        all.map_or(0, |all| all.len()).saturating_sub(self.ours.len())
    }

    /// The keys that were added by hand to instances of ours that are marked for this Service.
    pub fn added_by_hand(&self, service: &ServiceRef) -> BTreeSet<&str> {
        let ours = self.ours.values().filter(|ours| self.owner.marks_for(ours.attributes, service));
        let keys = ours.flat_map(|ours| {
            let keys = ours.attributes.keys();
            keys.filter(|key| !is_managed(key, ours.attributes))
        });
        keys.collect()
    }

    /// The id for a new instance: `wanted_id`, or a spare id if an instance of ours has that id for another endpoint,
    /// as after an exchange in a full namespace. Returns `None` if no id is free.
    pub fn spare_id(&self, wanted_id: &str) -> Option<String> {
        let used = self.service.and_then(|service| service.instances.as_ref());
        self.ids_from(wanted_id).find(|id| !used.is_some_and(|used| used.contains_key(id)))
    }

    /// The id `first`, then the id for the endpoint of our instance that has the id before, and so on.
    fn ids_from(&self, first: &str) -> impl Iterator<Item = String> {
        let next = |id: &String| {
            let OurInstance { attributes, identity } = self.ours.get(id)?;
            Some(identity.new_id(self.owner, &self.owner.service_of(attributes)?))
        };
        std::iter::successors(Some(first.to_owned()), next).take(self.ours.len() + 1)
    }

    /// Matches our instances with the wanted ones. Returns our instance for each wanted instance, by the new id of the
    /// wanted one. An instance matches if it has the same identity, or else if it already has the new id, for example
    /// because the endpoint gained a second address. If the instance with the new id matches another endpoint, since
    /// its address was edited, the next instance in the chain of spare ids matches. No instance matches an endpoint
    /// that has lost an address.
    pub fn match_to<'w>(&self, wanted: &'w WantedInstances) -> BTreeMap<&'w String, &'a String> {
        let mut kept = self.with_same_identity(wanted);
        let mut taken: BTreeSet<&String> = kept.values().copied().collect();
        for new_id in wanted.instances.keys() {
            if let Some((id, _)) = self.ours.get_key_value(new_id)
                && !kept.contains_key(new_id)
                && !self.has_lost_address(wanted, new_id)
                && taken.insert(id)
            {
                kept.insert(new_id, id);
            }
        }
        for new_id in wanted.instances.keys() {
            let next = || self.ids_from(new_id).find(|id| !taken.contains(id));
            if !kept.contains_key(new_id)
                && !self.has_lost_address(wanted, new_id)
                && let Some((id, _)) = next().and_then(|id| self.ours.get_key_value(&id))
                && self.is_marked(id, &wanted.holder)
            {
                taken.insert(id);
                kept.insert(new_id, id);
            }
        }
        kept
    }

    /// Whether our instance with this id has two addresses, and its endpoint has lost one that the records need. Cloud
    /// Map refuses to rewrite such an instance, so if it were kept, DNS would have the lost address until the endpoint
    /// ends.
    pub fn has_lost_address(&self, wanted: &WantedInstances, id: &String) -> bool {
        let Some(ours) = self.ours.get(id) else { return false };
        let Some((_, attributes)) = wanted.instances.get(id) else { return false };
        ours.identity.addresses().count() == 2
            && Reason::record_type_mismatch(wanted.template.kind, attributes).is_some()
    }

    /// Our instance with the same identity as each wanted instance. If several of ours have that identity, prefers one
    /// whose id is not the new id of another wanted instance.
    fn with_same_identity<'w>(
        &self,
        wanted: &'w WantedInstances,
    ) -> BTreeMap<&'w String, &'a String> {
        let mut same = BTreeMap::new();
        for (new_id, (identity, _)) in &wanted.instances {
            let Some(found) = self.by_identity.get(identity) else { continue };
            let is_free = |id: &&&String| **id == new_id || !wanted.instances.contains_key(**id);
            if let Some(id) = found.iter().find(is_free).or(found.first()) {
                same.insert(new_id, *id);
            }
        }
        same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn present_ones_come_first_then_the_hashes_decide() {
        let ids = ["ip-10-0-0-1-cc", "ip-10-0-0-2-aa", "ip-10-0-0-3-bb", "ip-10-0-0-4-aa"];
        let ids = ids.map(str::to_owned);
        let order = |present: &[usize]| {
            let present = |id: &String| present.iter().any(|index| ids[*index] == *id);
            let order = in_order(&ids, present).into_iter();
            order.map(|id| ids.iter().position(|it| it == id)).collect::<Option<Vec<_>>>()
        };
        assert_eq!(order(&[]), Some(vec![1, 3, 2, 0]));
        assert_eq!(order(&[0, 2]), Some(vec![2, 0, 1, 3]));
    }
}
