//! Every endpoint of a name in the clusterset, with the reason if it cannot be in an import, so that people can find out
//! why one is missing. It decides nothing: [`Members::known`] does.

use std::collections::BTreeMap;

use super::{Allows, Members, MergedName, Stale};
use crate::clusterset::attributes::{self, ExportInstance, Skipped};
use crate::clusterset::endpoints::endpoints_of;
use crate::clusterset::merge::{Merged, serves};
use crate::model::attributes::{IPV4, IPV6, POD, PORT};
use crate::model::clusterset::{ClusterId, Export, ExportedEndpoint, Overlay};
use crate::model::{Attributes, Endpoint, Family, Owner, ServiceRef, is_publishable};

/// An endpoint of a member, with all its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// `None` if its attributes name none.
    pub cluster: Option<ClusterId>,
    /// Its address as it is written.
    pub address: String,
    pub ports: Vec<String>,
    pub pod: Option<String>,
    /// Whether it takes traffic.
    pub ready: bool,
    /// The reason if it cannot be in an import.
    pub absent: Option<Absent>,
}

/// The reason why an endpoint cannot be in an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Absent {
    #[error("its pod is not ready")]
    NotReady,
    #[error("its pod is terminating")]
    Terminating,
    #[error("its address is loopback, link-local, multicast, unspecified or IPv4-mapped")]
    NotPublishable,
    #[error("it has none of the ports of its Service")]
    NoPort,
    #[error("no port of the import leads to it")]
    OtherPort,
    #[error("the import has no {}", .0.as_str())]
    OtherFamily(Family),
    #[error("NAME_POLICY does not allow its address")]
    NotAllowed,
    #[error("its cluster is expired, and others have ready endpoints")]
    Expired,
    #[error("its cluster has no record of the export")]
    NotExported,
    #[error(transparent)]
    Skipped(#[from] Skipped),
}

impl Absent {
    /// Whether it will be imported by itself, or is meant to be left out.
    pub fn is_expected(self) -> bool {
        matches!(self, Self::NotReady | Self::Terminating)
    }
}

/// The endpoints by cluster, address and pod. One that takes part by one of its ports is in the import.
type Candidates = BTreeMap<(Option<ClusterId>, String), Candidate>;

impl Members<'_> {
    /// The installation and cluster in the record of an export; `None` without a record.
    pub fn owner_of(&self, cluster: &ClusterId, name: &ServiceRef) -> Option<&Owner> {
        self.records.get(cluster)?.exports.get(name).map(|record| &record.owner)
    }

    /// All endpoints of a name, for an import of these families.
    pub fn candidates(
        &self,
        name: &ServiceRef,
        (known, allows): (&MergedName, Allows<'_>),
        families: &[Family],
    ) -> Vec<Candidate> {
        let mut all = Candidates::new();
        let reasons = ExclusionReasons { members: self, name, known, allows, families };
        for (cluster, overlay) in self.overlay.iter().filter(|(_, it)| it.covers(name)) {
            reasons.add_overlay(&mut all, (cluster, overlay));
        }
        for key in self.places.get(name).into_iter().flatten() {
            for (_, of_instance) in self.registry.instances(key) {
                let cluster = attributes::cluster_of(of_instance);
                let is_read_there = cluster.as_ref().is_some_and(|it| self.is_read_there(it, name));
                if attributes::is_exported_to(of_instance, self.clusterset) && !is_read_there {
                    let instance = attributes::read(of_instance, self.clusterset);
                    add(&mut all, reasons.of_instance(cluster, of_instance, instance));
                }
            }
        }
        all.into_values().collect()
    }
}

fn add(all: &mut Candidates, candidate: Candidate) {
    let key = (candidate.cluster.clone(), candidate.address.clone());
    match all.get_mut(&key) {
        None => _ = all.insert(key, candidate),
        Some(known) => {
            known.ports.extend(candidate.ports);
            known.ready &= candidate.ready;
            known.absent = known.absent.and(candidate.absent);
        }
    }
}

/// What the reasons rest on.
struct ExclusionReasons<'a> {
    members: &'a Members<'a>,
    name: &'a ServiceRef,
    known: &'a MergedName,
    allows: Allows<'a>,
    families: &'a [Family],
}

impl ExclusionReasons<'_> {
    fn add_overlay(&self, all: &mut Candidates, (cluster, overlay): (&ClusterId, &Overlay)) {
        let Some(published) = overlay.desired.services.get(self.name) else { return };
        let Some(exported) = &published.export else { return };
        for endpoint in published.endpoints.iter().flatten() {
            let led_to = endpoints_of(exported, endpoint, overlay.arn.region());
            for address in endpoint.addresses() {
                let own = led_to.iter().filter(|it| it.address == address);
                // It is in the import by one of its ports.
                let refusals = own.clone().map(|it| self.refusal(&exported.export, it));
                let refusal = refusals.reduce(|first, other| other.and(first));
                let absent = match endpoint {
                    Endpoint { terminating: true, .. } if !endpoint.is_leaving() => {
                        Some(Absent::Terminating)
                    }
                    Endpoint { ready: false, terminating: false, .. } => Some(Absent::NotReady),
                    _ if !is_publishable(address) => Some(Absent::NotPublishable),
                    _ => refusal.unwrap_or(Some(Absent::NoPort)),
                };
                let ports = own.filter_map(|it| Some(it.port.as_ref()?.number.to_string()));
                add(
                    all,
                    Candidate {
                        cluster: Some(cluster.clone()),
                        address: address.to_string(),
                        ports: ports.collect(),
                        pod: endpoint.pod.clone(),
                        ready: endpoint.ready,
                        absent,
                    },
                );
            }
        }
    }

    fn of_instance(
        &self,
        cluster: Option<ClusterId>,
        of_instance: &Attributes,
        instance: Result<Option<ExportInstance>, Skipped>,
    ) -> Candidate {
        let text = |key: &str| of_instance.get(key).map(str::to_owned);
        let ready = !matches!(&instance, Ok(Some(instance)) if !instance.endpoint.ready);
        let absent = match instance {
            Err(skipped) => Some(skipped.into()),
            Ok(None) => Some(Absent::NotExported),
            Ok(Some(ExportInstance { cluster, endpoint, .. })) => {
                let export = self.known.exports.iter().find(|it| it.cluster == cluster);
                export.map_or(Some(Absent::NotExported), |it| self.refusal(it, &endpoint))
            }
        };
        Candidate {
            cluster,
            address: text(IPV4).or_else(|| text(IPV6)).unwrap_or_else(|| "no address".to_owned()),
            ports: text(PORT).into_iter().collect(),
            pod: text(POD),
            ready,
            absent,
        }
    }

    /// The reason why an endpoint that its member exports, with one of its ports, is not in the import.
    fn refusal(&self, export: &Export, endpoint: &ExportedEndpoint) -> Option<Absent> {
        let Merged { service, .. } = self.known.merged.as_deref()?;
        let Export { cluster, .. } = export;
        let is_expired = |it: &Stale| it.is_expired && it.cluster == *cluster;
        let is_out = !self.known.sources.has(cluster, endpoint.address);
        let family = Family::of(endpoint.address);
        let has_families = !self.families.is_empty();
        let reasons = [
            (!(self.allows)(&self.name.namespace, endpoint.address), Absent::NotAllowed),
            (is_out && self.members.stale.iter().any(is_expired), Absent::Expired),
            (has_families && !self.families.contains(&family), Absent::OtherFamily(family)),
            (!serves(service, export, endpoint.port.as_ref()), Absent::OtherPort),
        ];
        reasons.into_iter().find_map(|(is_so, absent)| is_so.then_some(absent))
    }
}
