//! From an annotated Service to instances in Cloud Map, and then nothing more to do.

use crate::fleet::{Fleet, annotated};
use crate::run::sync;

#[tokio::test]
async fn annotated_service_becomes_instances_and_the_second_sync_writes_nothing() {
    let fleet = Fleet::start().await;
    let ecs = fleet.ecs_service("web", "10.0.9.1");
    fleet.service(annotated("web", "prod.local", "web"));
    fleet.pods("web", &["10.0.1.1", "10.0.1.2"]);
    let before = fleet.cloud_map.instances(&ecs);
    let function = fleet.function().await;

    let report = sync(&function).await;

    assert!(report.ok, "{report}");
    assert_eq!((report.counts.registered, report.counts.foreign), (2, 1), "{report}");
    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.1", "10.0.1.2", "10.0.9.1"]);
    let foreign = before.keys().next().expect("the task");
    assert_eq!(fleet.cloud_map.instances(&ecs)[foreign], before[foreign]);

    fleet.cloud_map.forget_calls();
    let report = sync(&function).await;
    assert_eq!((report.counts.unchanged, fleet.cloud_map.writes()), (2, 0), "{report}");
}
