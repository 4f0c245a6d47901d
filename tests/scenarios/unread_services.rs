//! Cloud Map, or a part of it, that cannot be read: what is not known is not changed, and a Cloud Map service that
//! cannot be read is never taken for empty, whether a Service claims it or not.

use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::time::Deadline;
use serde_json::json;

use crate::fleet::{Fleet, OWNER};
use crate::namespaces::shared;
use crate::queue::failed_messages;
use crate::run::{converge, converged, held_back, problem, said_of, sync, synced};
use testbed::cloud_map::{Fault, FaultKind, RecordType, ServiceKind};
use testbed::function::{invoke, invoke_until};
use testbed::kubernetes::{Fault as ClusterFault, FaultKind as ClusterFaultKind};

const BROKEN: FaultKind = FaultKind::Error(400, "InternalFailure", "Not now");

/// `web` and `old` registered; the Service `old` is deleted, and Cloud Map does not list its instances.
async fn one_unread(kind: FaultKind) -> (Fleet, Function) {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
    fleet.web("old", "prod", &["10.0.2.1"]);
    let function = converged(&fleet).await;
    fleet.cluster.delete_service("shop", "old");
    unread(&fleet, "old", kind);
    (fleet, function)
}

fn unread(fleet: &Fleet, name: &str, kind: FaultKind) {
    let service = fleet.cloud_map.service_id("prod", name);
    fleet.cloud_map.inject(Fault::on("ListInstances", kind).service(&service).always());
}

#[tokio::test]
async fn run_that_could_not_read_a_service_is_incomplete_though_no_service_claims_it() {
    let (fleet, function) = one_unread(BROKEN).await;

    let report = sync(&function).await;

    assert_eq!((report.ok, report.counts.failed), (false, 1), "{report}");
    let text = report.to_string();
    assert!(text.contains("prod/old\n    ! not read   cannot list the instances"), "{text}");
    assert!(!text.contains("no instance of ours is registered"), "{text}");
    fleet.cloud_map.heal();
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "old"), [""; 0]);
}

#[tokio::test]
async fn message_that_reaches_an_unread_service_fails_back_until_it_is_read() {
    let (fleet, function) = one_unread(BROKEN).await;
    assert_eq!(failed_messages(&function, "old").await, ["old"]);
    assert_eq!(failed_messages(&function, "web").await, [""; 0]);
    // A full sync in between forgets nothing of where its instances are.
    sync(&function).await;
    assert_eq!(failed_messages(&function, "old").await, ["old"]);
    assert_eq!(failed_messages(&fleet.function().await, "old").await, ["old"], "a new process");
    fleet.cloud_map.heal();
    assert_eq!(failed_messages(&function, "old").await, [""; 0]);
    assert_eq!(fleet.addresses("prod", "old"), [""; 0]);
}

#[tokio::test]
async fn service_that_may_never_be_read_and_is_not_ours_is_one_line_and_no_failure() {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
    let theirs = fleet.cloud_map.service(&fleet.http, "theirs", ServiceKind::Http);
    fleet.ecs_task(&theirs, "0123456789abcdef0123456789abcdef", "10.0.9.1");
    unread(&fleet, "theirs", FaultKind::AccessDenied);
    let function = fleet.function().await;

    let report = converge(&fleet, &function).await;

    assert_eq!((report.counts.failed, held_back(&report).len()), (0, 0), "{report}");
    sync(&function).await;
    assert_eq!(fleet.cloud_map.count("ListTagsForResource"), 0, "it was asked for once");
    let text = report.to_string();
    assert_eq!(text.matches("AccessDeniedException").count(), 1, "{text}");
    assert!(text.contains("prod/theirs\n    ~ not read   cannot list the instances"), "{text}");
    let answer = invoke(&function, &json!({ "action": "doctor" })).await.response;
    let answer = answer.expect("a checkup");
    let checks = answer["clusters"][0]["checks"].as_array().expect("checks").iter();
    let found = checks.filter(|it| it["detail"].to_string().contains("prod/theirs"));
    let outcomes: Vec<_> = found.map(|it| &it["outcome"]).collect();
    assert_eq!((outcomes, &answer["ok"]), (vec![&json!("note")], &json!(true)), "{answer}");
}

#[tokio::test]
async fn service_that_may_not_be_read_any_more_and_was_ours_is_a_failure() {
    // The process has seen our marks in it.
    let (_fleet, function) = one_unread(FaultKind::AccessDenied).await;
    assert!(!sync(&function).await.ok);
    // It carries our tag, which a new process reads.
    let (fleet, _) = one_unread(FaultKind::AccessDenied).await;
    let report = sync(&fleet.function().await).await;
    assert!(!report.ok, "{report}");
    // A Service claims it.
    let fleet = Fleet::start().await;
    fleet.cloud_map.service(&fleet.http, "web", ServiceKind::Http);
    fleet.web("web", "prod", &["10.0.1.1"]);
    unread(&fleet, "web", FaultKind::AccessDenied);
    let function = fleet.function().await;
    assert_eq!(held_back(&sync(&function).await), ["Unreadable"]);
    let answer = invoke(&function, &json!({ "action": "doctor" })).await.response;
    assert_eq!(answer.expect("a checkup")["ok"], false);
}

#[tokio::test]
async fn service_that_this_process_registered_in_is_a_failure_if_no_right_is_left_for_it() {
    for tags_are_denied in [true, false] {
        let fleet = Fleet::start().await;
        // Another party has created it.
        fleet.cloud_map.service(&fleet.http, "web", ServiceKind::Http);
        fleet.web("web", "prod", &["10.0.1.1"]);
        let function = fleet.function().await;
        assert_eq!(sync(&function).await.counts.registered, 1);
        fleet.cluster.delete_service("shop", "web");
        unread(&fleet, "web", FaultKind::AccessDenied);
        if tags_are_denied {
            fleet.cloud_map.deny("ListTagsForResource");
        }

        let report = sync(&function).await;
        assert!(!report.ok && report.to_string().contains("prod/web\n    ! not read"), "{report}");

        // A process that has never read it does not say that there is nothing of ours in it.
        let said = if tags_are_denied {
            "it may contain instances of an ended claim, since its tags"
        } else {
            "no Service claims it, and it does not carry our tag"
        };
        let another = fleet.function().await;
        for _ in 0..2 {
            let text = sync(&another).await.to_string();
            assert!(text.contains("~ not read") && text.contains(said), "{text}");
            assert!(!text.contains("no instance of ours"), "{text}");
        }
        fleet.cloud_map.heal();
        converge(&fleet, &function).await;
        assert_eq!(fleet.addresses("prod", "web"), [""; 0]);
    }
}

#[tokio::test]
async fn list_without_its_member_is_no_empty_list() {
    for member in ["Namespaces", "Services", "Instances"] {
        let operation = format!("List{member}");
        let (fleet, function) = Fleet::in_step("web", "prod", &["10.0.1.1"]).await;
        fleet.pods("web", &["10.0.1.2"]);
        fleet.cloud_map.inject(Fault::on(&operation, FaultKind::Empty).always());

        let report = sync(&fleet.function().await).await;

        assert!(!report.ok && fleet.cloud_map.writes() == 0, "{operation}: {report}");
        assert!(report.to_string().contains(member), "{operation}: {report}");
        fleet.cloud_map.heal();
        converge(&fleet, &function).await;
    }
}

#[tokio::test]
async fn entry_without_what_identifies_it_is_no_missing_entry() {
    for (operation, member) in [
        ("ListNamespaces", "Id"),
        ("ListNamespaces", "Arn"),
        ("ListNamespaces", "Name"),
        ("ListServices", "Arn"),
        ("ListServices", "Name"),
        ("ListInstances", "Id"),
    ] {
        let (fleet, function) = Fleet::in_step("web", "prod", &["10.0.1.1"]).await;
        fleet.pods("web", &["10.0.1.2"]);
        fleet.cloud_map.inject(Fault::on(operation, FaultKind::Without(member)).always());

        let report = sync(&fleet.function().await).await;

        assert!(!report.ok && fleet.cloud_map.writes() == 0, "{operation}, {member}: {report}");
        let problem = format!("response has no field {member}");
        assert!(report.to_string().contains(&problem), "{operation}: {report}");
        fleet.cloud_map.heal();
        converge(&fleet, &function).await;
    }
}

#[tokio::test]
async fn tags_without_their_member_are_no_missing_tags() {
    let (fleet, function) = Fleet::in_step("web", "prod.local", &["10.0.1.1"]).await;
    fleet.annotate("web", "ttl", "15");
    fleet.cloud_map.inject(Fault::on("ListTagsForResource", FaultKind::Empty).always());
    let report = sync(&function).await;
    assert_eq!(held_back(&report), ["TagsUnreadable"], "{report}");
}

#[tokio::test]
async fn answer_that_is_no_service_object_does_not_say_that_the_service_is_gone() {
    for body in [
        r#"{"kind":"Service","apiVersion":"v1","metadata":{"name":"web"},"spec":["x"]}"#,
        r#"{"kind":"Service","apiVersion":"v1","metadata":["web"],"spec":{"clusterIP":"10.0.0.1"}}"#,
        r#"{"kind":"Service","apiVersion":"v1","metadata":{"name":"web"}}"#,
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"spec":{},"status":"Success"}"#,
        r#"[{"name":"web"},{}]"#,
    ] {
        let (fleet, function) = Fleet::in_step("web", "prod", &["10.0.1.1"]).await;
        let path = "/api/v1/namespaces/shop/services/web";
        fleet.cluster.fail(ClusterFault::always(path, ClusterFaultKind::Json(body)));
        assert_eq!(failed_messages(&function, "web").await, ["web"], "{body}");
        assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"], "{body}");
    }
}

#[tokio::test]
async fn namespace_of_another_account_is_read_only_where_a_claim_or_the_settings_name_it() {
    let (fleet, id, arn) = shared().await;
    fleet.web("web", "prod", &["10.0.1.1"]);
    let kind = ServiceKind::of_records(&[RecordType::A]);
    let theirs = fleet.cloud_map.service(&id, "theirs", kind);
    fleet.cloud_map.instance(&theirs, "theirs", &[("AWS_INSTANCE_IPV4", "10.9.0.1")]);
    fleet.cloud_map.inject(Fault::on("ListInstances", BROKEN).service(&theirs).always());

    let report = synced(&fleet.function().await).await;
    assert_eq!(fleet.cloud_map.count("ListServices"), 1, "{report}");

    let listed = [("CLOUD_MAP_NAMESPACES", "prod,platform.local")];
    let report = sync(&fleet.function_with(&listed).await).await;
    assert!(!report.ok && report.to_string().contains("platform.local/theirs"), "{report}");

    fleet.web("cart", &arn, &["10.0.2.1"]);
    let report = sync(&fleet.function().await).await;
    assert!(!report.ok && report.to_string().contains("platform.local/theirs"), "{report}");
    assert_eq!(fleet.addresses("platform.local", "cart"), ["10.0.2.1"], "{report}");
}

#[tokio::test]
async fn namespace_of_another_account_in_which_ours_were_seen_is_read_after_the_claim_ends() {
    let (fleet, _, arn) = shared().await;
    fleet.web("web", &arn, &["10.0.1.1"]);
    let function = converged(&fleet).await;
    assert_eq!(fleet.view("platform.local", "web").tags["cloud-map-sync/owner"], OWNER);
    fleet.cluster.delete_service("shop", "web");
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("platform.local", "web"), [""; 0]);
}

/// `web` and `cart` registered; each has one pod in place of another.
async fn changed_world() -> (Fleet, Function) {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
    fleet.web("cart", "prod.local", &["10.0.2.1"]);
    let function = converged(&fleet).await;
    fleet.pods("web", &["10.0.1.2"]);
    fleet.pods("cart", &["10.0.2.2"]);
    (fleet, function)
}

#[tokio::test]
async fn throttling_that_does_not_end_is_given_up_in_time_and_takes_nothing_out() {
    let (fleet, function) = changed_world().await;
    fleet.cloud_map.inject(Fault::on("ListServices", FaultKind::Throttling).always());

    let deadline = Deadline::after(Duration::from_secs(4));
    let answer = invoke_until(&function, &json!({ "action": "sync" }), deadline).await;

    let report = answer.report.expect("a report");
    assert!(!report.ok && !problem(&report, "blue").is_empty(), "{report}");
    assert_eq!(fleet.cloud_map.count("DeregisterInstance"), 0);
    assert!(deadline.stop + Duration::from_secs(2) > tokio::time::Instant::now());
}

#[tokio::test]
async fn service_whose_instances_cannot_be_read_is_left_alone_and_the_others_are_served() {
    for kind in [FaultKind::AccessDenied, FaultKind::Error(400, "InvalidInput", "no")] {
        let (fleet, function) = changed_world().await;
        unread(&fleet, "web", kind.clone());

        let report = sync(&function).await;

        assert!(!report.ok, "{report}");
        assert_eq!(held_back(&report), ["Unreadable"], "{report}");
        assert!(said_of(&report, "Unreadable").contains("web"), "{report}");
        assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"], "{kind:?}");
        assert_eq!(fleet.addresses("prod.local", "cart"), ["10.0.2.2"], "{kind:?}");
        fleet.cloud_map.heal();
        converge(&fleet, &function).await;
        assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.2"]);
    }
}

#[tokio::test]
async fn list_that_fails_at_the_second_look_takes_nothing_out() {
    let (fleet, function) = changed_world().await;
    let web = fleet.cloud_map.service_id("prod", "web");
    let denied = Fault::on("ListInstances", FaultKind::AccessDenied).service(&web);
    fleet.cloud_map.inject(denied.after(1).always());

    let report = sync(&function).await;

    assert!(!report.ok, "{report}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.1.2"], "{report}");
    assert_eq!(fleet.addresses("prod.local", "cart"), ["10.0.2.2"], "{report}");
}
