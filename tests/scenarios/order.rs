//! The order of what is done: the new is there before the old goes, and no name empties on the way
//! while its Service has ready pods.

use crate::fleet::{Fleet, annotated};
use crate::run::{converge, held_back, settled, sync, writes};
use testbed::cloud_map::{Fault, FaultKind};

/// A converged world of `web` with two pods in `prod/web`.
async fn web() -> (Fleet, cloud_map_sync::function::Function) {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod", &["10.0.1.1", "10.0.1.2"]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    fleet.cloud_map.forget_calls();
    (fleet, function)
}

#[tokio::test]
async fn pod_that_is_ready_again_by_the_second_look_is_not_taken_out() {
    let (fleet, function) = web().await;
    // While the new pod is being registered the old one comes back.
    let slow = FaultKind::Late(std::time::Duration::from_millis(400));
    fleet.cloud_map.inject(Fault::on("RegisterInstance", slow));
    fleet.pods("web", &["10.0.1.1", "10.0.1.3"]);
    let (report, ()) = tokio::join!(sync(&function), async {
        while fleet.cloud_map.count("RegisterInstance") == 0 {
            tokio::task::yield_now().await;
        }
        fleet.pods("web", &["10.0.1.1", "10.0.1.2", "10.0.1.3"]);
    });

    assert_eq!(report.counts.deregistered, 0, "{report}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.1.2", "10.0.1.3"]);
    settled(&fleet, &function).await;
}

#[tokio::test]
async fn next_claimant_takes_over_in_the_same_sync_without_the_name_going_empty() {
    for end in ["deleted", "unannotated", "renamed"] {
        let fleet = Fleet::start().await;
        for (service, created, address) in [
            ("old", "2026-01-01T00:00:00Z", "10.0.1.1"),
            ("young", "2026-06-01T00:00:00Z", "10.0.1.2"),
        ] {
            fleet.service(annotated(service, "prod", "web").created(created));
            fleet.pods(service, &[address]);
        }
        let function = fleet.function().await;
        converge(&fleet, &function).await;
        match end {
            "deleted" => _ = fleet.cluster.delete_service("shop", "old"),
            "unannotated" => fleet.annotate("old", "hostname", ""),
            _ => fleet.annotate("old", "hostname", "other"),
        }
        fleet.cloud_map.forget_calls();

        let report = sync(&function).await;

        assert!(report.ok, "{end}: {report}");
        assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.2"], "{end}");
        let writes = writes(&fleet).into_iter().filter(|write| write.ends_with(" web"));
        let writes: Vec<String> = writes.collect();
        assert_eq!(writes, ["RegisterInstance web", "DeregisterInstance web"], "{end}");
        settled(&fleet, &function).await;
    }
}

#[tokio::test]
async fn name_of_a_holder_without_ready_pods_passes_on_in_the_same_sync() {
    let fleet = Fleet::start().await;
    fleet.service(annotated("young", "prod", "web").created("2026-06-01T00:00:00Z"));
    fleet.pods("young", &["10.0.1.2"]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
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
