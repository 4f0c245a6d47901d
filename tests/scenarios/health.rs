//! Services with a health check of Route 53, which cannot call each address.

use std::net::Ipv4Addr;

use serde_json::json;

use crate::fleet::Fleet;
use crate::run::{converge, held_back, said_of, synced, writes};
use testbed::cloud_map::{NamespaceKind, RecordType, ServiceKind};

/// An address of each network that a check cannot call.
const PRIVATE: [&str; 4] = ["10.0.1.1", "172.16.0.1", "192.168.0.1", "192.0.2.1"];

/// An A service `web` with a health check in a public namespace, claimed by a Service with one port and these pods.
async fn public(addresses: &[&str]) -> Fleet {
    let fleet = Fleet::start().await;
    let public = fleet.cloud_map.namespace("example.com", NamespaceKind::DnsPublic);
    let kind = ServiceKind::of_records(&[RecordType::A]);
    let service = fleet.cloud_map.service(&public, "web", kind);
    let check = json!({ "Type": "TCP", "FailureThreshold": 3 });
    fleet.cloud_map.dress(&service, "by hand", &check);
    fleet.web("web", "example.com", addresses);
    fleet
}

#[tokio::test]
async fn private_addresses_are_not_tried_and_are_one_line_of_the_service() {
    let fleet = public(&[PRIVATE.as_slice(), &["203.0.113.7"]].concat()).await;
    let function = fleet.function().await;

    let report = synced(&function).await;
    assert_eq!(held_back(&report), ["AddressNotCheckable"], "{report}");
    assert_eq!((report.counts.held_back, report.counts.registered), (1, 1), "{report}");
    let said = said_of(&report, "AddressNotCheckable");
    assert!(said.contains("Route 53") && said.contains("192.168.0.0/16"), "{said}");
    assert_eq!(writes(&fleet).len(), 1, "no refusal is asked for");
    assert_eq!(fleet.addresses("example.com", "web"), ["203.0.113.7"]);
    converge(&fleet, &function).await;
    let [warning] = fleet.cluster.warnings("shop").try_into().expect("one Event");
    assert_eq!(warning["reason"], "AddressNotCheckable");
}

#[tokio::test]
async fn other_address_that_a_check_refuses_is_held_back_in_cloud_maps_words() {
    let fleet = public(&["100.64.0.1", "203.0.113.7"]).await;
    let refused = vec![(Ipv4Addr::new(100, 64, 0, 0), 10)];
    fleet.cloud_map.adjust(|it| it.networks_refused_by_checks = refused);

    let report = synced(&fleet.function().await).await;

    assert_eq!(held_back(&report), ["InvalidInput"], "{report}");
    let said = said_of(&report, "InvalidInput");
    assert!(said.contains("IPv4 address 100.64.0.1 is forbidden for healthChecks"), "{said}");
    assert_eq!(fleet.addresses("example.com", "web"), ["203.0.113.7"]);
}
