//! Events on Services: what is held back is reported where the owner of a Service looks, once, and what was registered and
//! deregistered with each change. Nothing depends on them.

use std::time::Duration;

use serde_json::Value;

use crate::fleet::{Fleet, annotated};
use crate::run::{plan, sync, synced};
use testbed::kubernetes::{Fault, FaultKind, Headless};

/// Reason, regarded Service and note of every warning in `shop`.
fn all_warnings(fleet: &Fleet) -> Vec<(String, String, String)> {
    of_type(fleet, "Warning")
}

fn of_type(fleet: &Fleet, kind: &str) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let events = fleet.cluster.events("shop");
    let events = events.iter().filter(|event| event["type"] == kind);
    let events = events.map(|event| {
        (text(&event["reason"]), text(&event["regarding"]["name"]), text(&event["note"]))
    });
    events.collect()
}

#[tokio::test]
async fn changed_instances_are_news_for_each_service_and_name() {
    let fleet = Fleet::start().await;
    fleet.service(annotated("web", "prod", "web,www"));
    fleet.pods("web", &["10.0.1.1", "10.0.1.2"]);
    let function = fleet.function().await;
    let registered = |name| format!("Registered web: 2 registered under prod/{name}");
    let mut expected = vec![registered("web"), registered("www")];
    let assert_news = |expected: &mut Vec<String>| {
        let news = of_type(&fleet, "Normal").into_iter();
        let mut news: Vec<_> =
            news.map(|(reason, service, note)| format!("{reason} {service}: {note}")).collect();
        news.sort();
        expected.sort();
        assert_eq!(news, *expected);
    };
    for _ in 0..2 {
        sync(&function).await;
        assert_news(&mut expected);
    }

    // The same change a minute later is news again.
    for addresses in [&["10.0.1.1"][..], &["10.0.1.1", "10.0.1.2"], &["10.0.1.1"]] {
        fleet.clock.advance(Duration::from_mins(1));
        fleet.pods("web", addresses);
        sync(&function).await;
        for name in ["web", "www"] {
            expected.push(match addresses.len() {
                1 => format!("Deregistered web: 1 deregistered under prod/{name}"),
                _ => format!("Registered web: 1 registered under prod/{name}"),
            });
        }
        assert_news(&mut expected);
    }
    plan(&function).await;
    assert_news(&mut expected);
}

#[tokio::test]
async fn setting_leaves_out_news_or_all_events() {
    for (setting, warnings, news) in [("all", 1, 1), ("warnings", 1, 0), ("none", 0, 0)] {
        let fleet = two_claimants().await;
        sync(&fleet.function_with(&[("CLUSTERS", "blue"), ("EVENTS", setting)]).await).await;
        let counts = [all_warnings(&fleet).len(), of_type(&fleet, "Normal").len()];
        assert_eq!(counts, [warnings, news], "{setting}");
    }
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
async fn loser_of_a_name_gets_one_event_with_its_holder() {
    let fleet = two_claimants().await;
    let function = fleet.function().await;
    for _ in 0..2 {
        sync(&function).await;
    }
    // Another process remembers nothing, and the server answers that it has the Event already.
    sync(&fleet.function().await).await;
    let [(reason, service, note)] = all_warnings(&fleet).try_into().expect("one Event");
    assert_eq!((reason.as_str(), service.as_str()), ("DomainConflict", "web2"));
    assert!(note.contains("Service shop/web of this cluster holds the name"), "{note}");
}

#[tokio::test]
async fn service_that_is_made_again_and_another_mistake_are_reported_again() {
    let fleet = Fleet::start().await;
    let mistaken =
        |ttl: &str| annotated("web", "prod", "web").annotate("cloudmap.controller/ttl", ttl);
    let function = fleet.function().await;
    for (ttl, uid) in [("soon", "1"), ("later", "1"), ("later", "2")] {
        fleet.service(mistaken(ttl).uid(uid));
        sync(&function).await;
    }
    let reasons: Vec<String> =
        all_warnings(&fleet).into_iter().map(|(reason, ..)| reason).collect();
    assert_eq!(reasons, ["BadAnnotation"; 3]);
}

#[tokio::test]
async fn refused_event_fails_nothing() {
    let fleet = two_claimants().await;
    fleet.cluster.refuse("/apis/events.k8s.io/", 403);
    synced(&fleet.function().await).await;
    assert_eq!(
        (fleet.addresses("prod", "web"), all_warnings(&fleet)),
        (vec!["10.0.1.1".into()], vec![])
    );
}

#[tokio::test]
async fn events_that_a_namespace_refuses_leave_those_of_others_alone() {
    let fleet = Fleet::start().await;
    let mistaken = |namespace: &str, name: &str| {
        Headless::new(namespace, name).annotate("cloudmap.controller/hostname", "a b")
    };
    for index in 0..20 {
        fleet.service(mistaken("leaving", &format!("web-{index}")));
    }
    fleet.cluster.terminate_namespace("leaving");
    fleet.service(mistaken("shop", "web"));
    let function = fleet.function().await;

    sync(&function).await;

    let [(reason, service, _)] = all_warnings(&fleet).try_into().expect("one Event");
    assert_eq!((reason.as_str(), service.as_str()), ("BadAnnotation", "web"));
    // What was refused is tried again after a while, as what was created is.
    fleet.cluster.forget_requests();
    sync(&function).await;
    assert_eq!(creations(&fleet), 0);
}

#[tokio::test]
async fn note_is_cut_at_bytes_as_the_api_server_counts() {
    let fleet = Fleet::start().await;
    let pair = "🦀".repeat(90);
    let pairs = [pair.as_str(); 6].join(",");
    let service = annotated("web", "prod", "web");
    fleet.service(service.annotate("cloudmap.controller/attributes", &pairs));
    sync(&fleet.function().await).await;
    let [(reason, _, note)] = all_warnings(&fleet).try_into().expect("one Event");
    assert_eq!(reason, "BadAnnotation");
    assert!((1021..=1024).contains(&note.len()), "{}", note.len());
}

#[tokio::test]
async fn cluster_that_breaks_off_its_answers_is_not_sent_every_event() {
    let fleet = Fleet::start().await;
    for index in 0..40 {
        fleet.service(annotated(&format!("web-{index}"), "prod", "a b"));
    }
    fleet.cluster.fail(Fault::always("/apis/events.k8s.io/", FaultKind::TruncatedBody));
    assert!(sync(&fleet.function().await).await.ok);
    assert!(creations(&fleet) < 20, "{} of 40", creations(&fleet));
}

/// The number of requests to create an Event.
fn creations(fleet: &Fleet) -> usize {
    fleet.cluster.requests().iter().filter(|request| request.method == "POST").count()
}

#[tokio::test]
async fn plan_and_dry_run_tell_nothing() {
    let fleet = two_claimants().await;
    plan(&fleet.function().await).await;
    sync(&fleet.function_with(&[("DRY_RUN", "true")]).await).await;
    assert_eq!(all_warnings(&fleet), vec![]);
}
