//! Exports and endpoints that are in imports, but that a run has not found in Cloud Map. Their clusters are served by
//! another function or by AWS's controller. The read of Cloud Map may be older than the import, and a paginated list
//! may miss an instance while others are added and removed. So the run asks Cloud Map for each of these exports and
//! endpoints by its id before it removes one from an import. This module selects the ids. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::attributes;
use super::id::{self, CLUSTER_RECORD};
use super::members::Served;
use super::record::{self, ExportRecord, Record, namespace};
use crate::model::attributes::{IPV4, IPV6};
use crate::model::{
    Attributes, ClusterId, ClustersetId, Flow, PortOfService, Protocol, Registry, ServiceKey,
    ServiceRef,
};

/// The parts of imports: the endpoints of each name and exporting cluster.
pub type Parts = BTreeMap<(ServiceRef, ClusterId), BTreeSet<PartEndpoint>>;

/// An endpoint in an import, with one of its ports. The port is `None` if the endpoint has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartEndpoint {
    pub address: IpAddr,
    pub port: Option<(Protocol, u16)>,
}

/// Ids of instances, by Cloud Map service.
pub type InstanceIds = BTreeMap<ServiceKey, BTreeSet<String>>;

/// The parts of the imports in a clusterset. The parts of served clusters have no endpoints here, since the run never
/// asks Cloud Map what a served cluster exports.
#[derive(Debug)]
pub struct ImportedParts<'a> {
    pub clusterset: &'a ClustersetId,
    pub served: &'a Served,
    pub parts: Parts,
}

impl ImportedParts<'_> {
    /// Returns the parts of unserved clusters whose export, or one of whose endpoints, is missing in a registry.
    #[must_use]
    pub fn departing(&self, registry: &Registry) -> Self {
        let mut departing = Parts::new();
        let unserved =
            self.parts.iter().filter(|((_, cluster), _)| !self.served.is_id_of_exporter(cluster));
        for ((name, cluster), endpoints) in unserved {
            let shown = Shown::of(registry, self.clusterset, name, cluster);
            let is_shown = |endpoint: &PartEndpoint| shown.endpoints.contains(endpoint);
            if !shown.is_exported() || !endpoints.iter().all(is_shown) {
                departing.insert((name.clone(), cluster.clone()), endpoints.clone());
            }
        }
        Self { parts: departing, ..*self }
    }

    /// Returns the Cloud Map services of the records of these parts, including services that the registry lacks.
    pub fn record_services(&self, registry: &Registry) -> BTreeSet<ServiceKey> {
        let clusters = self.parts.keys().map(|(_, cluster)| cluster);
        let names = clusters.map(|cluster| record_service(self.clusterset, cluster)).collect();
        registry.keys_of_same_name(&names).collect()
    }

    /// Returns the ids of the records of these parts that the registry lacks.
    pub fn records(&self, registry: &Registry) -> InstanceIds {
        let mut ids = InstanceIds::new();
        for key in self.record_services(registry) {
            let parts = self.parts.keys().filter(|(_, cluster)| key.name == cluster.as_str());
            let export_records = parts.map(|(name, _)| id::export_record(name));
            let records = export_records.chain([CLUSTER_RECORD.to_owned()]);
            let missing =
                records.filter(|record| registry.instance(&key, record).is_none()).collect();
            ids.insert(key, missing);
        }
        ids
    }

    /// Returns the ids of the instances of these parts that the registry lacks. If it has the export record, the ids
    /// are ours. If it has only the cluster record, the export has ended and has no ids. If it has neither, the
    /// exporter is AWS's controller.
    pub fn instances(&self, registry: &Registry) -> InstanceIds {
        let mut ids = InstanceIds::new();
        for ((name, cluster), endpoints) in &self.parts {
            let shown = Shown::of(registry, self.clusterset, name, cluster);
            let is_shown = |endpoint: &&PartEndpoint| shown.endpoints.contains(endpoint);
            let missing = endpoints.iter().filter(|endpoint| !is_shown(endpoint));
            let instance_ids: BTreeSet<String> = match shown.record {
                Some(attributes) => {
                    let record = record::read(cluster, &id::export_record(name), attributes);
                    // If the record cannot be used, the part stays in the import, so no instance is requested.
                    let Ok(Some(Record::Export(record))) = record else { continue };
                    missing.flat_map(|endpoint| ids_by_record(&record, endpoint)).collect()
                }
                None if shown.is_member => continue,
                None => missing.filter_map(id_of_aws).collect(),
            };
            let names = BTreeSet::from([name.clone()]);
            for key in registry.keys_of_same_name(&names).filter(|key| !registry.is_never_read(key))
            {
                ids.entry(key).or_default().extend(instance_ids.iter().cloned());
            }
        }
        ids
    }

    /// The names of the imports that these parts belong to.
    pub fn names(&self) -> BTreeSet<ServiceRef> {
        self.parts.keys().map(|(name, _)| name.clone()).collect()
    }

    /// Returns the names of the imports that would end: no cluster with a part in the import exports the name. A served
    /// cluster that this run has not read counts as an exporter.
    pub fn ending(&self, registry: &Registry) -> BTreeSet<ServiceRef> {
        let mut names = self.names();
        for (name, cluster) in self.parts.keys() {
            let is_exported = if self.served.is_id_of_exporter(cluster) {
                let read = self.served.read.get(cluster).filter(|read| read.covers(name));
                read.is_none_or(|read| read.exports(name))
            } else {
                Shown::of(registry, self.clusterset, name, cluster).is_exported()
            };
            if is_exported {
                names.remove(name);
            }
        }
        names
    }
}

/// Returns the ids that the instance of an endpoint may have: one for each port of the export with the endpoint's
/// protocol, since the import does not show which port of the exporter's Service leads to the endpoint.
fn ids_by_record(record: &ExportRecord, endpoint: &PartEndpoint) -> Vec<String> {
    let ExportRecord { owner, service, export, .. } = record;
    let PartEndpoint { address, port } = *endpoint;
    let Some((protocol, number)) = port else {
        return vec![id::instance(owner, service, address, None)];
    };
    let ports = export.ports.iter().filter(|port| port.protocol == protocol);
    let ids = ports.map(|port| {
        let service_port = PortOfService { protocol, name: port.name.clone() };
        id::instance(owner, service, address, Some((number, &service_port)))
    });
    ids.collect()
}

/// Returns the id that AWS's controller gives the instance of an endpoint. `None` without a port.
fn id_of_aws(endpoint: &PartEndpoint) -> Option<String> {
    let (protocol, number) = endpoint.port?;
    Some(id::instance_of_aws(endpoint.address, protocol, number))
}

/// Returns the Cloud Map service of a cluster's records, as namespace and name.
fn record_service(clusterset: &ClustersetId, cluster: &ClusterId) -> ServiceRef {
    ServiceRef::new(namespace(clusterset), cluster.as_str())
}

/// A part of an import as a registry shows it.
#[derive(Default)]
struct Shown<'a> {
    /// The record of the export.
    record: Option<&'a Attributes>,
    /// Whether the exporter has a cluster record.
    is_member: bool,
    /// Whether the part has an instance of AWS's controller, which writes no records.
    is_of_aws: bool,
    /// The endpoints, each with one of its ports: a list may miss the instance of one port of an endpoint.
    endpoints: BTreeSet<PartEndpoint>,
}

impl<'a> Shown<'a> {
    fn is_exported(&self) -> bool {
        self.record.is_some() || self.is_of_aws
    }

    fn of(
        registry: &'a Registry,
        clusterset: &ClustersetId,
        name: &ServiceRef,
        cluster: &ClusterId,
    ) -> Self {
        let mut shown = Self::default();
        for key in registry.keys_of_same_name(&BTreeSet::from([name.clone()])) {
            let instances = registry.instances(&key).map(|(_, attributes)| attributes);
            let is_of_part =
                |instance: &&Attributes| attributes::is_of(instance, clusterset, cluster);
            for instance in instances.filter(is_of_part) {
                shown.is_of_aws |= !Flow::Exports.has_mark_on(instance);
                let address = instance.get(IPV4).or_else(|| instance.get(IPV6));
                let address = address.and_then(|text| text.parse::<IpAddr>().ok());
                let port = attributes::endpoint_port_of(instance);
                shown.endpoints.extend(address.map(|address| PartEndpoint { address, port }));
            }
        }
        for key in
            registry.keys_of_same_name(&BTreeSet::from([record_service(clusterset, cluster)]))
        {
            shown.is_member |= registry.instance(&key, CLUSTER_RECORD).is_some();
            shown.record = registry.instance(&key, &id::export_record(name)).or(shown.record);
        }
        shown
    }
}
