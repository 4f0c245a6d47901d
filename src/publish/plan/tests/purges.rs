//! The instances that a purge removes: all of ours for one cluster, whatever its Services ask for, and no others.

use std::collections::BTreeSet;

use insta::assert_snapshot;

use super::world::{
    World, foreign, of_other_cluster, ours, own, owner_of, pod, service, tell, with,
};
use crate::model::Foreign;
use crate::publish::plan::{Change, DeregisterReason, purge};
use crate::publish::report;

fn crowded() -> World {
    World::of(service("shop/web", "http/web").ready([pod("one", "10.0.0.1")]))
        .http(
            "web",
            [
                own("a", "shop/web", "10.0.0.1"),
                own("b", "shop/gone", "10.0.0.2"),
                ("c", of_other_cluster("shop/web", "10.0.0.3")),
                ("d", with(foreign("10.0.0.4"), "ECS_SERVICE_NAME", "web")),
                ("e", with(ours("shop/web", "10.0.0.5"), "cloud-map-sync/owner", "team-a")),
            ],
        )
        .dns("web", [own("f", "shop/web", "10.0.0.1")])
        .dns("other", [("g", foreign("10.0.0.1"))])
        .dns("empty", [])
}

#[test]
fn all_of_ours_goes_whether_it_is_claimed_or_not_and_nothing_else() {
    assert_snapshot!(tell(&purge(&crowded().0, &DeregisterReason::Purged)), @r"
    shop/gone: deregister http/web b: 10.0.0.2: its cluster is purged
    shop/web: deregister dns/web f: 10.0.0.1: its cluster is purged
    shop/web: deregister http/web a: 10.0.0.1: its cluster is purged
    ");
}

#[test]
fn a_purge_of_one_cluster_takes_nothing_of_another() {
    let mut world = crowded();
    world.0.owner = owner_of("green");
    assert_snapshot!(tell(&purge(&world.0, &DeregisterReason::Purged)), @"shop/web: deregister http/web c: 10.0.0.3: its cluster is purged");
}

#[test]
fn a_purge_waits_for_nothing_and_says_which_names_it_empties_and_who_is_left() {
    let plan = purge(&crowded().0, &DeregisterReason::Purged);
    let waits = |change: &Change| matches!(change, Change::Deregister { waits_for: Some(_), .. });
    assert!(!plan.changes.values().flatten().any(waits));
    let told = report::of_plan("blue", plan).services.into_iter().map(|service| {
        let foreign: Vec<Foreign> = service.foreign.into_keys().collect();
        (format!("{}/{}", service.namespace, service.name), service.emptied, foreign)
    });
    let told: BTreeSet<_> = told.collect();
    let expected = [
        ("dns/web".to_owned(), true, vec![]),
        ("http/web".to_owned(), false, vec![Foreign::Ecs, Foreign::OtherCluster]),
    ];
    assert_eq!(told, expected.into());
}

#[test]
fn a_service_that_could_not_be_read_is_reported() {
    let world = crowded().with("dns/other", |service| {
        service.instances = None;
        service.unreadable = Some("throttled".to_owned());
    });
    let plan = purge(&world.0, &DeregisterReason::Purged);
    let unread = plan.unchanged.iter().filter(|(_, it)| it.unreadable.is_some());
    assert_eq!(unread.map(|(place, _)| place.to_string()).collect::<Vec<_>>(), ["dns/other"]);
}
