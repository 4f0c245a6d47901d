//! Several Services of one cluster that share a name: the endpoints of all are found under it, and
//! each takes out its own.

use serde_json::json;

use crate::fleet::{Fleet, annotated};
use crate::queue::{batch, failures, message};
use crate::run::{converge, sync_service, writes};
use testbed::function::invoke;

const OLD: &str = "2026-01-01T00:00:00Z";
const YOUNG: &str = "2026-06-01T00:00:00Z";

/// `old` and `young` share `prod/web`, each with these pods.
async fn sharing(old: &[&str], young: &[&str]) -> Fleet {
    let fleet = Fleet::start().await;
    for (service, created, pods) in [("old", OLD, old), ("young", YOUNG, young)] {
        let shared =
            annotated(service, "prod", "web").annotate("cloudmap.controller/claim", "shared");
        fleet.service(shared.created(created));
        fleet.pods(service, pods);
    }
    fleet
}

/// The Services in the marks under `prod/web`, sorted by the addresses of their instances.
fn marked(fleet: &Fleet) -> Vec<String> {
    let instances = fleet.instances("prod", "web").into_values();
    let mut marks: Vec<(String, String)> = instances
        .map(|it| (it["AWS_INSTANCE_IPV4"].clone(), it["cloud-map-sync/service"].clone()))
        .collect();
    marks.sort();
    marks.into_iter().map(|(address, service)| format!("{service} {address}")).collect()
}

#[tokio::test]
async fn message_about_one_of_them_creates_the_service_and_touches_nothing_of_the_other() {
    let fleet = sharing(&["10.0.1.1"], &["10.0.1.2"]).await;
    let function = fleet.function().await;
    let about = |service: &str| {
        let scope = json!({ "cluster": "blue", "namespace": "shop", "service": service });
        batch(&[message("a", &scope)])
    };
    let answer = invoke(&function, &about("young")).await;
    assert_eq!(failures(&answer), [""; 0]);
    assert_eq!(writes(&fleet), ["CreateService web", "RegisterInstance web"]);
    assert_eq!(marked(&fleet), ["young 10.0.1.2"]);
    invoke(&function, &about("old")).await;
    for service in ["old", "young"] {
        fleet.pods(service, &["10.0.1.3"]);
    }
    fleet.cloud_map.forget_calls();

    // The new pod is of both: the older registers it.
    sync_service(&function, "young").await;
    assert_eq!(marked(&fleet), ["old 10.0.1.1", "young 10.0.1.2"]);
    sync_service(&function, "old").await;
    assert_eq!(marked(&fleet), ["young 10.0.1.2", "old 10.0.1.3"]);
    converge(&fleet, &function).await;
    assert_eq!(marked(&fleet), ["old 10.0.1.3"]);
}
