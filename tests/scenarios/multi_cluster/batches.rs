//! Batches of messages about several clusters: each message is about one cluster and its names, and whatever none of
//! them names is as Cloud Map has it.

use serde_json::{Value, json};

use super::{Members, exported, imported, pods, service, sources, web};
use crate::queue::{batch, failures, message};
use testbed::function::invoke;

fn about(cluster: &str, service: &str) -> Value {
    json!({ "cluster": cluster, "namespace": "shop", "service": service })
}

/// blue and green both export `web` and `api`, all in step.
async fn both_export() -> Members {
    let members = Members::start().await;
    for (number, cluster) in [(0, &members.blue), (1, &members.green)] {
        let api = service("api");
        exported(cluster, web(), &[&format!("10.{number}.0.1")]);
        exported(cluster, api, &[&format!("10.{number}.0.2")]);
    }
    members.converge().await;
    members
}

#[tokio::test]
async fn message_about_a_cluster_says_nothing_of_its_other_names() {
    let batches: [&[Value]; 6] = [
        &[about("blue", "api"), about("green", "web")],
        &[json!({ "cluster": "blue", "namespace": "other" }), about("green", "web")],
        &[json!({ "action": "sync", "cluster": "blue" }), about("green", "web")],
        &[
            json!({ "cluster": "blue", "namespace": "shop", "service": "web", "import": true }),
            about("green", "api"),
        ],
        &[about("blue", "other"), about("green", "another")],
        &[about("blue", "other"), json!({ "cluster": "green", "namespace": "shop" })],
    ];
    for bodies in batches {
        let members = both_export().await;
        pods(&members.green, "web", &["10.1.0.1", "10.1.0.9"]);
        let records = bodies.iter().enumerate().map(|(id, body)| message(&id.to_string(), body));
        let records: Vec<_> = records.collect();

        let invoked = invoke(&members.function, &batch(&records)).await;

        assert_eq!(failures(&invoked), [""; 0], "{bodies:?}");
        let is_read = bodies.iter().any(|it| {
            it["cluster"] == "green" && (it["service"] == "web" || it["service"].is_null())
        });
        let of_green: &[&str] =
            if is_read { &["10.1.0.1:8080", "10.1.0.9:8080"] } else { &["10.1.0.1:8080"] };
        for cluster in [&members.blue, &members.green] {
            let web = sources([("blue", &["10.0.0.1:8080"]), ("green", of_green)]);
            assert_eq!(imported(cluster, "web"), web, "{bodies:?}");
            let api = sources([("blue", &["10.0.0.2:8080"]), ("green", &["10.1.0.2:8080"])]);
            assert_eq!(imported(cluster, "api"), api, "{bodies:?}");
        }
    }
}
