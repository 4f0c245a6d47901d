//! What became of a Service while the function was not running is found from the marks alone, in
//! whatever Cloud Map service its instances lie. Every test goes on with a function that knows nothing.

use serde_json::json;

use crate::fleet::{Fleet, annotated};
use crate::queue::{batch, failures, message};
use crate::run::converge;
use testbed::cloud_map::RecordType;
use testbed::function::invoke;

/// `web` with two pods under `prod/web` and `prod/www`, what is left of an earlier name of it in
/// `prod.local/legacy`, and an ECS task there.
async fn registered() -> Fleet {
    let fleet = Fleet::start().await;
    fleet.service(annotated("web", "prod", "web,www").uid("first"));
    fleet.pods("web", &["10.0.1.1", "10.0.1.2"]);
    converge(&fleet, &fleet.function().await).await;
    let legacy = fleet.dns_service("legacy", &[RecordType::A]);
    fleet.put(&legacy, "left", &fleet.ours("web", "10.0.1.1"));
    fleet.ecs_task(&legacy, "0123456789abcdef0123456789abcdef", "10.0.9.1");
    fleet.cloud_map.forget_calls();
    fleet
}

/// The addresses under the three names.
fn found(fleet: &Fleet) -> [Vec<String>; 3] {
    [("prod", "web"), ("prod", "www"), ("prod.local", "legacy")]
        .map(|(namespace, name)| fleet.addresses(namespace, name))
}

fn end(fleet: &Fleet, how: &str) {
    match how {
        "annotation removed" => fleet.annotate("web", "hostname", ""),
        "deleted" => _ = fleet.cluster.delete_service("shop", "web"),
        "not headless any more" => {
            fleet.cluster.delete_service("shop", "web");
            fleet.service(annotated("web", "prod", "web").cluster_ip("10.100.0.7"));
        }
        _ => {
            fleet.web("cart", "prod", &["10.0.1.5"]);
            for service in ["web", "cart"] {
                fleet.cluster.delete_service("shop", service);
            }
        }
    }
}

#[tokio::test]
async fn message_about_a_service_that_ended_takes_it_out_in_that_run() {
    for how in
        ["annotation removed", "deleted", "not headless any more", "Kubernetes namespace deleted"]
    {
        let fleet = registered().await;
        end(&fleet, how);
        let scope = json!({ "cluster": "blue", "namespace": "shop", "service": "web" });

        let answer = invoke(&fleet.function().await, &batch(&[message("a", &scope)])).await;

        assert_eq!(failures(&answer), [""; 0], "{how}");
        assert_eq!(found(&fleet), [vec![], vec![], vec!["10.0.9.1"]], "{how}");
    }
}
