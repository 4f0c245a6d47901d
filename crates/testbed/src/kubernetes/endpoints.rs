//! The v1 Endpoints object as the endpoints controller writes it: one family, not-ready addresses in a separate list,
//! no terminating pods, truncated at 1,000 addresses.

use serde_json::{Map, Value, json};

use super::pod::{Pod, ports_of};

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
    for (key, value) in [("nodeName", &pod.node), ("hostname", &pod.hostname)] {
        if let Some(value) = value {
            address[key] = value.as_str().into();
        }
    }
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
