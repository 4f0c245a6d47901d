//! One pod that changed, told by a message: its cost does not grow with the registry, and the message is done when the
//! removal of the old instance is. The registry has 500 instances instead of the 20,000 of
//! `crates/testbed/benches/syncs`: registering those would take most of the time of all scenarios, and one more read
//! for each Service or page shows among 500 too.

use std::time::Duration;

use cloud_map_sync::function::Function;
use serde_json::json;
use tokio::time::Instant;

use crate::fleet::Fleet;
use crate::queue::{batch, failures, message};
use crate::run::converge;
use testbed::cloud_map::Behaviour;
use testbed::function::invoke;

/// So many Services with ten pods each, in two namespaces and in step.
async fn in_step(services: usize) -> (Fleet, Function) {
    let fleet = Fleet::start().await;
    for service in 0..services {
        let addresses: Vec<String> = (0..10).map(|pod| address(service, pod)).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let namespace = ["prod", "prod.local"][service % 2];
        fleet.web(&format!("web-{service}"), namespace, &addresses);
    }
    let function = fleet.function_with(&[("QUOTA_SHARE", "1000")]).await;
    converge(&fleet, &function).await;
    fleet.sandbox.aws().forget_requests();
    fleet.cluster.forget_requests();
    (fleet, function)
}

fn address(service: usize, pod: usize) -> String {
    format!("10.0.{service}.{pod}")
}

/// Replaces the first pod of the first Service, and delivers the message about it.
async fn replace_pod(fleet: &Fleet, function: &Function) {
    let addresses: Vec<String> = (1..11).map(|pod| address(0, pod)).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    fleet.pods("web-0", &addresses);
    let of_pod = json!({ "cluster": "blue", "namespace": "shop", "service": "web-0" });
    let answer = invoke(function, &batch(&[message("a", &of_pod)])).await;
    assert_eq!(failures(&answer), [""; 0]);
    let mut expected: Vec<&str> = addresses;
    expected.sort_unstable();
    assert_eq!(fleet.addresses("prod", "web-0"), expected);
}

#[tokio::test(start_paused = true)]
async fn pod_costs_the_same_calls_among_five_hundred_instances_as_among_ten() {
    let mut costs = Vec::new();
    for services in [1, 50] {
        let (fleet, function) = in_step(services).await;
        replace_pod(&fleet, &function).await;
        let of_aws = fleet.sandbox.aws().requests().into_iter().map(|request| request.operation);
        let of_aws: Vec<String> = of_aws.collect();
        let mut of_cluster: Vec<String> =
            fleet.cluster.requests().into_iter().map(|request| request.path).collect();
        of_cluster.sort();
        costs.push((of_aws, of_cluster));
    }
    let expected = [
        "ListInstances",
        "RegisterInstance",
        "GetOperation",
        "ListInstances",
        "DeregisterInstance",
        "GetOperation",
    ];
    assert_eq!(costs[0].0, expected);
    assert_eq!(costs[0], costs[1]);
}

#[tokio::test(start_paused = true)]
async fn message_is_done_when_the_operation_of_the_removal_has_ended() {
    let (fleet, function) = in_step(1).await;
    let (latency, operation_delay) = (Duration::from_millis(20), Duration::from_secs(2));
    fleet.cloud_map.behave(Behaviour { operation_delay, latency, ..Behaviour::default() });
    let start = Instant::now();

    replace_pod(&fleet, &function).await;

    // The registration's operation, then that of the removal.
    assert!(start.elapsed() > 2 * operation_delay, "{:?}", start.elapsed());
}
