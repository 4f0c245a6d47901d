//! The metrics of a run in CloudWatch, beside the counts of its report: the calls it made, whether a full sync was
//! good, what clusters left behind, and for how long endpoints have been out of step.

use std::time::Duration;

use cloud_map_sync::function::Function;
use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::run::{self, sync_of};
use testbed::cloud_map::{Fault, FaultKind};
use testbed::function::{Answer, invoke};

/// The documents of an answer: those of the clusters, and that of the invocation.
fn documents(answer: &Answer) -> (Vec<Value>, Value) {
    let mut lines = run::documents(answer.report.as_ref().expect("a report"));
    let invocation = lines.pop().expect("the invocation's");
    (lines, invocation)
}

async fn metrics_of(function: &Function, payload: &Value) -> Value {
    documents(&invoke(function, payload).await).1
}

#[tokio::test]
async fn every_try_of_every_call_is_counted_and_so_is_what_cloud_map_throttles() {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
    let function = fleet.function().await;
    fleet.cloud_map.inject(Fault::on("ListServices", FaultKind::Throttling).times(2));
    fleet.cloud_map.inject(Fault::on("RegisterInstance", FaultKind::RequestLimitExceeded).times(1));
    let payload = json!({ "action": "sync" });

    let first = metrics_of(&function, &payload).await;

    assert_eq!(first["Calls"], fleet.cloud_map.calls().len());
    assert_eq!(first["Throttles"], 3);
    fleet.cloud_map.forget_calls();
    invoke(&function, &json!({ "action": "status" })).await;
    fleet.cloud_map.forget_calls();
    let second = metrics_of(&function, &payload).await;
    assert_eq!(second["Calls"], fleet.cloud_map.calls().len(), "each run counts its own");
    assert_eq!(second["Throttles"], 0);
}

#[tokio::test]
async fn fault_of_a_cluster_that_does_not_page_is_left_out_of_what_pages() {
    for (page, good) in [(true, 0), (false, 1)] {
        let (fleet, green) = Fleet::with_green().await;
        let clusters = json!(["blue", { "cluster": "green", "page": page }]).to_string();
        let function = fleet.function_with(&[("CLUSTERS", &clusters)]).await;
        green.stop();

        let answer = invoke(&function, &json!({ "action": "sync" })).await;

        let (clusters, invocation) = documents(&answer);
        assert_eq!(invocation["GoodFullSync"], good, "page: {page}");
        let name = |it: &Value| it["cluster"].as_str()?.rsplit('/').next().map(str::to_owned);
        let is_green = |it: &&Value| name(it).as_deref() == Some("green");
        let of_green = clusters.iter().find(is_green).expect("green");
        assert_eq!(of_green["GoodFullSync"], 0);
    }
}

#[tokio::test]
async fn what_a_cluster_left_behind_is_counted() {
    let fleet = Fleet::start().await;
    fleet.green().await;
    fleet.web("web", "prod", &["10.0.1.1", "10.0.1.2"]);
    let full = json!({ "action": "sync" });
    assert_eq!(metrics_of(&fleet.function().await, &full).await["Orphans"], 0);
    let green = fleet.function_with(&[("CLUSTERS", "green")]).await;
    assert_eq!(metrics_of(&green, &full).await["Orphans"], 2);
}

#[tokio::test]
async fn what_is_out_of_step_grows_older_from_run_to_run_until_it_is_done() {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1", "10.0.1.2"]).await;
    let function = fleet.function().await;
    let full = json!({ "action": "sync" });
    let other = sync_of("blue", "cart");
    let mut ages = Vec::new();
    let mut run = async |payload: &Value| {
        let metrics = metrics_of(&function, payload).await;
        fleet.clock.advance(Duration::from_mins(1));
        ages.push(
            ["OldestMissing", "OldestLeftover"].map(|name| metrics[name].as_u64().expect(name)),
        );
    };

    run(&full).await;
    fleet.pods("web", &["10.0.1.2", "10.0.1.3"]);
    fleet.cloud_map.inject(Fault::on("RegisterInstance", FaultKind::AccessDenied).times(2));
    fleet.cloud_map.inject(Fault::on("DeregisterInstance", FaultKind::AccessDenied).times(3));
    for payload in [&full, &full, &other, &full, &full] {
        run(payload).await;
    }

    assert_eq!(ages, [[0, 0], [0, 0], [60, 60], [120, 120], [0, 180], [0, 0]]);
}
