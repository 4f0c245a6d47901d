//! Members whose API server takes a connection and is silent, which costs each run that asks them 30 seconds.

use std::time::Duration;

use cloud_map_sync::report::Report;
use serde_json::{Value, json};
use tokio::time::{Instant, advance, timeout};

use super::many::Many;
use super::{exported, forget_what_is_ahead, imported, pods, sources, web};
use crate::fleet::{annotated, give_pods};
use testbed::function::invoke;
use testbed::kubernetes::{Fault, FaultKind};

const CREATED: &str = "2026-01-01T00:00:00Z";

/// Two members in step, of which `c0` exports `shop/web`, and `c1` is silent from now on.
async fn with_a_silent_one() -> Many {
    let many = Many::start(2, &["shop"], &[]).await;
    exported(&many.clusters[0], web(), &["10.0.0.1"], CREATED);
    many.converge().await;
    forget_what_is_ahead(&many.clusters[1]);
    many.clusters[1].fail(Fault::always("/", FaultKind::Slow(Duration::from_hours(1))));
    many
}

/// The seconds that a run takes.
async fn run(many: &Many, payload: &Value) -> (u64, Report) {
    let start = Instant::now();
    let report = invoke(&many.function, payload).await.report.expect("a report");
    (start.elapsed().as_secs(), report)
}

#[tokio::test(start_paused = true)]
async fn importer_that_has_just_not_answered_delays_no_other_change() {
    let many = with_a_silent_one().await;
    let change = async |address: &str| {
        pods(&many.clusters[0], "web", &[address]);
        let web =
            json!({ "action": "sync", "cluster": "c0", "namespace": "shop", "service": "web" });
        run(&many, &web).await
    };
    assert!(change("10.0.0.2").await.0 >= 30);

    let (seconds, report) = change("10.0.0.3").await;
    assert_eq!(seconds, 0);
    let silent = report.clusters.iter().find(|it| it.cluster == "c1").expect("it is reported");
    let detail = &silent.multi_cluster.as_ref().expect("its clusterset").obstacles[0].detail;
    assert!(detail.starts_with("it did not answer 0 s ago; it is asked again by its"), "{detail}");

    advance(Duration::from_mins(6)).await;
    assert!(change("10.0.0.4").await.0 >= 30, "after some minutes it is asked again");

    many.clusters[1].clear_faults();
    run(&many, &json!({ "action": "sync", "cluster": "c1" })).await;
    assert_eq!(imported(&many.clusters[1], "web"), sources([("c0", &["10.0.0.4:8080"])]));
    change("10.0.0.5").await;
    assert_eq!(
        imported(&many.clusters[1], "web"),
        sources([("c0", &["10.0.0.5:8080"])]),
        "at once"
    );
}

#[tokio::test(start_paused = true)]
async fn annotated_services_do_not_wait_for_a_member_that_does_not_answer() {
    let many = with_a_silent_one().await;
    many.clusters[0].service(annotated("mail", "prod", "mail"));
    give_pods(&many.clusters[0], "mail", &["10.0.0.9"]);

    let full_sync = json!({ "action": "sync" });
    let cut = timeout(Duration::from_secs(10), invoke(&many.function, &full_sync)).await;

    assert!(cut.is_err(), "the run waits");
    assert_eq!(many.fleet.addresses("prod", "mail"), ["10.0.0.9"]);
}
