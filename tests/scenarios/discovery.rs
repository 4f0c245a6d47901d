//! `REGISTRY_READ` `discover`: discovery may show that nothing is to be done. It may be late, and nothing that it shows
//! is reason enough to change anything.

use std::time::Duration;

use cloud_map_sync::function::Function;

use crate::fleet::Fleet;
use crate::run::{converge, plan, sync};
use testbed::cloud_map::Behaviour;

/// Longer than a test takes.
const FOR_EVER: Duration = Duration::from_hours(1);

/// Cloud Map whose discovery is so much later than the rest.
fn late(discover_lag: Duration) -> Behaviour {
    Behaviour { discover_lag, discovery_on_any_host: true, ..Behaviour::default() }
}

/// Three names in step, an ECS task under one of them, and a new function that discovers.
async fn in_step(behaviour: Behaviour) -> (Fleet, Function) {
    let fleet = Fleet::start().await;
    fleet.cloud_map.behave(behaviour);
    fleet.ecs_service("web", "10.0.9.1");
    fleet.web("web", "prod.local", &["10.0.1.1", "10.0.1.2"]);
    fleet.web("cart", "prod", &["10.0.2.1"]);
    fleet.web("mail", "prod", &["10.0.3.1"]);
    converge(&fleet, &fleet.function().await).await;
    fleet.cloud_map.forget_calls();
    let function = fleet.function_with(&[("REGISTRY_READ", "discover")]).await;
    (fleet, function)
}

/// How often instances were discovered, how often listed, and how many calls would change something.
fn calls(fleet: &Fleet) -> (usize, usize, usize) {
    let count = |operation| fleet.cloud_map.count(operation);
    (count("DiscoverInstances"), count("ListInstances"), fleet.cloud_map.writes())
}

#[tokio::test(start_paused = true)]
async fn world_in_step_is_discovered_and_not_listed() {
    let (fleet, function) = in_step(late(Duration::ZERO)).await;

    let report = sync(&function).await;

    assert_eq!(calls(&fleet), (3, 0, 0), "{report}");
    assert_eq!((report.counts.unchanged, report.counts.foreign), (4, 1), "{report}");
}

#[tokio::test(start_paused = true)]
async fn what_differs_is_listed_before_it_is_changed_and_the_rest_is_not() {
    let (fleet, function) = in_step(late(Duration::ZERO)).await;
    fleet.pods("cart", &["10.0.2.2"]);

    let report = sync(&function).await;

    // Once to decide, and once more before the removal.
    assert_eq!(calls(&fleet), (3, 2, 2), "{report}");
    assert_eq!(fleet.addresses("prod", "cart"), ["10.0.2.2"]);
}

#[tokio::test(start_paused = true)]
async fn instances_that_discovery_does_not_show_yet_are_not_registered_again() {
    let (fleet, function) = in_step(late(FOR_EVER)).await;

    let report = sync(&function).await;

    assert_eq!(calls(&fleet), (3, 3, 0), "{report}");
    assert_eq!(report.counts.unchanged, 4, "{report}");
}

#[tokio::test(start_paused = true)]
async fn instances_that_discovery_still_shows_are_not_deregistered_again() {
    let (fleet, function) = in_step(late(Duration::ZERO)).await;
    fleet.cloud_map.behave(late(FOR_EVER));
    fleet.pods("web", &["10.0.1.1"]);
    sync(&fleet.function().await).await;
    fleet.cloud_map.forget_calls();

    let report = sync(&function).await;

    assert_eq!((calls(&fleet), report.ok), ((3, 1, 0), true), "{report}");
}

#[tokio::test(start_paused = true)]
async fn difference_that_discovery_hides_is_seen_when_it_does_no_more() {
    let (fleet, function) = in_step(late(Duration::ZERO)).await;
    let minute = Duration::from_mins(1);
    fleet.cloud_map.behave(late(minute));
    fleet.annotate("mail", "publish", "false");
    sync(&fleet.function().await).await;
    assert_eq!(fleet.addresses("prod", "mail"), [""; 0]);
    fleet.annotate("mail", "publish", "");
    fleet.cloud_map.forget_calls();

    let report = sync(&function).await;
    assert_eq!((calls(&fleet), report.counts.unchanged), ((3, 0, 0), 4), "{report}");

    tokio::time::sleep(minute).await;
    let report = sync(&function).await;
    assert_eq!(report.counts.registered, 1, "{report}");
    assert_eq!(fleet.addresses("prod", "mail"), ["10.0.3.1"]);
}

#[tokio::test(start_paused = true)]
async fn service_that_discovery_does_not_tell_of_is_listed() {
    let behaviour = Behaviour { discovery_on_any_host: false, ..Behaviour::default() };
    let (fleet, function) = in_step(behaviour).await;

    let report = sync(&function).await;

    assert_eq!((fleet.cloud_map.count("ListInstances"), report.ok), (3, true), "{report}");
}

#[tokio::test(start_paused = true)]
async fn plan_of_what_discovery_leaves_in_doubt_rests_on_lists() {
    let (fleet, function) = in_step(late(FOR_EVER)).await;
    fleet.pods("cart", &["10.0.2.2"]);

    let report = plan(&function).await;

    assert_eq!((report.counts.registered, report.counts.deregistered), (1, 1), "{report}");
    assert_eq!(calls(&fleet), (3, 3, 0), "{report}");
}

/// One answer of discovery holds 1,000 instances, and there are no pages.
#[tokio::test(start_paused = true)]
async fn service_of_which_discovery_may_not_tell_all_is_listed() {
    let (fleet, function) = in_step(late(Duration::ZERO)).await;
    let service = fleet.cloud_map.find_service("prod.local", "web").expect("seeded");
    for index in 3..1000 {
        let address = format!("10.1.{}.{}", index / 250, index % 250);
        fleet.ecs_task(&service, &format!("{index:032x}"), &address);
    }

    let report = sync(&function).await;

    assert_eq!((calls(&fleet), report.counts.foreign), ((3, 10, 0), 998), "{report}");
}
