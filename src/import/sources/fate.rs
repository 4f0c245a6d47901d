//! The fate of each endpoint of a name, whether a member exports it or only the present import has it, so that people
//! can find out why an endpoint is missing. This module decides nothing: [`Members::exports_for`] gives the plan its
//! input and the reasons for everything left out of it, and the plan shows whether it adds endpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::Members;
use crate::clusterset::attributes::{self, endpoints_of};
use crate::clusterset::merge::Merged;
use crate::import::plan::{Absent, OwnerLabel, Present, Sources};
use crate::model::attributes::{IPV4, IPV6, POD, PORT};
use crate::model::{ClusterId, EndpointLine, Family, Fate, Health, ServiceRef};

/// An endpoint of a member, with all its ports.
#[derive(Default)]
struct Candidate {
    ports: Vec<String>,
    pod: Option<String>,
    /// Whether the endpoint takes traffic.
    ready: bool,
    /// The reason if the endpoint cannot be in an import.
    absent: Option<Absent>,
}

/// A cluster, if the attributes name one, and an address.
type ClusterAddress = (Option<ClusterId>, String);

/// The candidates by cluster and address. If one port of an address takes part, the address is in the import.
type Candidates = BTreeMap<ClusterAddress, Candidate>;

impl Members<'_> {
    /// Lists all endpoints of a name with their fates in a cluster's import. `changes_endpoints` says whether the plan
    /// changes the endpoints of the import.
    pub fn fates(
        &self,
        name: &ServiceRef,
        merged: Option<&Merged>,
        sources: &Sources,
        owner: &OwnerLabel,
        present: &Present,
        changes_endpoints: bool,
    ) -> Vec<EndpointLine> {
        let own = present.slices.iter().filter(|slice| owner.owns(&slice.metadata));
        let in_import: BTreeSet<ClusterAddress> = own
            .flat_map(|slice| {
                slice.addresses().map(|address| (slice.source(), address.to_string()))
            })
            .collect();
        // The families of the present import, or of the exports if the import is new.
        let families = present.import.as_ref().map(|import| &import.spec.families);
        let merged = merged.map(|merged| &merged.service.families);
        let families = families.filter(|families| !families.is_empty()).or(merged);
        let mut all = self.candidates(name, sources, families);
        for key in in_import.iter().filter(|key| !all.contains_key(*key)).collect::<Vec<_>>() {
            all.insert(
                key.clone(),
                Candidate { absent: Some(Absent::Gone), ..Candidate::default() },
            );
        }
        let lines = all.into_iter().map(|(key, candidate)| {
            let is_in = in_import.contains(&key);
            let (cluster, address) = key;
            let is_unread =
                cluster.as_ref().map_or(!sources.is_complete, |cluster| sources.is_unread(cluster));
            // The plan removes no endpoint of its cluster.
            let is_held = cluster.as_ref().is_some_and(|cluster| sources.stays(cluster));
            let unread = "the exports of its cluster could not be read";
            let (fate, detail) = match (candidate.absent, is_in) {
                (_, true) if is_unread => (Fate::Kept, format!("stays in the import: {unread}")),
                (_, false) if is_unread => (Fate::LeftOut, format!("not in the import: {unread}")),
                (None, true) if candidate.ready => (Fate::Present, "in the import".to_owned()),
                (None, true) => (Fate::Present, "in the import, not ready".to_owned()),
                (None, false) if changes_endpoints => {
                    (Fate::ToAdd, "a sync would add it to the import".to_owned())
                }
                (None, false) => {
                    (Fate::LeftOut, "not in the import: see the lines above".to_owned())
                }
                (Some(absent), true) if is_held || !changes_endpoints => {
                    (Fate::Kept, format!("stays in the import for now: {absent}"))
                }
                (Some(absent), true) => {
                    (Fate::ToRemove, format!("in the import, and a sync would remove it: {absent}"))
                }
                (Some(absent), false) => {
                    let takes_no_traffic = matches!(absent, Absent::NotReady | Absent::Terminating);
                    let fate = if takes_no_traffic { Fate::NotReady } else { Fate::LeftOut };
                    (fate, format!("not in the import: {absent}"))
                }
            };
            let Candidate { ports, pod, .. } = candidate;
            let member = cluster.map(|cluster| cluster.to_string());
            let addresses = vec![address];
            EndpointLine { member, addresses, ports, pod, condition: None, fate, detail }
        });
        lines.collect()
    }

    /// All endpoints of a name, for an import of these families.
    fn candidates(
        &self,
        name: &ServiceRef,
        sources: &Sources,
        families: Option<&Vec<Family>>,
    ) -> Candidates {
        let mut all = Candidates::new();
        let absent = |cluster: &ClusterId, address: IpAddr| {
            let family = Family::of(address);
            let has_family =
                families.is_none_or(|families| families.is_empty() || families.contains(&family));
            let absent = sources.absent(cluster, address);
            absent.or_else(|| (!has_family).then_some(Absent::OtherFamily(family)))
        };
        for cluster in self.served.read.keys() {
            let Some(read) = self.read_in_cluster(cluster, name) else { continue };
            let Some(published) = read.desired.services.get(name) else { continue };
            let Some(exported) = &published.export else { continue };
            for endpoint in published.read_endpoints() {
                let exported_endpoints = endpoints_of(exported, endpoint, read.arn.region());
                for address in endpoint.addresses() {
                    let ports = exported_endpoints.iter();
                    let ports = ports
                        .filter(|endpoint| endpoint.address == address)
                        .filter_map(|endpoint| Some(endpoint.port.as_ref()?.number.to_string()));
                    let pod = endpoint.pod.clone();
                    let ready = endpoint.health() == Health::Ready;
                    let absent = absent(cluster, address);
                    let candidate = Candidate { ports: ports.collect(), pod, ready, absent };
                    add(&mut all, (Some(cluster.clone()), address.to_string()), candidate);
                }
            }
        }
        let keys = self.service_keys.get(name).into_iter().flatten();
        for (_, attributes) in keys.flat_map(|key| self.read.registry.instances(key)) {
            let cluster = attributes::cluster_of(attributes);
            let is_served = cluster.as_ref().is_some_and(|cluster| !self.is_of_cloud_map(cluster));
            if !attributes::is_exported_to(attributes, self.clusterset) || is_served {
                continue;
            }
            let (ready, absent) = match attributes::read(attributes, self.clusterset) {
                Err(skipped) => (true, Some(skipped.into())),
                Ok(None) => (true, Some(Absent::NotExported)),
                Ok(Some(instance)) => {
                    (instance.endpoint.ready, absent(&instance.cluster, instance.endpoint.address))
                }
            };
            let text = |key: &str| attributes.get(key).map(str::to_owned);
            let address = text(IPV4).or_else(|| text(IPV6));
            // Addresses in slices have this form.
            let address = address.map(|written| {
                written.parse().map_or(written, |address: IpAddr| address.to_string())
            });
            let key = (cluster, address.unwrap_or_else(|| "no address".to_owned()));
            let ports = text(PORT).into_iter().collect();
            add(&mut all, key, Candidate { ports, pod: text(POD), ready, absent });
        }
        all
    }
}

fn add(all: &mut Candidates, key: ClusterAddress, candidate: Candidate) {
    match all.get_mut(&key) {
        None => _ = all.insert(key, candidate),
        Some(merged) => {
            merged.ports.extend(candidate.ports);
            merged.ready |= candidate.ready;
            merged.absent = merged.absent.and(candidate.absent);
        }
    }
}
