//! Another party is changing the same instance at the same time: wait for its operation, read,
//! and decide again.

use std::time::Duration;

use cloud_map_sync::function::Function;

use crate::fleet::Fleet;
use crate::run::{converge, settled, sync, synced};
use testbed::cloud_map::{Behaviour, Fault, FaultKind};

/// Slow enough that what one run starts is in flight when the other comes to it.
fn slow_operations(fleet: &Fleet) {
    fleet.cloud_map.adjust(|it| it.operation_delay = Duration::from_secs(1));
}

/// The same, with the statuses that the service model has, which are not those that AWS answers with.
fn slow_operations_by_the_model(fleet: &Fleet) {
    let operation_delay = Duration::from_secs(1);
    let behaviour =
        Behaviour { operation_delay, statuses_of_the_model: true, ..Behaviour::default() };
    fleet.cloud_map.behave(behaviour);
}

fn refusals(fleet: &Fleet, operation: &str) -> usize {
    let calls = fleet.cloud_map.calls().into_iter();
    calls.filter(|call| call.operation == operation && call.status >= 400).count()
}

/// The pod comes back with another attribute while its instance is on its way out.
#[tokio::test]
async fn registration_that_meets_a_removal_under_way_is_made_after_it() {
    for slow in [slow_operations, slow_operations_by_the_model] {
        let fleet = Fleet::with_web("web", "prod", &["10.0.1.1", "10.0.1.2"]).await;
        let functions = (fleet.function().await, fleet.function().await);
        converge(&fleet, &functions.0).await;
        converge(&fleet, &functions.1).await;
        slow(&fleet);
        fleet.pods("web", &["10.0.1.1"]);
        let is_leaving = async {
            fleet.called("DeregisterInstance").await;
            fleet.annotate("web", "attributes", "weight=10");
            fleet.pods("web", &["10.0.1.1", "10.0.1.2"]);
            sync(&functions.1).await
        };

        let reports = tokio::join!(sync(&functions.0), is_leaving);

        assert!(reports.0.ok && reports.1.ok, "{}{}", reports.0, reports.1);
        assert!(refusals(&fleet, "RegisterInstance") > 0, "the runs did not meet");
        assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.1.2"]);
        assert_eq!(fleet.values("prod", "web", "weight"), ["10", "10"]);
        settled(&fleet, &functions.1).await;
    }
}

/// What somebody else began says nothing of how it ends.
#[tokio::test]
async fn run_that_waited_for_a_foreign_operation_which_fails_registers_the_instance_itself() {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
    let functions = (fleet.function().await, fleet.function().await);
    converge(&fleet, &functions.0).await;
    converge(&fleet, &functions.1).await;
    slow_operations(&fleet);
    fleet.pods("web", &["10.0.1.2"]);
    let fails = FaultKind::OperationFails("INTERNAL_FAILURE");
    fleet.cloud_map.inject(Fault::on("RegisterInstance", fails));

    let reports = tokio::join!(sync(&functions.0), sync(&functions.1));

    assert!(reports.0.ok != reports.1.ok, "{}{}", reports.0, reports.1);
    assert!(refusals(&fleet, "RegisterInstance") > 0, "the runs did not meet");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.2"]);
    settled(&fleet, &functions.0).await;
}

/// The answer to the run that loses is a 500 without a name, though the service is there.
#[tokio::test]
async fn service_that_another_run_creates_at_once_is_used_after_a_500() {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
    let functions = (fleet.function().await, fleet.function().await);
    let latency = Duration::from_millis(20);
    let service_creation_race = Duration::from_millis(300);
    fleet.cloud_map.behave(Behaviour { latency, service_creation_race, ..Behaviour::default() });

    let reports = tokio::join!(sync(&functions.0), sync(&functions.1));

    assert!(reports.0.ok && reports.1.ok, "{}{}", reports.0, reports.1);
    let calls = fleet.cloud_map.calls();
    let lost = calls.iter().filter(|it| it.operation == "CreateService" && it.status == 500);
    assert!(lost.count() > 0, "the runs did not meet");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
    fleet.cloud_map.behave(Behaviour::default());
    settled(&fleet, &functions.0).await;
}

#[tokio::test(start_paused = true)]
async fn change_that_is_refused_with_an_operation_that_has_ended_is_decided_again() {
    let (fleet, function) = registration_that_ended_is_named().await;

    synced(&function).await;
    assert!(refusals(&fleet, "RegisterInstance") > 0, "it was not refused");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
}

#[tokio::test(start_paused = true)]
async fn operation_in_the_way_that_cloud_map_knows_no_more_has_ended() {
    let (fleet, function) = registration_that_ended_is_named().await;
    let unknown = FaultKind::Error(400, "OperationNotFound", "said by a test");
    fleet.cloud_map.inject(Fault::on("GetOperation", unknown));

    synced(&function).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
}

/// An instance that was registered and taken out by another party: for a while Cloud Map names the registration that has
/// ended.
async fn registration_that_ended_is_named() -> (Fleet, Function) {
    let fleet = Fleet::start().await;
    fleet.cloud_map.adjust(|it| it.completed_operation_stays = Duration::from_millis(300));
    fleet.web("web", "prod", &["10.0.1.1"]);
    let function = fleet.function().await;
    assert!(sync(&function).await.ok);
    let web = fleet.cloud_map.service_id("prod", "web");
    let (instance, _) = fleet.instance("prod", "web");
    fleet.cloud_map.withdraw(&web, &instance);
    (fleet, function)
}
