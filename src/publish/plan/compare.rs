//! Compares the instances that the holder of a name wants in a Cloud Map service with our instances in it. A wanted
//! instance is new, differs from ours, or equals it. Our instances that no endpoint requests are surplus or stay.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Change, Difference};
use super::fate::{self, EndpointFate, InstanceFate, InstanceFates};
use super::identity::Identity;
use super::neighbours::{Neighbours, ServiceInstances};
use super::observation::Observation;
use super::reason::Reason;
use super::removals::DeregisterReason;
use super::wanted::{OurInstances, WantedInstances};
use crate::model::{Attributes, Place, ServiceKey};

/// Compares the instances that the holder wants with our instances under `key`.
pub fn compare(
    observation: &Observation,
    key: &ServiceKey,
    mut wanted: WantedInstances,
) -> Comparison {
    let present = OurInstances::of(observation, key, &wanted);
    wanted.limit(&present);
    compare_with_neighbours(observation, key, &mut wanted, &present);
    let place = &Place::of(key, &observation.registry);
    let instance_fates = wanted.fates.take();
    let kept = present.match_to(&wanted);
    let mut comparison = Comparison {
        has_endpoints: wanted.has_endpoints(),
        instance_fates,
        ..Comparison::default()
    };
    let comparing = Comparing { kept, present: &present, wanted: &wanted, place };
    comparing.add_requested(&mut comparison);
    comparing.add_unrequested(&mut comparison);
    let instances = comparison.instance_fates.take();
    comparison.endpoint_fates =
        instances.map(|instances| fate::endpoint_fates(&wanted, &observation.owner, &instances));
    comparison.finish(wanted)
}

/// Adds a remark if the holder's instances lack a property that all instances of other owners have. If all instances of
/// other owners have a port attribute, callers read the port there. A Service that annotates one port is then not told
/// that DNS records carry no port.
fn compare_with_neighbours(
    observation: &Observation,
    key: &ServiceKey,
    wanted: &mut WantedInstances,
    present: &OurInstances,
) {
    let Some(neighbours) = Neighbours::under(observation, key) else { return };
    let holder_instances = ServiceInstances {
        published: wanted.template.published,
        claims: wanted.template.claims,
        wanted: wanted.instances.values().map(|(_, attributes)| attributes).collect(),
        added_by_hand: present.added_by_hand(&wanted.holder),
    };
    let difference = neighbours.difference_to(&holder_instances).map(Box::new);
    wanted.held_back.extend(difference.map(Reason::NeighboursDiffer));
    if neighbours.have_ports() && wanted.template.claims.ports.len() == 1 {
        wanted.held_back.retain(|reason| !matches!(reason, Reason::PortNotServed { .. }));
    }
}

struct Comparing<'a> {
    present: &'a OurInstances<'a>,
    wanted: &'a WantedInstances<'a>,
    /// Our instance that is kept for each wanted one, by the new id of the wanted one.
    kept: BTreeMap<&'a String, &'a String>,
    place: &'a Place,
}

impl Comparing<'_> {
    /// Adds the instances that the holder wants.
    fn add_requested(&self, comparison: &mut Comparison) {
        for (new_id, (identity, attributes)) in &self.wanted.instances {
            match self.kept.get(new_id) {
                Some(id) => self.add_kept(comparison, new_id, id, (identity, attributes)),
                None => self.add_new(comparison, new_id, attributes),
            }
        }
    }

    /// Whether an instance of ours is marked for the holder of the name.
    fn is_of_holder(&self, id: &String) -> bool {
        self.present.is_marked(id, &self.wanted.holder)
    }

    /// Adds the difference between an instance of ours and its wanted attributes, and the reasons if it cannot be
    /// rewritten.
    fn add_kept(
        &self,
        comparison: &mut Comparison,
        new_id: &str,
        id: &String,
        (identity, attributes): (&Identity, &Attributes),
    ) {
        let wanted = self.wanted;
        let ours = &self.present.ours[id];
        let stale_address = ours.identity != *identity;
        comparison.has_registered |= !stale_address && self.is_of_holder(id);
        comparison.staying += 1;
        // If Cloud Map is in step, all instances are equal to the wanted ones. Copying their attributes would take most
        // of the time of the plan.
        let rewritten = (*ours.attributes != *attributes)
            .then(|| ours.attributes.carry_over(attributes))
            .map(|rewritten| (Difference::between(ours.attributes, &rewritten), rewritten));
        if let Some((differences, attributes)) =
            rewritten.filter(|(differences, _)| !differences.is_empty())
        {
            let blocked_by = wanted.blocked_by.clone().into_iter();
            let reasons: Vec<Reason> = blocked_by.chain(attribute_limit(id, &attributes)).collect();
            if reasons.is_empty() {
                comparison.is_missing |= stale_address;
                let place = self.place.clone();
                let change = Change::rewrite(place, id.clone(), attributes, differences);
                comparison.instances.insert(id.clone(), change);
                return comparison.record(new_id, || InstanceFate::registered(id, None));
            }
            comparison.record(new_id, || match reasons.first() {
                Some(reason) if stale_address => InstanceFate::LeftOut(reason.clone()),
                reason => InstanceFate::registered(id, reason),
            });
            if stale_address {
                comparison.held_back.extend(reasons);
            } else {
                // Clients discover the instance even if its marks are those of a deleted Service.
                comparison.has_registered = true;
                comparison.outdated.extend(reasons);
            }
        } else {
            comparison.record(new_id, || InstanceFate::registered(id, None));
        }
        comparison.unchanged += 1;
    }

    fn add_new(&self, comparison: &mut Comparison, new_id: &str, attributes: &Attributes) {
        let blocked_by = &self.wanted.blocked_by;
        let spare = self.present.spare_id(new_id);
        let spare =
            spare.filter(|id| blocked_by.is_some() || !comparison.instances.contains_key(id));
        let Some(id) = spare else {
            let mismatch = Reason::record_type_mismatch(self.wanted.template.kind, attributes);
            let reason = mismatch.unwrap_or_else(|| Reason::IdTaken(new_id.to_owned()));
            comparison.record(new_id, || InstanceFate::LeftOut(reason.clone()));
            return comparison.held_back.push(reason);
        };
        let limit = || {
            let instance = id.clone();
            let problem = attributes.beyond_limits_with_note()?;
            Some(Reason::AttributeLimit { instance, problem })
        };
        if let Some(reason) = blocked_by.clone().or_else(limit) {
            comparison.record(new_id, || InstanceFate::LeftOut(reason.clone()));
            return comparison.held_back.push(reason);
        }
        comparison.record(new_id, || InstanceFate::registered(&id, None));
        comparison.new += 1;
        comparison.is_missing = true;
        let place = self.place.clone();
        let attributes = attributes.clone();
        let change = Change::Register { place, instance: id.clone(), attributes };
        comparison.instances.insert(id, change);
    }

    /// Adds our instances that are kept for no wanted instance.
    fn add_unrequested(&self, comparison: &mut Comparison) {
        let used: BTreeSet<&String> = self.kept.values().copied().collect();
        for id in self.present.ours.keys().filter(|id| !used.contains(*id)) {
            if self.stays(id) {
                comparison.has_registered |= self.is_of_holder(id);
                comparison.unchanged += 1;
                comparison.staying += 1;
            } else {
                comparison.surplus.insert((*id).clone(), self.deregister_reason(id));
            }
        }
    }

    /// Whether an instance that no endpoint requests stays. It stays if the holder keeps such instances and may publish
    /// its addresses, or if it may belong to an endpoint for which no instance could be derived.
    fn stays(&self, id: &String) -> bool {
        let wanted = self.wanted;
        let identity = &self.present.ours[id].identity;
        let keeps_surplus = wanted.keeps_all() || wanted.keeps_last_set();
        self.is_of_holder(id) && wanted.template.limits.allows_all(identity) && keeps_surplus
            || identity.addresses().any(|address| wanted.unclear.contains(&address))
    }

    /// The reason for removing a surplus instance.
    fn deregister_reason(&self, id: &String) -> DeregisterReason {
        let wanted = self.wanted;
        let identity = &self.present.ours[id].identity;
        let mut instances = wanted.instances.values();
        if !wanted.template.claims.publish {
            DeregisterReason::Withdrawn
        } else if let Some(set_by) = wanted.beyond_maximum.get(id) {
            DeregisterReason::BeyondMaximum(*set_by)
        } else if !wanted.template.limits.allows_all(identity) {
            DeregisterReason::AddressNotAllowed
        } else if instances.any(|(wanted, _)| wanted == identity) {
            DeregisterReason::Duplicate
        } else if self.present.has_lost_address(wanted, id) {
            DeregisterReason::AddressLost
        } else {
            DeregisterReason::NoReadyEndpoint
        }
    }
}

/// The limit of Cloud Map that the attributes of an instance exceed.
fn attribute_limit(instance: &str, attributes: &Attributes) -> Option<Reason> {
    let instance = instance.to_owned();
    attributes.beyond_limits().map(|problem| Reason::AttributeLimit { instance, problem })
}

/// The differences between a Cloud Map service and the claim and endpoints of the holder of the name.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// The changes of instances by id, except removals. If Cloud Map is in step, there are none.
    instances: BTreeMap<String, Change>,
    /// The instances of ours to remove, each with the reason. Some of them have a ready endpoint: an instance beyond a
    /// maximum, a duplicate, an instance with an address that is not allowed, and an instance of a withdrawn Service.
    pub surplus: BTreeMap<String, DeregisterReason>,
    /// The number of our instances that stay as they are.
    pub unchanged: usize,
    /// The number of our instances that stay registered, with the marks of any Service.
    pub staying: usize,
    new: usize,
    /// Whether clients cannot discover an endpoint of the holder until a change is made: its instance is new, or is
    /// registered with other addresses.
    is_missing: bool,
    /// Whether an endpoint requests an instance here.
    pub has_endpoints: bool,
    /// Whether clients discover the holder by an instance that stays. It has the holder's marks, or those of another
    /// Service if it cannot be rewritten.
    pub has_registered: bool,
    /// The reasons for held-back requests.
    pub held_back: Vec<Reason>,
    /// The reasons why registered instances keep old attributes. These reasons keep no endpoint out of the name.
    outdated: Vec<Reason>,
    /// The fates of the requested instances and of the endpoints, if the plan records them.
    instance_fates: Option<InstanceFates>,
    pub endpoint_fates: Option<Vec<EndpointFate>>,
}

impl Comparison {
    /// Adds the reasons that concern all instances.
    fn finish(mut self, wanted: WantedInstances) -> Self {
        if wanted.keeps_last_set() {
            self.held_back.push(Reason::NoneReady { kept: self.unchanged });
        }
        if wanted.keeps_all() {
            self.held_back.push(Reason::EndpointsTruncated);
        }
        let published = wanted.template.published;
        if published.left_out > 0 {
            let maximum = published.read_endpoints().len();
            let found = maximum + published.left_out;
            self.held_back.push(Reason::TooManyEndpoints { found, maximum });
        }
        self.held_back.extend(wanted.held_back);
        self
    }

    /// Records the fate of a requested instance, if the plan records them.
    fn record(&mut self, new_id: &str, fate: impl FnOnce() -> InstanceFate) {
        if let Some(fates) = &mut self.instance_fates {
            fates.insert(new_id.to_owned(), fate());
        }
    }

    /// The number of instances that the holder requests.
    pub fn wanted(&self) -> usize {
        self.staying + self.new
    }

    /// The reasons for the lines of the report.
    pub fn reasons(&self) -> impl Iterator<Item = &Reason> {
        self.held_back.iter().chain(&self.outdated)
    }

    /// Whether every requested instance is registered.
    pub fn is_complete(&self) -> bool {
        !self.is_missing && !self.held_back.iter().any(Reason::keeps_out)
    }

    /// Whether endpoints are missing for a reason that does not end by itself.
    pub fn is_blocked(&self) -> bool {
        let passes = |reason: &&Reason| !matches!(reason, Reason::NoneReady { .. });
        self.held_back.iter().filter(passes).any(Reason::keeps_out)
    }

    /// Removes and returns the changes, except removals. A copy would take up most of the memory of a first sync.
    pub fn take_changes(&mut self) -> impl Iterator<Item = Change> + use<> {
        std::mem::take(&mut self.instances).into_values()
    }
}

/// The comparison of each name that was compared.
pub type Compared = BTreeMap<ServiceKey, Comparison>;
