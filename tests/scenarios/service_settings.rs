//! What of a Cloud Map service that exists is kept as annotated, and what is only told.

use std::time::Duration;

use serde_json::json;

use crate::fleet::{Fleet, OWNER, annotated};
use crate::run::{converge, held_back, said_of, sync};
use testbed::cloud_map::RecordType::{A, Aaaa};
use testbed::cloud_map::{Behaviour, Call, NamespaceKind, RecordType, ServiceKind};
use testbed::kubernetes::Pod;

/// `web` in `prod.local`, created by the function with one pod; then its TTL is annotated.
async fn drifted(ttl: &str) -> Fleet {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    converge(&fleet, &fleet.function().await).await;
    fleet.annotate("web", "ttl", ttl);
    fleet.cloud_map.forget_calls();
    fleet
}

fn records(fleet: &Fleet, service: &str) -> Vec<(RecordType, i64)> {
    fleet.view("prod.local", service).dns.expect("DNS records").records
}

#[tokio::test]
async fn update_says_again_all_that_it_would_delete() {
    let fleet = Fleet::start().await;
    let public = fleet.cloud_map.namespace("example.com", NamespaceKind::DnsPublic);
    let kind = ServiceKind::Dns { records: vec![(A, 60), (Aaaa, 30)], custom_health: false };
    let service = fleet.cloud_map.service(&public, "web", kind);
    fleet.cloud_map.tag(&service, "cloud-map-sync/owner", OWNER);
    let check = json!({ "Type": "HTTP", "ResourcePath": "/up", "FailureThreshold": 3 });
    fleet.cloud_map.dress(&service, "cloud-map-sync: ours", &check);
    fleet.service(annotated("web", "example.com", "web").families(&["IPv4", "IPv6"]));
    fleet.annotate("web", "port", "http");
    fleet.annotate("web", "ttl", "15");
    fleet.cluster.pods("shop", "web", &[Pod::new("web-1", "203.0.113.7").address("2001:db8::7")]);

    converge(&fleet, &fleet.function().await).await;

    let view = fleet.view("example.com", "web");
    assert_eq!(view.dns.expect("records").records, [(A, 15), (Aaaa, 15)]);
    assert_eq!(view.description.as_deref(), Some("cloud-map-sync: ours"));
    assert_eq!(view.health_check, Some(check));
}

/// What the other party sets is the annotated TTL, or yet another one.
#[tokio::test]
async fn update_that_another_party_is_at_is_decided_again_on_what_that_brought() {
    for (other, made) in [(15, 0), (30, 1)] {
        let fleet = drifted("15").await;
        let operation_delay = Duration::from_secs(2);
        fleet.cloud_map.behave(Behaviour { operation_delay, ..Behaviour::default() });
        let service = fleet.cloud_map.find_service("prod.local", "web").expect("created");
        fleet.cloud_map.begin_update(&service, other);

        let report = sync(&fleet.function().await).await;

        assert!(report.ok, "{report}");
        assert_eq!(records(&fleet, "web"), [(A, 15)]);
        let calls: Vec<Call> = fleet.cloud_map.calls();
        let updates = calls.iter().filter(|call| call.operation == "UpdateService");
        let (refused, accepted): (Vec<_>, Vec<_>) = updates.partition(|call| call.status != 200);
        assert_eq!((refused.len(), accepted.len()), (1, made), "{report}");
    }
}

#[tokio::test]
async fn routing_policy_is_set_at_creation_and_only_reported_later() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    fleet.annotate("web", "routing-policy", "WEIGHTED");
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    assert_eq!(fleet.view("prod.local", "web").dns.expect("records").routing_policy, "WEIGHTED");

    fleet.annotate("web", "routing-policy", "MULTIVALUE");
    let report = converge(&fleet, &function).await;
    assert_eq!(held_back(&report), ["RoutingPolicyFixed"], "{report}");
    let said = said_of(&report, "RoutingPolicyFixed");
    assert!(said.contains("WEIGHTED") && said.contains("MULTIVALUE"), "{said}");
}

#[tokio::test]
async fn service_that_ecs_service_connect_manages_is_held_back() {
    let fleet = Fleet::start().await;
    let service = fleet.cloud_map.service(&fleet.http, "web", ServiceKind::Http);
    fleet.cloud_map.tag(&service, "AmazonECSManaged", "true");
    fleet.ecs_task(&service, "0123456789abcdef0123456789abcdef", "10.0.9.1");
    fleet.web("web", "prod", &["10.0.1.1"]);

    let report = converge(&fleet, &fleet.function().await).await;

    assert_eq!(held_back(&report), ["ServiceConnect"], "{report}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.9.1"]);
}
