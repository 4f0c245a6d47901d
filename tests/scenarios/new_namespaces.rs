//! Missing HTTP namespaces, where the installation lets them be created.

use std::time::Duration;

use cloud_map_sync::function::Function;

use crate::fleet::{Fleet, OWNER, attributes};
use crate::namespaces;
use crate::run::{converge, converged, plan, said_of, settled, sync, sync_service, synced, writes};
use testbed::cloud_map::{Fault, FaultKind, NamespaceKind};

const CREATING: (&str, &str) = ("CREATE_NAMESPACES", "true");

async fn creating(fleet: &Fleet) -> Function {
    fleet.function_with(&[CREATING]).await
}

#[tokio::test]
async fn missing_namespace_is_planned_then_created_with_its_first_service_and_tagged_ours() {
    let fleet = Fleet::with_web("web", "team", &["10.0.1.1"]).await;
    let function = creating(&fleet).await;

    let planned = plan(&function).await.to_string();
    assert!(planned.contains("+ create     namespace  team, an HTTP namespace"), "{planned}");
    assert_eq!(writes(&fleet), [""; 0]);

    let report = synced(&function).await;
    assert_eq!((report.counts.created, report.counts.registered), (2, 1), "{report}");
    assert_eq!(fleet.addresses("team", "web"), ["10.0.1.1"]);
    let namespace = fleet.cloud_map.namespace_view("team");
    assert_eq!(namespace.kind, NamespaceKind::Http);
    assert_eq!(namespace.tags["cloud-map-sync/owner"], OWNER);
    assert!(namespace.description.expect("a description").starts_with("cloud-map-sync"));
    settled(&fleet, &function).await;
}

#[tokio::test]
async fn namespace_that_another_party_has_created_since_the_list_was_read_is_used() {
    let fleet = Fleet::with_web("web", "team", &["10.0.1.1"]).await;
    let function = creating(&fleet).await;
    let slow = FaultKind::Late(Duration::from_millis(400));
    fleet.cloud_map.inject(Fault::on("ListNamespaces", slow));
    let other = async {
        fleet.called("ListNamespaces").await;
        fleet.cloud_map.namespace("team", NamespaceKind::Http);
    };

    tokio::join!(synced(&function), other);

    assert_eq!(fleet.addresses("team", "web"), ["10.0.1.1"]);
    let calls = fleet.cloud_map.calls();
    let call = calls.iter().find(|call| call.operation == "CreateHttpNamespace");
    assert_eq!(call.map(|call| call.status), Some(400), "it was not there yet");
}

#[tokio::test]
async fn namespace_whose_creation_fails_fails_what_needs_it_and_nothing_else() {
    let fleet = Fleet::with_web("web", "team", &["10.0.1.1"]).await;
    fleet.web("cart", "team", &["10.0.1.2"]);
    fleet.web("api", "prod", &["10.0.1.3"]);
    let function = creating(&fleet).await;
    let fails = FaultKind::OperationFails("INTERNAL_FAILURE");
    fleet.cloud_map.inject(Fault::on("CreateHttpNamespace", fails));

    let report = sync(&function).await;

    assert!(!report.ok && report.to_string().contains("INTERNAL_FAILURE"), "{report}");
    assert_eq!(fleet.cloud_map.count("CreateHttpNamespace"), 1, "one try for all");
    assert_eq!(fleet.addresses("prod", "api"), ["10.0.1.3"]);
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("team", "cart"), ["10.0.1.2"]);
}

#[tokio::test]
async fn account_with_no_room_for_a_namespace_is_held_back() {
    let fleet = Fleet::with_web("web", "team", &["10.0.1.1"]).await;
    fleet.cloud_map.adjust(|it| it.namespaces = 2);
    let report = synced(&creating(&fleet).await).await;
    assert!(said_of(&report, "LimitExceeded").contains("quota"), "{report}");
}

#[tokio::test(start_paused = true)]
async fn new_namespace_that_lists_do_not_show_yet_is_used_at_once() {
    let fleet = Fleet::with_web("web", "team", &["10.0.1.1"]).await;
    fleet.cloud_map.adjust(|it| it.namespace_list_lag = Duration::from_mins(10));

    synced(&creating(&fleet).await).await;

    assert_eq!(fleet.addresses("team", "web"), ["10.0.1.1"]);
}

#[tokio::test(start_paused = true)]
async fn namespace_in_deletion_is_held_back_by_its_name_until_that_is_free() {
    let fleet = Fleet::with_web("web", "team", &["10.0.1.1"]).await;
    let stays = Duration::from_secs(40);
    fleet.cloud_map.adjust(|it| it.deleted_name_stays = stays);
    fleet.cloud_map.remove_namespace(&fleet.cloud_map.namespace("team", NamespaceKind::Http));
    let function = creating(&fleet).await;

    let report = sync(&function).await;

    assert_eq!((report.ok, report.counts.created), (true, 0), "{report}");
    let line = said_of(&report, "NamespaceInDeletion");
    assert!(line.contains("\"team\"") && line.contains("is being deleted"), "{line}");
    tokio::time::sleep(stays).await;
    assert!(sync(&function).await.ok);
    assert_eq!(fleet.addresses("team", "web"), ["10.0.1.1"]);
}

#[tokio::test(start_paused = true)]
async fn namespace_that_another_party_creates_as_a_dns_namespace_is_used_by_the_next_run() {
    let fleet = Fleet::with_web("web", "team", &["10.0.1.1"]).await;
    fleet.cloud_map.adjust(|it| it.operation_delay = Duration::from_secs(2));
    let function = creating(&fleet).await;
    fleet.cloud_map.begin_namespace("team", NamespaceKind::DnsPrivate);

    let report = sync(&function).await;

    let text = report.to_string();
    assert!(!report.ok && text.contains("is a DNS namespace of that name"), "{text}");
    converge(&fleet, &function).await;
    assert_eq!(fleet.view("team", "web").dns.map(|dns| dns.records.len()), Some(1));
    assert_eq!(fleet.addresses("team", "web"), ["10.0.1.1"]);
}

#[tokio::test(start_paused = true)]
async fn creation_that_is_refused_with_one_that_has_ended_uses_what_that_created() {
    let fleet = Fleet::with_web("web", "team", &["10.0.1.1"]).await;
    fleet.cloud_map.adjust(|it| {
        it.completed_operation_stays = Duration::from_mins(10);
        it.namespace_list_lag = Duration::from_mins(10);
    });
    fleet.cloud_map.begin_namespace("team", NamespaceKind::Http);
    tokio::time::sleep(Duration::from_secs(1)).await;

    synced(&creating(&fleet).await).await;

    assert_eq!(fleet.addresses("team", "web"), ["10.0.1.1"]);
}

/// Another party deletes a namespace that the process knows, with all that is in it, and creates it again.
#[tokio::test]
async fn namespace_that_has_another_id_now_is_looked_for_at_once() {
    for (is_shared, is_whole) in [(false, false), (false, true), (true, false), (true, true)] {
        let fleet = Fleet::start().await;
        let create = || namespaces::another(&fleet, "team", NamespaceKind::Http, is_shared);
        let old = create();
        fleet.web("web", "team", &["10.0.1.1"]);
        fleet.web("cart", "prod", &["10.0.1.2"]);
        let function = converged(&fleet).await;
        fleet.cloud_map.remove_service(&fleet.cloud_map.service_id("team", "web"));
        fleet.cloud_map.remove_namespace(&old);
        assert_ne!(create(), old);

        let report =
            if is_whole { sync(&function).await } else { sync_service(&function, "web").await };

        let case = format!("shared {is_shared}, whole {is_whole}: {report}");
        assert!(report.ok, "{case}");
        assert_eq!(fleet.addresses("team", "web"), ["10.0.1.1"], "{case}");
        settled(&fleet, &function).await;
    }
}

#[tokio::test]
async fn what_is_created_has_the_tags_of_the_settings_beside_ours() {
    let fleet = Fleet::with_web("web", "prod.local", &["10.0.1.1"]).await;
    fleet.web("cart", "team", &["10.0.1.2"]);
    let settings = [("CREATE_NAMESPACES", "true"), ("CREATE_TAGS", "team=shop, cost-center=4711")];
    converge(&fleet, &fleet.function_with(&settings).await).await;

    let tags = [("cloud-map-sync/owner", OWNER), ("cost-center", "4711"), ("team", "shop")];
    let tags = attributes(&tags);
    let namespace = fleet.cloud_map.namespace_view("team");
    assert_eq!([&fleet.view("prod.local", "web").tags, &namespace.tags], [&tags, &tags]);
    assert_eq!(fleet.view("team", "cart").tags, tags);
}
