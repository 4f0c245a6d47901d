//! The conditions of endpoints that are leaving.

use serde_json::{Value, json};

use super::{Members, exported, slices, web};
use testbed::kubernetes::Pod;

const OLD: &str = "2026-01-01T00:00:00Z";

#[tokio::test]
async fn endpoint_that_serves_while_it_terminates_is_in_the_import_and_not_in_cloud_map() {
    let members = Members::start().await;
    let Members { blue, green, fleet, .. } = &members;
    exported(blue, web(), &["10.0.0.1", "10.0.0.2"], OLD);
    let leaving = [
        Pod::new("web-1", "10.0.0.1").terminating(),
        Pod::new("web-2", "10.0.0.2"),
        Pod::new("web-3", "10.0.0.3").not_ready().terminating(),
    ];
    blue.pods("shop", "web", &leaving);

    members.converge().await;

    for cluster in [blue, green] {
        let slice = &slices(cluster, "web")[0];
        let endpoints = slice["endpoints"].as_array().expect("endpoints");
        let conditions: Vec<(&Value, &Value)> =
            endpoints.iter().map(|it| (&it["addresses"][0], &it["conditions"])).collect();
        let expected = [
            (&json!("10.0.0.1"), &json!({"ready": false, "serving": true, "terminating": true})),
            (&json!("10.0.0.2"), &json!({"ready": true, "serving": true, "terminating": false})),
        ];
        assert_eq!(conditions, expected);
    }
    assert_eq!(fleet.addresses("shop", "web"), ["10.0.0.2"]);
}
