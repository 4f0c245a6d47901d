//! The endpoints that an import keeps while the guard holds its loss, and the numbers that the guard counts.

use insta::assert_snapshot;
use serde_json::json;

use super::cluster::Cluster;
use super::world::{World, after, cluster, described, slices};
use crate::import::plan::{HeldParts, Kind, NamespaceState, Tally, hold};
use crate::model::Family;

fn both() -> World {
    World::with_ports("http:80")
        .exported("green", "10.0.0.1 10.0.0.2")
        .exported("red", "10.0.0.3 10.0.0.4")
}

/// The world in which the guard holds the loss of the import.
pub fn held(world: &World, cluster: &Cluster) -> World {
    let sources = hold(&world.input(&cluster.present()), &HeldParts::All);
    World { sources, ..world.clone() }
}

#[test]
fn held_import_gains_endpoints_and_loses_none() {
    let mut present = after(&both());
    let world =
        World::with_ports("http:80").exported("green", "10.0.0.2 10.0.0.9").unexported("red");
    let kept = held(&world, &present);
    assert_snapshot!(kept.synced(&mut present), @"
    ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 1 in
    ");
    assert_snapshot!(slices(&present), @"
    imported-isrlchlhrq-8de69181-1: 10.0.0.1 10.0.0.2 10.0.0.9
    imported-isrlchlhrq-a893d503-1: 10.0.0.3 10.0.0.4
    ");
    assert_eq!(held(&world, &present).planned(&present), "nothing");
    assert_snapshot!(world.planned(&present), @"
    ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 1 out
    - EndpointSlice imported-isrlchlhrq-a893d503-1: IPv4 of red, 2 out
    ~ ServiceImport web status: Ready True/Ready, from green
    ");
}

#[test]
fn held_import_without_an_export_stays_with_the_part_of_its_own_cluster() {
    let world = both().exported("blue", "10.0.0.5");
    let present = after(&world);
    let ended = both().unexported("blue").unexported("green").unexported("red");
    assert_eq!(held(&ended, &present).planned(&present), "nothing");
    assert_snapshot!(ended.planned(&present), @"- ServiceImport web: no cluster exports it; the last were blue, green, red");
}

#[test]
fn endpoints_of_the_importing_cluster_leave_a_held_import() {
    let present = after(&both().exported("blue", "10.0.0.5"));
    let world = both().unexported("blue").unexported("red");
    assert_snapshot!(held(&world, &present).planned(&present), @"
    - EndpointSlice imported-isrlchlhrq-ac321fb1-1: IPv4 of blue, 1 out
    ~ ServiceImport web status: Ready True/Ready, from green, red
    ");
}

#[test]
fn part_of_a_cluster_that_left_the_clusterset_is_held() {
    let present = after(&both());
    let mut world = both().unexported("red");
    world.sources.by_cluster.remove(&cluster("red"));
    assert_eq!(held(&world, &present).planned(&present), "nothing");
}

fn tally(world: &World, cluster: &Cluster) -> Tally {
    Tally::of(&world.input(&cluster.present()))
}

/// The weight of the import, the loss, what is left, and the part that was not read.
fn counts(world: &World, cluster: &Cluster) -> [usize; 4] {
    let Tally { present, loss, unread, .. } = tally(world, cluster);
    [present, loss.lost, loss.left, unread]
}

#[test]
fn ready_endpoints_of_other_clusters_are_counted_and_moves_lose_nothing() {
    let present = after(&both().exported("blue", "10.0.0.5"));
    let some = |green: &str, red: &str| {
        World::with_ports("http:80").exported("green", green).exported("red", red)
    };
    for (world, expected) in [
        (both().exported("blue", "10.0.0.5"), [4, 0, 4, 0]),
        (both().unexported("blue"), [4, 0, 4, 0]),
        (both().unexported("red"), [4, 2, 2, 0]),
        (both().unread("red"), [4, 0, 4, 2]),
        (some("10.0.0.8 10.0.0.9", "10.0.0.7"), [4, 1, 3, 0]),
        // The endpoints of one cluster are in another one now.
        (some("", "10.0.1.1 10.0.1.2 10.0.1.3 10.0.1.4 10.0.1.5"), [4, 0, 5, 0]),
        (some("10.0.0.1 fd00::1", "10.0.0.3"), [4, 2, 2, 0]),
    ] {
        assert_eq!(counts(&world, &present), expected, "{world:?}");
    }
    let mut not_ready = both();
    not_ready.endpoints_mut("red")[0].ready = false;
    assert_eq!(counts(&not_ready, &present), [4, 1, 3, 0]);
    assert_eq!(counts(&both(), &after(&not_ready)), [3, 0, 4, 0]);
    assert_eq!(counts(&both(), &Cluster::default()), [0, 0, 4, 0]);
}

#[test]
fn import_that_goes_without_an_endpoint_of_another_cluster_counts_as_one() {
    let ended = both().unexported("blue").unexported("green").unexported("red");
    for (before, expected) in [
        (both(), [4, 4, 0, 0]),
        (World::with_ports("http:80").exported("green", ""), [1, 1, 0, 0]),
        (World::with_ports("http:80").exported("blue", "10.0.0.5"), [1, 1, 0, 0]),
    ] {
        let present = after(&before);
        assert_eq!(counts(&ended, &present), expected, "{before:?}");
        assert!(!tally(&ended, &present).loss.was_read);
    }
    assert_eq!(counts(&ended, &Cluster::default()), [0; 4]);
}

#[test]
fn import_that_a_plan_does_not_touch_loses_nothing() {
    let present = after(&both());
    let mut absent = both().unexported("red");
    absent.namespace = NamespaceState::Terminating;
    let mut excluded = both().unexported("red");
    excluded.namespace = NamespaceState::Excluded;
    assert_eq!(counts(&excluded, &present), [4, 0, 4, 0]);
    let mut ended = both().unexported("green").unexported("red");
    ended.namespace = NamespaceState::Excluded;
    assert_eq!(counts(&ended, &present), [4, 4, 0, 0], "a deletion is carried out there");
    let mut incomplete = both().unexported("green").unexported("red");
    incomplete.sources.by_cluster.clear();
    incomplete.sources.is_complete = false;
    for (world, unread) in [(absent, 0), (incomplete, 4)] {
        assert_eq!(described(&world.plan(&present)), "nothing");
        assert_eq!(counts(&world, &present), [4, 0, 4, unread], "{world:?}");
    }
    let mut taken = after(&both());
    taken.object_mut(Kind::Service)["metadata"]["labels"] = json!({});
    assert_eq!(counts(&both().unexported("red"), &taken), [4, 0, 4, 0], "a foreign Service");
    let v6 = both().unexported("red").families(&[Family::V6]);
    assert_eq!(counts(&v6, &present)[2], 2, "the present family stays served");
}
