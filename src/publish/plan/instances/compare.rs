//! Compares the instances that the holders of a name request in a Cloud Map service with our instances in it. Each
//! instance is new, different, equal, or requested by no endpoint.

use std::collections::{BTreeMap, BTreeSet};

use super::diff::{ByHolder, Comparison, InstanceDiff};
use super::health::HealthDifference;
use super::identity::Identity;
use super::present::Present;
use super::rewrite;
use super::sharing::assign_shared;
use super::wanted::Wanted;
use crate::model::{Attributes, ServiceKey};
use crate::publish::plan::change::describe;
use crate::publish::plan::{DeregisterReason, Difference, Observation, Reason, Setting};

/// Compares the instances that each holder wants, the oldest first, with our instances under `key`.
pub fn compare(observation: &Observation, key: &ServiceKey, mut all: Vec<Wanted>) -> ByHolder {
    let tells_ports_apart = all.first().is_some_and(|wanted| wanted.tells_ports_apart);
    let present = Present::of(observation, key, tells_ports_apart);
    assign_shared(&mut all, &present);
    let comparing = Comparing { kept: present.kept_for(&all), present: &present, all: &all };
    let mut compared: Vec<Comparison> = all.iter().map(|it| comparing.of_holder(it)).collect();
    comparing.add_unrequested(&mut compared);
    let finished = all.into_iter().zip(compared).map(|(wanted, comparison)| {
        (wanted.holder.clone(), Box::new(comparison.finish(wanted, &present)))
    });
    finished.collect()
}

struct Comparing<'a> {
    present: &'a Present<'a>,
    /// The instances that each holder wants, the oldest first.
    all: &'a [Wanted<'a>],
    /// The instance of ours that is kept for each wanted one, by the latter's new id.
    kept: BTreeMap<&'a String, &'a String>,
}

impl Comparing<'_> {
    /// Compares the instances that one holder wants.
    fn of_holder(&self, wanted: &Wanted) -> Comparison {
        let mut comparison =
            Comparison { has_endpoints: wanted.has_endpoints(), ..Comparison::default() };
        for identity in &wanted.owned_by_sharer {
            match self.present.found(identity) {
                Some(id) => {
                    let serves = self.present.serves(id) || !wanted.ready;
                    comparison.has_registered |= self.is_held(id) && serves;
                }
                None => comparison.pending_elsewhere = true,
            }
        }
        for (new_id, (identity, attributes)) in &wanted.instances {
            match self.kept.get(new_id) {
                Some(id) => self.add_kept(&mut comparison, wanted, id, (identity, attributes)),
                None => self.add_new(&mut comparison, wanted, new_id, attributes),
            }
        }
        comparison
    }

    /// Whether an instance of ours is marked for a holder of the name.
    fn is_held(&self, id: &String) -> bool {
        self.all.iter().any(|wanted| self.present.is_marked(id, &wanted.holder))
    }

    fn add_kept(
        &self,
        comparison: &mut Comparison,
        wanted: &Wanted,
        id: &String,
        (identity, attributes): (&Identity, &Attributes),
    ) {
        let ours = &self.present.ours[id];
        let stale_address = ours.identity != *identity;
        let serves = !stale_address && wanted.serves(attributes);
        comparison.has_registered |= serves && self.is_held(id);
        let (diff, reasons) = self.diff(wanted, id, attributes, stale_address);
        comparison.held_back.extend(reasons);
        comparison.add(id, diff);
    }

    /// The difference between an instance of ours and its wanted attributes, and the reasons if it cannot be rewritten.
    fn diff(
        &self,
        wanted: &Wanted,
        id: &String,
        attributes: &Attributes,
        stale_address: bool,
    ) -> (InstanceDiff, Vec<Reason>) {
        let present = self.present.ours[id].attributes;
        let attributes = wanted.attributes_over(attributes, self.present.health(id));
        let health = self.present.health_difference(id, &attributes);
        // If Cloud Map is in step, all instances are equal to the wanted ones. Copying them would take most of the time.
        if *present == *attributes {
            return (unchanged_but(health, present), Vec::new());
        }
        let attributes = rewrite::carry_over(present, &attributes);
        let mut differences = Difference::between(present, &attributes);
        if differences.is_empty() {
            return (unchanged_but(health, present), Vec::new());
        }
        let refused = wanted.refused.clone().into_iter();
        let reasons: Vec<Reason> = refused.chain(attribute_limit(id, &attributes)).collect();
        if !reasons.is_empty() {
            return (unchanged_but(health, present), reasons);
        }
        differences.extend(health.map(HealthDifference::into));
        (InstanceDiff::Differs { attributes, differences, stale_address }, reasons)
    }

    fn add_new(
        &self,
        comparison: &mut Comparison,
        wanted: &Wanted,
        new_id: &str,
        attributes: &Attributes,
    ) {
        let spare = self.present.spare_id(new_id);
        let reason = match (&spare, &wanted.refused) {
            (Some(_), Some(refused)) => Some(refused.clone()),
            (Some(id), None) if !comparison.changes_instance(id) => attribute_limit(id, attributes),
            _ => Some(Reason::IdTaken(new_id.to_owned())),
        };
        match (reason, spare) {
            (None, Some(id)) => {
                comparison.add(&id, InstanceDiff::New(attributes.clone()));
            }
            (reason, _) => comparison.held_back.extend(reason),
        }
    }

    /// Adds our instances that are kept for no wanted instance. An instance that is marked for no holder of the name is
    /// counted for the oldest holder.
    fn add_unrequested(&self, compared: &mut [Comparison]) {
        let used: BTreeSet<&String> = self.kept.values().copied().collect();
        for id in self.present.ours.keys().filter(|id| !used.contains(*id)) {
            let marked =
                self.all.iter().position(|wanted| self.present.is_marked(id, &wanted.holder));
            let (index, is_marked) = (marked.unwrap_or(0), marked.is_some());
            let stays = self.stays(id, &self.all[index], is_marked);
            let diff = if stays {
                InstanceDiff::Same
            } else {
                InstanceDiff::Surplus(self.surplus(id, &self.all[index]))
            };
            compared[index].has_registered |= stays && is_marked;
            compared[index].add(id, diff);
        }
    }

    /// Whether an instance that no endpoint requests stays. It stays if its holder keeps such instances, or if it may
    /// belong to an endpoint for which no instance could be derived.
    fn stays(&self, id: &String, wanted: &Wanted, is_marked: bool) -> bool {
        let identity = &self.present.ours[id].identity;
        let mut unclear = self.all.iter().flat_map(|wanted| &wanted.unclear);
        is_marked && wanted.permit.allows_all(identity) && wanted.keeps_surplus()
            || unclear.any(|unclear| identity.addresses().any(|it| it == *unclear))
    }

    /// The reason for removing an instance.
    fn surplus(&self, id: &String, wanted: &Wanted) -> DeregisterReason {
        let identity = &self.present.ours[id].identity;
        let mut instances = self.all.iter().flat_map(|wanted| wanted.instances.values());
        if wanted.withdrawn {
            DeregisterReason::Withdrawn
        } else if let Some(set_by) = wanted.beyond_maximum.get(id) {
            DeregisterReason::BeyondMaximum(*set_by)
        } else if !wanted.permit.allows_all(identity) {
            DeregisterReason::AddressNotAllowed
        } else if instances.any(|(wanted, _)| wanted == identity) {
            DeregisterReason::Duplicate
        } else {
            DeregisterReason::NoReadyEndpoint
        }
    }
}

impl Comparison {
    /// Adds the changes and remarks that concern the whole Cloud Map service.
    fn finish(mut self, wanted: Wanted, present: &Present) -> Self {
        if wanted.keeps_last_set() {
            self.held_back.push(Reason::NoneReady { kept: self.unchanged() });
        }
        if wanted.keeps_all() {
            self.held_back.push(Reason::EndpointsTruncated);
        }
        let unreadable = present.health_unreadable().cloned();
        self.held_back.extend(unreadable.map(|problem| Setting::HealthUnreadable(problem).into()));
        (self.create, self.update, self.note) = (wanted.create, wanted.update, wanted.note);
        self.held_back.extend(wanted.held_back);
        self
    }
}

/// The difference of an instance whose attributes are equal.
fn unchanged_but(health: Option<HealthDifference>, present: &Attributes) -> InstanceDiff {
    health.map_or(InstanceDiff::Same, |difference| InstanceDiff::HealthDiffers {
        address: describe(present),
        difference,
    })
}

/// The limit of Cloud Map that the attributes of an instance exceed.
fn attribute_limit(instance: &str, attributes: &Attributes) -> Option<Reason> {
    let instance = instance.to_owned();
    rewrite::beyond_limits(attributes).map(|problem| Reason::AttributeLimit { instance, problem })
}
