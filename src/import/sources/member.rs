//! The export of one member: the endpoints with which it takes part in an import, and the export that the instances of
//! AWS's controller describe.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::clusterset::attributes::ExportInstance;
use crate::clusterset::merge::{served_port, served_ports};
use crate::import::plan::{Exported, ImportedEndpoint};
use crate::model::clusterset::{
    ClusterId, ClustersetService, Export, ExportedEndpoint, ExportedPort,
};
use crate::model::{ClusterArn, Family};

/// The endpoints of one member, as far as they serve the merged service.
pub(super) struct OfMember {
    arn: Option<ClusterArn>,
    /// All addresses that it exports, once each.
    pub(super) addresses: Vec<IpAddr>,
    pub(super) endpoints: Arc<Vec<ImportedEndpoint>>,
}

impl OfMember {
    pub(super) fn new(
        arn: Option<ClusterArn>,
        export: Option<(Export, Vec<ExportedEndpoint>)>,
        service: Option<&ClustersetService>,
    ) -> Self {
        let (Some(service), Some((export, all))) = (service, export) else {
            return Self { arn, addresses: Vec::new(), endpoints: Arc::default() };
        };
        let mut addresses: Vec<IpAddr> = all.iter().map(|endpoint| endpoint.address).collect();
        addresses.sort_unstable();
        addresses.dedup();
        Self { arn, addresses, endpoints: Arc::new(serving(service, &export, all)) }
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
        Exported { endpoints, shares_zones: self.arn.as_ref().is_some_and(is_near) }
    }
}

/// The endpoints with the ports of the merged service that they serve.
fn serving(
    service: &ClustersetService,
    export: &Export,
    all: Vec<ExportedEndpoint>,
) -> Vec<ImportedEndpoint> {
    let has_ports = served_ports(service, export).next().is_some();
    let mut endpoints: BTreeMap<(IpAddr, Option<String>), ImportedEndpoint> = BTreeMap::new();
    for endpoint in all {
        let port = endpoint.port.as_ref().and_then(|port| {
            let served = served_port(service, export, port)?;
            Some(((served.protocol, served.number), port.number))
        });
        if port.is_none() && (has_ports || endpoint.port.is_some()) {
            continue;
        }
        let shared = |text: Option<&String>| text.map(|text| Arc::from(text.as_str()));
        let (hostname, zone) = (shared(endpoint.hostname.as_ref()), shared(endpoint.zone.as_ref()));
        let node = shared(endpoint.node.as_ref());
        let known = endpoints.entry((endpoint.address, endpoint.node));
        let known = known.or_insert_with(|| ImportedEndpoint {
            address: endpoint.address,
            ready: endpoint.ready,
            hostname,
            node,
            zone,
            ports: BTreeMap::new(),
        });
        known.ready &= endpoint.ready;
        known.ports.extend(port);
    }
    endpoints.into_values().collect()
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
