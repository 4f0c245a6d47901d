//! Calls and operations that fail: what it means for the change, and that no other change minds.

use cloud_map_sync::model::Outcome;

use crate::fleet::Fleet;
use crate::run::{converge, settled, sync};
use testbed::cloud_map::{Fault, FaultKind, ServiceKind};

/// `web` with a pod, `cart` with another, nothing registered.
async fn two_services() -> (Fleet, cloud_map_sync::function::Function) {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod", &["10.0.1.1"]);
    fleet.web("cart", "prod", &["10.0.2.1"]);
    let function = fleet.function().await;
    (fleet, function)
}

#[tokio::test]
async fn operation_that_fails_later_is_a_failed_change_and_stops_no_other() {
    let (fleet, function) = two_services().await;
    fleet.cloud_map.service(&fleet.http, "web", ServiceKind::Http);
    let web = fleet.cloud_map.find_service("prod", "web").expect("seeded");
    let fails = FaultKind::OperationFails("INTERNAL_FAILURE");
    fleet.cloud_map.inject(Fault::on("RegisterInstance", fails).service(&web));

    let report = sync(&function).await;

    assert!(!report.ok, "{report}");
    assert_eq!((report.counts.failed, report.counts.registered), (1, 1), "{report}");
    let services = &report.clusters[0].services;
    let web = services.iter().find(|service| service.name == "web").expect("reported");
    let Outcome::Failed { error } = &web.changes[0].result else { panic!("{report}") };
    assert!(error.contains("INTERNAL_FAILURE"), "{error}");
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
}

#[tokio::test]
async fn instance_that_is_gone_already_counts_as_taken_out() {
    let (fleet, function) = two_services().await;
    converge(&fleet, &function).await;
    fleet.pods("web", &[]);
    let gone = FaultKind::Error(400, "InstanceNotFound", "The instance does not exist");
    fleet.cloud_map.inject(Fault::on("DeregisterInstance", gone));

    let report = sync(&function).await;

    assert!(report.ok, "{report}");
    assert_eq!((report.counts.deregistered, report.counts.failed), (1, 0), "{report}");
}

/// Somebody else creates the service between our list and our call.
#[tokio::test]
async fn lost_race_to_create_a_service_is_decided_again_on_what_is_there() {
    let (fleet, function) = two_services().await;
    let late = FaultKind::Late(std::time::Duration::from_millis(200));
    fleet.cloud_map.inject(Fault::on("ListServices", late));

    let (report, ()) = tokio::join!(sync(&function), async {
        fleet.called("ListServices").await;
        let web = fleet.cloud_map.service(&fleet.http, "web", ServiceKind::Http);
        fleet.ecs_task(&web, "0123456789abcdef0123456789abcdef", "10.0.9.1");
    });

    assert!(report.ok, "{report}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.9.1"]);
    assert_eq!(fleet.addresses("prod", "cart"), ["10.0.2.1"]);
    settled(&fleet, &function).await;
}
