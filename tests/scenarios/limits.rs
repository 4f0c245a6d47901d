//! Cloud Map's limits: 1,000 instances in a service, and the account's quota in a namespace, where the
//! instances of others count as well.

use std::collections::BTreeSet;

use cloud_map_sync::handler::Function;

use crate::fleet::{Fleet, annotated, give_pods};
use crate::run::{converge, held_back, plan, said_of, settled, sync, writes};
use crate::sandbox::cloud_map::{Behaviour, Fault, FaultKind, ServiceKind};

/// So many addresses, from a number on.
fn addresses(from: usize, count: usize) -> Vec<String> {
    (from..from + count).map(|index| format!("10.1.{}.{}", index / 250, index % 250)).collect()
}

/// Gives a Service of `shop`, which claims its own name in `prod`, so many pods from a number on.
fn give(fleet: &Fleet, service: &str, from: usize, count: usize) {
    fleet.service(annotated(service, "prod", service));
    let addresses = addresses(from, count);
    fleet.pods(service, &addresses.iter().map(String::as_str).collect::<Vec<_>>());
}

/// A service of `prod` with so many tasks of ECS.
fn tasks(fleet: &Fleet, name: &str, count: usize) -> String {
    let service = fleet.cloud_map.service(&fleet.http, name, ServiceKind::Http);
    for index in 0..count {
        let address = format!("10.200.{}.{}", index / 250, index % 250);
        fleet.ecs_task(&service, &format!("{index:032x}"), &address);
    }
    service
}

/// A world whose namespaces take so few instances, and the function that knows it.
async fn small(limit: usize) -> (Fleet, Function) {
    let fleet = Fleet::start().await;
    fleet.cloud_map.behave(Behaviour { instances_per_namespace: limit, ..Behaviour::default() });
    let function = fleet.function_with(&[("NAMESPACE_INSTANCE_LIMIT", &limit.to_string())]).await;
    (fleet, function)
}

fn ours(fleet: &Fleet, service: &str) -> BTreeSet<String> {
    let instances = fleet.instances("prod", service).into_keys();
    instances.filter(|id| id.starts_with("ip-")).collect()
}

/// The changes in order, equal ones that follow one another counted.
fn counted_writes(fleet: &Fleet) -> Vec<String> {
    let writes = writes(fleet);
    let runs = writes.chunk_by(|one, other| one == other);
    runs.map(|run| format!("{} {}", run.len(), run[0])).collect()
}

#[tokio::test]
async fn service_that_is_full_of_others_takes_what_fits_and_the_owner_hears_both_numbers() {
    let fleet = Fleet::start().await;
    tasks(&fleet, "web", 990);
    give(&fleet, "web", 0, 20);
    let function = fleet.function().await;

    let planned = plan(&function).await;
    assert_eq!(planned.counts.registered, 10, "{}", planned.counts);
    let report = converge(&fleet, &function).await;

    let line = "10 of 20 instances fit: a Cloud Map service takes 1000, and 990 in it are not ours";
    assert_eq!(said_of(&planned, "ServiceFull"), line);
    assert_eq!((held_back(&report), report.counts.registered), (vec!["ServiceFull"], 10));
    let events = fleet.cluster.events("shop");
    assert!(events.iter().any(|event| event["note"] == line), "{events:?}");

    let first = ours(&fleet, "web");
    give(&fleet, "web", 0, 40);
    settled(&fleet, &function).await;
    assert_eq!(ours(&fleet, "web"), first);
}

#[tokio::test]
async fn rolling_update_of_a_full_service_makes_room_first_and_as_little_as_it_needs() {
    let fleet = Fleet::start().await;
    tasks(&fleet, "web", 990);
    give(&fleet, "web", 0, 10);
    let function = fleet.function().await;
    converge(&fleet, &function).await;

    give(&fleet, "web", 5, 8);
    let planned = plan(&function).await.to_string();
    assert!(planned.contains("waits until there is room for it"), "{planned}");
    assert!(planned.contains("stays until the new instances are registered"), "{planned}");
    fleet.cloud_map.forget_calls();
    let report = sync(&function).await;

    assert!(report.ok && held_back(&report).is_empty(), "{report}");
    let expected =
        ["3 DeregisterInstance web", "3 RegisterInstance web", "2 DeregisterInstance web"];
    assert_eq!(counted_writes(&fleet), expected);
    settled(&fleet, &function).await;
}

#[tokio::test]
async fn last_instance_makes_no_room_and_is_exchanged_when_somebody_else_goes() {
    let fleet = Fleet::start().await;
    let service = tasks(&fleet, "web", 999);
    give(&fleet, "web", 0, 1);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    let last = ours(&fleet, "web");

    give(&fleet, "web", 1, 1);
    let report = converge(&fleet, &function).await;
    assert_eq!(held_back(&report), ["ServiceFull", "Waiting"], "{report}");
    assert_eq!(ours(&fleet, "web"), last);

    fleet.cloud_map.withdraw(&service, &format!("{:032x}", 0));
    converge(&fleet, &function).await;
    assert!(ours(&fleet, "web").len() == 1 && ours(&fleet, "web") != last);
}

#[tokio::test]
async fn room_that_could_not_be_made_is_told_and_made_by_the_next_sync() {
    let (fleet, function) = small(4).await;
    give(&fleet, "web", 0, 4);
    converge(&fleet, &function).await;
    give(&fleet, "web", 1, 4);
    fleet.cloud_map.inject(Fault::on("DeregisterInstance", FaultKind::AccessDenied));

    let report = sync(&function).await;
    assert_eq!((report.ok, report.counts.failed, report.counts.undone), (false, 1, 1), "{report}");
    assert!(report.to_string().contains("there is no room for it yet"), "{report}");
    assert_eq!(ours(&fleet, "web").len(), 4);

    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), addresses(1, 4));
}

/// Cloud Map publishes no bound for how soon it counts an instance that is gone.
#[tokio::test]
async fn room_that_cloud_map_does_not_see_yet_is_taken_by_the_next_sync() {
    let (fleet, function) = small(4).await;
    give(&fleet, "web", 0, 4);
    converge(&fleet, &function).await;
    give(&fleet, "web", 1, 4);
    let full = FaultKind::Error(400, "ResourceLimitExceeded", "too many instances");
    fleet.cloud_map.inject(Fault::on("RegisterInstance", full));

    let report = sync(&function).await;
    assert_eq!((report.ok, held_back(&report)), (true, vec!["LimitExceeded"]), "{report}");
    assert_eq!(fleet.addresses("prod", "web"), addresses(1, 3));

    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), addresses(1, 4));
}

#[tokio::test]
async fn quota_below_the_setting_is_asked_for_a_few_times_and_not_for_every_pod() {
    let fleet = Fleet::start().await;
    fleet.cloud_map.behave(Behaviour { instances_per_namespace: 10, ..Behaviour::default() });
    give(&fleet, "web", 0, 200);
    let function = fleet.function_with(&[("QUOTA_SHARE", "0.5")]).await;

    let report = sync(&function).await;
    assert!(report.ok, "{}", report.counts);
    assert_eq!((report.counts.registered, report.counts.held_back), (10, 190));
    let asked = fleet.cloud_map.count("RegisterInstance");
    assert!((11..60).contains(&asked), "{asked}");
}

#[tokio::test]
async fn namespace_is_shared_by_services_and_clusters_and_none_passes_its_limit() {
    let (fleet, _) = small(12).await;
    let green = fleet.green().await;
    let function = fleet.function_with(&[("NAMESPACE_INSTANCE_LIMIT", "12")]).await;
    tasks(&fleet, "legacy", 2);
    give(&fleet, "web", 0, 8);
    give(&fleet, "cart", 10, 1);
    green.service(annotated("web", "prod", "web"));
    let of_green = addresses(20, 8);
    give_pods(&green, "web", &of_green.iter().map(String::as_str).collect::<Vec<_>>());

    let report = converge(&fleet, &function).await;
    let (web, cart) = (ours(&fleet, "web"), ours(&fleet, "cart"));
    assert_eq!((web.len(), cart.len()), (9, 1), "{report}");
    assert!(held_back(&report).iter().all(|reason| *reason == "NamespaceFull"), "{report}");
    assert!(said_of(&report, "NamespaceFull").contains("takes 12 (NAMESPACE_INSTANCE_LIMIT)"));

    give(&fleet, "cart", 10, 3);
    settled(&fleet, &function).await;
    assert_eq!(ours(&fleet, "web"), web, "what stands stays");
}

#[tokio::test]
async fn room_that_one_service_frees_is_given_to_another_in_the_same_sync() {
    let (fleet, function) = small(8).await;
    give(&fleet, "web", 0, 6);
    give(&fleet, "cart", 10, 6);
    let report = converge(&fleet, &function).await;
    assert_eq!((ours(&fleet, "web").len(), ours(&fleet, "cart").len()), (4, 4), "{report}");

    give(&fleet, "web", 20, 1);
    let report = converge(&fleet, &function).await;
    assert_eq!((ours(&fleet, "web").len(), ours(&fleet, "cart").len()), (1, 6), "{report}");
    assert_eq!(held_back(&report), Vec::<&str>::new(), "{report}");
}

#[tokio::test]
async fn service_that_exchanges_its_pods_in_a_full_namespace_loses_no_place_to_another() {
    let (fleet, function) = small(6).await;
    give(&fleet, "web", 0, 4);
    give(&fleet, "cart", 10, 2);
    converge(&fleet, &function).await;

    give(&fleet, "web", 2, 4);
    give(&fleet, "cart", 10, 6);
    let report = converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), addresses(2, 4), "{report}");
    assert_eq!(ours(&fleet, "cart").len(), 2, "{report}");

    give(&fleet, "web", 20, 4);
    let report = converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), addresses(20, 4), "{report}");
}

#[tokio::test]
async fn service_of_which_no_instance_fits_is_not_created() {
    let (fleet, function) = small(2).await;
    let legacy = tasks(&fleet, "legacy", 2);
    give(&fleet, "web", 0, 1);
    let report = converge(&fleet, &function).await;
    assert_eq!(held_back(&report), ["NamespaceFull"], "{report}");
    assert_eq!(fleet.cloud_map.find_service("prod", "web"), None);

    fleet.cloud_map.withdraw(&legacy, &format!("{:032x}", 0));
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), addresses(0, 1));
}
