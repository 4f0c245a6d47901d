//! The clusterset as plain data: the Services that both clusters export, the endpoints that AWS's controller registers
//! for a third one, and their projection onto the stand-ins.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::world::{CLUSTERS, SHOP, Settings};
use crate::fleet::Fleet;
use crate::multi_cluster::{CLUSTERSET, amber_attributes, amber_id, foreign_import, join, pods};
use testbed::ACCOUNT;
use testbed::kubernetes::{ClusterIp, Export, KubernetesServer};

/// The names of exported Services; `amber` exports the first one.
pub const EXPORTED: [&str; 2] = ["books", "mail"];
/// A Region whose Cloud Map has nothing of the clusterset.
pub const OTHER_REGION: &str = "us-east-1";
/// Both clusters, of which one has no exports.
pub const IMPORTS_ALONE: &str = r#"["blue", {"cluster": "green", "multiCluster": "import"}]"#;
/// The creation of the exports of `amber`: older than some and younger than others.
const AMBER_CREATED: &str = "1767225601000";

/// The name of the derived Service of each.
const DERIVED: [&str; 2] = ["derived-ot1klstt8b", "derived-eaqhif6rka"];

/// How far the Kubernetes namespace of a cluster is from being there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Life {
    #[default]
    Active,
    Terminating,
    Gone,
}

/// What the clusters export.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug, Default)]
pub struct Clusterset {
    pub is_on: bool,
    /// Whether each cluster has a function of its own, which knows nothing of the other.
    pub is_apart: bool,
    /// The exporters by their cluster's and their name's number.
    pub exporters: BTreeMap<(usize, usize), Exporter>,
    /// The annotated Services that are exported, too, by their cluster's and their own number.
    pub annotated: BTreeSet<(usize, usize)>,
    /// The endpoints of `amber`.
    pub amber: BTreeSet<u8>,
    /// The ids of the clusters.
    pub ids: [&'static str; 2],
    /// Whether the API server of each serves no definitions of exports and imports.
    pub lacks_definitions: [bool; 2],
    /// The Kubernetes namespace of each.
    pub lives: [Life; 2],
    /// The objects of another client in the place of those of an import, by the numbers of its cluster and name.
    pub in_the_way: BTreeMap<(usize, usize), Value>,
    /// Whether another account shares a second namespace for records.
    pub has_second_namespace: bool,
    /// Whether the records of a cluster were ever purged, or moved to another id.
    pub has_lost_records: bool,
    /// Whether an API server refuses fields, which a process remembers.
    pub has_refused: bool,
}

/// A Service and its export.
#[allow(clippy::struct_excessive_bools, reason = "each is a field of its own")]
#[derive(Clone, Debug)]
pub struct Exporter {
    /// The age of the export: the second of its creation.
    pub created: u8,
    pub is_headless: bool,
    /// The number of its port `http`.
    pub http: u16,
    pub has_more_ports: bool,
    /// Whether its clients stay with one pod.
    pub is_sticky: bool,
    /// Whether its clients are led to pods of their zone, by a value that older API servers refuse.
    pub prefers_zone: bool,
    /// The last parts of its pods' addresses. Without them there is no Service.
    pub pods: Option<BTreeSet<u8>>,
    pub is_exported: bool,
}

impl Default for Exporter {
    fn default() -> Self {
        Self {
            created: 0,
            is_headless: false,
            http: 80,
            has_more_ports: false,
            is_sticky: false,
            prefers_zone: false,
            pods: None,
            is_exported: true,
        }
    }
}

/// A ServiceImport of another client, or a Service with the name of a derived one.
pub fn foreign(name: usize, is_import: bool) -> Value {
    if is_import {
        foreign_import(EXPORTED[name])
    } else {
        ClusterIp::new(SHOP, DERIVED[name]).port_of("TCP", "http", 7, 7).into()
    }
}

/// The address of a pod of an exported Service; the third cluster is `amber`.
pub fn address(cluster: usize, pod: u8) -> String {
    format!("10.1.{}.{pod}", cluster + 1)
}

impl Exporter {
    /// The time at which its export was created.
    pub fn created(&self) -> String {
        format!("2026-01-01T00:00:0{}Z", self.created)
    }

    /// The names and numbers of its ports. Pods have them above 8,000.
    pub fn ports(&self) -> Vec<(&'static str, u16)> {
        let more = self.has_more_ports.then_some(("more", 90));
        [("http", self.http)].into_iter().chain(more).collect()
    }

    pub fn affinity(&self) -> &'static str {
        if self.is_sticky { "ClientIP" } else { "None" }
    }

    fn service(&self, name: &str) -> Value {
        let new = ClusterIp::new(SHOP, name);
        let new = if self.is_headless {
            new.spec("clusterIP", "None").spec("clusterIPs", vec!["None"])
        } else if self.prefers_zone {
            let new = new.spec("trafficDistribution", "PreferSameZone");
            new.spec("sessionAffinity", self.affinity())
        } else {
            new.spec("sessionAffinity", self.affinity())
        };
        let ports = self.ports().into_iter();
        ports.fold(new, |it, (name, port)| it.port_of("TCP", name, port, 8000 + port)).into()
    }
}

impl Clusterset {
    /// Both clusters serve the API and are members, and AWS's controller has served a name for a third one.
    pub fn begin(&mut self, fleet: &Fleet, green: &KubernetesServer) {
        (self.is_on, self.ids) = (true, CLUSTERS);
        for (server, id) in [&fleet.cluster, green].into_iter().zip(self.ids) {
            join(server, id, &[SHOP]);
        }
        fleet.sandbox.cloud_map_of(OTHER_REGION, ACCOUNT);
        fleet.cloud_map.ensure_service(SHOP, EXPORTED[0]);
    }

    /// What its settings add to those of a process.
    pub fn variables(&self, process: usize, settings: &Settings) -> Vec<(&'static str, String)> {
        if !self.is_on {
            return Vec::new();
        }
        let on = [("MULTI_CLUSTER", "on"), ("CREATE_NAMESPACES", "true")];
        let on = on.map(|(key, value)| (key, value.to_owned())).into_iter();
        let own = ("CLUSTERS", CLUSTERS[process % 2].to_owned());
        let used = settings.namespaces.map(|it| format!("{it},{SHOP},clusterset.{CLUSTERSET}"));
        let used = used.map(|it| ("CLOUD_MAP_NAMESPACES", it));
        on.chain(self.is_apart.then_some(own)).chain(used).collect()
    }

    /// Brings an exported Service of a cluster's API server to what it is here.
    pub fn project(&self, place: (usize, usize), server: &KubernetesServer) {
        let (name, Some(exporter)) = (EXPORTED[place.1], self.exporters.get(&place)) else {
            return;
        };
        if let Some(ready) = &exporter.pods {
            server.service(exporter.service(name));
            let ready: Vec<String> = ready.iter().map(|pod| address(place.0, *pod)).collect();
            pods(server, name, &ready.iter().map(String::as_str).collect::<Vec<_>>());
        } else {
            server.delete_service(SHOP, name);
        }
        if !exporter.is_exported {
            server.unexport(SHOP, name);
        } else if server.service_export(SHOP, name).is_none() {
            server.put(Export::new(SHOP, name).created(&exporter.created()).into());
        }
    }

    /// Makes the endpoints of `amber` what they are from now on, as AWS's controller does.
    pub fn set_amber(&mut self, fleet: &Fleet, now: BTreeSet<u8>) {
        let service = fleet.cloud_map.service_id(SHOP, EXPORTED[0]);
        for pod in now.difference(&self.amber) {
            let address = address(2, *pod);
            let mut attributes: BTreeMap<_, _> = amber_attributes(&address).into();
            attributes.insert("SERVICE_EXPORT_CREATION_TIMESTAMP", AMBER_CREATED);
            let attributes: Vec<_> = attributes.into_iter().collect();
            fleet.cloud_map.instance(&service, &amber_id(&address), &attributes);
        }
        for pod in self.amber.difference(&now) {
            fleet.cloud_map.withdraw(&service, &amber_id(&address(2, *pod)));
        }
        self.amber = now;
    }
}
