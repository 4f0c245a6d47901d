//! The members of the clustersets in a registry, as Cloud Map shows them: those with records, whichever installation
//! wrote them, and those that AWS's controllers register for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::attributes;
use super::id::{self, CLUSTER_RECORD};
use super::record::{self, Record};
use crate::model::attributes::{IPV4, IPV6};
use crate::model::clusterset::{ClusterId, ClustersetId};
use crate::model::{Attributes, Owner, Registry, ServiceKey, ServiceRef, Timestamp};

/// The members of each clusterset.
pub type Clustersets = BTreeMap<ClustersetId, BTreeMap<ClusterId, MemberView>>;

/// A member as Cloud Map shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberView {
    /// The installation and the cluster in its records; `None` without a record.
    pub owner: Option<Owner>,
    /// The time in its cluster record, unless it only imports.
    pub heartbeat: Option<Timestamp>,
    /// The names that it exports by a record.
    pub recorded: BTreeSet<ServiceRef>,
    /// The names that it exports by instances of AWS's controller.
    pub of_aws: BTreeSet<ServiceRef>,
    /// The instances of AWS's controller.
    pub aws_instances: usize,
    /// The ready endpoints of its exports: a name and an address each.
    endpoints: BTreeSet<(ServiceRef, IpAddr)>,
    /// The problems of the records that cannot be used, and of the read of them.
    pub problems: Vec<String>,
    /// Whether its records could not be read.
    pub is_unread: bool,
}

impl MemberView {
    /// The number of names that it exports.
    pub fn exports(&self) -> usize {
        self.recorded.union(&self.of_aws).count()
    }

    /// The number of ready endpoints. An instance of ours without its record counts for no export.
    pub fn ready_endpoints(&self) -> usize {
        let is_exported =
            |name: &ServiceRef| self.recorded.contains(name) || self.of_aws.contains(name);
        self.endpoints.iter().filter(|(name, _)| is_exported(name)).count()
    }

    fn add_record(&mut self, cluster: &ClusterId, id: &str, attributes: &Attributes) {
        match record::read(cluster, id, attributes) {
            Ok(Some(Record::Cluster(record))) => {
                self.heartbeat = Some(record.heartbeat).filter(|_| !record.only_imports);
                self.owner = Some(record.owner);
            }
            Ok(Some(Record::Export(record))) => {
                self.owner.get_or_insert(record.owner);
                self.recorded.insert(record.service);
            }
            Ok(None) => {}
            Err(unusable) => {
                if id == CLUSTER_RECORD {
                    self.owner = Owner::of(attributes);
                }
                self.problems.push(unusable.to_string());
            }
        }
    }
}

/// All members of all clustersets in a registry.
pub fn clustersets(registry: &Registry) -> Clustersets {
    let mut all = Clustersets::new();
    for (key, service) in &registry.services {
        let Some(namespace) = registry.namespaces.get(&key.namespace) else { continue };
        if let Some(clusterset) = record::clusterset_of(&namespace.name) {
            let Some(cluster) = ClusterId::parse(&service.name) else { continue };
            // A member that was purged leaves its service, empty.
            if service.unreadable.is_none() && registry.instances(key).next().is_none() {
                continue;
            }
            let member = all.entry(clusterset).or_default().entry(cluster.clone()).or_default();
            member.is_unread = service.unreadable.is_some();
            member.problems.extend(service.unreadable.clone());
            for (id, attributes) in registry.instances(key) {
                member.add_record(&cluster, id, attributes);
            }
        } else if !record::is_namespace(&namespace.name) {
            let name = ServiceRef::new(&namespace.name, &service.name);
            add_instances(&mut all, registry, key, &name);
        }
    }
    all
}

/// The installation and the cluster that hold a cluster id, by its own record.
pub fn holder(
    registry: &Registry,
    clusterset: &ClustersetId,
    cluster: &ClusterId,
) -> Option<Owner> {
    let of_records = record::namespace(clusterset);
    let mut namespaces = registry.namespaces.values().filter(|it| it.name == of_records);
    namespaces.find_map(|namespace| {
        let key = ServiceKey::new(namespace, cluster.as_str());
        Owner::of(registry.instance(&key, CLUSTER_RECORD)?)
    })
}

/// Whether a registry shows a part of an import: the export of a cluster, and each of these addresses. One that does not
/// may have been read before the part came.
pub fn shows(
    registry: &Registry,
    clusterset: &ClustersetId,
    (name, cluster): (&ServiceRef, &ClusterId),
    addresses: &BTreeSet<IpAddr>,
) -> bool {
    let names = BTreeSet::from([name.clone()]);
    let keys: Vec<ServiceKey> = registry.keys_named(&names).collect();
    let instances = keys.iter().flat_map(|key| registry.instances(key));
    let of_cluster = instances.filter(|(_, it)| attributes::is_of(it, clusterset, cluster));
    let shown =
        of_cluster.filter_map(|(_, it)| it.get(IPV4).or_else(|| it.get(IPV6))?.parse().ok());
    let shown: BTreeSet<IpAddr> = shown.collect();
    let of_records = record::namespace(clusterset);
    let mut namespaces = registry.namespaces.values().filter(|it| it.name == of_records);
    let is_exported = !shown.is_empty()
        || namespaces.any(|namespace| {
            let key = ServiceKey::new(namespace, cluster.as_str());
            registry.instance(&key, &id::export_record(name)).is_some()
        });
    is_exported && addresses.is_subset(&shown)
}

fn add_instances(all: &mut Clustersets, registry: &Registry, key: &ServiceKey, name: &ServiceRef) {
    for (_, of_instance) in registry.instances(key) {
        let Some(clusterset) = attributes::clusterset_of(of_instance) else { continue };
        let Ok(Some(instance)) = attributes::read(of_instance, &clusterset) else { continue };
        let member = all.entry(clusterset).or_default().entry(instance.cluster).or_default();
        if !instance.is_marked {
            member.of_aws.insert(name.clone());
            member.aws_instances += 1;
        }
        if instance.endpoint.ready {
            member.endpoints.insert((name.clone(), instance.endpoint.address));
        }
    }
}
