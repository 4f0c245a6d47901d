//! EKS rotates the certificate authority of a cluster: DescribeCluster returns the old one, then both in one PEM bundle,
//! then the new one, and meanwhile the API server changes from a certificate of the old one to one of the new one. The
//! function verifies the real TLS of the stand-in.

use cloud_map_sync::function::Function;
use serde_json::json;

use crate::fleet::Fleet;
use crate::run::{converge, sync};
use testbed::function::invoke;

/// A step of a rotation.
type Step = fn(&Fleet);

/// The steps in the order of EKS, each with the endpoint that is new after it.
const ROTATION: [(&str, Step, &str); 4] = [
    ("before", |_| (), "10.0.1.1"),
    ("both, the old one signs", |fleet| fleet.cluster.begin_rotation(), "10.0.1.2"),
    ("both, the new one signs", |fleet| fleet.cluster.serve_newest_certificate(), "10.0.1.3"),
    ("the new one alone", |fleet| fleet.cluster.end_rotation(), "10.0.1.4"),
];

/// A cluster in step whose connections last for one request.
async fn fleet() -> Fleet {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
    fleet.sandbox.use_sockets();
    fleet.cluster.close_connections();
    fleet
}

/// Gives the Service the endpoint alone, and syncs it.
async fn moves_to(fleet: &Fleet, function: &Function, address: &str, step: &str) {
    fleet.pods("web", &[address]);
    let report = sync(function).await;
    assert!(report.ok, "{step}: {report}");
    assert_eq!(fleet.addresses("prod", "web"), [address], "{step}: {report}");
}

#[tokio::test]
async fn new_process_trusts_the_server_in_each_step_of_a_rotation() {
    let fleet = fleet().await;
    for (name, step, address) in ROTATION {
        step(&fleet);
        moves_to(&fleet, &fleet.function().await, address, name).await;
    }
}

#[tokio::test]
async fn process_that_remembers_an_earlier_bundle_fails_in_no_later_step() {
    for first in 0..ROTATION.len() {
        let fleet = fleet().await;
        let function = fleet.function().await;
        for (index, (name, step, address)) in ROTATION.into_iter().enumerate() {
            step(&fleet);
            if index >= first {
                moves_to(&fleet, &function, address, name).await;
            }
        }
    }
}

/// Not only a sync, which may run in another process, asks EKS again.
#[tokio::test]
async fn every_action_of_a_process_that_remembers_the_old_authority_asks_eks_again() {
    for action in ["explain", "plan", "status", "doctor", "purge"] {
        let fleet = fleet().await;
        let function = fleet.function().await;
        converge(&fleet, &function).await;
        fleet.cluster.begin_rotation();
        fleet.cluster.serve_newest_certificate();
        fleet.cluster.end_rotation();
        let mut payload = json!({ "action": action });
        if action == "explain" {
            payload["namespace"] = json!("shop");
            payload["service"] = json!("web");
        }
        if action == "purge" {
            payload["cluster"] = json!(fleet.sandbox.cluster_arn("blue"));
        }

        let answer = invoke(&function, &payload).await;

        let response = answer.response.map_err(|error| error.to_string());
        let text = response.unwrap_or_else(|error| panic!("{action}: {error}")).to_string();
        assert!(!text.contains("certificate"), "{action}: {text}");
    }
}
