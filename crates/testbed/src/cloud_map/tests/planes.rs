//! The two planes: the delays of List, Get and Discover, health that is not an attribute, and the `data-` host.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::Behaviour;
use super::{cloud_map, discover, done, http_service, refused, register, registration};

fn found(answer: &Value) -> usize {
    answer["Instances"].as_array().map_or(0, Vec::len)
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
