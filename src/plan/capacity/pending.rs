//! Orders registrations when places are short: the Service with the fewest instances under the name comes first, so
//! that each has one before any has many. Among equals the hashes in the ids decide, which favours no Service and is
//! the same in every run.

use std::collections::BTreeMap;

use crate::model::{Attributes, ServiceKey, ServiceRef};
use crate::plan::instances::identity::hash_of;
use crate::plan::instances::subset;
use crate::plan::{Change, Place, Plan};

/// An instance that is to be registered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pending {
    /// The Service in whose turn that is.
    pub service: ServiceRef,
    /// Its id.
    pub instance: String,
    /// All its attributes.
    pub attributes: Attributes,
}

/// The registrations of a plan under each name, in order; `staying` counts the instances that a Service has there and
/// keeps.
pub fn by_place(
    plan: &Plan,
    staying: impl Fn(&ServiceRef, &ServiceKey) -> usize,
) -> BTreeMap<Place, Vec<Pending>> {
    let mut places: BTreeMap<Place, BTreeMap<ServiceRef, BTreeMap<String, Attributes>>> =
        BTreeMap::new();
    for (service, changes) in &plan.changes {
        for change in changes {
            if let Change::Register { place, instance, attributes } = change {
                let place = places.entry(place.clone()).or_default();
                let of_service = place.entry(service.clone()).or_default();
                of_service.insert(instance.clone(), attributes.clone());
            }
        }
    }
    let ordered = places.into_iter().map(|(place, services)| {
        let pending = in_order(services, |service| staying(service, &place.key));
        (place, pending)
    });
    ordered.collect()
}

fn in_order(
    services: BTreeMap<ServiceRef, BTreeMap<String, Attributes>>,
    staying: impl Fn(&ServiceRef) -> usize,
) -> Vec<Pending> {
    let mut ranked = Vec::new();
    for (service, mut instances) in services {
        let before = staying(&service);
        let ids: Vec<String> =
            subset::in_order(instances.keys(), |_| false).into_iter().cloned().collect();
        for (index, instance) in ids.into_iter().enumerate() {
            let attributes = instances.remove(&instance).unwrap_or_default();
            let service = service.clone();
            ranked.push((before + index, Pending { service, instance, attributes }));
        }
    }
    ranked.sort_by(|(one, a), (other, b)| {
        let hashes = hash_of(&a.instance).cmp(hash_of(&b.instance));
        one.cmp(other).then(hashes).then_with(|| a.cmp(b))
    });
    ranked.into_iter().map(|(_, pending)| pending).collect()
}
