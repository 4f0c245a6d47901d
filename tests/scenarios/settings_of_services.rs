//! Cloud Map services: what of one that exists is kept as annotated, and what is only reported; those that another party
//! deletes and that come back under another id; and those that are not needed any more.

use std::time::Duration;

use cloud_map_sync::function::Function;
use serde_json::json;

use crate::fleet::{Fleet, OWNER, annotated, give_pods};
use crate::run::{converge, converged, held_back, remarks, said_of, sync, sync_service, synced};
use testbed::cloud_map::RecordType::{A, Aaaa};
use testbed::cloud_map::{Fault, FaultKind, NamespaceKind, RecordType, ServiceKind};
use testbed::kubernetes::Pod;

/// `web` in `prod.local`, created by the function with one pod; then its TTL is annotated.
async fn drifted(ttl: &str) -> Fleet {
    let (fleet, _) = Fleet::in_step("web", "prod.local", &["10.0.1.1"]).await;
    fleet.annotate("web", "ttl", ttl);
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
        fleet.cloud_map.adjust(|it| it.operation_delay = Duration::from_secs(2));
        fleet.cloud_map.begin_update(&fleet.cloud_map.service_id("prod.local", "web"), other);

        let report = synced(&fleet.function().await).await;

        assert_eq!(records(&fleet, "web"), [(A, 15)]);
        let calls = fleet.cloud_map.calls().into_iter();
        let updates = calls.filter(|call| call.operation == "UpdateService");
        let accepted: Vec<_> = updates.map(|call| call.status == 200).collect();
        assert_eq!(accepted, [vec![false], vec![true; made]].concat(), "{report}");
    }
}

/// Cloud Map refuses every registration of blue. Green has the instances, and asks for more.
#[tokio::test]
async fn cluster_whose_registrations_are_all_refused_leaves_the_ttl_to_the_one_with_instances() {
    let (fleet, green) = Fleet::with_green().await;
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    fleet.annotate("web", "ttl", "15");
    let claims = annotated("web", "prod.local", "web");
    green.service(claims.annotate("cloudmap.controller/ttl", "90"));
    give_pods(&green, "web", &["10.0.2.1"]);
    let [of_blue, of_green] =
        [fleet.function().await, fleet.function_with(&[("CLUSTERS", "green")]).await];
    assert!(sync(&of_green).await.ok);
    let refused = FaultKind::Error(400, "InvalidInput", "refused");
    let web = fleet.cloud_map.service_id("prod.local", "web");
    fleet.cloud_map.inject(Fault::on("RegisterInstance", refused).service(&web).always());
    let updates = || fleet.cloud_map.count("UpdateService");

    for _ in 0..2 {
        for function in [&of_blue, &of_green] {
            let report = sync(function).await;
            assert_eq!((report.ok, updates()), (true, 0), "{report}");
        }
    }
    let report = sync(&of_blue).await;

    assert_eq!(records(&fleet, "web"), [(A, 90)]);
    let said = said_of(&report, "TtlStays");
    assert!(said.contains("TTL 90 s and the annotation asks for 15"), "{said}");
    assert_eq!(remarks(&report), ["TtlStays"], "{report}");
}

/// Each asks for another TTL of the records that they share.
#[tokio::test]
async fn clusters_that_share_a_name_lower_its_ttl_and_the_last_one_there_raises_it() {
    let (fleet, green) = Fleet::with_green().await;
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    let claims = annotated("web", "prod.local", "web");
    green.service(claims.annotate("cloudmap.controller/ttl", "15"));
    give_pods(&green, "web", &["10.0.2.1"]);
    let function = fleet.function_with(&[("CLUSTERS", "blue,green")]).await;
    converge(&fleet, &function).await;
    assert_eq!(records(&fleet, "web"), [(A, 15)]);

    fleet.annotate("web", "ttl", "90");
    let report = converge(&fleet, &function).await;
    assert_eq!(records(&fleet, "web"), [(A, 15)]);
    let said = said_of(&report, "TtlStays");
    assert!(said.contains("TTL 15 s and the annotation asks for 90"), "{said}");

    green.delete_service("shop", "web");
    synced(&function).await;
    converge(&fleet, &function).await;
    assert_eq!(records(&fleet, "web"), [(A, 90)]);
}

#[tokio::test]
async fn routing_policy_is_set_at_creation_and_only_reported_later() {
    let fleet = Fleet::with_web("web", "prod.local", &["10.0.1.1"]).await;
    fleet.annotate("web", "routing-policy", "WEIGHTED");
    let function = converged(&fleet).await;
    assert_eq!(fleet.view("prod.local", "web").dns.expect("records").routing_policy, "WEIGHTED");

    fleet.annotate("web", "routing-policy", "MULTIVALUE");
    let report = converge(&fleet, &function).await;
    assert_eq!(remarks(&report), ["RoutingPolicyFixed"], "{report}");
    let said = said_of(&report, "RoutingPolicyFixed");
    assert!(said.contains("WEIGHTED") && said.contains("MULTIVALUE"), "{said}");
}

#[tokio::test]
async fn service_with_unknown_annotations_is_treated_without_them_and_a_remark_names_them() {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
    for key in ["claim", "health", "hostnames"] {
        fleet.annotate("web", key, "shared");
    }

    let report = converge(&fleet, &fleet.function().await).await;

    assert_eq!(remarks(&report), ["UnknownAnnotation"], "{report}");
    assert_eq!(report.counts.held_back, 0, "{report}");
    let said = said_of(&report, "UnknownAnnotation");
    let keys = ["claim", "health", "hostnames"].map(|key| format!("cloudmap.controller/{key}"));
    assert!(said.contains(&keys.join(", ")), "{said}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
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

/// `web` in `prod.local`, created by the function with a pod; the function knows it.
async fn in_step() -> (Fleet, Function, String) {
    let (fleet, function) = Fleet::in_step("web", "prod.local", &["10.0.1.1"]).await;
    let web = fleet.cloud_map.service_id("prod.local", "web");
    (fleet, function, web)
}

/// Another party makes `web` again with these records.
fn make_again(fleet: &Fleet, web: &str, record: RecordType) {
    fleet.cloud_map.remove_service(web);
    assert_eq!(fleet.dns_service("web", &[record]), web, "its old id");
}

#[tokio::test]
async fn registration_in_a_service_that_is_gone_meanwhile_fails_and_the_next_sync_mends_it() {
    let (fleet, function, web) = in_step().await;
    fleet.pods("web", &["10.0.1.1", "10.0.1.2"]);
    let slow = FaultKind::Late(Duration::from_millis(400));
    fleet.cloud_map.inject(Fault::on("ListInstances", slow));
    let other = async {
        fleet.called("ListInstances").await;
        fleet.cloud_map.remove_service(&web);
    };

    let (report, ()) = tokio::join!(sync_service(&function, "web"), other);

    let calls = fleet.cloud_map.calls();
    let accepted = calls.iter().filter(|it| it.operation == "RegisterInstance");
    assert!(accepted.clone().count() > 0 && accepted.clone().all(|it| it.status == 200));
    assert!(!report.ok && report.counts.registered == 0, "{report}");
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.1", "10.0.1.2"]);
}

#[tokio::test]
async fn service_that_is_there_again_with_other_records_is_not_taken_for_the_old_one() {
    let (fleet, function, web) = in_step().await;
    make_again(&fleet, &web, RecordType::Srv);
    fleet.pods("web", &["10.0.1.2"]);

    let report = sync_service(&function, "web").await;

    assert_eq!(held_back(&report), [""; 0], "{report}");
    assert!(report.ok, "{report}");
    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.2"]);
    assert!(sync(&function).await.ok);
}

#[tokio::test]
async fn message_holds_nothing_back_by_records_that_it_remembers() {
    let (fleet, function, web) = in_step().await;
    make_again(&fleet, &web, RecordType::Aaaa);
    assert_eq!(held_back(&sync(&function).await), ["RecordTypeMismatch"]);
    make_again(&fleet, &web, RecordType::A);
    fleet.cloud_map.forget_calls();

    let report = sync_service(&function, "web").await;

    assert_eq!(held_back(&report), [""; 0], "{report}");
    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.1"]);
    let lists_and_reads = ["ListServices", "GetService"].map(|it| fleet.cloud_map.count(it));
    assert_eq!(lists_and_reads, [0, 1]);
}

#[tokio::test]
async fn what_another_process_registered_for_the_records_that_came_back_is_not_rewritten() {
    let fleet = Fleet::start().await;
    fleet.service(annotated("web", "prod.local", "web,other").families(&["IPv4", "IPv6"]));
    // Under `other` something is missing in each sync: its records take no pod of one family.
    let pods = [Pod::new("two", "10.0.1.1").address("fd00::1"), Pod::new("one", "10.0.1.2")];
    fleet.cluster.pods("shop", "web", &pods);
    let function = fleet.function().await;
    // It creates both, and then lists them.
    for _ in 0..2 {
        sync(&function).await;
    }
    make_again(&fleet, &fleet.cloud_map.service_id("prod.local", "web"), RecordType::A);
    let report = sync(&fleet.function().await).await;
    assert_eq!(report.counts.registered, 2, "{report}");

    let report = sync(&function).await;

    assert_eq!(held_back(&report), ["RecordTypeMismatch"], "{report}");
    assert_eq!(report.counts.rewritten, 0, "{report}");
}
