//! The guard of the ownership rule: allowed changes, violations, and the panic at the end of a test.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::{Behaviour, CloudMap, Fault, FaultKind, RecordType};
use super::{call, cloud_map, dns_service, ended, http_service, refused, register, registration};

const CLUSTER: &str = "arn:aws:eks:us-west-2:111122223333:cluster/one";

fn marks(cluster: &str) -> Value {
    json!({ "AWS_INSTANCE_IPV4": "10.0.0.1", "cloud-map-sync/owner": "me", "cloud-map-sync/cluster": cluster })
}

fn watched() -> (CloudMap, String) {
    let map = cloud_map();
    let web = dns_service(&map, &[RecordType::A]);
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
    let (_, accepted) =
        call(&map, "DeregisterInstance", json!({ "ServiceId": web, "InstanceId": "ours" })).await;
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
async fn a_foreign_instance_deregistered_is_seen_while_the_change_is_in_flight() {
    let (map, web) = watched();
    call(&map, "DeregisterInstance", json!({ "ServiceId": web, "InstanceId": "task" })).await;
    assert_eq!(map.take_violations().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_throttled_was_made_all_the_same() {
    let (map, web) = watched();
    map.inject(Fault::on("*", FaultKind::Throttling).always());
    let body = json!({ "ServiceId": web, "InstanceId": "task", "Status": "UNHEALTHY" });
    assert_eq!(
        refused(&map, "UpdateInstanceCustomHealthStatus", body).await,
        "ThrottlingException"
    );
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
    let (_, accepted) = call(&map, "RegisterInstance", body).await;
    map.watch_over("you", &[CLUSTER]);
    ended(&map, &accepted).await;
    assert_eq!(map.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_foreign_instance_that_changes_in_another_way_than_by_an_operation_is_seen_in_the_end() {
    let (map, web) = watched();
    let (mut state, now) = (map.look(), Instant::now());
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
    call(&map, "DeregisterInstance", json!({ "ServiceId": web, "InstanceId": "task" })).await;
}

#[tokio::test]
async fn nothing_is_guarded_before_it_is_said_whose_marks_are_ours() {
    let map = cloud_map();
    let web = http_service(&map, "web");
    call(&map, "RegisterInstance", registration(&web, "a", &json!({}))).await;
    assert_eq!(map.violations(), Vec::<String>::new());
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
    let (_, accepted) =
        call(&map, "DeregisterInstance", json!({ "ServiceId": web, "InstanceId": "task" })).await;
    ended(&map, &accepted).await;
    assert_eq!(map.violations(), Vec::<String>::new());
    register(&map, &web, "other", adopted).await;
    assert!(map.take_violations()[0].contains("aims at a foreign instance"));
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_may_be_adopted_is_not_taken_out() {
    let (map, web) = watched();
    map.allow_adoption(&[(&web, "task")]);
    call(&map, "DeregisterInstance", json!({ "ServiceId": web, "InstanceId": "task" })).await;
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
