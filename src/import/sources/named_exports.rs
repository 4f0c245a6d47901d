//! The exports of one name, shared by all importing clusters: the export of each member, and their merge with the
//! endpoints that take part in the import. The export of AWS's controller is derived from its instances.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::{Members, Source};
use crate::clusterset::attributes::{self, ExportInstance, Skipped, endpoints_of};
use crate::clusterset::members::MemberRecords;
use crate::clusterset::merge::{Merged, includes_endpoint, merge};
use crate::clusterset::record::as_recorded;
use crate::import::plan::{Absent, ImportedEndpoint, MemberEndpoints, PortKey, Reason, Sources};
use crate::model::{
    ClusterArn, ClusterId, ClustersetService, Endpoint, EndpointPort, Export, ExportedEndpoint,
    ExportedPort, Family, Health, Owner, ReadExports, ServiceRef, is_publishable,
};

/// The exports of one name, the same for all importing clusters.
pub struct NamedExports {
    /// The export of each member. `None` if this run does not know whether the member exports the name.
    pub(super) members: BTreeMap<ClusterId, Option<MemberExport>>,
    /// The exports that were merged.
    pub exports: Vec<Export>,
    pub merged: Option<Arc<Merged>>,
    /// The instances and records that are not imported, with the reasons.
    pub(super) left_out: Vec<Reason>,
    /// The problem if a Cloud Map service of the name could not be read.
    pub unread: Option<String>,
    /// The exporters whose endpoints Cloud Map does not show.
    pub(super) hidden: BTreeSet<ClusterId>,
    /// Whether each member that may export the name was read.
    pub has_all_exporters: bool,
}

/// The exports of one name as one cluster imports them: the merged exports, and the endpoints of each exporter that
/// this importer may have.
pub struct ExportsForImporter {
    pub named: Arc<NamedExports>,
    pub sources: Sources,
    /// The addresses, instances and records that are not imported, with the reasons.
    pub left_out: Vec<Reason>,
}

/// Instances of one name, with their ids.
type NamedInstances<'a> = Vec<(&'a String, ExportInstance)>;

/// The export of one member. The default is that of a member that does not export the name.
#[derive(Default)]
pub(super) struct MemberExport {
    arn: Option<ClusterArn>,
    /// The export with all its endpoints, if the member has one. [`Self::select_endpoints`] takes it.
    export: Option<(Export, Vec<ExportedEndpoint>)>,
    /// The endpoints that the merged service includes.
    selected: MemberEndpoints,
}

impl NamedExports {
    pub(super) fn read(all: &Members<'_>, name: &ServiceRef) -> Self {
        let (read, unread) = match all.instances(name) {
            Ok(read) => (read, None),
            Err(problem) => (Default::default(), Some(problem)),
        };
        let (instances, skipped) = read;
        // Includes the served clusters: one may have written its record after Cloud Map was read, and already have a
        // part in the import.
        let clusters = all.served.members.keys().chain(all.records.keys());
        let clusters: BTreeSet<&ClusterId> =
            clusters.chain(instances.iter().map(|(_, instance)| &instance.cluster)).collect();
        let mut members = BTreeMap::new();
        for cluster in clusters {
            let export = match all.source(cluster) {
                _ if all.has_given_up_id(cluster) => Some(MemberExport::default()),
                Source::Cluster(read) => {
                    let read = read.filter(|read| read.covers(name));
                    read.map(|read| MemberExport::read_in_cluster(read, name))
                }
                Source::CloudMap if unread.is_none() => {
                    all.export_in_cloud_map(cluster, name, &instances)
                }
                Source::CloudMap => None,
            };
            members.insert(cluster.clone(), export);
        }
        let exports = members.values().flatten().filter_map(|member| member.export.as_ref());
        let exports: Vec<Export> = exports.map(|(export, _)| export.clone()).collect();
        let hidden = all.hidden(name, &exports);
        let merged = merge(name, &exports);
        if let Some(Merged { service, .. }) = &merged {
            members.values_mut().flatten().for_each(|member| member.select_endpoints(service));
        }
        let skipped = (!skipped.is_empty()).then_some(Reason::Skipped { instances: skipped });
        let unusable = all.unusable().filter(|record| record.may_be_of(name));
        let unusable = unusable.map(|record| Reason::UnusableRecord { record: record.to_string() });
        let left_out = skipped.into_iter().chain(unusable).collect();
        let merged = merged.map(Arc::new);
        // The export under a former id is known once the cluster was read under its present id.
        let is_read = |(cluster, export): (&ClusterId, &Option<MemberExport>)| {
            export.is_some() || all.present_id_of(cluster).is_some()
        };
        let has_all_exporters = unread.is_none()
            && !all.is_unread()
            && !all.has_silent_member_without_a_record()
            && members.iter().all(is_read);
        Self { members, exports, merged, left_out, unread, hidden, has_all_exporters }
    }

    /// Returns the merged exports if every member that may export the name was read. An incomplete merge would hide
    /// conflicts: if the exports of blue and green conflict and green cannot be read, the export of blue alone has no
    /// conflict, and its condition would be withdrawn until green is read again.
    pub fn merged_if_complete(&self) -> Option<Arc<Merged>> {
        self.merged.clone().filter(|_| self.has_all_exporters)
    }
}

impl<'a> Members<'a> {
    /// Returns the instances of the name that can be imported, and those that cannot. Instances of served exporters are
    /// left out, since each of these clusters is the source of its own exports.
    ///
    /// # Errors
    /// Returns the problem if a Cloud Map service of the name could not be read.
    fn instances(
        &self,
        name: &ServiceRef,
    ) -> Result<(NamedInstances<'a>, Vec<(String, Skipped)>), String> {
        let mut all = Vec::new();
        let mut skipped = Vec::new();
        for key in self.service_keys.get(name).into_iter().flatten() {
            if let Some(problem) = &self.read.registry.services[*key].unreadable {
                return Err(problem.clone());
            }
            for (id, attributes) in self.read.registry.instances(key) {
                if Owner::of(attributes).is_some_and(|owner| self.served.is_exporting_owner(&owner))
                {
                    continue;
                }
                match attributes::read(attributes, self.clusterset) {
                    Ok(instance) => all.extend(instance.map(|instance| (id, instance))),
                    Err(reason) => skipped.push((id.clone(), reason)),
                }
            }
        }
        Ok((all, skipped))
    }

    /// Returns the exporters that have a record of the name, but whose endpoints Cloud Map does not show.
    fn hidden(&self, name: &ServiceRef, exports: &[Export]) -> BTreeSet<ClusterId> {
        if self.service_keys.contains_key(name) {
            return BTreeSet::new();
        }
        // In a known namespace, an export without endpoints may have no service.
        let mut namespaces = self.read.registry.namespaces.values();
        let is_shown = namespaces.any(|namespace| namespace.name == name.namespace);
        let exporters = exports.iter().map(|export| &export.cluster);
        let is_hidden = |cluster: &&ClusterId| {
            self.is_of_cloud_map(cluster) && !(is_shown && self.is_empty(cluster, name))
        };
        exporters.filter(is_hidden).cloned().collect()
    }

    /// Returns the export of a member as Cloud Map has it, or `None` if Cloud Map does not show it reliably.
    fn export_in_cloud_map(
        &self,
        cluster: &ClusterId,
        name: &ServiceRef,
        instances: &[(&String, ExportInstance)],
    ) -> Option<MemberExport> {
        let record = self.record_of(cluster, name);
        let arn = record.map(|record| record.owner.cluster.clone());
        // Another cluster may have owned the id earlier.
        let is_own = |instance: &ExportInstance| {
            instance.cluster == *cluster
                && (instance.arn.is_none() || arn.is_none() || instance.arn == arn)
        };
        let own: Vec<_> = instances.iter().filter(|(_, instance)| is_own(instance)).collect();
        let records = self.records.get(cluster);
        let is_unknown = |records: &MemberRecords| {
            records.unread.is_some() || records.unusable.iter().any(|record| record.may_be_of(name))
        };
        // If the member has marked instances but no cluster record, its records were deleted, or the list of members
        // lacks the Cloud Map service of its records.
        let lacks_cluster_record = records.is_none_or(|records| records.id_owner.is_none());
        let has_marked_instance = own.iter().any(|(_, instance)| instance.is_marked);
        if records.is_some_and(is_unknown) || lacks_cluster_record && has_marked_instance {
            return None;
        }
        let export = match record {
            Some(record) => Some(record.export.clone()),
            None => export_of_instances(cluster, &own),
        };
        let endpoints = own.iter().map(|(_, instance)| instance.endpoint.clone());
        let export = export.map(|export| (export, endpoints.collect()));
        Some(MemberExport { arn, export, ..MemberExport::default() })
    }
}

impl MemberExport {
    /// Returns the export of a cluster that this invocation read itself.
    fn read_in_cluster(read: &ReadExports, name: &ServiceRef) -> Self {
        let published = read.desired.services.get(name);
        let mut excluded = BTreeMap::new();
        let export = published.and_then(|published| {
            let exported = published.export.as_ref()?;
            let mut endpoints = Vec::new();
            for endpoint in published.read_endpoints() {
                let all = endpoints_of(exported, endpoint, read.arn.region());
                let ready = endpoint.health() == Health::Ready;
                let is_leaving = endpoint.health() == Health::Leaving;
                excluded.extend(endpoint.addresses().filter_map(|address| {
                    let has_port = all.iter().any(|endpoint| endpoint.address == address);
                    Some((address, excluded_for(endpoint, address, has_port)?))
                }));
                let all = all.into_iter().filter(|_| ready || is_leaving);
                endpoints.extend(all.map(|endpoint| ExportedEndpoint {
                    ready,
                    is_leaving,
                    ..endpoint
                }));
            }
            Some((as_recorded(&exported.export), endpoints))
        });
        let excluded = Arc::new(excluded);
        let selected =
            MemberEndpoints { excluded, is_read_in_cluster: true, ..MemberEndpoints::default() };
        Self { arn: Some(read.arn.clone()), export, selected }
    }

    /// Moves the endpoints that the merged service includes from `export` to `selected`.
    fn select_endpoints(&mut self, service: &ClustersetService) {
        let Some((export, all)) = self.export.take() else { return };
        let ports = all.iter().filter_map(|endpoint| endpoint.port.as_ref());
        let port_names = ports.map(|port| (key(port), port.service_name.clone())).collect();
        self.selected.port_names = Arc::new(port_names);
        let (included, others): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|endpoint| includes_endpoint(service, &export, endpoint.port.as_ref()));
        let others = others.into_iter().map(|endpoint| (endpoint.address, Absent::OtherPort));
        Arc::make_mut(&mut self.selected.excluded).extend(others);
        self.selected.endpoints = with_ports(included).into();
    }

    /// Returns the endpoints that may be imported into a cluster, and the addresses that `NAME_POLICY` does not allow
    /// there.
    pub(super) fn endpoints_for(
        &self,
        importer: &ClusterArn,
        allows: impl Fn(IpAddr) -> bool,
    ) -> (MemberEndpoints, Vec<IpAddr>) {
        let mut selected = self.selected.clone();
        selected.shares_zones = self.arn.as_ref().is_some_and(|arn| {
            (arn.account(), arn.region()) == (importer.account(), importer.region())
        });
        let others = selected.excluded.iter().filter(|(_, why)| **why == Absent::OtherPort);
        let addresses = selected.endpoints.iter().map(|endpoint| endpoint.address);
        let addresses = addresses.chain(others.map(|(address, _)| *address));
        let denied: BTreeSet<IpAddr> = addresses.filter(|address| !allows(*address)).collect();
        if !denied.is_empty() {
            let reasons = denied.iter().map(|address| (*address, Absent::NotAllowed));
            Arc::make_mut(&mut selected.excluded).extend(reasons);
            let endpoints = Arc::make_mut(&mut selected.endpoints);
            endpoints.retain(|endpoint| !denied.contains(&endpoint.address));
        }
        (selected, denied.into_iter().collect())
    }
}

/// The reason why an address of an endpoint is not exported.
fn excluded_for(endpoint: &Endpoint, address: IpAddr, has_port: bool) -> Option<Absent> {
    if endpoint.health() == Health::NotReady {
        return Some(if endpoint.terminating { Absent::Terminating } else { Absent::NotReady });
    }
    if !is_publishable(address) {
        return Some(Skipped::NotPublishable.into());
    }
    (!has_port).then_some(Absent::NoPort)
}

/// Joins the endpoints of each address, with all its ports. Two pods have one address if they use the network of their
/// node, or if one takes over the address of the other: the address is ready if one of them is. If a port of the
/// Service has several targets at one address, each further target is an endpoint of its own.
fn with_ports(mut all: Vec<ExportedEndpoint>) -> Vec<ImportedEndpoint> {
    // The first endpoint of an address determines its readiness and its node, so ready endpoints are first.
    all.sort_by(|one, other| (!one.ready, &one.node).cmp(&(!other.ready, &other.node)));
    let mut endpoints: BTreeMap<IpAddr, Vec<ImportedEndpoint>> = BTreeMap::new();
    for endpoint in all {
        let port = endpoint.port.as_ref().map(|port| (key(port), port.number));
        let same = endpoints.entry(endpoint.address).or_default();
        let can_have_port = |joined: &&mut ImportedEndpoint| {
            port.is_none_or(|(key, target)| {
                joined.ports.get(&key).is_none_or(|other| *other == target)
            })
        };
        if let Some(joined) = same.iter_mut().find(can_have_port) {
            joined.ports.extend(port);
            continue;
        }
        same.push(ImportedEndpoint {
            address: endpoint.address,
            ready: endpoint.ready,
            is_leaving: endpoint.is_leaving,
            hostname: endpoint.hostname.map(Arc::from),
            node: endpoint.node.map(Arc::from),
            zone: endpoint.zone.map(Arc::from),
            ports: port.into_iter().collect(),
        });
    }
    endpoints.into_values().flatten().collect()
}

/// The protocol and number of the Service's port that leads to a port of an endpoint.
fn key(port: &EndpointPort) -> PortKey {
    (port.service_protocol, port.service_number)
}

/// Returns the export that the instances of AWS's controller describe. Where they differ, the oldest instance decides,
/// then the smallest id. Marked instances do not count, since only a record describes their export.
fn export_of_instances(
    cluster: &ClusterId,
    instances: &[&(&String, ExportInstance)],
) -> Option<Export> {
    let mut all: Vec<_> = instances.iter().filter(|(_, instance)| !instance.is_marked).collect();
    all.sort_by_key(|(id, instance)| (instance.created, *id));
    let (_, first) = all.first()?;
    let mut ports: Vec<ExportedPort> = Vec::new();
    let families = all.iter().map(|(_, instance)| Family::of(instance.endpoint.address));
    let families: BTreeSet<Family> = families.collect();
    for (_, instance) in &all {
        let Some(port) = &instance.endpoint.port else { continue };
        let protocol = port.service_protocol;
        let number = port.service_number;
        if !ports.iter().any(|present| (present.protocol, present.number) == (protocol, number)) {
            let name = port.service_name.clone();
            ports.push(ExportedPort { name, protocol, number, app_protocol: None });
        }
    }
    Some(Export {
        cluster: cluster.clone(),
        created: first.created,
        kind: first.kind,
        ports,
        families: families.into_iter().collect(),
        properties: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// kubernetes 135266: a terminating pod and its successor can have one address for a while.
    #[test]
    fn address_of_a_leaving_and_a_ready_endpoint_is_ready_whatever_their_nodes_are() {
        let of = |node: &str, ready: bool| ExportedEndpoint {
            address: "10.0.0.1".parse().expect("an address"),
            port: None,
            ready,
            is_leaving: !ready,
            hostname: None,
            node: Some(node.to_owned()),
            zone: None,
            region: None,
        };
        for (leaving, ready) in [("a", "b"), ("b", "a")] {
            for all in
                [[of(leaving, false), of(ready, true)], [of(ready, true), of(leaving, false)]]
            {
                let endpoints = with_ports(all.to_vec());
                let [endpoint] = endpoints.as_slice() else { panic!("{endpoints:?}") };
                assert!(endpoint.ready && !endpoint.is_leaving);
                assert_eq!(endpoint.node.as_deref(), Some(ready));
            }
        }
    }
}
