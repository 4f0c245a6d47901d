//! Every endpoint of a name in the clusterset, with the reason if it cannot be in an import, so that people can find out
//! why one is missing. It decides nothing: the input of the plan has what [`Members::known`] left out of it, and why.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::Members;
use crate::clusterset::attributes::{self, endpoints_of};
use crate::import::plan::{Absent, Sources};
use crate::model::attributes::{IPV4, IPV6, POD, PORT};
use crate::model::clusterset::ClusterId;
use crate::model::{Family, Owner, ServiceRef};

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
        sources: &Sources,
        families: &[Family],
    ) -> Vec<Candidate> {
        let mut all = Candidates::new();
        let absent = |cluster: &ClusterId, address: IpAddr| {
            let family = Family::of(address);
            let has_family = families.is_empty() || families.contains(&family);
            let absent = sources.absent(cluster, address);
            absent.or_else(|| (!has_family).then_some(Absent::OtherFamily(family)))
        };
        for (cluster, overlay) in self.overlay.iter().filter(|(_, it)| it.covers(name)) {
            let Some(published) = overlay.desired.services.get(name) else { continue };
            let Some(exported) = &published.export else { continue };
            for endpoint in published.endpoints.iter().flatten() {
                let led_to = endpoints_of(exported, endpoint, overlay.arn.region());
                for address in endpoint.addresses() {
                    let ports = led_to.iter().filter(|it| it.address == address);
                    let ports = ports.filter_map(|it| Some(it.port.as_ref()?.number.to_string()));
                    let candidate = Candidate {
                        cluster: Some(cluster.clone()),
                        address: address.to_string(),
                        ports: ports.collect(),
                        pod: endpoint.pod.clone(),
                        ready: endpoint.ready,
                        absent: absent(cluster, address),
                    };
                    add(&mut all, candidate);
                }
            }
        }
        let instances = self.places.get(name).into_iter().flatten();
        for (_, of_instance) in instances.flat_map(|key| self.registry.instances(key)) {
            let cluster = attributes::cluster_of(of_instance);
            let is_read_there = cluster.as_ref().is_some_and(|it| self.is_read_there(it, name));
            if !attributes::is_exported_to(of_instance, self.clusterset) || is_read_there {
                continue;
            }
            let (ready, absent) = match attributes::read(of_instance, self.clusterset) {
                Err(skipped) => (true, Some(skipped.into())),
                Ok(None) => (true, Some(Absent::NotExported)),
                Ok(Some(it)) => (it.endpoint.ready, absent(&it.cluster, it.endpoint.address)),
            };
            let text = |key: &str| of_instance.get(key).map(str::to_owned);
            let address = text(IPV4).or_else(|| text(IPV6));
            let candidate = Candidate {
                cluster,
                address: address.unwrap_or_else(|| "no address".to_owned()),
                ports: text(PORT).into_iter().collect(),
                pod: text(POD),
                ready,
                absent,
            };
            add(&mut all, candidate);
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
