//! Two Services of one cluster that claim one name: one holds it, the other waits.

use crate::fleet::{Fleet, annotated};
use crate::run::{converge, held_back, said_of, settled, sync, sync_service, writes};

const OLD: &str = "2026-01-01T00:00:00Z";
const YOUNG: &str = "2026-06-01T00:00:00Z";

/// A Service of `shop` with one pod that claims `prod/web`.
fn claim(fleet: &Fleet, service: &str, created: &str, address: &str) {
    fleet.service(annotated(service, "prod", "web").created(created));
    fleet.pods(service, &[address]);
}

#[tokio::test]
async fn older_of_two_claimants_holds_the_name_in_whatever_order_they_are_listed() {
    for (older, younger) in [("a", "b"), ("b", "a")] {
        let fleet = Fleet::start().await;
        claim(&fleet, older, OLD, "10.0.1.1");
        claim(&fleet, younger, YOUNG, "10.0.1.2");

        let report = converge(&fleet, &fleet.function().await).await;

        assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
        assert_eq!(held_back(&report), ["DomainConflict"], "{report}");
        let said = said_of(&report, "DomainConflict");
        assert!(said.contains(&format!("shop/{older}")), "{said}");
    }
}

#[tokio::test]
async fn older_claimant_holds_a_name_even_while_it_has_no_pods() {
    let fleet = Fleet::start().await;
    claim(&fleet, "old", OLD, "10.0.1.1");
    fleet.pods("old", &[]);
    claim(&fleet, "young", YOUNG, "10.0.1.2");

    let report = converge(&fleet, &fleet.function().await).await;

    assert_eq!(held_back(&report), ["DomainConflict"], "{report}");
    assert!(fleet.addresses("prod", "web").is_empty());
}

#[tokio::test]
async fn next_claimant_takes_over_in_the_same_sync_without_the_name_going_empty() {
    for end in ["deleted", "unannotated", "renamed"] {
        let fleet = Fleet::start().await;
        claim(&fleet, "old", OLD, "10.0.1.1");
        claim(&fleet, "young", YOUNG, "10.0.1.2");
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
async fn next_claimant_without_pods_leaves_the_holders_instances_until_it_has_one() {
    let fleet = Fleet::start().await;
    claim(&fleet, "old", OLD, "10.0.1.1");
    claim(&fleet, "young", YOUNG, "10.0.1.2");
    fleet.pods("young", &[]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    fleet.annotate("old", "hostname", "other");

    let report = converge(&fleet, &function).await;
    assert_eq!(held_back(&report), ["Waiting"], "{report}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);

    fleet.pods("young", &["10.0.1.2"]);
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.2"]);
}

#[tokio::test]
async fn instances_of_a_deleted_holder_go_though_the_next_claimant_has_no_pods() {
    let fleet = Fleet::start().await;
    claim(&fleet, "old", OLD, "10.0.1.1");
    claim(&fleet, "young", YOUNG, "10.0.1.2");
    fleet.pods("young", &[]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    fleet.cluster.delete_service("shop", "old");
    converge(&fleet, &function).await;
    assert!(fleet.addresses("prod", "web").is_empty());
}

#[tokio::test]
async fn claimant_that_lost_the_name_gives_up_what_it_has_under_it_after_the_winner_has_one() {
    let fleet = Fleet::start().await;
    claim(&fleet, "old", OLD, "10.0.1.1");
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    let service = fleet.cloud_map.find_service("prod", "web").expect("created");
    claim(&fleet, "young", YOUNG, "10.0.1.2");
    fleet.put(&service, "stray", &fleet.ours("young", "10.0.1.2"));

    let report = converge(&fleet, &function).await;

    assert_eq!(report.counts.deregistered, 1, "{report}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
}

#[tokio::test]
async fn targeted_sync_of_the_loser_registers_nothing_and_names_the_holder() {
    let fleet = Fleet::start().await;
    claim(&fleet, "old", OLD, "10.0.1.1");
    claim(&fleet, "young", YOUNG, "10.0.1.2");

    let report = sync_service(&fleet.function().await, "young").await;

    assert!(said_of(&report, "DomainConflict").contains("shop/old"), "{report}");
    assert!(!fleet.addresses("prod", "web").contains(&"10.0.1.2".to_owned()));
}
