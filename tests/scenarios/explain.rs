//! The action `explain`: one Service from its annotations to what clients are told, without a write.

use cloud_map_sync::actions::explain::Explanation;
use serde::Deserialize;
use serde_json::json;

use crate::fleet::{Fleet, annotated};
use crate::run::sync;
use testbed::ROLE_ARN;
use testbed::cloud_map::Behaviour;
use testbed::function::invoke;
use testbed::kubernetes::{Headless, Pod};

/// A fleet in which the discovery plane is asked at the same address.
async fn fleet() -> Fleet {
    let fleet = Fleet::start().await;
    let behaviour = Behaviour { discovery_on_any_host: true, ..Behaviour::default() };
    fleet.cloud_map.behave(behaviour);
    fleet
}

async fn explain(fleet: &Fleet, service: &str) -> Explanation {
    let command = json!({"action": "explain", "namespace": "shop", "service": service});
    let answer = invoke(&fleet.function().await, &command).await;
    assert_eq!(fleet.cloud_map.writes(), 0);
    Explanation::deserialize(answer.response.expect("an explanation")).expect("of this release")
}

#[tokio::test]
async fn each_endpoint_has_its_fate_and_discovery_is_asked() {
    let fleet = fleet().await;
    fleet.ecs_service("web", "10.0.9.1");
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    sync(&fleet.function().await).await;
    fleet.cloud_map.forget_calls();
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
        "! endpoint   169.254.1.1 (e, ready): not registered: see the held back lines",
        "= discovery  returns 1 HEALTHY of this cluster and 1 HEALTHY of other owners; DNS name web.prod.local",
        "problems found: see the lines with !",
    ] {
        assert!(lines.contains(&line), "{line}\n{said}");
    }
    assert!(
        said.contains("= endpoint   10.0.1.1 (web-10-0-1-1, ready): registered as ip-10-0-1-1-"),
        "{said}"
    );
    assert!(
        said.contains("+ endpoint   10.0.1.2 (b, ready): a sync would register it as ip-10-0-1-2-"),
        "{said}"
    );
    assert!(said.contains("! held back  shop/web (NotPublishable)"), "{said}");
}

#[tokio::test]
async fn a_service_that_is_found_as_it_should_be_is_fine() {
    let fleet = fleet().await;
    fleet.web("web", "prod", &["10.0.1.1"]);
    sync(&fleet.function().await).await;
    fleet.cloud_map.forget_calls();
    let explanation = explain(&fleet, "web").await;
    assert!(explanation.ok, "{explanation}");
    assert!(explanation.to_string().ends_with("no problems found\n"));
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

#[tokio::test]
async fn another_holder_and_a_bad_annotation_are_reported_in_the_words_of_the_report() {
    let fleet = fleet().await;
    fleet.web("web", "prod", &["10.0.1.1"]);
    sync(&fleet.function().await).await;
    fleet.cloud_map.forget_calls();
    fleet.cluster.service(annotated("late", "prod", "web"));
    fleet.cluster.pods("shop", "late", &[Pod::new("l", "10.0.1.2")]);
    fleet.cluster.service(annotated("bad", "prod", "bad").annotate("cloudmap.controller/ttl", "x"));

    let late = explain(&fleet, "late").await.to_string();
    assert!(late.contains("! claim      another Service holds the name"), "{late}");
    assert!(
        late.contains("(DomainConflict): Service shop/web of this cluster holds the name"),
        "{late}"
    );
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
