//! The endpoints that the import shall have, as the slices have them, by exporting cluster, family and set of ports.

use std::collections::BTreeMap;

use super::packing::{Addresses, Wanted};
use crate::import::plan::basis::{Basis, Exported, ImportedEndpoint, Read};
use crate::import::plan::present::{PortSet, Slice, SliceEndpoint, SlicePort};
use crate::model::clusterset::{ClusterId, ClustersetService};
use crate::model::name::is_dns_label;
use crate::model::{Family, is_publishable};

/// Values of `trafficDistribution` that prefer endpoints in the zone of the client.
const IN_ZONE: [&str; 2] = ["PreferClose", "PreferSameZone"];

/// All endpoints, by exporting cluster and family. Those of unread clusters are not among them.
pub(in crate::import::plan) type ByCluster = BTreeMap<(ClusterId, Family), Wanted>;

/// The endpoints of these families, each under the address that identifies it in its slice. Those of a cluster whose loss
/// the guard holds are beside its present ones.
pub(super) fn wanted(
    basis: &Basis<'_>,
    service: &ClustersetService,
    families: &[Family],
) -> ByCluster {
    let mut all = ByCluster::new();
    for cluster in &service.clusters {
        let read = basis.sources.by_cluster.get(cluster);
        let Some(exported) = read.and_then(Read::exported) else { continue };
        for endpoint in &exported.endpoints {
            let family = Family::of(endpoint.address);
            let Some(ports) = ports(service, endpoint) else { continue };
            if families.contains(&family) && is_publishable(endpoint.address) {
                let content = content(basis, service, (cluster, exported), endpoint);
                let of_family = all.entry((cluster.clone(), family)).or_default();
                let with_ports = of_family.entry(ports).or_default();
                with_ports.entry(endpoint.address).or_insert(content);
            }
        }
    }
    for slice in basis.slices().filter(|slice| !slice.metadata.is_terminating) {
        let held = slice.source().filter(|cluster| basis.sources.is_held(cluster));
        if let Some(cluster) = held {
            keep(slice, all.entry((cluster, slice.family)).or_default());
        }
    }
    all
}

/// Keeps the endpoints of a slice that have no other ports now.
fn keep(slice: &Slice, wanted: &mut Wanted) {
    for endpoint in &slice.endpoints {
        let Some(address) = endpoint.address() else { continue };
        if !wanted.values().any(|with_ports| with_ports.contains_key(&address)) {
            let with_ports = wanted.entry(slice.ports.clone()).or_default();
            with_ports.insert(address, endpoint.clone());
        }
    }
}

/// All addresses of an import, each with the number of endpoints that have it.
pub(super) fn addresses(wanted: &ByCluster) -> Addresses {
    let mut addresses = Addresses::new();
    for address in wanted.values().flat_map(BTreeMap::values).flat_map(BTreeMap::keys) {
        *addresses.entry(*address).or_default() += 1;
    }
    addresses
}

/// The target ports of an endpoint under the import's names. `None` if it serves none of the import's ports.
fn ports(service: &ClustersetService, endpoint: &ImportedEndpoint) -> Option<PortSet> {
    let served = service.ports.iter().filter_map(|port| {
        let number = *endpoint.ports.get(&(port.protocol, port.number))?;
        let (name, app_protocol) = (port.name.clone(), port.app_protocol.clone());
        Some(SlicePort { name, protocol: port.protocol, number, app_protocol })
    });
    let served: PortSet = served.collect();
    (!served.is_empty() || service.ports.is_empty()).then_some(served)
}

fn content(
    basis: &Basis<'_>,
    service: &ClustersetService,
    (cluster, exported): (&ClusterId, &Exported),
    endpoint: &ImportedEndpoint,
) -> SliceEndpoint {
    let zone = endpoint.zone.clone().filter(|zone| exported.shares_zones && !zone.is_empty());
    let distribution = service.properties.traffic_distribution.as_deref();
    let prefers_zone = distribution.is_some_and(|it| IN_ZONE.contains(&it));
    // A node of another cluster can have the name of one here, which internalTrafficPolicy Local would take for it.
    let is_own = *cluster == basis.importer.cluster;
    SliceEndpoint {
        addresses: vec![endpoint.address.to_string()],
        ready: Some(endpoint.ready),
        serving: Some(endpoint.ready),
        terminating: Some(false),
        // The API server refuses a whole slice for one bad hostname, which any client of Cloud Map can register.
        hostname: endpoint.hostname.clone().filter(|hostname| is_dns_label(hostname)),
        node: endpoint.node.clone().filter(|node| is_own && !node.is_empty()),
        hints: zone.iter().filter(|_| prefers_zone).cloned().collect(),
        zone,
    }
}
