//! Asynchronous operations: accepted is not done, one at a time for each instance, and a failure shows later.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::{Behaviour, Fault, FaultKind, NamespaceKind};
use super::{cloud_map, done, ended, http_service, refused, register, registration};

async fn status(map: &super::CloudMap, accepted: &Value) -> Value {
    done(map, "GetOperation", json!({ "OperationId": accepted["OperationId"] })).await["Operation"]
        ["Status"]
        .clone()
}

#[tokio::test(start_paused = true)]
async fn an_injected_failure_shows_in_the_operation_and_leaves_the_instance_as_it_was() {
    let map = cloud_map();
    let web = http_service(&map, "web");
    map.instance(&web, "a", &[("v", "1")]);
    map.inject(Fault::on("RegisterInstance", FaultKind::OperationFails("ACCESS_DENIED")));
    let operation = register(&map, &web, "a", json!({"v": "2"})).await;
    assert_eq!(
        (&operation["Status"], &operation["ErrorCode"]),
        (&json!("FAIL"), &json!("ACCESS_DENIED"))
    );
    assert_eq!(map.instances(&web)["a"]["v"], "1");
    assert_eq!(register(&map, &web, "a", json!({"v": "2"})).await["Status"], "SUCCESS");
}

#[tokio::test(start_paused = true)]
async fn a_hanging_operation_blocks_its_instance_for_ever() {
    let map = cloud_map();
    let web = http_service(&map, "web");
    map.inject(Fault::on("RegisterInstance", FaultKind::OperationHangs));
    let accepted = done(&map, "RegisterInstance", registration(&web, "a", &json!({}))).await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(status(&map, &accepted).await, "PENDING");
    assert_eq!(
        refused(&map, "RegisterInstance", registration(&web, "a", &json!({}))).await,
        "DuplicateRequest"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_shows_the_namespace_again() {
    let map = cloud_map();
    let shop = map.namespace("shop", NamespaceKind::Http);
    map.inject(Fault::on("DeleteNamespace", FaultKind::OperationFails("INTERNAL_FAILURE")));
    let accepted = done(&map, "DeleteNamespace", json!({ "Id": shop })).await;
    assert_eq!(ended(&map, &accepted).await["Status"], "FAIL");
    done(&map, "GetNamespace", json!({ "Id": shop })).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_on_its_way_counts_against_the_limits_and_a_rewrite_does_not() {
    let map = cloud_map();
    map.behave(Behaviour { instances_per_namespace: 3, ..Behaviour::default() });
    let (web, api) = (http_service(&map, "web"), http_service(&map, "api"));
    map.instance(&api, "a", &[]);
    for (service, instance) in [(&api, "a"), (&web, "b"), (&web, "c")] {
        done(&map, "RegisterInstance", registration(service, instance, &json!({}))).await;
    }
    let one_more = registration(&web, "d", &json!({}));
    assert_eq!(refused(&map, "RegisterInstance", one_more).await, "ResourceLimitExceeded");
}
