//! The action `explain`: one Service from its annotations to the answer that clients get, without a write.
//!
//! The action `status`: the owners of the instances in each Cloud Map service, without a write.

use cloud_map_sync::actions::explain::Explanation;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::doctor::fleet;
use crate::fleet::{Fleet, annotated, attributes, web_of};
use crate::run::{converge, converged, sync};
use testbed::cloud_map::{Fault, FaultKind, RecordType};
use testbed::function::invoke;
use testbed::kubernetes::{Headless, Pod};
use testbed::{ACCOUNT, REGION, ROLE_ARN};

async fn explain(fleet: &Fleet, service: &str) -> Explanation {
    let command = json!({"action": "explain", "namespace": "shop", "service": service});
    let answer = invoke(&fleet.function().await, &command).await;
    assert_eq!(fleet.cloud_map.writes(), 0);
    Explanation::deserialize(answer.response.expect("an explanation")).expect("of this release")
}

#[tokio::test]
async fn each_endpoint_has_its_fate_and_discovery_is_asked() {
    let fleet = Fleet::start().await;
    fleet.cloud_map.adjust(|it| it.discovery_on_any_host = true);
    fleet.ecs_service("web", "10.0.9.1");
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    converged(&fleet).await;
    let pods = [
        Pod::new("web-10-0-1-1", "10.0.1.1"),
        Pod::new("b", "10.0.1.2"),
        Pod::new("c", "10.0.1.3").not_ready(),
        Pod::new("d", "10.0.1.4").terminating(),
        Pod::new("e", "169.254.1.1"),
    ];
    fleet.cluster.pods("shop", "web", &pods);

    let explanation = explain(&fleet, "web").await;

    let said = explanation.to_string();
    let lines: Vec<&str> = said.lines().map(str::trim).collect();
    for line in [
        "= annotation hostname: web",
        "= service    headless (clusterIP: None)",
        "prod.local/web",
        "= claim      this Service holds the name",
        "- endpoint   10.0.1.3 (c, not ready): not registered: its pod is not ready",
        "- endpoint   10.0.1.4 (d, terminating): not registered: its pod is terminating",
        "! endpoint   169.254.1.1 (e, ready): not registered: address 169.254.1.1 is not published: it is loopback, link-local, multicast, unspecified or IPv4-mapped",
        "= discovery  returns 1 HEALTHY of this cluster and 1 HEALTHY of other owners; DNS name web.prod.local",
        "problems found: see the lines with !",
    ] {
        assert!(lines.contains(&line), "{line}\n{said}");
    }
    for start in [
        "= endpoint   10.0.1.1 (web-10-0-1-1, ready): registered as ip-10-0-1-1-",
        "+ endpoint   10.0.1.2 (b, ready): a sync would register it as ip-10-0-1-2-",
        "! held back  shop/web (NotPublishable)",
    ] {
        assert!(said.contains(start), "{start}\n{said}");
    }
}

#[tokio::test]
async fn a_service_that_is_found_as_it_should_be_is_fine() {
    let explanation = explain(&fleet().await, "web").await;
    let said = explanation.to_string();
    assert!(explanation.ok && said.ends_with("no problems found\n"), "{said}");
}

#[tokio::test]
async fn what_is_no_annotated_headless_service_is_reported_as_such() {
    let fleet = fleet().await;
    fleet.cluster.service(annotated("normal", "prod", "normal").cluster_ip("10.100.3.4"));
    fleet.cluster.service(Headless::new("shop", "plain"));
    for (service, said) in [
        ("normal", "! service    clusterIP is 10.100.3.4: only headless Services"),
        ("plain", "! annotation cloudmap.controller/hostname is not set"),
        ("nobody", "! service    not found in the cluster"),
    ] {
        let explanation = explain(&fleet, service).await;
        assert!(!explanation.ok && explanation.names.is_empty(), "{explanation}");
        assert!(explanation.to_string().contains(said), "{explanation}");
    }
}

/// Callers reach its pods, and a person asks why.
#[tokio::test]
async fn service_that_is_gone_is_explained_by_the_instances_that_it_left() {
    for (minimum, said) in [
        ("10", "a sync would deregister ip-10-0-1-1-"),
        ("1", "! held back  shop/web (Guard): 1 instance stays here"),
    ] {
        let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
        fleet.web("cart", "prod", &["10.0.2.1", "10.0.2.2"]);
        let function = fleet.function_with(&[("GUARD_MINIMUM", minimum)]).await;
        converge(&fleet, &function).await;
        for service in ["web", "cart"] {
            fleet.cluster.delete_service("shop", service);
        }
        if minimum == "1" {
            sync(&function).await;
        }

        let question = json!({ "action": "explain", "namespace": "shop", "service": "web" });
        let answer = invoke(&function, &question).await.response.expect("an explanation");
        let explanation = Explanation::deserialize(answer).expect("of this release").to_string();

        assert!(explanation.contains("  prod/web\n"), "{explanation}");
        assert!(explanation.contains(said), "{explanation}");
    }
}

#[tokio::test]
async fn another_holder_and_a_bad_annotation_are_reported_in_the_words_of_the_report() {
    let fleet = fleet().await;
    fleet.cluster.service(annotated("late", "prod", "web"));
    fleet.cluster.pods("shop", "late", &[Pod::new("l", "10.0.1.2")]);
    fleet.cluster.service(annotated("bad", "prod", "bad").annotate("cloudmap.controller/ttl", "x"));

    let late = explain(&fleet, "late").await.to_string();
    let conflict = "(DomainConflict): Service shop/web of this cluster holds the name";
    for said in ["! claim      another Service holds the name", conflict] {
        assert!(late.contains(said), "{late}");
    }
    let bad = explain(&fleet, "bad").await;
    assert!(!bad.ok && bad.to_string().contains("(BadAnnotation)"), "{bad}");
}

#[tokio::test]
async fn a_cluster_that_cannot_be_read_is_an_error() {
    let fleet = fleet().await;
    fleet.cluster.revoke(ROLE_ARN);
    let command = json!({"action": "explain", "namespace": "shop", "service": "web"});
    let answer = invoke(&fleet.function().await, &command).await;
    assert_eq!(answer.response.expect_err("401").kind(), "Unreadable");
}

/// `web` of blue and of green beside a task of ECS and an instance by hand.
async fn shared_name() -> Fleet {
    let (fleet, green) = Fleet::with_green().await;
    let service = fleet.ecs_service("web", "10.0.9.1");
    fleet.put(&service, "by-hand", &attributes(&[("AWS_INSTANCE_IPV4", "10.0.8.1")]));
    fleet.web("web", "prod.local", &["10.0.1.1", "10.0.1.2"]);
    web_of(&green, "web", "prod.local", &["10.0.2.1"]);
    converged(&fleet).await;
    fleet
}

async fn status(fleet: &Fleet, command: Value) -> Value {
    invoke(&fleet.function().await, &command).await.response.expect("a status")
}

#[tokio::test]
async fn status_tells_everybody_apart_and_writes_nothing() {
    let fleet = shared_name().await;
    let [blue, green] = ["blue", "green"].map(|name| fleet.sandbox.cluster_arn(name));

    let status = status(&fleet, json!({"action": "status", "cluster": "blue"})).await;

    assert_eq!((&status["ok"], &status["clusters"]), (&json!(true), &json!([blue])), "{status}");
    let services = status["registries"][0]["services"].as_array().expect("services");
    let [web] = services.as_slice() else { panic!("{status}") };
    assert_eq!((&web["namespace"], &web["name"]), (&json!("prod.local"), &json!("web")));
    let owner = "cloud-map-sync";
    let shares = json!([
        {"by": "cluster", "name": blue, "owner": owner, "count": 2},
        {"by": "cluster", "name": green, "owner": owner, "count": 1},
        {"by": "ecs", "name": "legacy/web", "count": 1},
        {"by": "unknown", "count": 1},
    ]);
    assert_eq!(web["instances"], shares);
    assert_eq!(fleet.cloud_map.writes(), 0);
}

#[tokio::test]
async fn status_is_reported_while_no_cluster_answers() {
    let fleet = shared_name().await;
    fleet.cluster.revoke(ROLE_ARN);
    let status = status(&fleet, json!({"action": "status"})).await;
    assert_eq!(status["ok"], true, "{status}");
    assert_eq!(status["clusters"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn a_service_that_cannot_be_read_is_reported_and_the_others_are_counted() {
    let fleet = shared_name().await;
    fleet.cloud_map.inject(Fault::on("ListInstances", FaultKind::AccessDenied));
    let status = status(&fleet, json!({"action": "status"})).await;
    assert_eq!(status["ok"], false, "{status}");
    let web = &status["registries"][0]["services"][0];
    assert!(web["unreadable"].as_str().is_some_and(|it| it.contains("AccessDenied")), "{web}");
}

#[tokio::test]
async fn status_of_what_was_created_has_empty_services_with_our_tag() {
    let fleet = Fleet::with_web("web", "prod.local", &["10.0.1.1"]).await;
    fleet.web("cart", "prod.local", &["10.0.1.2"]);
    sync(&fleet.function().await).await;
    // Of others: one by hand, and one whose description alone says that it is ours.
    fleet.dns_service("mail", &[RecordType::A]);
    let cart = fleet.cloud_map.service_id("prod.local", "cart");
    fleet.cloud_map.tag(&cart, "cloud-map-sync/owner", "team-b");
    for name in ["web", "cart"] {
        fleet.cluster.delete_service("shop", name);
    }
    converged(&fleet).await;

    let created = status(&fleet, json!({"action": "status", "created": true})).await;

    let services = created["registries"][0]["services"].as_array().expect("services");
    let [web] = services.as_slice() else { panic!("{created}") };
    let id = fleet.cloud_map.service_id("prod.local", "web");
    let arn = format!("arn:aws:servicediscovery:{REGION}:{ACCOUNT}:service/{id}");
    let delete = format!("aws servicediscovery delete-service --region {REGION} --id {arn}");
    assert_eq!((&web["name"], &web["delete"]), (&json!("web"), &json!(delete)));
    // A call for each that has our description, and none for the others.
    assert_eq!(fleet.cloud_map.count("ListTagsForResource"), 2);
    assert_eq!(fleet.cloud_map.writes(), 0);
}

/// The order of docs/upgrading.md, with more instances than the guard lets go at once.
#[tokio::test]
async fn leaving_for_good_removes_all_that_was_created_and_nothing_else() {
    let fleet = Fleet::start().await;
    let ecs = fleet.ecs_service("legacy", "10.0.9.1");
    let names: Vec<String> = (1..=12).map(|number| format!("web-{number}")).collect();
    for (name, last) in names.iter().zip(1..) {
        fleet.web(name, "prod.local", &[&format!("10.0.1.{last}")]);
    }
    let function = fleet.function().await;
    sync(&function).await;
    assert_eq!(fleet.cloud_map.services(&fleet.dns).len(), 13);

    for name in &names {
        fleet.annotate(name, "hostname", "");
    }
    sync(&function).await;
    let confirm = json!({"action": "confirm", "cluster": "blue"});
    assert!(invoke(&function, &confirm).await.report.is_some_and(|report| report.ok));

    let created = json!({"action": "status", "created": true});
    let left = status(&fleet, created.clone()).await;
    let left = left["registries"][0]["services"].as_array().expect("a list");
    assert_eq!(left.len(), 12);
    for service in left {
        let command = service["delete"].as_str().expect("a command");
        assert!(command.starts_with("aws servicediscovery delete-service"), "{command}");
        fleet.cloud_map.remove_service(command.rsplit('/').next().expect("an id"));
    }
    let left = status(&fleet, created).await;
    assert_eq!((&left["ok"], &left["registries"][0]["services"]), (&json!(true), &json!([])));
    let services = fleet.cloud_map.services(&fleet.dns);
    assert_eq!(services.iter().map(|it| &it.id).collect::<Vec<_>>(), [&ecs]);
}
