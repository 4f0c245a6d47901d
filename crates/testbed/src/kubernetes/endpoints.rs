//! The v1 Endpoints object as the endpoints controller writes it: one family, not-ready addresses in a separate list,
//! no terminating pods, truncated at 1,000 addresses.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::pod::Pod;

const MAXIMUM_ADDRESSES: usize = 1000;

/// The Endpoints object of a Service with these pods.
pub fn endpoints_of(service: &Value, pods: &[Pod]) -> Value {
    let published = service["spec"]["publishNotReadyAddresses"] == true;
    let family = service["spec"]["ipFamilies"][0].as_str().unwrap_or("IPv4");
    let mut subsets: BTreeMap<String, Value> = BTreeMap::new();
    let included = pods.iter().filter(|pod| published || !pod.terminating);
    let included: Vec<_> =
        included.filter_map(|pod| Some((pod, pod.address_of(family)?))).collect();
    for (pod, address) in included.iter().take(MAXIMUM_ADDRESSES) {
        let ports =
            Value::from(pod.ports(service).into_iter().map(endpoint_port).collect::<Vec<_>>());
        let subset = subsets.entry(ports.to_string()).or_insert_with(|| subset(&ports));
        let list = if published || pod.ready { "addresses" } else { "notReadyAddresses" };
        let entry = address_of(service, pod, address);
        match subset[list].as_array_mut() {
            Some(addresses) => addresses.push(entry),
            None => subset[list] = json!([entry]),
        }
    }
    let mut endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {
            "name": service["metadata"]["name"], "namespace": service["metadata"]["namespace"],
            "labels": labels(service),
        },
    });
    if !subsets.is_empty() {
        endpoints["subsets"] = subsets.into_values().collect::<Vec<_>>().into();
    }
    if included.len() > MAXIMUM_ADDRESSES {
        endpoints["metadata"]["annotations"] =
            json!({"endpoints.kubernetes.io/over-capacity": "truncated"});
    }
    endpoints
}

fn subset(ports: &Value) -> Value {
    if ports.as_array().is_some_and(Vec::is_empty) { json!({}) } else { json!({"ports": ports}) }
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

#[cfg(test)]
mod tests {
    use super::super::service::Headless;
    use super::*;

    #[test]
    fn endpoints_tell_readiness_by_list_and_leave_terminating_pods_out() {
        let service = Headless::new("shop", "web").port("", 8080).build();
        let pods = [
            Pod::new("web-1", "10.0.0.1"),
            Pod::new("web-2", "10.0.0.2").not_ready(),
            Pod::new("web-3", "10.0.0.3").terminating(),
        ];

        let subsets = endpoints_of(&service, &pods)["subsets"].clone();

        assert_eq!(subsets.as_array().map(Vec::len), Some(1));
        assert_eq!(subsets[0]["addresses"][0]["ip"], "10.0.0.1");
        assert_eq!(subsets[0]["notReadyAddresses"][0]["ip"], "10.0.0.2");
        assert_eq!(subsets[0]["ports"], json!([{"port": 8080, "protocol": "TCP"}]));
    }
}
