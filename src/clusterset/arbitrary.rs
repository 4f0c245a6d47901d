//! Generators of random members, exports and endpoints that Kubernetes allows.

use std::collections::BTreeMap;
use std::net::IpAddr;

use proptest::prelude::*;

use crate::model::{
    ClusterArn, ClusterId, ClustersetId, EndpointPort, Export, ExportedEndpoint, ExportedPort,
    Family, Flow, ImportType, InternalTrafficPolicy, Owner, Properties, Protocol, ServiceRef,
    SessionAffinity, Timestamp, is_publishable,
};

const LABEL: &str = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?";

pub fn owner() -> impl Strategy<Value = Owner> {
    ("[!-~]{1,256}", "[0-9A-Za-z][A-Za-z0-9_-]{0,99}").prop_map(|(id, name)| {
        let arn = format!("arn:aws-us-gov:eks:ap-southeast-4:111122223333:cluster/{name}");
        Owner { id, cluster: ClusterArn::parse(&arn).expect("an ARN"), flow: Flow::Exports }
    })
}

pub fn service() -> impl Strategy<Value = ServiceRef> {
    (LABEL, LABEL).prop_map(|(namespace, name)| ServiceRef::new(namespace, name))
}

pub fn cluster() -> impl Strategy<Value = ClusterId> {
    let ids = prop_oneof![LABEL, "[a-z0-9]{1,31}\\.[a-z0-9]{1,31}"];
    ids.prop_map(|text| ClusterId::parse(&text).expect("an id"))
}

pub fn clusterset() -> impl Strategy<Value = ClustersetId> {
    "[A-Za-z0-9._-]{1,128}".prop_map(|text| ClustersetId::parse(&text).expect("an id"))
}

/// A time in whole seconds, the precision of Kubernetes.
pub fn time() -> impl Strategy<Value = Timestamp> {
    (0..4_102_444_800_i64).prop_map(|second| Timestamp::from_second(second).expect("a time"))
}

fn protocol() -> impl Strategy<Value = Protocol> {
    prop::sample::select(vec![Protocol::Tcp, Protocol::Udp, Protocol::Sctp])
}

fn port_name() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), LABEL]
}

fn port() -> impl Strategy<Value = ExportedPort> {
    let app_protocol = prop::option::of("(example\\.com/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,20}[a-z])?");
    (port_name(), protocol(), 1..=u16::MAX, app_protocol).prop_map(
        |(name, protocol, number, app_protocol)| ExportedPort {
            name,
            protocol,
            number,
            app_protocol,
        },
    )
}

/// Any text, or a long text of characters that JSON or Cloud Map treats specially.
fn text() -> impl Strategy<Value = String> {
    let any = prop::collection::vec(any::<char>(), 0..40).prop_map(String::from_iter);
    prop_oneof![4 => any, 1 => "[ \\\\\"\t\n\u{7f}a\u{e9}\u{1f980}]{0,900}", 1 => " {0,3000}"]
}

fn texts() -> impl Strategy<Value = BTreeMap<String, String>> {
    prop::collection::btree_map(text(), text(), 0..4)
}

fn properties() -> impl Strategy<Value = Properties> {
    let affinity = prop_oneof![
        Just(SessionAffinity::None),
        prop::option::of(1..=86400_u32).prop_map(SessionAffinity::ClientIp),
    ];
    let policy = [InternalTrafficPolicy::Cluster, InternalTrafficPolicy::Local];
    let distribution = prop::option::of("PreferClose|PreferSameZone|PreferSameNode");
    (affinity, prop::sample::select(policy.to_vec()), distribution, texts(), texts()).prop_map(
        |(session_affinity, internal_traffic_policy, traffic_distribution, labels, annotations)| {
            Properties {
                session_affinity,
                internal_traffic_policy,
                traffic_distribution,
                labels,
                annotations,
            }
        },
    )
}

/// An export whose properties are known, as from a record.
pub fn export() -> impl Strategy<Value = Export> {
    let kind = prop::sample::select(vec![ImportType::ClusterSetIp, ImportType::Headless]);
    let families = [[Family::V4, Family::V6], [Family::V6, Family::V4]];
    let families = (prop::sample::select(families.to_vec()), 1..=2_usize)
        .prop_map(|(families, count)| families[..count].to_vec());
    let ports = prop_oneof![9 => prop::collection::vec(port(), 0..5), 1 => prop::collection::vec(port(), 40..60)];
    (cluster(), time(), kind, ports, families, properties()).prop_map(
        |(cluster, created, kind, ports, families, properties)| {
            let properties = Some(properties);
            Export { cluster, created, kind, ports, families, properties }
        },
    )
}

fn address() -> impl Strategy<Value = IpAddr> {
    any::<IpAddr>().prop_filter("a publishable address", |address| is_publishable(*address))
}

fn endpoint_port() -> impl Strategy<Value = EndpointPort> {
    (port(), port(), prop_oneof!["[1-9][0-9]{0,3}", LABEL]).prop_map(
        |(endpoint, service, target)| EndpointPort {
            name: endpoint.name,
            protocol: endpoint.protocol,
            number: endpoint.number,
            service_name: service.name,
            service_protocol: service.protocol,
            service_number: service.number,
            target,
        },
    )
}

/// An endpoint with a port.
pub fn endpoint() -> impl Strategy<Value = ExportedEndpoint> {
    let node = prop::collection::vec(LABEL, 1..=3).prop_map(|labels| labels.join("."));
    let node = prop::option::of(node);
    let zone = prop::option::of("[a-z]{2}-west-[1-9][a-f]");
    let region = prop::option::of(LABEL);
    let names = (prop::option::of(LABEL), node, zone, region);
    (address(), endpoint_port(), any::<bool>(), names).prop_map(
        |(address, port, ready, (hostname, node, zone, region))| ExportedEndpoint {
            address,
            port: Some(port),
            ready,
            is_leaving: false,
            hostname,
            node,
            zone,
            region,
        },
    )
}
