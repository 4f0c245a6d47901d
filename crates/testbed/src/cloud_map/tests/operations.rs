//! Asynchronous operations: accepted is not done, one at a time for each instance, and a failure shows later.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::{Behaviour, Fault, FaultKind, NamespaceKind, RecordType};
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
async fn a_namespace_on_its_way_blocks_its_name_for_every_type() {
    let map = cloud_map();
    let create = |token| json!({ "Name": "new", "Vpc": "vpc-1", "CreatorRequestId": token });
    let first = done(&map, "CreatePrivateDnsNamespace", create("1")).await;
    for (operation, token) in [("CreateHttpNamespace", "2"), ("CreatePrivateDnsNamespace", "1")] {
        let (status, answer) = call(&map, operation, create(token)).await;
        assert_eq!((status, &answer["DuplicateOperationId"]), (400, &first["OperationId"]));
        let text = answer["Message"].as_str().expect("a text");
        assert!(text.contains("of type CreatePrivateDnsNamespace and id"), "{text}");
    }
    assert_eq!(ended(&map, &first).await["Status"], "SUCCESS");
    let again = refused(&map, "CreatePrivateDnsNamespace", create("3")).await;
    assert_eq!(again, "NamespaceAlreadyExists");
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_has_ended_can_be_in_the_way_for_a_while() {
    let map = cloud_map();
    let completed_operation_stays = Duration::from_secs(5);
    map.behave(Behaviour { completed_operation_stays, ..Behaviour::default() });
    let web = http_service(&map, "web");
    let create = json!({ "Name": "new" });
    let created = done(&map, "CreateHttpNamespace", create.clone()).await;
    ended(&map, &created).await;
    register(&map, &web, "a", json!({})).await;
    let removal = json!({ "ServiceId": web, "InstanceId": "a" });
    let refusals = [("CreateHttpNamespace", &create), ("DeregisterInstance", &removal)];
    for (operation, body) in refusals {
        let (_, answer) = call(&map, operation, body.clone()).await;
        let text = answer["Message"].as_str().expect("a text");
        assert!(text.ends_with("has completed"), "{operation}: {text}");
    }
    tokio::time::sleep(completed_operation_stays).await;
    done(&map, "DeregisterInstance", removal).await;
    assert_eq!(refused(&map, "CreateHttpNamespace", create).await, "NamespaceAlreadyExists");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_in_deletion_is_seen_by_its_name_alone() {
    let map = cloud_map();
    let deleted_name_stays = Duration::from_secs(40);
    map.behave(Behaviour { deleted_name_stays, ..Behaviour::default() });
    let shop = map.namespace("shop", NamespaceKind::Http);
    let (create, id) = (json!({ "Name": "shop" }), json!({ "Id": shop }));
    let accepted = done(&map, "DeleteNamespace", id.clone()).await;
    assert_eq!(refused(&map, "DeleteNamespace", id.clone()).await, "DuplicateRequest");
    for _ in 0..2 {
        assert_eq!(refused(&map, "GetNamespace", id.clone()).await, "NamespaceNotFound");
        let listed = done(&map, "ListNamespaces", json!({})).await;
        assert_eq!(listed["Namespaces"], json!([]));
        let (_, answer) = call(&map, "CreateHttpNamespace", create.clone()).await;
        let seen = (&answer["__type"], &answer["NamespaceId"]);
        assert_eq!(seen, (&json!("NamespaceAlreadyExists"), &json!(shop)));
        assert_eq!(ended(&map, &accepted).await["Status"], "SUCCESS");
    }
    let listed = done(&map, "ListOperations", json!({})).await;
    assert_eq!(listed["Operations"], json!([]), "they went with the namespace");
    tokio::time::sleep(deleted_name_stays).await;
    done(&map, "CreateHttpNamespace", create).await;
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
async fn a_service_that_lost_its_last_instance_can_count_as_in_use_for_a_while() {
    let map = cloud_map();
    let in_use_lag = Duration::from_secs(10);
    map.behave(Behaviour { in_use_lag, ..Behaviour::default() });
    let web = http_service(&map, "web");
    register(&map, &web, "a", json!({})).await;
    let removal = json!({ "ServiceId": web, "InstanceId": "a" });
    let removed = done(&map, "DeregisterInstance", removal).await;
    assert_eq!(ended(&map, &removed).await["Status"], "SUCCESS");
    assert_eq!(refused(&map, "DeleteService", json!({ "Id": web })).await, "ResourceInUse");
    tokio::time::sleep(in_use_lag).await;
    done(&map, "DeleteService", json!({ "Id": web })).await;
}

#[tokio::test(start_paused = true)]
async fn a_service_made_again_has_its_old_id_and_a_registration_in_a_deleted_one_fails_late() {
    let map = cloud_map();
    let web = http_service(&map, "web");
    done(&map, "DeleteService", json!({ "Id": web })).await;
    let operation = register(&map, &web, "a", json!({})).await;
    let end = (&operation["Status"], &operation["ErrorCode"]);
    assert_eq!(end, (&json!("FAIL"), &json!("INTERNAL_FAILURE")));
    assert_eq!(http_service(&map, "web"), web);
    assert_eq!(register(&map, &web, "a", json!({})).await["Status"], "SUCCESS");
}

#[tokio::test(start_paused = true)]
async fn a_creation_that_loses_a_race_is_answered_without_a_name() {
    let map = cloud_map();
    let service_creation_race = Duration::from_secs(1);
    map.behave(Behaviour { service_creation_race, ..Behaviour::default() });
    let shop = map.namespace("shop", NamespaceKind::Http);
    let create = json!({ "Name": "web", "NamespaceId": shop });
    done(&map, "CreateService", create.clone()).await;
    assert_eq!(call(&map, "CreateService", create.clone()).await, (500, json!({})));
    tokio::time::sleep(service_creation_race).await;
    assert_eq!(refused(&map, "CreateService", create).await, "ServiceAlreadyExists");
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
