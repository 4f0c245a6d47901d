//! What of a Cloud Map service that exists is kept as annotated, and what is only told.

use std::time::Duration;

use serde_json::json;

use crate::fleet::{Fleet, OWNER, annotated};
use crate::run::{converge, held_back, plan, said_of, settled, sync, writes};
use testbed::cloud_map::RecordType::{A, Aaaa};
use testbed::cloud_map::{
    Behaviour, Call, Fault, FaultKind, NamespaceKind, RecordType, ServiceKind,
};
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
async fn annotated_ttl_is_planned_then_set_on_a_service_of_ours() {
    let fleet = drifted("15").await;
    let function = fleet.function().await;

    let planned = plan(&function).await;
    assert!(planned.to_string().contains("~ update     service  ttl 60 -> 15"), "{planned}");
    assert_eq!(writes(&fleet), [""; 0]);

    let report = converge(&fleet, &function).await;
    assert_eq!(report.counts.updated, 1, "{report}");
    assert_eq!(records(&fleet, "web"), [(A, 15)]);
    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.1"]);
}

#[tokio::test]
async fn without_the_annotation_the_ttl_stays_and_no_tag_is_read() {
    let fleet = drifted("").await;
    settled(&fleet, &fleet.function().await).await;
    assert_eq!(fleet.cloud_map.count("ListTagsForResource"), 0);
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

#[tokio::test]
async fn custom_health_of_a_service_survives_its_update() {
    let fleet = Fleet::start().await;
    let service = fleet.ecs_service("web", "10.0.9.1");
    fleet.cloud_map.tag(&service, "cloud-map-sync/owner", OWNER);
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    fleet.annotate("web", "ttl", "15");
    converge(&fleet, &fleet.function().await).await;
    assert!(fleet.view("prod.local", "web").custom_health);
    assert_eq!(records(&fleet, "web"), [(A, 15)]);
}

#[tokio::test]
async fn service_with_another_tag_or_none_keeps_its_ttl_and_the_report_says_so() {
    for tag in ["", "team-a"] {
        let fleet = Fleet::start().await;
        let service = fleet.dns_service("web", &[A]);
        if !tag.is_empty() {
            fleet.cloud_map.tag(&service, "cloud-map-sync/owner", tag);
        }
        fleet.web("web", "prod.local", &["10.0.1.1"]);
        fleet.annotate("web", "ttl", "15");

        let report = converge(&fleet, &fleet.function().await).await;

        assert_eq!(held_back(&report), ["TtlNotOurs"], "{report}");
        assert_eq!(records(&fleet, "web"), [(A, 60)], "{tag}");
        assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.1"], "{tag}");
    }
}

#[tokio::test]
async fn tags_that_cannot_be_read_hold_the_update_back_and_nothing_else() {
    let fleet = drifted("15").await;
    fleet.pods("web", &["10.0.1.2"]);
    let function = fleet.function().await;
    fleet.cloud_map.inject(Fault::on("ListTagsForResource", FaultKind::AccessDenied).always());

    let report = sync(&function).await;
    assert!(!report.ok && held_back(&report) == ["TagsUnreadable"], "{report}");
    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.2"]);
    assert_eq!(records(&fleet, "web"), [(A, 60)]);

    fleet.cloud_map.heal();
    converge(&fleet, &function).await;
    assert_eq!(records(&fleet, "web"), [(A, 15)]);
}

#[tokio::test]
async fn update_is_waited_for_and_its_failure_is_the_runs() {
    let fleet = drifted("15").await;
    let function = fleet.function().await;
    let denied = FaultKind::OperationFails("ACCESS_DENIED");
    fleet.cloud_map.inject(Fault::on("UpdateService", denied));

    let report = sync(&function).await;

    assert!(!report.ok && report.to_string().contains("ACCESS_DENIED"), "{report}");
    assert_eq!(report.counts.failed, 1, "{report}");
    converge(&fleet, &function).await;
    assert_eq!(records(&fleet, "web"), [(A, 15)]);
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
async fn create_only_leaves_the_ttl_as_it_is() {
    let fleet = drifted("15").await;
    let function = fleet.function_with(&[("POLICY", "create-only")]).await;
    let report = converge(&fleet, &function).await;
    assert_eq!(held_back(&report), ["Policy"], "{report}");
    assert_eq!(records(&fleet, "web"), [(A, 60)]);
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
async fn routing_policy_survives_an_update_of_the_ttl() {
    let fleet = drifted("15").await;
    let service = fleet.cloud_map.find_service("prod.local", "web").expect("created");
    fleet.cloud_map.route(&service, "WEIGHTED");
    converge(&fleet, &fleet.function().await).await;
    let dns = fleet.view("prod.local", "web").dns.expect("records");
    assert_eq!((dns.routing_policy.as_str(), dns.records), ("WEIGHTED", vec![(A, 15)]));
}

#[tokio::test]
async fn http_service_in_a_dns_namespace_serves_discovery_and_the_report_says_what_dns_does_not() {
    let fleet = Fleet::start().await;
    fleet.cloud_map.service(&fleet.dns, "web", ServiceKind::Http);
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    for (annotation, value) in [("port", "http"), ("ttl", "15"), ("routing-policy", "WEIGHTED")] {
        fleet.annotate("web", annotation, value);
    }

    let report = converge(&fleet, &fleet.function().await).await;

    assert_eq!(held_back(&report), ["NotInDns"], "{report}");
    let (_, attributes) = fleet.instance("prod.local", "web");
    assert_eq!(attributes["AWS_INSTANCE_PORT"], "8080");
    assert_eq!(fleet.view("prod.local", "web").dns, None);
}
