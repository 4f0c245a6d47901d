//! Services and `EndpointSlices` as an API server returns them. It checks some of their fields, and not the others: the
//! object behind an endpoint and its zone are what a writer of slices says.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::annotations::{PREFIX, annotations};
use super::instances::{KINDS, assert_planned, ours, registry};
use super::{Random, try_all};
use crate::kubernetes::Endpoints;
use crate::kubernetes::object::{EndpointSlice, Service};
use crate::kubernetes::services::{AnnotationSettings, desired};
use crate::model::Attributes;

const ADDRESSES: [&str; 16] = [
    "10.0.1.5",
    "10.0.1.6",
    "fd00::1",
    "127.0.0.1",
    "169.254.169.254",
    "224.0.0.1",
    "0.0.0.0",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1",
    "ff02::1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "0177.0.0.1",
    "10.0.1.5%eth0",
];

fn service(random: &mut Random) -> Value {
    let spec = json!({
        "clusterIP": "None", "ipFamilies": ["IPv4", "IPv6"],
        "ports": [{"name": "http", "port": 8080, "targetPort": "http"}, {"name": "admin", "port": 9090}],
    });
    let spec = if random.one_in(3) { random.damaged_json(&spec) } else { spec };
    let hostname = || BTreeMap::from([(format!("{PREFIX}hostname"), "web".to_owned())]);
    let mut annotations = if random.one_in(4) { annotations(random) } else { hostname() };
    let namespace = *random.pick(&["http", "dns", "other"]);
    if !random.one_in(4) {
        annotations.insert(format!("{PREFIX}namespace"), namespace.to_owned());
    }
    // The API server checks names.
    let metadata =
        json!({"name": "web", "namespace": "shop", "uid": "1", "annotations": annotations});
    json!({"metadata": metadata, "spec": spec})
}

fn slice(random: &mut Random) -> Value {
    let endpoint = |random: &mut Random| {
        let address = *random.pick(&ADDRESSES);
        let name = format!("web-{}", random.below(3));
        json!({
            "addresses": [address], "conditions": {"ready": true, "serving": true, "terminating": false},
            "targetRef": {"kind": "Pod", "namespace": "shop", "name": name, "uid": name},
            "zone": "eu-central-1a", "nodeName": "node-1.example.com", "hostname": "web-1",
        })
    };
    let endpoints: Vec<Value> = (0..=random.below(3)).map(|_| endpoint(random)).collect();
    let slice = json!({
        "metadata": {"name": "web-abc", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": *random.pick(&["IPv4", "IPv6", "FQDN"]),
        "endpoints": endpoints,
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}, {"name": "admin", "port": 9090}],
    });
    if random.one_in(4) { slice } else { random.damaged_json(&slice) }
}

/// An object as bytes, some of which are damaged once more.
fn sent(random: &mut Random, object: &Value) -> Vec<u8> {
    let bytes = object.to_string().into_bytes();
    if random.one_in(8) { random.damaged_bytes(bytes) } else { bytes }
}

#[test]
fn slices_become_instances_that_cloud_map_accepts_and_that_others_reach() {
    let foreign = Attributes::from([("AWS_INSTANCE_IPV4".to_owned(), "10.0.1.5".to_owned())]);
    let instances = [("by-hand".to_owned(), foreign), ("old".to_owned(), ours("10.0.1.9"))];
    let reading = AnnotationSettings { prefix: PREFIX.to_owned(), default_namespace: None };
    try_all("slices", |random| {
        let service = service(random);
        let service = sent(random, &service);
        let Ok(mut service) = serde_json::from_slice::<Service>(&service) else { return false };
        (service.metadata.name, service.metadata.namespace) = ("web".into(), "shop".into());
        let slices = (0..=random.below(2)).map(|_| slice(random)).collect::<Vec<_>>();
        let slices = slices.iter().map(|slice| sent(random, slice)).collect::<Vec<_>>();
        let slices = slices.iter().filter_map(|bytes| serde_json::from_slice(bytes).ok());
        let slices: Vec<EndpointSlice> = slices.collect();
        let count: usize = slices.iter().map(|slice| slice.endpoints.len()).sum();
        let endpoints = slices.into_iter().collect::<Endpoints>().all;
        assert!(endpoints.len() <= count);
        let mut desired = desired(&[service], &reading);
        for service in desired.services.values_mut() {
            service.endpoints = Some(endpoints.clone().into());
        }
        assert_planned(desired, registry(*random.pick(&KINDS), &instances)) > 0
    });
}
