//! The export of one member: the endpoints with which it takes part in an import, and the export that the instances of
//! AWS's controller describe.

use std::collections::BTreeMap;

use crate::clusterset::attributes::ExportInstance;
use crate::clusterset::merge::{Merged, served_port, served_ports};
use crate::import::plan::{Exported, ImportedEndpoint};
use crate::model::clusterset::{ClusterId, Export, ExportedEndpoint, ExportedPort};
use crate::model::{ClusterArn, Family};

/// The export of one member, if it has one.
pub(super) struct OfMember {
    pub(super) arn: Option<ClusterArn>,
    pub(super) export: Option<(Export, Vec<ExportedEndpoint>)>,
}

impl OfMember {
    /// Its endpoints with the ports of the merged service that they serve.
    pub(super) fn exported(self, merged: Option<&Merged>, importer: &ClusterArn) -> Exported {
        let is_near = |arn: &ClusterArn| {
            (arn.account(), arn.region()) == (importer.account(), importer.region())
        };
        let shares_zones = self.arn.as_ref().is_some_and(is_near);
        let (Some(merged), Some((export, all))) = (merged, self.export) else {
            return Exported { endpoints: Vec::new(), shares_zones };
        };
        let service = &merged.service;
        let has_ports = served_ports(service, &export).next().is_some();
        let mut endpoints: BTreeMap<_, ImportedEndpoint> = BTreeMap::new();
        for endpoint in all {
            let port = endpoint.port.as_ref().and_then(|port| {
                let served = served_port(service, &export, port)?;
                Some(((served.protocol, served.number), port.number))
            });
            if port.is_none() && (has_ports || endpoint.port.is_some()) {
                continue;
            }
            let known = endpoints.entry((endpoint.address, endpoint.node.clone()));
            let known = known.or_insert_with(|| ImportedEndpoint {
                address: endpoint.address,
                ready: endpoint.ready,
                hostname: endpoint.hostname.clone(),
                node: endpoint.node.clone(),
                zone: endpoint.zone.clone(),
                ports: BTreeMap::new(),
            });
            known.ready &= endpoint.ready;
            known.ports.extend(port);
        }
        Exported { endpoints: endpoints.into_values().collect(), shares_zones }
    }
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
