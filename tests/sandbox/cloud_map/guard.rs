//! The stand-in's own check of the ownership rule, after every call: an instance whose marks are not exactly ours is
//! byte for byte what it was, no call aims at one, and no registration carries marks that are not ours. It knows the
//! mark keys by itself, so that a mistake in the function's codec is not repeated here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::resource::{Instance, Service};

/// The attribute that names the installation.
const OWNER_MARK: &str = "cloud-map-sync/owner";
/// The attribute that names the EKS cluster by its ARN.
const CLUSTER_MARK: &str = "cloud-map-sync/cluster";

type Foreign = BTreeMap<(String, String), Arc<Instance>>;

/// What is watched, how the foreign instances looked, and what was seen to go wrong.
#[derive(Default)]
pub(super) struct Guard {
    watched: Option<(String, BTreeSet<String>)>,
    foreign: Foreign,
    looked_at: u64,
    pub(super) violations: Vec<String>,
}

impl Guard {
    /// From now on exactly these marks are ours.
    pub(super) fn watch(&mut self, owner: &str, clusters: &[&str]) {
        let clusters = clusters.iter().map(|cluster| (*cluster).to_owned()).collect();
        self.watched = Some((owner.to_owned(), clusters));
    }

    fn is_ours(&self, attributes: &BTreeMap<String, String>) -> bool {
        let Some((owner, clusters)) = &self.watched else {
            return true;
        };
        attributes.get(OWNER_MARK) == Some(owner)
            && attributes.get(CLUSTER_MARK).is_some_and(|cluster| clusters.contains(cluster))
    }

    /// Looks at a call that changes one instance, before anything else does: also a call that is refused was made.
    pub(super) fn before(
        &mut self,
        operation: &str,
        service: &str,
        instance: &str,
        present: Option<&Arc<Instance>>,
        attributes: Option<&BTreeMap<String, String>>,
    ) {
        let call = format!("{operation} of {instance} in {service}");
        if let Some(present) = present.filter(|present| !self.is_ours(&present.attributes)) {
            self.violations
                .push(format!("{call} aims at a foreign instance: {:?}", present.attributes));
        }
        let Some(attributes) = attributes else { return };
        if !self.is_ours(attributes) {
            self.violations.push(format!("{call} carries marks that are not ours: {attributes:?}"));
        }
        let cluster = |attributes: &BTreeMap<String, String>| attributes.get(CLUSTER_MARK).cloned();
        if let Some(present) = present.filter(|present| {
            self.is_ours(&present.attributes) && cluster(&present.attributes) != cluster(attributes)
        }) {
            let was = cluster(&present.attributes);
            self.violations.push(format!("{call} takes an instance from the cluster {was:?}"));
        }
    }

    /// Takes the present foreign instances as what must stay; what other parties do goes through here.
    pub(super) fn accept(&mut self, services: &BTreeMap<String, Service>) {
        let mut foreign = Foreign::new();
        for (service_id, service) in services {
            let key = |id: &String| (service_id.clone(), id.clone());
            foreign
                .extend(self.foreign_of(service).map(|(id, instance)| (key(id), instance.clone())));
        }
        self.foreign = foreign;
        self.looked_at = changes(services);
    }

    /// Compares the foreign instances with what they were; `cause` is what just happened. Where no instance changed
    /// since the last look, that look still holds.
    pub(super) fn compare(&mut self, cause: &str, services: &BTreeMap<String, Service>) {
        if self.looked_at == changes(services) {
            return;
        }
        self.looked_at = changes(services);
        let mut seen = Vec::new();
        for ((service, id), was) in &self.foreign {
            let now = services.get(service).and_then(|service| service.instance(id));
            if !now.is_some_and(|now| Arc::ptr_eq(now, was) || now == was) {
                let (was, now) = (&was.attributes, now.map(|now| &now.attributes));
                seen.push(format!(
                    "{cause}: the foreign instance {id} in {service} was {was:?} and is {now:?}"
                ));
            }
        }
        let present: usize =
            services.values().map(|service| self.foreign_of(service).count()).sum();
        if present > self.foreign.len() {
            seen.push(format!("{cause}: an instance came that is without our marks"));
        }
        if !seen.is_empty() {
            self.violations.append(&mut seen);
            self.accept(services);
        }
    }

    fn foreign_of<'a>(
        &'a self,
        service: &'a Service,
    ) -> impl Iterator<Item = (&'a String, &'a Arc<Instance>)> {
        service.present().filter(|(_, instance)| !self.is_ours(&instance.attributes))
    }
}

fn changes(services: &BTreeMap<String, Service>) -> u64 {
    services.values().map(|service| service.changes).sum()
}
