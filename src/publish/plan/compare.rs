//! Compares the instances that the holders of a name request in a Cloud Map service with our instances in it. Each
//! instance is new, different, equal, or requested by no endpoint; the changes follow from that.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;

use super::change::{Change, Difference, describe};
use super::health::HealthDifference;
use super::instance::{Identity, beyond_limits, carry_over};
use super::observation::Observation;
use super::present::{Present, assign_shared};
use super::reason::Reason;
use super::removals::DeregisterReason;
use super::result::ServiceNote;
use super::wanted::WantedInstances;
use crate::model::{Attributes, NewService, Place, ServiceKey, ServiceRef, ServiceUpdate};

/// Compares the instances that each holder wants, the oldest first, with our instances under `key`.
pub fn compare(
    observation: &Observation,
    key: &ServiceKey,
    mut all: Vec<WantedInstances>,
) -> ByHolder {
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
    all: &'a [WantedInstances<'a>],
    /// The instance of ours that is kept for each wanted one, by the latter's new id.
    kept: BTreeMap<&'a String, &'a String>,
}

impl Comparing<'_> {
    /// Compares the instances that one holder wants.
    fn of_holder(&self, wanted: &WantedInstances) -> Comparison {
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
        wanted: &WantedInstances,
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
        wanted: &WantedInstances,
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
        let attributes = carry_over(present, &attributes);
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
        wanted: &WantedInstances,
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
    fn stays(&self, id: &String, wanted: &WantedInstances, is_marked: bool) -> bool {
        let identity = &self.present.ours[id].identity;
        let mut unclear = self.all.iter().flat_map(|wanted| &wanted.unclear);
        is_marked && wanted.permit.allows_all(identity) && wanted.keeps_surplus()
            || unclear.any(|unclear| identity.addresses().any(|it| it == *unclear))
    }

    /// The reason for removing an instance.
    fn surplus(&self, id: &String, wanted: &WantedInstances) -> DeregisterReason {
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
    fn finish(mut self, wanted: WantedInstances, present: &Present) -> Self {
        if wanted.keeps_last_set() {
            self.held_back.push(Reason::NoneReady { kept: self.unchanged() });
        }
        if wanted.keeps_all() {
            self.held_back.push(Reason::EndpointsTruncated);
        }
        let unreadable = present.health_unreadable().cloned();
        self.held_back.extend(unreadable.map(Reason::HealthUnreadable));
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
    beyond_limits(attributes).map(|problem| Reason::AttributeLimit { instance, problem })
}

/// The difference of one instance. [`Comparison::take_changes`] keeps the variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceDiff {
    /// It must be registered.
    New(Attributes),
    /// It must be registered again.
    Differs {
        /// All attributes to register.
        attributes: Attributes,
        /// The attributes that differ.
        differences: Vec<Difference>,
        /// Whether its addresses are not those of its endpoint. The endpoint cannot be discovered until they are corrected.
        stale_address: bool,
    },
    /// Only its health differs.
    HealthDiffers {
        /// Its address, for the report.
        address: String,
        /// The present and the wanted health.
        difference: HealthDifference,
    },
    /// It is as requested.
    Same,
    /// No endpoint of the holder requests it.
    Surplus(DeregisterReason),
}

/// The differences between a Cloud Map service and the claim and endpoints of one holder of the name.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// The service, if it must be created first.
    pub create: Option<NewService>,
    /// The change of the service itself.
    pub update: Option<ServiceUpdate>,
    /// A remark on the service for the report.
    pub note: Option<ServiceNote>,
    /// The instances by id, except those that are as requested.
    pub(super) instances: BTreeMap<String, InstanceDiff>,
    /// The number of instances that are as requested. If Cloud Map is in step, these are all, so their ids are not copied.
    pub(super) unchanged: usize,
    /// Whether an endpoint requests an instance here.
    pub has_endpoints: bool,
    /// Whether one of the requested instances is registered, and marked for a holder of the name.
    pub has_registered: bool,
    /// Whether another holder has yet to register an instance that this holder also requests.
    pub pending_elsewhere: bool,
    /// The reasons for held-back requests.
    pub held_back: Vec<Reason>,
}

/// The comparisons of all names.
#[derive(Clone, Debug, Default)]
pub struct Compared(BTreeMap<ServiceKey, ByHolder>);

/// The comparisons under one name, by holder. Boxed, since a map node has room for eleven and usually has one.
pub type ByHolder = BTreeMap<ServiceRef, Box<Comparison>>;

impl Compared {
    /// Adds a name.
    pub fn insert(&mut self, key: ServiceKey, by_holder: ByHolder) {
        self.0.insert(key, by_holder);
    }

    /// The comparisons of all holders of a name, if it was compared.
    pub fn under(&self, key: &ServiceKey) -> Option<&ByHolder> {
        self.0.get(key)
    }

    /// The comparison of one of them.
    pub fn of(&self, key: &ServiceKey, holder: &ServiceRef) -> Option<&Comparison> {
        self.0.get(key)?.get(holder).map(Box::as_ref)
    }
}

impl Comparison {
    /// Adds an instance.
    pub(super) fn add(&mut self, id: &str, diff: InstanceDiff) {
        match diff {
            InstanceDiff::Same => self.unchanged += 1,
            diff => _ = self.instances.insert(id.to_owned(), diff),
        }
    }

    /// Whether a difference of this instance was added.
    pub(super) fn changes_instance(&self, id: &str) -> bool {
        self.instances.contains_key(id)
    }

    /// The reason for removing an instance of ours. Returns `None` if a holder requests it.
    pub fn surplus(&self, instance: &str) -> Option<&DeregisterReason> {
        match self.instances.get(instance)? {
            InstanceDiff::Surplus(because) => Some(because),
            _ => None,
        }
    }

    /// The number of instances that are as requested.
    pub fn unchanged(&self) -> usize {
        self.unchanged
    }

    /// The number of instances of the holder that stay registered.
    pub fn staying(&self) -> usize {
        let stays =
            |diff: &InstanceDiff| !matches!(diff, InstanceDiff::New(_) | InstanceDiff::Surplus(_));
        self.unchanged + self.count(stays)
    }

    /// The number of instances that the holder requests.
    pub fn wanted(&self) -> usize {
        self.unchanged + self.count(|diff| !matches!(diff, InstanceDiff::Surplus(_)))
    }

    /// Whether every requested instance is registered.
    pub fn is_whole(&self) -> bool {
        let is_missing = self.instances.values().any(InstanceDiff::is_missing);
        !is_missing && !self.pending_elsewhere && !self.held_back.iter().any(Reason::keeps_out)
    }

    /// Whether endpoints are missing for a reason that does not end by itself.
    pub fn is_blocked(&self) -> bool {
        let passes = |reason: &&Reason| !matches!(reason, Reason::NoneReady { .. });
        self.held_back.iter().filter(passes).any(Reason::keeps_out)
    }

    /// The changes except removals. Moves the attributes into them, since a second copy would be the largest part of the
    /// memory of a first sync.
    pub fn take_changes(&mut self, place: &Place) -> Vec<Change> {
        let place = || place.clone();
        let create = self.create.take();
        let create = create.map(|service| Change::CreateService { place: place(), service });
        let update = self.update.take();
        let update = update.map(|update| Change::UpdateService { place: place(), update });
        let instances = self.instances.iter_mut();
        let instances = instances.filter_map(|(id, diff)| diff.take_change(place(), id));
        create.into_iter().chain(instances).chain(update).collect()
    }

    fn count(&self, counts: impl Fn(&InstanceDiff) -> bool) -> usize {
        self.instances.values().filter(|diff| counts(diff)).count()
    }
}

impl InstanceDiff {
    /// Whether its endpoint cannot be discovered yet.
    fn is_missing(&self) -> bool {
        matches!(self, Self::New(_) | Self::Differs { stale_address: true, .. })
    }

    /// The change that removes the difference. Removals are decided elsewhere.
    fn take_change(&mut self, place: Place, instance: &str) -> Option<Change> {
        let instance = || instance.to_owned();
        match self {
            Self::New(attributes) => {
                let attributes = take(attributes);
                Some(Change::Register { place, instance: instance(), attributes })
            }
            Self::Differs { attributes, differences, .. } => {
                let (attributes, differences) = (take(attributes), take(differences));
                Some(Change::rewrite(place, instance(), attributes, differences))
            }
            Self::HealthDiffers { address, difference } => {
                let HealthDifference { present, wanted } = *difference;
                let (instance, address) = (instance(), take(address));
                Some(Change::Health { place, instance, address, present, wanted })
            }
            Self::Same | Self::Surplus(_) => None,
        }
    }
}
