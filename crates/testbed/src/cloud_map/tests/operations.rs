//! Asynchronous operations: accepted is not done, one at a time for each instance, and a failure shows later.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::{Behaviour, Fault, FaultKind, RecordType};
use super::{
    call, cloud_map, dns_service, done, ended, http_service, refused, register, registration,
};

async fn status(map: &super::CloudMap, accepted: &Value) -> Value {
    done(map, "GetOperation", json!({ "OperationId": accepted["OperationId"] })).await["Operation"]
        ["Status"]
        .clone()
}

#[tokio::test(start_paused = true)]
async fn a_registration_is_submitted_then_pending_then_there() {
    let map = cloud_map();
    let web = http_service(&map, "web");
    let get = json!({ "ServiceId": web, "InstanceId": "a" });
    let accepted = done(&map, "RegisterInstance", registration(&web, "a", &json!({}))).await;
    assert_eq!(status(&map, &accepted).await, "SUBMITTED");
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(status(&map, &accepted).await, "PENDING");
    assert_eq!(refused(&map, "GetInstance", get.clone()).await, "InstanceNotFound");
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(status(&map, &accepted).await, "SUCCESS");
    done(&map, "GetInstance", get).await;
}

#[tokio::test(start_paused = true)]
async fn a_busy_instance_is_refused_with_the_operation_in_its_way_and_another_id_is_not() {
    let map = cloud_map();
    let web = http_service(&map, "web");
    let accepted = done(&map, "RegisterInstance", registration(&web, "a", &json!({}))).await;
    let id = accepted["OperationId"].as_str().expect("an id");
    let text = format!("Another operation of type RegisterInstance and id {id} is in progress");
    for operation in ["RegisterInstance", "DeregisterInstance"] {
        let (status, answer) = call(&map, operation, registration(&web, "a", &json!({}))).await;
        assert_eq!((status, &answer["DuplicateOperationId"]), (400, &json!(id)), "{answer}");
        assert_eq!(answer["Message"], text);
    }
    done(&map, "RegisterInstance", registration(&web, "b", &json!({}))).await;
    assert_eq!(refused(&map, "DeleteService", json!({ "Id": web })).await, "ResourceInUse");
}

#[tokio::test(start_paused = true)]
async fn a_registration_replaces_all_attributes_and_keeps_the_old_ones_until_it_is_done() {
    let map = cloud_map();
    let web = http_service(&map, "web");
    register(&map, &web, "a", json!({"old": "1", "both": "1"})).await;
    let accepted =
        done(&map, "RegisterInstance", registration(&web, "a", &json!({"both": "2"}))).await;
    assert_eq!(map.instances(&web)["a"].len(), 2);
    ended(&map, &accepted).await;
    assert_eq!(map.instances(&web)["a"], [("both".to_owned(), "2".to_owned())].into());
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
async fn a_namespace_created_twice_at_once_fails_in_the_second_operation() {
    let map = cloud_map();
    let create = |token| json!({ "Name": "new", "CreatorRequestId": token });
    let first = done(&map, "CreateHttpNamespace", create("1")).await;
    assert_eq!(refused(&map, "CreateHttpNamespace", create("1")).await, "DuplicateRequest");
    let second = done(&map, "CreateHttpNamespace", create("2")).await;
    assert_eq!(ended(&map, &first).await["Status"], "SUCCESS");
    assert_eq!(ended(&map, &second).await["Status"], "FAIL");
    assert_eq!(refused(&map, "CreateHttpNamespace", create("3")).await, "NamespaceAlreadyExists");
}

#[tokio::test(start_paused = true)]
async fn a_service_change_deletes_the_records_it_leaves_out() {
    let map = cloud_map();
    let web = dns_service(&map, &[RecordType::A, RecordType::Aaaa]);
    let change = json!({ "Id": web, "Service": { "DnsConfig": { "DnsRecords": [{ "Type": "A", "TTL": 5 }] } } });
    let accepted = done(&map, "UpdateService", change).await;
    ended(&map, &accepted).await;
    let namespace = map.find_namespace("corp.local").expect("seeded");
    assert_eq!(
        map.services(&namespace)[0].dns.as_ref().expect("records").records,
        [(RecordType::A, 5)]
    );
    let accepted =
        done(&map, "UpdateService", json!({ "Id": web, "Service": { "Description": "d" } })).await;
    ended(&map, &accepted).await;
    assert_eq!(map.services(&namespace)[0].dns, None);
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
