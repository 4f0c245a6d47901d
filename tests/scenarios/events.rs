//! Events on Services: what is held back is told where the owner of a Service looks, once, and
//! nothing depends on it.

use serde_json::Value;

use crate::fleet::{Fleet, annotated};
use crate::run::{plan, sync};
use crate::sandbox::kubernetes::{Fault, FaultKind};

/// Reason, regarded Service and note of every Event in `shop`.
fn told(fleet: &Fleet) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let events = fleet.cluster.events("shop");
    let events = events.iter().map(|event| {
        assert_eq!(event["type"], "Warning");
        (text(&event["reason"]), text(&event["regarding"]["name"]), text(&event["note"]))
    });
    events.collect()
}

async fn two_claimants() -> Fleet {
    let fleet = Fleet::start().await;
    fleet.service(annotated("web", "prod", "web").created("2026-01-01T00:00:00Z"));
    fleet.service(annotated("web2", "prod", "web").created("2026-02-01T00:00:00Z"));
    fleet.pods("web", &["10.0.1.1"]);
    fleet.pods("web2", &["10.0.1.2"]);
    fleet
}

#[tokio::test]
async fn loser_of_a_name_is_told_once_who_holds_it() {
    let fleet = two_claimants().await;
    let function = fleet.function().await;
    for _ in 0..2 {
        sync(&function).await;
    }
    // Another process remembers nothing, and the server answers that it is told already.
    sync(&fleet.function().await).await;
    let [(reason, service, note)] = told(&fleet).try_into().expect("one Event");
    assert_eq!((reason.as_str(), service.as_str()), ("DomainConflict", "web2"));
    assert!(note.contains("Service shop/web of this cluster holds the name"), "{note}");
}

#[tokio::test]
async fn warm_process_does_not_tell_again_what_it_has_told() {
    let fleet = two_claimants().await;
    let function = fleet.function().await;
    sync(&function).await;
    fleet.cluster.forget_requests();
    sync(&function).await;
    assert!(fleet.cluster.requests().iter().all(|request| request.method == "GET"));
}

#[tokio::test]
async fn service_that_is_made_again_and_another_mistake_are_told_again() {
    let fleet = Fleet::start().await;
    let mistaken =
        |ttl: &str| annotated("web", "prod", "web").annotate("cloudmap.controller/ttl", ttl);
    let function = fleet.function().await;
    for service in
        [mistaken("soon").uid("1"), mistaken("later").uid("1"), mistaken("later").uid("2")]
    {
        fleet.service(service);
        sync(&function).await;
    }
    let reasons: Vec<String> = told(&fleet).into_iter().map(|(reason, ..)| reason).collect();
    assert_eq!(reasons, ["BadAnnotation"; 3]);
}

#[tokio::test]
async fn refused_event_fails_nothing() {
    let fleet = two_claimants().await;
    fleet.cluster.fail(Fault::always("/apis/events.k8s.io/", FaultKind::Status(403)));
    let report = sync(&fleet.function().await).await;
    assert!(report.ok, "{report}");
    assert_eq!((fleet.addresses("prod", "web"), told(&fleet)), (vec!["10.0.1.1".into()], vec![]));
}

#[tokio::test]
async fn plan_and_dry_run_tell_nothing() {
    let fleet = two_claimants().await;
    plan(&fleet.function().await).await;
    sync(&fleet.sandbox.function(&[("DRY_RUN", "true")]).await).await;
    assert_eq!(told(&fleet), vec![]);
}
