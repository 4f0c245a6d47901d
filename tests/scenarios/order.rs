//! The order of what is done: the new is there before the old goes, also when the marks alone tell what became of a
//! Service while the function was not running.

use crate::fleet::{Fleet, annotated};
use crate::queue::{batch_about, failures};
use crate::run::{converge, converged, held_back, settled, sync};
use testbed::cloud_map::{Fault, FaultKind, RecordType};
use testbed::function::invoke;

#[tokio::test]
async fn pod_that_is_ready_again_by_the_second_look_is_not_taken_out() {
    let (fleet, function) = Fleet::in_step("web", "prod", &["10.0.1.1", "10.0.1.2"]).await;
    fleet.cloud_map.forget_calls();
    // While the new pod is being registered the old one comes back.
    let slow = FaultKind::Late(std::time::Duration::from_millis(400));
    fleet.cloud_map.inject(Fault::on("RegisterInstance", slow));
    fleet.pods("web", &["10.0.1.1", "10.0.1.3"]);
    let (report, ()) = tokio::join!(sync(&function), async {
        fleet.called("RegisterInstance").await;
        fleet.pods("web", &["10.0.1.1", "10.0.1.2", "10.0.1.3"]);
    });

    assert_eq!(report.counts.deregistered, 0, "{report}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.1.2", "10.0.1.3"]);
    settled(&fleet, &function).await;
}

#[tokio::test]
async fn name_of_a_holder_without_ready_pods_passes_on_in_the_same_sync() {
    let fleet = Fleet::start().await;
    fleet.service(annotated("young", "prod", "web").created("2026-06-01T00:00:00Z"));
    fleet.pods("young", &["10.0.1.2"]);
    let function = converged(&fleet).await;
    fleet.service(annotated("old", "prod", "web").created("2026-01-01T00:00:00Z"));
    fleet.pods("old", &["10.0.1.1"]);
    fleet.pods("young", &[]);

    let report = sync(&function).await;

    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"], "{report}");
    assert_eq!(held_back(&report), ["DomainConflict"], "{report}");
    assert!(
        report.to_string().contains("shop/young (DomainConflict): Service shop/old"),
        "{report}"
    );
    settled(&fleet, &function).await;
}

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

        let answer = invoke(&fleet.function().await, &batch_about("blue", "web")).await;

        assert_eq!(failures(&answer), [""; 0], "{how}");
        assert_eq!(found(&fleet), [vec![], vec![], vec!["10.0.9.1"]], "{how}");
    }
}
