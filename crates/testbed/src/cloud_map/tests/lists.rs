//! Lists: pages are cut before they are filtered, and names in a DNS namespace conflict regardless of case.

use serde_json::json;

use super::super::Behaviour;
use super::{cloud_map, done, http_service, refused};

#[tokio::test]
async fn a_page_limit_makes_pages_of_a_small_registry() {
    let map = cloud_map();
    let web = http_service(&map, "web");
    for id in ["a", "b", "c"] {
        map.instance(&web, id, &[]);
    }
    map.behave(Behaviour { page_limit: 2, ..Behaviour::default() });
    let first = done(&map, "ListInstances", json!({ "ServiceId": web })).await;
    let second =
        done(&map, "ListInstances", json!({ "ServiceId": web, "NextToken": first["NextToken"] }))
            .await;
    assert_eq!(
        (first["Instances"].as_array().map(Vec::len), &second["Instances"][0]["Id"]),
        (Some(2), &json!("c"))
    );
    let foreign = json!({ "NextToken": first["NextToken"] });
    assert_eq!(refused(&map, "ListServices", foreign).await, "InvalidInput");
}
