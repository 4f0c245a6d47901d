//! Cloud Map services that nobody needs any more, where the installation lets them be deleted.

use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::report::Report;
use tokio::time::{Instant, sleep};

use crate::fleet::Fleet;
use crate::run::{converge, plan, settled, sync, writes};
use testbed::cloud_map::{Behaviour, Fault, FaultKind};

const DELETING: (&str, &str) = ("DELETE_EMPTY_SERVICES", "true");

async fn deleting(fleet: &Fleet) -> Function {
    fleet.function_with(&[DELETING]).await
}

/// `web` and `gone` in `prod`, created by the function with a pod each; then `gone` is deleted.
async fn with_one_gone() -> Fleet {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod", &["10.0.1.1"]);
    fleet.web("gone", "prod", &["10.0.3.1"]);
    converge(&fleet, &fleet.function().await).await;
    fleet.cluster.delete_service("shop", "gone");
    fleet.cloud_map.forget_calls();
    fleet
}

fn exists(fleet: &Fleet, service: &str) -> bool {
    fleet.cloud_map.find_service("prod", service).is_some()
}

fn kept(report: &Report) -> String {
    report.empty_services.kept.join("\n")
}

#[tokio::test]
async fn service_is_planned_for_deletion_and_deleted_in_the_run_that_empties_it() {
    let fleet = with_one_gone().await;
    let function = deleting(&fleet).await;

    let planned = plan(&function).await;
    assert!(planned.to_string().contains("- delete     prod/gone"), "{planned}");
    assert_eq!((planned.counts.deleted, writes(&fleet).len()), (1, 0), "{planned}");

    let report = sync(&function).await;
    assert!(report.ok && report.counts.deleted == 1, "{report}");
    assert_eq!(writes(&fleet).len(), 2, "deregistered, then deleted");
    assert!(!exists(&fleet, "gone") && exists(&fleet, "web"));
    settled(&fleet, &function).await;
}

#[tokio::test(start_paused = true)]
async fn service_is_deleted_in_the_run_that_empties_it_though_cloud_map_lists_its_instance_for_a_while()
 {
    let fleet = with_one_gone().await;
    let list_lag = Duration::from_secs(2);
    fleet.cloud_map.behave(Behaviour { list_lag, ..Behaviour::default() });
    let report = sync(&deleting(&fleet).await).await;
    assert!(report.ok && report.counts.deleted == 1, "{report}");
    assert!(!exists(&fleet, "gone"));
}

#[tokio::test(start_paused = true)]
async fn instance_that_comes_between_the_last_look_and_the_deletion_keeps_the_service() {
    let fleet = with_one_gone().await;
    converge(&fleet, &fleet.function().await).await;
    let gone = fleet.cloud_map.find_service("prod", "gone").expect("created");
    let in_use = FaultKind::Error(400, "ResourceInUse", "Service contains registered instances");
    fleet.cloud_map.inject(Fault::on("DeleteService", in_use).service(&gone));
    let function = deleting(&fleet).await;
    fleet.cloud_map.forget_calls();
    let other = async {
        while fleet.cloud_map.count("DeleteService") == 0 {
            sleep(Duration::from_millis(10)).await;
        }
        fleet.ecs_task(&gone, "0123456789abcdef0123456789abcdef", "10.0.9.1");
    };

    let (report, ()) = tokio::join!(sync(&function), other);

    assert!(report.ok && kept(&report).contains("prod/gone"), "{report}");
    assert!(exists(&fleet, "gone"));
    assert_eq!(fleet.cloud_map.count("DeleteService"), 1, "it was read again before a second try");
}

#[tokio::test(start_paused = true)]
async fn service_that_counts_as_in_use_for_some_seconds_is_deleted_in_the_same_run() {
    let fleet = with_one_gone().await;
    let in_use_lag = Duration::from_secs(12);
    fleet.cloud_map.behave(Behaviour { in_use_lag, ..Behaviour::default() });
    let function = deleting(&fleet).await;

    let report = sync(&function).await;

    assert!(report.ok && report.counts.deleted == 1, "{report}");
    assert!(!exists(&fleet, "gone"));
    assert!(fleet.cloud_map.count("DeleteService") <= 4, "every five seconds");
    settled(&fleet, &function).await;
}

#[tokio::test(start_paused = true)]
async fn service_that_stays_in_use_is_kept_for_now_and_the_line_blames_no_other_party() {
    let fleet = with_one_gone().await;
    let in_use_lag = Duration::from_mins(10);
    fleet.cloud_map.behave(Behaviour { in_use_lag, ..Behaviour::default() });
    let (function, start) = (deleting(&fleet).await, Instant::now());

    let report = sync(&function).await;

    let line = kept(&report);
    assert!(report.ok && line.contains("prod/gone: Cloud Map still counts an instance"), "{line}");
    assert!(!line.contains("was registered"), "{line}");
    assert!(start.elapsed() < Duration::from_secs(45), "{:?}", start.elapsed());
    sleep(in_use_lag).await;
    converge(&fleet, &function).await;
    assert!(!exists(&fleet, "gone"));
}

#[tokio::test]
async fn instance_that_comes_before_the_last_look_keeps_the_service_without_a_call() {
    let fleet = with_one_gone().await;
    converge(&fleet, &fleet.function().await).await;
    let gone = fleet.cloud_map.find_service("prod", "gone").expect("created");
    let function = deleting(&fleet).await;
    fleet.cloud_map.forget_calls();
    // The list of services still says that it is empty.
    let slow = FaultKind::Late(Duration::from_millis(400));
    fleet.cloud_map.inject(Fault::on("ListTagsForResource", slow));
    let other = async {
        fleet.called("ListTagsForResource").await;
        fleet.ecs_task(&gone, "0123456789abcdef0123456789abcdef", "10.0.9.1");
    };

    let (report, ()) = tokio::join!(sync(&function), other);

    assert!(report.ok && report.counts.deleted == 0, "{report}");
    assert_eq!(fleet.cloud_map.count("DeleteService"), 0);
}

#[tokio::test]
async fn tags_that_cannot_be_read_keep_the_service_and_fail_the_run() {
    let fleet = with_one_gone().await;
    let function = deleting(&fleet).await;
    fleet.cloud_map.inject(Fault::on("ListTagsForResource", FaultKind::AccessDenied).always());
    let report = sync(&function).await;
    assert!(!report.ok && report.to_string().contains("AccessDenied"), "{report}");
    assert!(exists(&fleet, "gone"));
    fleet.cloud_map.heal();
    converge(&fleet, &function).await;
    assert!(!exists(&fleet, "gone"));
}
