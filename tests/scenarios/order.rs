//! The order of what is done: the new is there before the old goes, also when the marks alone tell what became of a
//! Service while the function was not running. And where another party changes the same instance at the same time: wait
//! for its operation, read, and decide again.

use std::time::Duration;

use cloud_map_sync::function::Function;

use crate::fleet::{Fleet, annotated};
use crate::queue::failed_messages;
use crate::run::{converged, held_back, settled, sync, synced};
use testbed::cloud_map::{Behaviour, Fault, FaultKind, RecordType};

#[tokio::test]
async fn pod_that_is_ready_again_by_the_second_look_is_not_taken_out() {
    let (fleet, function) = Fleet::in_step("web", "prod", &["10.0.1.1", "10.0.1.2"]).await;
    // While the new pod is being registered the old one comes back.
    let slow = FaultKind::Late(Duration::from_millis(400));
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
    let line = "shop/young (DomainConflict): Service shop/old";
    assert!(report.to_string().contains(line), "{report}");
    settled(&fleet, &function).await;
}

/// `web` with two pods under `prod/web` and `prod/www`, what is left of an earlier name of it in
/// `prod.local/legacy`, and an ECS task there.
async fn registered() -> Fleet {
    let fleet = Fleet::start().await;
    fleet.service(annotated("web", "prod", "web,www").uid("first"));
    fleet.pods("web", &["10.0.1.1", "10.0.1.2"]);
    converged(&fleet).await;
    let legacy = fleet.dns_service("legacy", &[RecordType::A]);
    fleet.put(&legacy, "left", &fleet.ours("web", "10.0.1.1"));
    fleet.ecs_task(&legacy, "0123456789abcdef0123456789abcdef", "10.0.9.1");
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
    for how in ["annotation removed", "deleted", "not headless any more", "namespace deleted"] {
        let fleet = registered().await;
        end(&fleet, how);

        let failed = failed_messages(&fleet.function().await, "web").await;

        assert_eq!(failed, [""; 0], "{how}");
        assert_eq!(found(&fleet), [vec![], vec![], vec!["10.0.9.1"]], "{how}");
    }
}

/// Two processes that have seen all in step. Operations are slow enough that what one run starts is in flight when the
/// other comes to it.
async fn two_processes(fleet: &Fleet) -> (Function, Function) {
    let functions = (converged(fleet).await, converged(fleet).await);
    fleet.cloud_map.adjust(|it| it.operation_delay = Duration::from_secs(1));
    functions
}

fn refusals(fleet: &Fleet, operation: &str) -> usize {
    let calls = fleet.cloud_map.calls().into_iter();
    calls.filter(|call| call.operation == operation && call.status >= 400).count()
}

/// The pod comes back with another attribute while its instance is on its way out.
#[tokio::test]
async fn registration_that_meets_a_removal_under_way_is_made_after_it() {
    // The statuses that the service model has are not those that AWS answers with.
    for of_the_model in [false, true] {
        let fleet = Fleet::with_web("web", "prod", &["10.0.1.1", "10.0.1.2"]).await;
        let functions = two_processes(&fleet).await;
        fleet.cloud_map.adjust(|it| it.statuses_of_the_model = of_the_model);
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
    let functions = two_processes(&fleet).await;
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
    fleet.cloud_map.adjust(|it| {
        it.latency = Duration::from_millis(20);
        it.service_creation_race = Duration::from_millis(300);
    });

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
