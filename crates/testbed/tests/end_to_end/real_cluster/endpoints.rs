//! What the endpoint-slice controller says, once it has said what a test waits for.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::api::ListParams;

use super::RealCluster;

impl RealCluster {
    /// Waits until the slices of a Service name exactly these addresses as ready.
    pub async fn wait_for_ready(&self, service: &str, addresses: &[&str]) {
        let wanted: BTreeSet<String> = addresses.iter().map(|&text| text.to_owned()).collect();
        let what = format!("for {wanted:?} to be the ready addresses of {service}");
        let shown = async || self.ready_addresses(service).await == wanted;
        self.control_plane.wait_until(&what, shown).await;
    }

    /// Waits until the slices of a Service say exactly this of its endpoints.
    pub async fn wait_for_endpoints(&self, service: &str, conditions: &[(&str, &str)]) {
        let wanted = conditions.iter().map(|(address, it)| ((*address).into(), (*it).into()));
        let wanted: BTreeMap<String, String> = wanted.collect();
        let what = format!("for {wanted:?} to be the endpoints of {service}");
        let shown = async || self.conditions(service).await == wanted;
        self.control_plane.wait_until(&what, shown).await;
    }

    /// The addresses that the slices of a Service name as ready.
    pub async fn ready_addresses(&self, service: &str) -> BTreeSet<String> {
        let ready = self.endpoints(service).await.into_iter().filter(|endpoint| {
            endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
        });
        ready.flat_map(|endpoint| endpoint.addresses).collect()
    }

    async fn conditions(&self, service: &str) -> BTreeMap<String, String> {
        let endpoints = self.endpoints(service).await.into_iter();
        endpoints
            .map(|endpoint| {
                let it = endpoint.conditions.expect("the controller tells them");
                let words =
                    [(it.ready, "ready"), (it.serving, "serving"), (it.terminating, "terminating")];
                let words = words.into_iter().filter(|(holds, _)| *holds == Some(true));
                let words: Vec<&str> = words.map(|(_, word)| word).collect();
                (endpoint.addresses[0].clone(), words.join(" "))
            })
            .collect()
    }

    async fn endpoints(&self, service: &str) -> Vec<Endpoint> {
        let of_service = format!("kubernetes.io/service-name={service}");
        let of_service = ListParams::default().labels(&of_service);
        let slices = self.api::<EndpointSlice>().list(&of_service).await;
        let slices = slices.expect("an administrator may list EndpointSlices");
        slices.items.into_iter().flat_map(|slice| slice.endpoints).collect()
    }
}
