//! The two planes: the delays of List, Get and Discover, health that is not an attribute, and the `data-` host.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::{Behaviour, CloudMap, RecordType};
use super::{
    call, cloud_map, discover, dns_service, done, http_service, refused, register, registration,
};

fn found(answer: &Value) -> usize {
    answer["Instances"].as_array().map_or(0, Vec::len)
}

async fn health(map: &CloudMap, service: &str, instance: &str) -> Value {
    done(map, "GetInstancesHealthStatus", json!({ "ServiceId": service })).await["Status"][instance]
        .clone()
}

#[tokio::test(start_paused = true)]
async fn a_finished_change_reaches_each_plane_after_its_own_lag() {
    let map = cloud_map();
    let (list_lag, discover_lag) = (Duration::from_secs(1), Duration::from_secs(2));
    map.behave(Behaviour { list_lag, discover_lag, ..Behaviour::default() });
    let web = http_service(&map, "web");
    let (list, named) =
        (json!({ "ServiceId": web }), json!({ "NamespaceName": "shop", "ServiceName": "web" }));
    register(&map, &web, "a", json!({})).await;
    let early = registration(&web, "a", &json!({}));
    assert_eq!(refused(&map, "DeregisterInstance", early).await, "InstanceNotFound");
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push((
            found(&done(&map, "ListInstances", list.clone()).await),
            found(&discover(&map, named.clone()).await),
        ));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(seen, [(0, 0), (1, 0), (1, 1)]);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_gone_but_still_listed_cannot_be_deregistered_again() {
    let map = cloud_map();
    map.behave(Behaviour { list_lag: Duration::from_mins(1), ..Behaviour::default() });
    let web = http_service(&map, "web");
    map.instance(&web, "a", &[]);
    let of = json!({ "ServiceId": web, "InstanceId": "a" });
    done(&map, "DeregisterInstance", of.clone()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    done(&map, "GetInstance", of.clone()).await;
    assert_eq!(refused(&map, "DeregisterInstance", of).await, "InstanceNotFound");
}

#[tokio::test(start_paused = true)]
async fn a_reported_status_acts_late_and_leaves_the_attribute_alone() {
    let map = cloud_map();
    let web = dns_service(&map, &[RecordType::A]);
    map.instance(
        &web,
        "a",
        &[("AWS_INSTANCE_IPV4", "10.0.0.1"), ("AWS_INIT_HEALTH_STATUS", "UNHEALTHY")],
    );
    let report = json!({ "ServiceId": web, "InstanceId": "a", "Status": "HEALTHY" });
    assert_eq!(
        call(&map, "UpdateInstanceCustomHealthStatus", report.clone()).await,
        (200, Value::Null)
    );
    tokio::time::sleep(Duration::from_millis(200)).await;
    done(&map, "UpdateInstanceCustomHealthStatus", report).await;
    assert_eq!(health(&map, &web, "a").await, "UNHEALTHY");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(health(&map, &web, "a").await, "HEALTHY", "a repetition neither hastens nor delays");
    assert_eq!(map.instances(&web)["a"]["AWS_INIT_HEALTH_STATUS"], "UNHEALTHY");
}

#[tokio::test(start_paused = true)]
async fn the_health_of_a_new_instance_is_known_later_and_a_registration_over_it_starts_it_anew() {
    let map = cloud_map();
    map.behave(Behaviour { health_lag: Duration::from_secs(1), ..Behaviour::default() });
    let web = dns_service(&map, &[RecordType::A]);
    let of =
        |initial| json!({ "AWS_INSTANCE_IPV4": "10.0.0.1", "AWS_INIT_HEALTH_STATUS": initial });
    let report = json!({ "ServiceId": web, "InstanceId": "a", "Status": "HEALTHY" });
    register(&map, &web, "a", of("UNHEALTHY")).await;
    assert_eq!(health(&map, &web, "a").await, "UNKNOWN");
    let refused = refused(&map, "UpdateInstanceCustomHealthStatus", report.clone()).await;
    assert_eq!(refused, "InstanceNotFound");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(health(&map, &web, "a").await, "UNHEALTHY");
    done(&map, "UpdateInstanceCustomHealthStatus", report).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(health(&map, &web, "a").await, "HEALTHY");
    register(&map, &web, "a", of("UNHEALTHY")).await;
    assert_eq!(health(&map, &web, "a").await, "UNHEALTHY");
}

#[tokio::test]
async fn health_is_reported_only_where_a_custom_check_was_configured() {
    let map = cloud_map();
    let web = http_service(&map, "web");
    map.instance(&web, "a", &[]);
    let report = json!({ "ServiceId": web, "InstanceId": "a", "Status": "HEALTHY" });
    assert_eq!(
        refused(&map, "UpdateInstanceCustomHealthStatus", report).await,
        "CustomHealthNotFound"
    );
    assert_eq!(health(&map, &web, "a").await, "UNKNOWN");
}

#[tokio::test]
async fn discovery_gives_a_hundred_unless_asked_for_more_and_is_known_on_the_data_host_alone() {
    let map = cloud_map();
    let web = http_service(&map, "web");
    (0..150).for_each(|number| map.instance(&web, &format!("i{number:03}"), &[]));
    let named = json!({ "NamespaceName": "shop", "ServiceName": "web" });
    assert_eq!(
        refused(&map, "DiscoverInstances", named.clone()).await,
        "UnknownOperationException"
    );
    assert_eq!(found(&discover(&map, named.clone()).await), 100);
    let all = json!({ "NamespaceName": "shop", "ServiceName": "web", "MaxResults": 1000 });
    let (first, second) = (discover(&map, all.clone()).await, discover(&map, all).await);
    assert_eq!((found(&first), found(&second)), (150, 150));
    assert_ne!(first["Instances"], second["Instances"], "the order is another one each time");
}

#[tokio::test]
async fn discovery_filters_by_health_only_where_there_is_a_check() {
    let map = cloud_map();
    let (dns, http) = (dns_service(&map, &[RecordType::A]), http_service(&map, "web"));
    map.instance(&dns, "a", &[("AWS_INIT_HEALTH_STATUS", "UNHEALTHY")]);
    map.instance(&http, "a", &[]);
    let ask = |namespace, filter| json!({ "NamespaceName": namespace, "ServiceName": "web", "HealthStatus": filter });
    let mut seen = Vec::new();
    for filter in ["HEALTHY", "HEALTHY_OR_ELSE_ALL", "ALL"] {
        let (dns, http) = (
            discover(&map, ask("corp.local", filter)).await,
            discover(&map, ask("shop", filter)).await,
        );
        seen.push((found(&dns), found(&http)));
    }
    assert_eq!(seen, [(0, 1), (1, 1), (1, 1)]);
}
