//! The export of one member: the endpoints with which it takes part in an import, and the export that the instances of
//! AWS's controller describe.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use crate::clusterset::attributes::ExportInstance;
use crate::clusterset::merge::serves;
use crate::import::plan::{Exported, ImportedEndpoint, PortKey, Reason};
use crate::model::clusterset::{
    ClusterId, ClustersetService, EndpointPort, Export, ExportedEndpoint, ExportedPort,
};
use crate::model::{ClusterArn, Family};

/// The endpoints of one member, as far as they serve the merged service.
pub(super) struct OfMember {
    arn: Option<ClusterArn>,
    is_read_there: bool,
    /// All addresses that it exports, once each.
    pub(super) addresses: Vec<IpAddr>,
    pub(super) endpoints: Arc<Vec<ImportedEndpoint>>,
    /// The names of the ports of its Service.
    port_names: Arc<BTreeMap<PortKey, String>>,
}

impl OfMember {
    pub(super) fn new(
        (arn, is_read_there): (Option<ClusterArn>, bool),
        export: Option<(Export, Vec<ExportedEndpoint>)>,
        service: Option<&ClustersetService>,
    ) -> Self {
        let (Some(service), Some((export, all))) = (service, export) else {
            return Self {
                arn,
                is_read_there,
                addresses: Vec::new(),
                endpoints: Arc::default(),
                port_names: Arc::default(),
            };
        };
        let mut addresses: Vec<IpAddr> = all.iter().map(|endpoint| endpoint.address).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let ports = all.iter().filter_map(|endpoint| endpoint.port.as_ref());
        let port_names = ports.map(|port| (key(port), port.service_name.clone())).collect();
        let endpoints = Arc::new(serving(service, &export, all));
        Self { arn, is_read_there, addresses, endpoints, port_names: Arc::new(port_names) }
    }

    /// These of its endpoints, for an importing cluster.
    pub(super) fn exported(
        &self,
        endpoints: Arc<Vec<ImportedEndpoint>>,
        importer: &ClusterArn,
    ) -> Exported {
        let is_near = |arn: &ClusterArn| {
            (arn.account(), arn.region()) == (importer.account(), importer.region())
        };
        let shares_zones = self.arn.as_ref().is_some_and(is_near);
        let (port_names, is_read_there) = (Arc::clone(&self.port_names), self.is_read_there);
        Exported { endpoints, port_names, shares_zones, is_read_there }
    }
}

/// The endpoints that take part in the merged service, each with its ports. Two pods of one node have one address if they
/// use its network; each further target of a port is an endpoint of its own.
fn serving(
    service: &ClustersetService,
    export: &Export,
    all: Vec<ExportedEndpoint>,
) -> Vec<ImportedEndpoint> {
    let mut endpoints: BTreeMap<(IpAddr, Option<String>), Vec<ImportedEndpoint>> = BTreeMap::new();
    for endpoint in all.into_iter().filter(|it| serves(service, export, it.port.as_ref())) {
        let port = endpoint.port.as_ref().map(|port| (key(port), port.number));
        let same = endpoints.entry((endpoint.address, endpoint.node.clone())).or_default();
        let takes = |known: &&mut ImportedEndpoint| {
            port.is_none_or(|(key, to)| known.ports.get(&key).is_none_or(|other| *other == to))
        };
        if let Some(known) = same.iter_mut().find(takes) {
            known.ready &= endpoint.ready;
            known.is_leaving |= endpoint.is_leaving;
            known.ports.extend(port);
            continue;
        }
        let shared = |text: Option<&String>| text.map(|text| Arc::from(text.as_str()));
        same.push(ImportedEndpoint {
            address: endpoint.address,
            ready: endpoint.ready,
            is_leaving: endpoint.is_leaving,
            hostname: shared(endpoint.hostname.as_ref()),
            node: shared(endpoint.node.as_ref()),
            zone: shared(endpoint.zone.as_ref()),
            ports: port.into_iter().collect(),
        });
    }
    endpoints.into_values().flatten().collect()
}

/// The protocol and number of the Service's port that leads to a port of an endpoint.
fn key(port: &EndpointPort) -> PortKey {
    (port.service_protocol, port.service_number)
}

/// The export that the instances of AWS's controller describe. Where they differ, the oldest decides, then the smallest
/// id. A marked instance without a record describes none.
pub(super) fn export_of_instances(
    cluster: &ClusterId,
    instances: &[&(&String, ExportInstance)],
) -> Option<Export> {
    let mut all: Vec<_> = instances.iter().filter(|(_, it)| !it.is_marked).collect();
    all.sort_by_key(|(id, instance)| (instance.created, *id));
    let (_, first) = all.first()?;
    let mut ports: Vec<ExportedPort> = Vec::new();
    let mut families: Vec<Family> = Vec::new();
    for (_, instance) in &all {
        let family = Family::of(instance.endpoint.address);
        if !families.contains(&family) {
            families.push(family);
        }
        let Some(port) = &instance.endpoint.port else { continue };
        let (protocol, number) = (port.service_protocol, port.service_number);
        if !ports.iter().any(|it| (it.protocol, it.number) == (protocol, number)) {
            let name = port.service_name.clone();
            ports.push(ExportedPort { name, protocol, number, app_protocol: None });
        }
    }
    families.sort_unstable();
    Some(Export {
        cluster: cluster.clone(),
        created: first.created,
        kind: first.kind,
        ports,
        families,
        properties: None,
    })
}

// The addresses that are not imported into a cluster, since `NAME_POLICY` does not allow them there.

/// What is left out of one import.
pub(super) struct LeftOut<F> {
    allows: F,
    /// The addresses that are not allowed.
    denied: BTreeMap<ClusterId, BTreeSet<IpAddr>>,
}

impl<F: Fn(IpAddr) -> bool> LeftOut<F> {
    pub fn new(allows: F) -> Self {
        Self { allows, denied: BTreeMap::new() }
    }

    /// The endpoints of a member that are allowed.
    pub fn filter(&mut self, cluster: &ClusterId, member: &OfMember) -> Arc<Vec<ImportedEndpoint>> {
        let denied = member.addresses.iter().filter(|address| !(self.allows)(**address));
        let denied: BTreeSet<IpAddr> = denied.copied().collect();
        if denied.is_empty() {
            return Arc::clone(&member.endpoints);
        }
        let all = member.endpoints.iter();
        let allowed = all.filter(|it| !denied.contains(&it.address)).cloned().collect();
        self.denied.insert(cluster.clone(), denied);
        Arc::new(allowed)
    }

    pub fn reasons(self) -> Vec<Reason> {
        let denied = self.denied.into_iter().map(|(cluster, addresses)| {
            Reason::AddressNotAllowed { cluster, addresses: addresses.into_iter().collect() }
        });
        denied.collect()
    }
}
