//! What each kind of run costs: the number of calls by operation, to AWS and to the cluster. A run that begins to
//! cost more fails here. Time stands still but for waiting, so that operations are looked at equally often each time.

use std::collections::BTreeMap;

use cloud_map_sync::function::Function;
use serde_json::json;

use crate::fleet::{Fleet, annotated};
use crate::queue::{batch_about, batch_of, failures, scope};
use crate::run::{converge, converged, counts, sync};
use testbed::cloud_map::ServiceKind;
use testbed::function::invoke;

/// Every AWS call since the last `forget`, by operation.
fn aws_calls(fleet: &Fleet) -> BTreeMap<String, usize> {
    let mut calls = BTreeMap::new();
    for request in fleet.sandbox.aws().requests() {
        *calls.entry(request.operation).or_insert(0) += 1;
    }
    calls
}

fn forget(fleet: &Fleet) {
    fleet.sandbox.aws().forget_requests();
    fleet.cluster.forget_requests();
    fleet.cloud_map.forget_calls();
}

/// What was asked of the cluster since the last `forget`, without the beginning that all paths of `shop` share.
fn asked_of_cluster(fleet: &Fleet) -> Vec<String> {
    let short = |path: String| match path.rsplit_once("/namespaces/shop/") {
        Some((_, rest)) => rest.to_owned(),
        None => path,
    };
    fleet.cluster.requests().into_iter().map(|request| short(request.path)).collect()
}

/// Three names in two namespaces, an ECS task under one of them, all of it in step.
async fn in_step() -> (Fleet, Function) {
    let fleet = Fleet::start().await;
    fleet.ecs_service("web", "10.0.9.1");
    fleet.web("web", "prod.local", &["10.0.1.1", "10.0.1.2"]);
    fleet.web("cart", "prod", &["10.0.2.1"]);
    fleet.web("mail", "prod", &["10.0.3.1"]);
    let function = converged(&fleet).await;
    forget(&fleet);
    (fleet, function)
}

#[tokio::test(start_paused = true)]
async fn runs_on_a_world_in_step_cost_the_lists_and_one_read_of_each_service() {
    let (fleet, _) = in_step().await;
    let function = fleet.function().await;

    sync(&function).await;
    let lists = [("DescribeCluster", 1), ("ListNamespaces", 1), ("ListServices", 2)];
    assert_eq!(aws_calls(&fleet), counts(lists.into_iter().chain([("ListInstances", 3)])));

    // A later one neither describes the cluster nor lists namespaces.
    forget(&fleet);
    sync(&function).await;
    assert_eq!(aws_calls(&fleet), counts([("ListInstances", 3), ("ListServices", 1)]));
    assert_eq!(asked_of_cluster(&fleet), ["/api/v1/services", "endpointslices"]);
}

#[tokio::test(start_paused = true)]
async fn pod_that_changed_costs_one_read_before_the_writes_and_one_before_the_removal_and_its_slices_after()
 {
    let (fleet, function) = in_step().await;
    fleet.pods("web", &["10.0.1.1", "10.0.1.3"]);

    let answer = invoke(&function, &batch_about("blue", "web")).await;

    assert_eq!(failures(&answer), [""; 0]);
    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.1", "10.0.1.3", "10.0.9.1"]);
    let calls: Vec<_> = fleet.cloud_map.calls().into_iter().map(|call| call.operation).collect();
    let write = |operation| ["ListInstances", operation, "GetOperation"];
    assert_eq!(calls, [write("RegisterInstance"), write("DeregisterInstance")].concat());
    let mut asked = asked_of_cluster(&fleet);
    asked[..2].sort();
    assert_eq!(asked[..2], ["endpointslices", "services/web"], "both at once");
    // Before the removal, after it (the pod may be back), and the news.
    assert_eq!(asked[2..], ["services/web", "endpointslices", "endpointslices", "events"]);
}

#[tokio::test(start_paused = true)]
async fn process_that_knows_nothing_yet_lists_no_more_than_the_namespace_of_the_changed_pod() {
    let (fleet, _) = in_step().await;
    fleet.pods("web", &["10.0.1.1", "10.0.1.2", "10.0.1.3"]);

    invoke(&fleet.function().await, &batch_about("blue", "web")).await;

    let reads = ["DescribeCluster", "ListNamespaces", "ListServices", "ListInstances"];
    let all = reads.into_iter().chain(["RegisterInstance", "GetOperation"]);
    assert_eq!(aws_calls(&fleet), counts(all.map(|it| (it, 1))));
    assert_eq!(fleet.addresses("prod.local", "web").len(), 4);
}

#[tokio::test(start_paused = true)]
async fn service_that_was_added_costs_a_look_at_the_cluster_and_at_the_services_of_its_namespace() {
    let (fleet, function) = in_step().await;
    fleet.web("new", "prod", &["10.0.4.1"]);

    invoke(&function, &batch_about("blue", "new")).await;

    let once = ["CreateService", "GetOperation", "ListServices", "RegisterInstance"];
    assert_eq!(aws_calls(&fleet), counts(once.map(|it| (it, 1))));
    let mut asked = asked_of_cluster(&fleet);
    asked.sort();
    assert_eq!(asked, ["/api/v1/services", "endpointslices", "events", "services/new"]);
    assert_eq!(fleet.addresses("prod", "new"), ["10.0.4.1"]);
}

#[tokio::test(start_paused = true)]
async fn batch_of_a_thousand_messages_costs_what_its_three_hundred_services_cost() {
    let fleet = Fleet::start().await;
    for index in 0..300 {
        let address = format!("10.1.{}.{}", index / 100, index % 100);
        fleet.web(&format!("web-{index}"), "prod", &[&address]);
    }
    let function = fleet.function_with(&[("QUOTA_SHARE", "1000")]).await;
    converge(&fleet, &function).await;
    let mut cost = Vec::new();
    for messages in [300, 1000] {
        forget(&fleet);
        let bodies = (0..messages).map(|index| scope("blue", &format!("web-{}", index % 300)));
        invoke(&function, &batch_of(&bodies.collect::<Vec<_>>())).await;
        cost.push((aws_calls(&fleet), asked_of_cluster(&fleet)));
    }
    assert_eq!(cost[0], cost[1]);
    assert_eq!(cost[1].0, counts([("ListInstances", 300)]));
    let lists = cost[1].1.iter().filter(|path| path.ends_with("services")).count();
    // 300 slices are three pages.
    assert_eq!((lists, cost[1].1.len()), (1, 4), "{:?}", cost[1].1);
}

#[tokio::test(start_paused = true)]
async fn name_that_an_older_service_claims_is_not_taken_by_a_message_about_the_younger() {
    let (fleet, function) = in_step().await;
    fleet.service(annotated("elder", "prod", "free").created("2026-01-01T00:00:00Z"));
    fleet.service(annotated("younger", "prod", "free").created("2026-02-01T00:00:00Z"));
    fleet.pods("younger", &["10.0.5.1"]);

    invoke(&function, &batch_about("blue", "younger")).await;

    assert_eq!(fleet.addresses("prod", "free"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn service_that_ends_leaves_its_name_to_the_next_one_although_neither_was_remembered_there() {
    let (fleet, function) = in_step().await;
    fleet.web("next", "prod", &["10.0.6.1"]);
    fleet.annotate("next", "hostname", "cart");
    fleet.cluster.delete_service("shop", "cart");

    invoke(&function, &batch_about("blue", "cart")).await;

    assert_eq!(fleet.addresses("prod", "cart"), ["10.0.6.1"]);
}

#[tokio::test(start_paused = true)]
async fn service_that_another_party_made_again_is_found_under_its_new_id() {
    let (fleet, function) = in_step().await;
    fleet.cloud_map.adjust(|it| it.service_ids_return = false);
    let old = fleet.cloud_map.service_id("prod", "cart");
    fleet.cloud_map.remove_service(&old);
    assert_ne!(fleet.cloud_map.service(&fleet.http, "cart", ServiceKind::Http), old);
    fleet.pods("cart", &["10.0.2.2"]);

    let answer = invoke(&function, &batch_about("blue", "cart")).await;

    assert_eq!(failures(&answer), [""; 0]);
    assert_eq!(fleet.addresses("prod", "cart"), ["10.0.2.2"]);
    assert_eq!(fleet.cloud_map.count("CreateService"), 0);
}

#[tokio::test(start_paused = true)]
async fn ttl_is_not_repaired_on_what_is_remembered_of_it() {
    let (fleet, function) = in_step().await;
    fleet.web("ours", "prod.local", &["10.0.7.1"]);
    converge(&fleet, &function).await;
    fleet.annotate("ours", "ttl", "30");
    let id = fleet.cloud_map.service_id("prod.local", "ours");
    let check = json!({ "Type": "HTTP", "ResourcePath": "/ready", "FailureThreshold": 1 });
    fleet.cloud_map.dress(&id, "by a person", &check);

    invoke(&function, &batch_about("blue", "ours")).await;

    let view = fleet.view("prod.local", "ours");
    assert_eq!(view.description.as_deref(), Some("by a person"), "{view:?}");
}
