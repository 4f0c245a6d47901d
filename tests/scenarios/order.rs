//! The order of what is done: the new is there before the old goes, and no name empties on the way
//! while its Service has ready pods.

use crate::fleet::{Fleet, annotated};
use crate::run::{converge, held_back, settled, sync};
use testbed::cloud_map::{Fault, FaultKind};

#[tokio::test]
async fn pod_that_is_ready_again_by_the_second_look_is_not_taken_out() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod", &["10.0.1.1", "10.0.1.2"]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
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
