//! The stand-in's own check of the ownership rule, after every call: an instance whose marks are not exactly ours is
//! unchanged, no call names one, and no registration has marks that are not ours. It has its own copy of the mark keys,
//! so that it does not repeat a mistake of the function.
//!
//! Watches over exporters of a clusterset, as another member reads them: a cluster exports a Service by its record, or
//! by complete instances without an exporter's mark, and its endpoints are then all complete instances with its id. Of a
//! watched one at least one endpoint is ready at any time.
//!
//! Watches over names: the addresses of a watched one stay under it, and one that is to be served is never empty. It is
//! looked at after every call and every operation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::CloudMap;
use super::resource::{Instance, Service};
use super::state::State;

/// The attributes that name the installation: of an annotated Service's instance, and of an exported one. None has both.
const OWNER_MARKS: [&str; 2] = ["cloud-map-sync/owner", "cloud-map-sync/exporter"];
/// The attribute that names the EKS cluster by its ARN.
const CLUSTER_MARK: &str = "cloud-map-sync/cluster";

/// Service id and instance id.
type Key = (String, String);
type Foreign = BTreeMap<Key, Arc<Instance>>;

/// What is watched, how the foreign instances looked, and what was seen to go wrong.
#[derive(Default)]
pub struct Guard {
    watched: Option<(String, BTreeSet<String>)>,
    /// The operations that were accepted before these marks were ours.
    earlier: BTreeSet<String>,
    foreign: Foreign,
    changed: BTreeSet<Key>,
    /// Foreign instances that a person lets the function take.
    adoptable: BTreeSet<Key>,
    pub violations: Vec<String>,
}

impl Guard {
    /// From now on exactly these marks are ours.
    pub fn watch(
        &mut self,
        owner: &str,
        clusters: &[&str],
        services: &BTreeMap<String, Service>,
        in_flight: BTreeSet<String>,
    ) {
        self.earlier = in_flight;
        let clusters = clusters.iter().map(|cluster| (*cluster).to_owned()).collect();
        self.watched = Some((owner.to_owned(), clusters));
        let mut foreign = Foreign::new();
        for (service_id, service) in services {
            let key = |id: &String| (service_id.clone(), id.clone());
            foreign
                .extend(self.foreign_of(service).map(|(id, instance)| (key(id), instance.clone())));
        }
        self.foreign = foreign;
    }

    fn is_ours(&self, attributes: &BTreeMap<String, String>) -> bool {
        let Some((owner, clusters)) = &self.watched else { return true };
        let owners: Vec<&String> =
            OWNER_MARKS.iter().filter_map(|mark| attributes.get(*mark)).collect();
        owners == [owner]
            && attributes.get(CLUSTER_MARK).is_some_and(|cluster| clusters.contains(cluster))
    }

    /// Lets exactly these foreign instances become ours, and no others.
    pub fn adoptable(&mut self, instances: BTreeSet<Key>) {
        self.adoptable = instances;
    }

    fn may_adopt(&self, service: &str, instance: &str) -> bool {
        self.adoptable.contains(&(service.to_owned(), instance.to_owned()))
    }

    /// Looks at a call that changes one instance, before anything else does: also a call that is refused was made. The
    /// instance that is there may not be listed yet.
    pub fn before(
        &mut self,
        operation: &str,
        service: &str,
        instance: &str,
        present: Option<&Arc<Instance>>,
        listed: Option<&Arc<Instance>>,
        attributes: Option<&BTreeMap<String, String>>,
    ) {
        let call = format!("{operation} of {instance} in {service}");
        let foreign = present.filter(|present| !self.is_ours(&present.attributes));
        let adopts = attributes.is_some() && self.may_adopt(service, instance);
        if let Some(present) = foreign.filter(|_| !adopts) {
            self.violations
                .push(format!("{call} aims at a foreign instance: {:?}", present.attributes));
        }
        let Some(attributes) = attributes else { return };
        if let Some(present) = foreign.filter(|present| adopts && !keeps(present, attributes)) {
            let was = &present.attributes;
            self.violations.push(format!("{call} loses attributes: {was:?} to {attributes:?}"));
        }
        if !self.is_ours(attributes) {
            self.violations.push(format!("{call} carries marks that are not ours: {attributes:?}"));
        }
        let cluster = |attributes: &BTreeMap<String, String>| attributes.get(CLUSTER_MARK).cloned();
        // Two clusters that begin to use one cluster id cannot see each other's record before Cloud Map lists it.
        if let Some(listed) = listed.filter(|listed| {
            self.is_ours(&listed.attributes) && cluster(&listed.attributes) != cluster(attributes)
        }) {
            let was = cluster(&listed.attributes);
            self.violations.push(format!("{call} takes an instance from the cluster {was:?}"));
        }
    }

    /// Notes that an instance changed.
    pub fn changed(&mut self, service: &str, instance: &str) {
        self.changed.insert((service.to_owned(), instance.to_owned()));
    }

    /// Takes what changed as what must stay; what other parties do goes through here.
    pub fn accept(&mut self, services: &BTreeMap<String, Service>) {
        for key in std::mem::take(&mut self.changed) {
            self.remember(key, services);
        }
    }

    /// The same after an operation has ended. One that began while other marks were ours did what was right then.
    pub fn compare_after(&mut self, operation: &str, services: &BTreeMap<String, Service>) {
        if self.earlier.remove(operation) {
            return self.accept(services);
        }
        self.compare(&format!("after operation {operation}"), services);
    }

    fn remember(&mut self, key: Key, services: &BTreeMap<String, Service>) {
        let now = find(services, &key).filter(|now| !self.is_ours(&now.attributes)).cloned();
        match now {
            Some(now) => _ = self.foreign.insert(key, now),
            None => _ = self.foreign.remove(&key),
        }
    }

    /// Compares what changed with what it was; `cause` is what just happened.
    pub fn compare(&mut self, cause: &str, services: &BTreeMap<String, Service>) {
        for key in std::mem::take(&mut self.changed) {
            let was = self.foreign.get(&key);
            let now = find(services, &key);
            let ours = now.is_some_and(|now| self.is_ours(&now.attributes));
            let adopted = ours && self.adoptable.contains(&key);
            if let Some(was) = was.filter(|was| !adopted && !is_same(was, now)) {
                self.violations.push(difference(cause, &key, was, now));
            } else if was.is_none() && now.is_some() && !ours {
                self.violations
                    .push(format!("{cause}: the instance {} came without our marks", key.1));
            }
            self.remember(key, services);
        }
    }

    /// Compares every foreign instance, whether it was said to have changed or not.
    pub fn compare_all(&mut self, services: &BTreeMap<String, Service>) {
        self.compare("in the end", services);
        let changed = self.foreign.iter().filter(|(key, was)| !is_same(was, find(services, key)));
        let changed = changed.map(|(key, was)| difference("unseen", key, was, find(services, key)));
        self.violations.extend(changed.collect::<Vec<_>>());
        let present = services.values().map(|service| self.foreign_of(service).count());
        if present.sum::<usize>() > self.foreign.len() {
            self.violations.push("unseen: an instance came without our marks".to_owned());
        }
    }

    fn foreign_of<'a>(
        &'a self,
        service: &'a Service,
    ) -> impl Iterator<Item = (&'a String, &'a Arc<Instance>)> {
        service.present().filter(|(_, instance)| !self.is_ours(&instance.attributes))
    }
}

fn find<'a>(services: &'a BTreeMap<String, Service>, key: &Key) -> Option<&'a Arc<Instance>> {
    services.get(&key.0)?.instance(&key.1)
}

fn is_same(was: &Arc<Instance>, now: Option<&Arc<Instance>>) -> bool {
    now.is_some_and(|now| Arc::ptr_eq(now, was) || now == was)
}

fn difference(cause: &str, key: &Key, was: &Arc<Instance>, now: Option<&Arc<Instance>>) -> String {
    let was = &was.attributes;
    let now = now.map(|now| &now.attributes);
    let (service, id) = key;
    format!("{cause}: the foreign instance {id} in {service} was {was:?} and is {now:?}")
}

/// Whether an adoption keeps what its former owner wrote. What is the API's own, and where and in which state the
/// endpoint is, we say.
fn keeps(present: &Instance, attributes: &BTreeMap<String, String>) -> bool {
    let ours = |key: &str| {
        key.to_ascii_uppercase().starts_with("AWS_")
            || key.starts_with("cloud-map-sync/")
            || ["AVAILABILITY_ZONE", "REGION", "HOSTNAME", "NODENAME", "READY"].contains(&key)
    };
    let theirs = present.attributes.iter().filter(|(key, _)| !ours(key));
    theirs.into_iter().all(|(key, value)| attributes.get(key) == Some(value))
}

/// An exporter of one Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exporter {
    namespace: String,
    service: String,
    cluster: String,
}

/// The watched exporters.
#[derive(Default)]
pub struct Exporters(BTreeSet<Exporter>);

impl CloudMap {
    /// From now on it is a violation if a cluster has no ready endpoint of a Service, for any member.
    pub fn keep_ready(&self, namespace: &str, service: &str, cluster: &str) {
        let [namespace, service, cluster] = [namespace, service, cluster].map(str::to_owned);
        self.change(|state| state.exporters.0.insert(Exporter { namespace, service, cluster }));
    }
}

impl State {
    /// Notes each watched exporter without a ready endpoint; `cause` is what just happened.
    pub fn check_exporters(&mut self, cause: &str) {
        let lost = self.exporters.0.iter().filter(|exporter| !self.is_ready(exporter));
        let lost: Vec<String> =
            lost.map(|exporter| format!("{cause}: {exporter:?} has no ready endpoint")).collect();
        self.guard.violations.extend(lost);
    }

    fn is_ready(&self, exporter: &Exporter) -> bool {
        let Exporter { namespace, service, cluster } = exporter;
        let own: Vec<&BTreeMap<String, String>> = self
            .named_services(|name| name == namespace, service)
            .flat_map(|service| service.present().map(|(_, instance)| &instance.attributes))
            .filter(|attributes| attributes.get("CLUSTER_ID") == Some(cluster))
            .collect();
        let is_record = |attributes: &BTreeMap<String, String>| {
            attributes.get("cloud-map-sync/namespace") == Some(namespace)
                && attributes.get("cloud-map-sync/service") == Some(service)
        };
        let mut records = self
            .named_services(|name| name.starts_with("clusterset."), cluster)
            .flat_map(|service| service.present().map(|(_, instance)| &instance.attributes));
        let is_exported = records.any(is_record)
            || own.iter().any(|attributes| !attributes.contains_key("cloud-map-sync/exporter"));
        is_exported
            && own
                .iter()
                .any(|attributes| attributes.get("READY").is_some_and(|ready| ready == "true"))
    }

    fn named_services<'a>(
        &'a self,
        is_namespace: impl Fn(&str) -> bool + 'a,
        name: &'a str,
    ) -> impl Iterator<Item = &'a Service> {
        self.services.values().filter(move |service| {
            let namespace = self.namespaces.get(&service.namespace);
            service.name == name && namespace.is_some_and(|namespace| is_namespace(&namespace.name))
        })
    }
}

/// Namespace and service.
type Name = (String, String);

/// The watched names with the addresses that each keeps; one without any keeps any instance at all.
#[derive(Default)]
pub struct Kept(BTreeMap<Name, BTreeSet<String>>);

impl CloudMap {
    /// From now on it is a violation if one of these addresses is not under the name, or nothing is.
    pub fn keep(&self, namespace: &str, service: &str, addresses: BTreeSet<String>) {
        let name = (namespace.to_owned(), service.to_owned());
        self.change(|state| state.kept.0.insert(name, addresses));
    }
}

impl State {
    /// Notes each watched name that lost an address or everything; `cause` is what just happened.
    pub fn check_kept(&mut self, cause: &str) {
        let lost: Vec<String> = self
            .kept
            .0
            .iter()
            .filter_map(|(name, addresses)| {
                let present = self.addresses(name);
                let (namespace, service) = name;
                let gone: Vec<_> = addresses.difference(&present).collect();
                let is_kept = gone.is_empty() && !present.is_empty();
                (!is_kept).then(|| format!("{cause}: {namespace}/{service} lost {gone:?}"))
            })
            .collect();
        self.guard.violations.extend(lost);
    }

    fn addresses(&self, (namespace, service): &Name) -> BTreeSet<String> {
        let named = self.named_services(|name| name == namespace, service);
        let instances = named.flat_map(|service| service.present().map(|(_, instance)| instance));
        instances
            .filter_map(|instance| instance.attributes.get("AWS_INSTANCE_IPV4").cloned())
            .collect()
    }
}
