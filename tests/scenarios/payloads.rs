//! Every payload of `events/` through the handler: what it is about is synced, and nothing else.

use std::collections::BTreeSet;

use serde_json::json;

use crate::fleet::{Fleet, web_of};
use testbed::function::{event, invoke};

const SERVICES: [&str; 3] = ["cart", "checkout", "web"];

/// What each payload syncs, as `<cluster> <service>`.
fn expected(name: &str) -> Vec<String> {
    let all = |cluster: &str| SERVICES.map(|service| format!("{cluster} {service}")).to_vec();
    let one = |text: &str| vec![text.to_owned()];
    match name {
        "schedule-eventbridge-rule" | "schedule-eventbridge-scheduler" | "direct-sync" => {
            [all("blue"), all("green")].concat()
        }
        "direct-plan"
        | "direct-plan-cluster"
        | "direct-adopt"
        | "direct-adopt-confirmed"
        | "direct-adopt-owner"
        | "direct-cleanup"
        | "direct-doctor"
        | "direct-explain"
        | "direct-purge"
        | "direct-status"
        // None of their services is there.
        | "sqs-drift-created"
        | "sqs-drift-instance"
        | "sqs-drift-namespace"
        | "sqs-drift-service"
        | "sqs-drift-tags" => Vec::new(),
        "direct-sync-service" | "sqs-own-message" | "sqs-knative-reference" | "sqs-argo-events" => {
            one("blue web")
        }
        "logs-audit" => ["blue cart", "blue web"].map(str::to_owned).to_vec(),
        "sqs-knative-resource" => one("blue cart"),
        "sqs-kubewatch" | "sqs-argo-events-data" => one("green checkout"),
        "sqs-in-eventbridge-in-sns" => one("green cart"),
        "sqs-sync-cluster" => all("green"),
        "direct-confirm"
        | "sqs-kubernetes-event-exporter"
        | "sqs-in-sns"
        | "sqs-in-eventbridge" => all("blue"),
        "sqs-mixed-batch" => {
            let blue = ["blue cart", "blue web"].map(str::to_owned);
            [blue.to_vec(), all("green")].concat()
        }
        other => panic!("events/{other}.json is not in this table"),
    }
}

/// The same three Services in both clusters, nothing registered.
async fn world() -> Fleet {
    let fleet = Fleet::start().await;
    let green = fleet.green().await;
    for service in SERVICES {
        fleet.web(service, "prod", &["10.0.1.1"]);
        web_of(&green, service, "prod", &["10.0.2.1"]);
    }
    fleet
}

fn registered(fleet: &Fleet) -> Vec<String> {
    let of = |cluster: &str, address: &str| {
        let found = SERVICES
            .into_iter()
            .filter(|service| fleet.addresses("prod", service).contains(&address.to_owned()));
        found.map(|service| format!("{cluster} {service}")).collect::<Vec<_>>()
    };
    [of("blue", "10.0.1.1"), of("green", "10.0.2.1")].concat()
}

fn names() -> BTreeSet<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/events");
    let entries = std::fs::read_dir(folder).expect("the folder events/");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let names = names.filter_map(|name| name.to_str()?.strip_suffix(".json").map(str::to_owned));
    names.collect()
}

#[tokio::test]
async fn every_payload_syncs_what_it_is_about_and_nothing_else() {
    for name in names() {
        let fleet = world().await;
        let answer = invoke(&fleet.function().await, &event(&name)).await;
        let response = answer.response.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(registered(&fleet), expected(&name), "{name}");
        if name.starts_with("sqs-") {
            assert_eq!(response, json!({ "batchItemFailures": [] }), "{name}");
        } else {
            assert_eq!(response["ok"], true, "{name}: {response}");
        }
    }
}
