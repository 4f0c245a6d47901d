//! The endpoints that the import shall have, as the slices have them, by exporting cluster, family and set of ports.

use std::collections::BTreeMap;

use super::{AddressCounts, Wanted};
use crate::import::plan::basis::{Basis, Exported, ImportedEndpoint, PortKey, Read};
use crate::import::plan::present::{Addresses, PortSet, Slice, SliceEndpoint};
use crate::model::clusterset::{ClusterId, ClustersetService, ExportedPort, ImportType};
use crate::model::name::is_dns_label;
use crate::model::{Family, is_publishable};

/// Values of `trafficDistribution` that prefer endpoints in the zone of the client; `PreferSameNode` does if there are none
/// on its node, as for endpoints of other clusters (KEP-3015).
const IN_ZONE: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];

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
        let source = Source::of(basis, service, (cluster, exported));
        for family in families {
            let wanted = source.wanted(service, *family, exported);
            if !wanted.is_empty() {
                all.insert((cluster.clone(), *family), wanted);
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
pub(super) fn addresses(wanted: &ByCluster) -> AddressCounts {
    let mut addresses = AddressCounts::new();
    for address in wanted.values().flat_map(BTreeMap::values).flat_map(BTreeMap::keys) {
        *addresses.entry(*address).or_default() += 1;
    }
    addresses
}

/// The target ports of an endpoint under the import's names. `None` if an IP of the import leads to none of them. Without
/// an IP DNS leads clients to each endpoint: the ports that the import does not have keep the exporter's names.
fn ports(
    service: &ClustersetService,
    names: &BTreeMap<PortKey, String>,
    targets: &BTreeMap<PortKey, u16>,
) -> Option<PortSet> {
    let served = service.ports.iter().filter_map(|port| {
        let number = *targets.get(&(port.protocol, port.number))?;
        Some(ExportedPort { number, ..port.clone() })
    });
    let mut served: PortSet = served.collect();
    if service.kind == ImportType::Headless {
        let is_other =
            |key: &PortKey| service.ports.iter().all(|it| (it.protocol, it.number) != *key);
        for (key @ (protocol, port), number) in targets.iter().filter(|(key, _)| is_other(key)) {
            let is_free = |name: &&String| served.iter().all(|it| it.name != **name);
            let name = names.get(key).filter(is_free).cloned();
            // The API server refuses a name that occurs twice.
            let name =
                name.unwrap_or_else(|| format!("{}-{port}", protocol.as_str().to_lowercase()));
            let (protocol, number) = (*protocol, *number);
            served.insert(ExportedPort { name, protocol, number, app_protocol: None });
        }
        return Some(served);
    }
    (!served.is_empty() || service.ports.is_empty()).then_some(served)
}

/// The parts of an endpoint that go into the slices of an exporting cluster.
struct Source {
    is_own: bool,
    shares_zones: bool,
    prefers_zone: bool,
}

impl Source {
    fn of(
        basis: &Basis<'_>,
        service: &ClustersetService,
        (cluster, exported): (&ClusterId, &Exported),
    ) -> Self {
        let distribution = service.properties.traffic_distribution.as_deref();
        Self {
            is_own: *cluster == basis.importer.cluster,
            shares_zones: exported.shares_zones,
            prefers_zone: distribution.is_some_and(|it| IN_ZONE.contains(&it)),
        }
    }

    /// The endpoints of one family. Most have the same ports, which are found once.
    fn wanted(&self, service: &ClustersetService, family: Family, exported: &Exported) -> Wanted {
        let mut found: BTreeMap<&BTreeMap<PortKey, u16>, Option<PortSet>> = BTreeMap::new();
        let mut wanted = Wanted::new();
        let of_family = exported.endpoints.iter().filter(|it| Family::of(it.address) == family);
        for endpoint in of_family.filter(|it| is_publishable(it.address)) {
            let targets = &endpoint.ports;
            let ports = found
                .entry(targets)
                .or_insert_with(|| ports(service, &exported.port_names, targets));
            let Some(ports) = ports else { continue };
            if !wanted.contains_key(ports) {
                wanted.insert(ports.clone(), BTreeMap::new());
            }
            if let Some(with_ports) = wanted.get_mut(ports) {
                with_ports.entry(endpoint.address).or_insert_with(|| self.content(endpoint));
            }
        }
        wanted
    }

    fn content(&self, endpoint: &ImportedEndpoint) -> SliceEndpoint {
        let zone = endpoint.zone.clone().filter(|zone| self.shares_zones && !zone.is_empty());
        SliceEndpoint {
            addresses: Addresses::One(endpoint.address),
            ready: Some(endpoint.ready),
            serving: Some(endpoint.ready || endpoint.is_leaving),
            terminating: Some(endpoint.is_leaving),
            // The API server refuses a whole slice for one bad hostname, which any client of Cloud Map can register.
            hostname: endpoint.hostname.clone().filter(|hostname| is_dns_label(hostname)),
            // A node of another cluster can have the name of one here, which internalTrafficPolicy Local would take for
            // it.
            node: endpoint.node.clone().filter(|node| self.is_own && !node.is_empty()),
            hints: zone.iter().filter(|_| self.prefers_zone).cloned().collect(),
            zone,
        }
    }
}
