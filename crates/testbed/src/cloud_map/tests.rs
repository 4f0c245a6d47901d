//! The guard of the ownership rule: allowed changes, violations, and the panic at the end of a test. Also what neither
//! the suite of Cloud Map's behaviours nor a scenario would miss. By request and reply with tokio's clock paused, and
//! without a client library.

use std::time::Duration;

use axum::body::{Bytes, to_bytes};
use axum::http::Request;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Behaviour, CloudMap, Fault, FaultKind, NamespaceKind, RecordType, ServiceKind};

/// The answer to a call, null where it is empty.
async fn call(map: &CloudMap, operation: &str, body: Value) -> Value {
    let request = Request::post("/").header("content-type", "application/x-amz-json-1.1");
    let request = request.body(Bytes::from(body.to_string())).expect("a request");
    let answer = map.wire().answer(operation, &request).await;
    let body = to_bytes(answer.into_body(), usize::MAX).await.expect("a whole body");
    serde_json::from_slice(&body).unwrap_or_default()
}

fn registration(service: &str, instance: &str, attributes: &Value) -> Value {
    json!({ "ServiceId": service, "InstanceId": instance, "Attributes": attributes })
}

/// Registers and waits for the operation; how it ended.
async fn register(map: &CloudMap, service: &str, instance: &str, attributes: Value) -> Value {
    let accepted =
        call(map, "RegisterInstance", registration(service, instance, &attributes)).await;
    ended(map, &accepted).await
}

async fn deregister(map: &CloudMap, service: &str, instance: &str) -> Value {
    call(map, "DeregisterInstance", json!({ "ServiceId": service, "InstanceId": instance })).await
}

/// The operation that a call was answered with, after it has ended.
async fn ended(map: &CloudMap, accepted: &Value) -> Value {
    tokio::time::sleep(Duration::from_millis(30)).await;
    let answer = call(map, "GetOperation", json!({ "OperationId": accepted["OperationId"] })).await;
    answer["Operation"].clone()
}

const CLUSTER: &str = "arn:aws:eks:us-west-2:111122223333:cluster/one";

fn marks(cluster: &str) -> Value {
    json!({ "AWS_INSTANCE_IPV4": "10.0.0.1", "cloud-map-sync/owner": "me", "cloud-map-sync/cluster": cluster })
}

/// A service as ECS service discovery has it, with an instance of ECS.
fn watched() -> (CloudMap, String) {
    let map = CloudMap::new("us-west-2", "111122223333");
    let namespace = map.namespace("corp.local", NamespaceKind::DnsPrivate);
    let records = ServiceKind::Dns { records: vec![(RecordType::A, 60)], custom_health: true };
    let web = map.service(&namespace, "web", records);
    map.instance(&web, "task", &[("AWS_INSTANCE_IPV4", "10.9.9.9"), ("ECS_SERVICE_NAME", "web")]);
    map.watch_over("me", &[CLUSTER]);
    (map, web)
}

#[tokio::test(start_paused = true)]
async fn our_own_instances_may_come_change_and_go_beside_what_others_do() {
    let (map, web) = watched();
    register(&map, &web, "ours", marks(CLUSTER)).await;
    map.instance(&web, "task", &[("AWS_INSTANCE_IPV4", "10.9.9.8")]);
    register(&map, &web, "ours", marks(CLUSTER)).await;
    map.withdraw(&web, "task");
    let accepted = deregister(&map, &web, "ours").await;
    ended(&map, &accepted).await;
    assert_eq!((map.violations(), map.instances(&web).len()), (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn a_foreign_instance_overwritten_is_seen_when_asked_for_and_when_done() {
    let (map, web) = watched();
    register(&map, &web, "task", marks(CLUSTER)).await;
    let violations = map.take_violations();
    assert!(violations[0].contains("aims at a foreign instance"), "{violations:?}");
    assert!(violations[1].contains("ECS_SERVICE_NAME"), "{violations:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_throttled_was_made_all_the_same() {
    let (map, web) = watched();
    map.inject(Fault::on("*", FaultKind::Throttling).always());
    let body = json!({ "ServiceId": web, "InstanceId": "task" });
    let answer = call(&map, "DeregisterInstance", body).await;
    assert_eq!(answer["__type"], "ThrottlingException");
    assert_eq!(map.take_violations().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn marks_of_no_owner_or_of_another_cluster_are_seen() {
    let (map, web) = watched();
    for attributes in [
        json!({ "AWS_INSTANCE_IPV4": "10.0.0.1" }),
        marks("arn:aws:eks:us-west-2:111122223333:cluster/two"),
    ] {
        call(&map, "RegisterInstance", registration(&web, "new", &attributes)).await;
        assert!(map.take_violations()[0].contains("marks that are not ours"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_unmarked_instance_is_seen_again_when_it_is_there() {
    let (map, web) = watched();
    register(&map, &web, "new", json!({ "AWS_INSTANCE_IPV4": "10.0.0.1" })).await;
    assert!(map.take_violations()[1].contains("the instance new came without our marks"));
}

#[tokio::test(start_paused = true)]
async fn an_operation_of_a_former_owner_may_end_under_the_next_one() {
    let (map, web) = watched();
    let body = registration(&web, "ours", &marks(CLUSTER));
    let accepted = call(&map, "RegisterInstance", body).await;
    map.watch_over("you", &[CLUSTER]);
    ended(&map, &accepted).await;
    assert_eq!(map.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_foreign_instance_that_changes_in_another_way_than_by_an_operation_is_seen_in_the_end() {
    let (map, web) = watched();
    let mut state = map.look();
    let now = Instant::now();
    let service = state.services.get_mut(&web).expect("it is there");
    service.put("task", now, (now, now), None);
    drop(state);
    assert!(map.take_violations()[0].starts_with("unseen: the foreign instance task"));
    map.look().services.get_mut(&web).expect("it is there").instances.clear();
    map.watch_over("me", &[CLUSTER]);
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_not_moved_between_our_own_clusters() {
    let (map, web) = watched();
    let other = "arn:aws:eks:us-west-2:111122223333:cluster/two";
    map.watch_over("me", &[CLUSTER, other]);
    register(&map, &web, "ours", marks(CLUSTER)).await;
    call(&map, "RegisterInstance", registration(&web, "ours", &marks(other))).await;
    assert!(map.take_violations()[0].contains("takes an instance from the cluster"));
    map.behave(Behaviour { list_lag: Duration::from_secs(1), ..Behaviour::default() });
    register(&map, &web, "new", marks(CLUSTER)).await;
    call(&map, "RegisterInstance", registration(&web, "new", &marks(other))).await;
    assert_eq!(map.take_violations(), [""; 0], "no read shows it yet");
}

#[tokio::test]
#[should_panic(expected = "instances that are not ours were touched")]
async fn the_last_handle_panics_with_the_violations_though_a_server_still_runs() {
    let (map, web) = watched();
    let _server = map.wire();
    deregister(&map, &web, "task").await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_may_be_adopted_becomes_ours_and_no_other_does() {
    let (map, web) = watched();
    map.instance(&web, "other", &[("AWS_INSTANCE_IPV4", "10.9.9.8")]);
    map.allow_adoption(&[(&web, "task")]);
    let mut adopted = marks(CLUSTER);
    adopted["ECS_SERVICE_NAME"] = "web".into();
    register(&map, &web, "task", adopted.clone()).await;
    register(&map, &web, "task", marks(CLUSTER)).await;
    let accepted = deregister(&map, &web, "task").await;
    ended(&map, &accepted).await;
    assert_eq!(map.violations(), Vec::<String>::new());
    register(&map, &web, "other", adopted).await;
    assert!(map.take_violations()[0].contains("aims at a foreign instance"));
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_may_be_adopted_is_not_taken_out() {
    let (map, web) = watched();
    map.allow_adoption(&[(&web, "task")]);
    deregister(&map, &web, "task").await;
    assert!(map.take_violations()[0].contains("aims at a foreign instance"));
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_may_be_adopted_keeps_its_attributes() {
    let (map, web) = watched();
    map.allow_adoption(&[(&web, "task")]);
    register(&map, &web, "task", marks(CLUSTER)).await;
    assert!(map.take_violations()[0].contains("loses attributes"));
    map.allow_adoption(&[]);
    map.instance(&web, "task", &[("AWS_INSTANCE_IPV4", "10.9.9.9")]);
    register(&map, &web, "task", marks(CLUSTER)).await;
    assert!(map.take_violations()[0].contains("aims at a foreign instance"));
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_gone_but_still_listed_cannot_be_deregistered_again() {
    let (map, web) = watched();
    register(&map, &web, "ours", marks(CLUSTER)).await;
    map.behave(Behaviour { list_lag: Duration::from_mins(1), ..Behaviour::default() });
    let accepted = deregister(&map, &web, "ours").await;
    ended(&map, &accepted).await;
    assert_eq!(deregister(&map, &web, "ours").await["__type"], "InstanceNotFound");
}

#[tokio::test]
async fn statuses_of_the_model_are_a_dial() {
    let (map, web) = watched();
    for (statuses_of_the_model, expected) in [(false, 400), (true, 404)] {
        map.behave(Behaviour { statuses_of_the_model, ..Behaviour::default() });
        call(&map, "GetInstance", json!({ "ServiceId": web, "InstanceId": "gone" })).await;
        assert_eq!(map.calls().last().map(|call| call.status), Some(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_operation_blocks_its_instance_for_ever() {
    let (map, web) = watched();
    map.inject(Fault::on("RegisterInstance", FaultKind::OperationHangs));
    let body = registration(&web, "ours", &marks(CLUSTER));
    let accepted = call(&map, "RegisterInstance", body.clone()).await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(ended(&map, &accepted).await["Status"], "PENDING");
    assert_eq!(call(&map, "RegisterInstance", body).await["__type"], "DuplicateRequest");
}
