//! Watches over imports as their clients use them: each IP of a watched ServiceImport leads to a ready endpoint at any
//! time, through the Service that has the IP and its slices; of a headless one DNS finds a ready endpoint.

use std::collections::BTreeSet;

use serde_json::Value;

use super::KubernetesServer;
use super::resource::{ENDPOINT_SLICES, SERVICE_IMPORTS, SERVICES};
use super::world::World;

/// The watched imports, by namespace and name, and the gaps that were seen.
#[derive(Debug, Default)]
pub struct Ready {
    watched: BTreeSet<(String, String)>,
    gaps: Vec<String>,
}

impl KubernetesServer {
    /// From now on a gap is noted whenever an import has no ready endpoint.
    pub fn keep_ready(&self, namespace: &str, name: &str) {
        self.world().ready.watched.insert((namespace.to_owned(), name.to_owned()));
    }

    /// The gaps of watched imports so far.
    pub fn gaps(&self) -> Vec<String> {
        self.world().ready.gaps.clone()
    }
}

impl World {
    /// Notes the gaps after a change.
    pub fn note_gaps(&mut self, cause: &str) {
        let gaps: Vec<String> = self
            .ready
            .watched
            .iter()
            .filter_map(|(namespace, name)| {
                let why = self.gap(namespace, name)?;
                Some(format!("after {cause}: import {namespace}/{name} {why}"))
            })
            .collect();
        self.ready.gaps.extend(gaps);
    }

    fn gap(&self, namespace: &str, name: &str) -> Option<String> {
        let Some(import) = self.store.get(&SERVICE_IMPORTS, namespace, name) else {
            return Some("is gone".to_owned());
        };
        if import["spec"]["type"] == "Headless" {
            let label = "multicluster.kubernetes.io/service-name";
            let is_found = self.has_ready_endpoint(namespace, label, &Value::from(name));
            return (!is_found).then(|| "has no ready endpoint".to_owned());
        }
        let ips = import["spec"]["ips"].as_array().cloned().unwrap_or_default();
        let services = self.store.all(&SERVICES, namespace);
        let leads = |ip: &Value| {
            let service = services.iter().find(|service| service["spec"]["clusterIP"] == *ip);
            let label = "kubernetes.io/service-name";
            service.is_some_and(|service| {
                self.has_ready_endpoint(namespace, label, &service["metadata"]["name"])
            })
        };
        let dead = ips.iter().find(|ip| !leads(ip));
        match (ips.is_empty(), dead) {
            (true, _) => Some("has no IP".to_owned()),
            (false, Some(ip)) => Some(format!("has the IP {ip}, which leads to no ready endpoint")),
            (false, None) => None,
        }
    }

    fn has_ready_endpoint(&self, namespace: &str, label: &str, value: &Value) -> bool {
        let slices = self.store.all(&ENDPOINT_SLICES, namespace).into_iter();
        let mut slices = slices.filter(|slice| slice["metadata"]["labels"][label] == *value);
        slices.any(|slice| {
            let mut endpoints = slice["endpoints"].as_array().into_iter().flatten();
            endpoints.any(|endpoint| endpoint["conditions"]["ready"] != false)
        })
    }
}
