//! What the endpoint controllers do for the Services of a cluster, whenever one of them or its pods change.
//!
//! The v1 Endpoints object as the endpoints controller writes it: one family, not-ready addresses in a separate list,
//! no terminating pods, truncated at 1,000 addresses.
//!
//! EndpointSlices as the endpoint-slice controller writes them (k8s.io/endpointslice): one set per address family, at
//! most 100 endpoints in each, and an empty placeholder if a family has none.

use serde_json::{Map, Value, json};

use super::pod::{Pod, ports_of, set};
use super::resource::{ENDPOINT_SLICES, ENDPOINTS, PODS, SERVICES};
use super::world::{World, place_of};
use crate::sigv4::digest;

impl World {
    /// Replaces the pods that a Service selects.
    pub fn set_pods(&mut self, namespace: &str, service: &str, pods: &[Pod]) {
        let object = self.store.get(&SERVICES, namespace, service);
        let object = object.unwrap_or_else(|| {
            panic!("pods were given for {namespace}/{service}, which does not exist")
        });
        let place = (namespace.to_owned(), service.to_owned());
        let before = self.pods.insert(place, pods.to_vec()).unwrap_or_default();
        if self.shows_pods {
            self.show_pods(&object, &before, pods);
        }
        self.follow(namespace, service);
    }

    /// Does what the endpoint and endpoint-slice controllers do for a Service with a selector.
    pub(super) fn follow(&mut self, namespace: &str, name: &str) {
        let service = self.store.get(&SERVICES, namespace, name);
        let Some(service) = service.filter(|service| service["spec"]["selector"].is_object())
        else {
            return;
        };
        let pods =
            self.pods.get(&(namespace.to_owned(), name.to_owned())).cloned().unwrap_or_default();
        let slices = slices_of(&service, &pods);
        let names: Vec<_> = slices.iter().map(|slice| slice["metadata"]["name"].clone()).collect();
        for slice in self.store.all(&ENDPOINT_SLICES, namespace) {
            if is_derived_for(&slice, name) && !names.contains(&slice["metadata"]["name"]) {
                self.store.remove(&ENDPOINT_SLICES, namespace, &place_of(&slice).1);
            }
        }
        for slice in slices {
            self.store.put(&ENDPOINT_SLICES, slice);
        }
        self.store.put(&ENDPOINTS, endpoints_of(&service, &pods));
    }

    fn show_pods(&mut self, service: &Value, before: &[Pod], now: &[Pod]) {
        let (namespace, _) = place_of(service);
        for gone in before.iter().filter(|pod| now.iter().all(|other| other.name != pod.name)) {
            self.store.remove(&PODS, &namespace, &gone.name);
        }
        for pod in now {
            self.store.put(&PODS, pod.object(service));
        }
    }
}

const MAXIMUM_ADDRESSES: usize = 1000;

/// The Endpoints object of a Service with these pods.
pub fn endpoints_of(service: &Value, pods: &[Pod]) -> Value {
    let family = service["spec"]["ipFamilies"][0].as_str().unwrap_or("IPv4");
    let included = pods.iter().filter(|pod| !pod.terminating);
    let included: Vec<_> =
        included.filter_map(|pod| Some((pod, pod.address_of(family)?))).collect();
    let mut subset = Map::new();
    for (pod, address) in included.iter().take(MAXIMUM_ADDRESSES) {
        let list = if pod.ready { "addresses" } else { "notReadyAddresses" };
        let addresses = subset.entry(list).or_insert_with(|| json!([]));
        let entry = address_of(service, pod, address);
        addresses.as_array_mut().expect("a list").push(entry);
    }
    let mut endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {
            "name": service["metadata"]["name"], "namespace": service["metadata"]["namespace"],
            "labels": labels(service),
        },
    });
    if !subset.is_empty() {
        let ports: Vec<Value> = ports_of(service).into_iter().map(endpoint_port).collect();
        if !ports.is_empty() {
            subset.insert("ports".to_owned(), ports.into());
        }
        endpoints["subsets"] = json!([subset]);
    }
    if included.len() > MAXIMUM_ADDRESSES {
        endpoints["metadata"]["annotations"] =
            json!({"endpoints.kubernetes.io/over-capacity": "truncated"});
    }
    endpoints
}

/// Unlike in a slice, an unnamed port has no name member.
fn endpoint_port(mut port: Value) -> Value {
    if port["name"] == ""
        && let Some(members) = port.as_object_mut()
    {
        members.remove("name");
    }
    port
}

fn address_of(service: &Value, pod: &Pod, ip: &str) -> Value {
    let mut address =
        json!({"ip": ip, "targetRef": pod.reference(&service["metadata"]["namespace"])});
    set(&mut address, [("nodeName", &pod.node), ("hostname", &pod.hostname)]);
    address
}

fn labels(service: &Value) -> Value {
    let mut labels = service["metadata"]["labels"].as_object().cloned().unwrap_or_else(Map::new);
    if service["spec"]["clusterIP"] == "None" {
        labels.insert("service.kubernetes.io/headless".to_owned(), "".into());
    }
    labels.insert("endpoints.kubernetes.io/managed-by".to_owned(), "endpoint-controller".into());
    labels.into()
}

const MAXIMUM_ENDPOINTS: usize = 100;
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const SERVICE_NAME: &str = "kubernetes.io/service-name";
const HEADLESS: &str = "service.kubernetes.io/headless";

/// The slices that a Service with these pods has.
pub fn slices_of(service: &Value, pods: &[Pod]) -> Vec<Value> {
    let families = service["spec"]["ipFamilies"].as_array().cloned().unwrap_or_default();
    let families = families.iter().filter_map(Value::as_str);
    families.flat_map(|family| slices_of_family(service, pods, family)).collect()
}

/// Whether the controller made this slice for the Service.
pub fn is_derived_for(slice: &Value, service: &str) -> bool {
    let labels = &slice["metadata"]["labels"];
    labels[SERVICE_NAME] == service && labels[MANAGED_BY] == "endpointslice-controller.k8s.io"
}

fn slices_of_family(service: &Value, pods: &[Pod], family: &str) -> Vec<Value> {
    let endpoint = |pod: &Pod| Some(endpoint(service, pod, &pod.address_of(family)?));
    let endpoints: Vec<Value> = pods.iter().filter_map(endpoint).collect();
    if endpoints.is_empty() {
        return vec![slice(service, family, &json!([]), &[], 0)];
    }
    let ports = Value::from(ports_of(service));
    let chunks = endpoints.chunks(MAXIMUM_ENDPOINTS).enumerate();
    chunks.map(|(number, chunk)| slice(service, family, &ports, chunk, number)).collect()
}

/// An empty list of ports or endpoints comes back from etcd as null, which real clients do see.
fn slice(
    service: &Value,
    family: &str,
    ports: &Value,
    endpoints: &[Value],
    number: usize,
) -> Value {
    let name = service["metadata"]["name"].as_str().unwrap_or_default();
    let seed = format!("{} {family} {ports} {number}", service["metadata"]["uid"]);
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": format!("{name}-{}", suffix(&seed)), "generateName": format!("{name}-"),
            "namespace": service["metadata"]["namespace"], "labels": slice_labels(service),
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Service", "name": name,
                "uid": service["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "addressType": family,
        "endpoints": null_if_empty(endpoints.to_vec()),
        "ports": null_if_empty(ports.as_array().cloned().unwrap_or_default()),
    })
}

fn null_if_empty(list: Vec<Value>) -> Value {
    if list.is_empty() { Value::Null } else { list.into() }
}

/// The Service's labels are copied, but for the three that the controller sets itself.
fn slice_labels(service: &Value) -> Value {
    let mut labels = service["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    labels.remove(HEADLESS);
    let cluster_ip = service["spec"]["clusterIP"].as_str().unwrap_or_default();
    if matches!(cluster_ip, "None" | "") {
        labels.insert(HEADLESS.to_owned(), "".into());
    }
    labels.insert(SERVICE_NAME.to_owned(), service["metadata"]["name"].clone());
    labels.insert(MANAGED_BY.to_owned(), "endpointslice-controller.k8s.io".into());
    labels.into()
}

fn endpoint(service: &Value, pod: &Pod, address: &str) -> Value {
    let mut endpoint = json!({
        "addresses": [address],
        "conditions": {
            "ready": pod.ready && !pod.terminating,
            "serving": pod.ready,
            "terminating": pod.terminating,
        },
        "targetRef": pod.reference(&service["metadata"]["namespace"]),
    });
    let members = [("nodeName", &pod.node), ("zone", &pod.zone), ("hostname", &pod.hostname)];
    set(&mut endpoint, members);
    endpoint
}

/// Five characters of the alphabet that the server makes generated names from.
fn suffix(seed: &str) -> String {
    let alphabet = b"bcdfghjklmnpqrstvwxz2456789";
    let hex = digest(seed.as_bytes());
    let bytes = hex.as_bytes().chunks(2).take(5);
    let numbers = bytes.map(|pair| usize::from(pair[0]) * 7 + usize::from(pair[1]));
    numbers.map(|number| char::from(alphabet[number % alphabet.len()])).collect()
}

#[cfg(test)]
mod tests {
    use super::super::service::Headless;
    use super::*;

    #[test]
    fn a_slice_ends_at_a_hundred_endpoints_and_an_empty_one_holds_null() {
        let service =
            Headless::new("shop", "web").port("http", 8080).families(&["IPv4", "IPv6"]).build();
        let pods: Vec<Pod> = (0..101)
            .map(|number| Pod::new(&format!("web-{number}"), &format!("10.0.1.{number}")))
            .collect();

        let slices = slices_of(&service, &pods);

        let sizes: Vec<usize> =
            slices.iter().map(|slice| slice["endpoints"].as_array().map_or(0, Vec::len)).collect();
        assert_eq!(sizes, [100, 1, 0]);
        assert_eq!(
            (&slices[2]["addressType"], &slices[2]["endpoints"]),
            (&json!("IPv6"), &Value::Null)
        );
    }
}
