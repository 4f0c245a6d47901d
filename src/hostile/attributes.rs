//! Instances in Cloud Map, which every client of it can register with any attributes: as those of ours, of ECS, of AWS's
//! controller and of an exporter.

use std::sync::Arc;

use super::instances::{KINDS, assert_planned, ours, owner, registry, web};
use super::rules::{assert_line, assert_reachable};
use super::{Random, try_all};
use crate::clusterset::attributes::{cluster_of, read, service_port};
use crate::kubernetes::object::Service;
use crate::kubernetes::services::{AnnotationSettings, desired};
use crate::model::attributes::from_cloud_map;
use crate::model::{Attributes, ClustersetId, Desired, Endpoint, Owner};

const PAIRS: [(&str, &str); 23] = [
    ("AWS_INSTANCE_IPV4", "10.0.1.5"),
    ("AWS_INSTANCE_IPV4", "169.254.169.254"),
    ("aws_instance_ipv4", "10.0.9.9"),
    ("aws_team", "shop"),
    ("AWS_INSTANCE_IPV6", "::ffff:127.0.0.1"),
    ("AWS_INSTANCE_IPV6", "fd00::1"),
    ("AWS_INSTANCE_PORT", "8080"),
    ("AWS_EC2_INSTANCE_ID", "i-0123456789abcdef0"),
    ("AWS_ALIAS_DNS_NAME", "lb.example.com"),
    ("AWS_INIT_HEALTH_STATUS", "UNHEALTHY"),
    ("ECS_SERVICE_NAME", "web"),
    ("cloud-map-sync/owner", "cloud-map-sync"),
    ("cloud-map-sync/exporter", "cloud-map-sync"),
    ("cloud-map-sync/cluster", "arn:aws:eks:eu-central-1:111122223333:cluster/blue"),
    ("cloud-map-sync/schema", "4294967296"),
    ("cloud-map-sync/attributes", "AWS_INSTANCE_IPV4,cloud-map-sync/owner"),
    ("cloud-map-sync/guard", "2026-01-01T00:00:00Z 7"),
    ("cloud-map-sync/service", "other"),
    ("CLUSTERSET_ID", "shop-set"),
    ("CLUSTER_ID", "green"),
    ("SERVICE_TYPE", "ClusterSetIP"),
    ("SERVICE_EXPORT_CREATION_TIMESTAMP", "9223372036854775807"),
    ("READY", "true"),
];

/// An endpoint as AWS's controller registers it.
const EXPORTED: [(&str, &str); 14] = [
    ("AWS_INSTANCE_IPV4", "10.2.0.1"),
    ("AWS_INSTANCE_PORT", "8080"),
    ("CLUSTERSET_ID", "shop-set"),
    ("CLUSTER_ID", "green"),
    ("ENDPOINT_PORT_NAME", "http"),
    ("ENDPOINT_PROTOCOL", "TCP"),
    ("HOSTNAME", "web-1"),
    ("NODENAME", "node-1"),
    ("READY", "true"),
    ("SERVICE_EXPORT_CREATION_TIMESTAMP", "1767225600000"),
    ("SERVICE_PORT", "80"),
    ("SERVICE_PORT_NAME", "http"),
    ("SERVICE_PROTOCOL", "TCP"),
    ("SERVICE_TARGET_PORT", "8080"),
];

fn instance(random: &mut Random) -> Attributes {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let mut attributes: Attributes = match random.below(3) {
        0 => ours("10.0.1.5"),
        1 => EXPORTED.iter().map(owned).chain([owned(&("SERVICE_TYPE", "Headless"))]).collect(),
        _ => Attributes::new(),
    };
    for _ in 0..random.below(5) {
        let (key, value) = owned(random.pick(&PAIRS));
        let value = if random.one_in(2) { value } else { random.damaged_text(&value) };
        let key = if random.one_in(6) { random.text() } else { key };
        attributes.insert(key, value);
    }
    let keys: Vec<String> = attributes.keys().map(str::to_owned).collect();
    if let (true, false) = (random.one_in(2), keys.is_empty()) {
        let key = random.pick(&keys).clone();
        let value = attributes.get(&key).unwrap_or_default().to_owned();
        attributes.remove(&key);
        if random.one_in(2) {
            attributes.insert(key, random.damaged_text(&value));
        }
    }
    let answered = attributes.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    from_cloud_map(answered)
}

#[test]
fn instance_is_an_endpoint_that_others_reach_or_skipped_in_one_line() {
    let clusterset = ClustersetId::parse("shop-set").expect("an id");
    try_all("attributes", |random| {
        let attributes = instance(random);
        _ = (Owner::of(&attributes), cluster_of(&attributes), service_port(&attributes));
        match read(&attributes, &clusterset) {
            Ok(Some(found)) => {
                assert_reachable(found.endpoint.address);
                assert!(found.endpoint.port.as_ref().is_none_or(|port| port.number > 0));
                assert_line(&found.cluster, 300);
                true
            }
            Ok(None) => false,
            Err(skipped) => {
                assert_line(&skipped, 300);
                false
            }
        }
    });
}

/// `web` in the HTTP or the DNS namespace, with one pod.
fn wanted(random: &mut Random) -> Desired {
    let namespace = *random.pick(&["http", "dns"]);
    let object = serde_json::json!({
        "metadata": {"name": "web", "namespace": "shop", "annotations": {
            "cloudmap.controller/hostname": "web", "cloudmap.controller/namespace": namespace,
        }},
        "spec": {"clusterIP": "None", "ipFamilies": ["IPv4"], "ports": [{"name": "http", "port": 80}]},
    });
    let service: Service = serde_json::from_value(object).expect("a Service");
    let reading = AnnotationSettings {
        prefix: super::annotations::PREFIX.to_owned(),
        default_namespace: None,
    };
    let mut desired = desired(&[service], &reading);
    let pod = Endpoint {
        ipv4: "10.0.1.5".parse().ok(),
        ready: true,
        serving: true,
        ports: Arc::default(),
        ..Endpoint::default()
    };
    desired.services.get_mut(&web()).expect("annotated").endpoints = Some(vec![pod].into());
    desired
}

/// Cloud Map itself refuses other attributes than these.
fn is_legal(attributes: &Attributes) -> bool {
    let is_key =
        |it: &str| (1..=255).contains(&it.len()) && it.bytes().all(|b| b.is_ascii_graphic());
    let is_value = |it: &str| {
        let is_inner = |byte: u8| byte.is_ascii_graphic();
        it.len() <= 1024 && it.bytes().all(is_inner)
    };
    attributes.iter().all(|(key, value)| is_key(key) && is_value(value))
}

#[test]
fn instances_of_others_are_never_changed_and_ours_are_mended_within_the_limits() {
    try_all("instances", |random| {
        let count = 1 + random.below(3);
        let instances = (0..count).map(|_| (random.pick(&IDS).to_string(), instance(random)));
        let instances: Vec<_> = instances.filter(|(_, it)| is_legal(it)).collect();
        let is_any_ours = instances.iter().any(|(_, it)| owner().owns(it));
        let wanted = wanted(random);
        let kind = *random.pick(&KINDS);
        let written = assert_planned(wanted, registry(kind, &instances));
        is_any_ours && written > 0
    });
}

const IDS: [&str; 5] = [
    "by-hand",
    "ip-10-0-1-5-22162b0180",
    "0123456789abcdef0123456789abcdef",
    "tcp-10_0_1_5-8080",
    "a:b/c@d",
];
