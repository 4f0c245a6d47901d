//! The treatment of instances of which the cluster is gone or dropped, by the answer of EKS, the settings and the age
//! of that state. A cluster that exists has no note left. And the instances that a purge removes: all of ours for one
//! cluster, whatever its Services ask for, and no others.

use std::collections::BTreeSet;

use insta::assert_snapshot;

use super::world::{
    NOW, World, foreign, lines_of, of_other_cluster, ours, own, owner_of, pod, service, with,
};
use crate::model::attributes::ORPHANED;
use crate::model::{Existence, Foreign, SignedDuration, Timestamp};
use crate::publish::plan::{
    Change, DeregisterReason, Extent, OrphanStep, Orphans, Policy, Rules, purge,
};
use crate::publish::report;

const WEEK: SignedDuration = SignedDuration::from_hours(7 * 24);
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// Three instances of `green` under two names, beside others, as the owner of `green` sees them.
fn left_behind() -> World {
    let mut world = World::new()
        .dns(
            "web",
            [
                own("a", "shop/web", "10.0.0.1"),
                ("b", of_other_cluster("shop/web", "10.0.0.2")),
                ("c", with(foreign("10.0.0.3"), "ECS_SERVICE_NAME", "web")),
            ],
        )
        .http(
            "cart",
            [
                ("d", of_other_cluster("shop/cart", "10.0.0.4")),
                ("e", of_other_cluster("shop/gone", "10.0.0.5")),
            ],
        );
    world.0.owner = owner_of("green");
    world.under(purging(Some(WEEK)))
}

fn purging(purge_dead_clusters_after: Option<SignedDuration>) -> Rules {
    Rules { purge_dead_clusters_after, ..Rules::default() }
}

fn noted(world: World, at: &str) -> World {
    noted_on("e", world, at)
}

fn noted_on(id: &str, world: World, at: &str) -> World {
    world.with("http/cart", |service| {
        let instances = service.instances.as_mut().expect("read");
        let instance = instances.get_mut(id).expect("there");
        instance.insert(ORPHANED, at);
    })
}

fn since(age: SignedDuration) -> String {
    (NOW - age).to_string()
}

#[test]
fn every_cluster_that_the_installation_marked_is_found_and_none_of_another() {
    let theirs = with(ours("shop/web", "10.0.0.9"), "cloud-map-sync/owner", "team-a");
    let broken = with(ours("shop/web", "10.0.0.8"), "cloud-map-sync/cluster", "blue");
    let world = left_behind().http("x", [("x", theirs), ("y", broken)]);
    let found = world.0.registry.marked_owners("cloud-map-sync");
    let found: Vec<&str> = found.iter().map(|owner| owner.cluster.name()).collect();
    assert_eq!(found, ["blue", "green"]);
}

#[test]
fn orphans_go_only_where_that_is_set_the_cluster_is_gone_and_the_time_has_passed() {
    let gone = || Existence::Gone;
    let unknown = || Existence::Unknown("denied".to_owned());
    let (day, week) = (since(DAY), since(WEEK));
    let purge = OrphanStep::Purge(NOW - WEEK);
    let cases = [
        (gone(), None, None, OrphanStep::Leave),
        (gone(), None, Some(&week), OrphanStep::Leave),
        (gone(), Some(WEEK), None, OrphanStep::Note),
        (gone(), Some(SignedDuration::ZERO), None, OrphanStep::Note),
        (gone(), Some(WEEK), Some(&day), OrphanStep::Leave),
        (gone(), Some(WEEK), Some(&week), purge),
        (Existence::Exists, Some(WEEK), Some(&week), OrphanStep::TakeNoteBack),
        (Existence::Exists, None, Some(&week), OrphanStep::TakeNoteBack),
        (Existence::Exists, Some(WEEK), None, OrphanStep::Leave),
        (unknown(), Some(WEEK), Some(&week), OrphanStep::Leave),
        (unknown(), Some(WEEK), None, OrphanStep::Leave),
        (Existence::NotAsked, Some(WEEK), Some(&week), OrphanStep::Leave),
    ];
    for (existence, after, note, expected) in cases {
        let world = left_behind().under(purging(after));
        let world = note.into_iter().fold(world, |world, at| noted(world, at));
        let planned = format!("{existence:?} {after:?} {note:?}");
        assert_eq!(Orphans::of(&world.0, existence).step, expected, "{planned}");
    }
}

#[test]
fn only_names_with_instances_of_the_cluster_are_named_and_at_most_three() {
    let names = |count: usize| {
        let world = (1..=count).fold(World::new(), |world, index| {
            let theirs = ("a", of_other_cluster("shop/web", "10.0.0.4"));
            world.http(&format!("web-{index}"), [theirs])
        });
        let mut world = world.http("other", [own("b", "shop/web", "10.0.0.1")]);
        world.0.owner = owner_of("green");
        let orphans = Orphans::of(&world.0, Existence::NotAsked);
        (orphans.names.len(), orphans.to_string())
    };
    let end = ": this cluster is not in CLUSTERS: they stay until they are purged";
    assert_eq!(names(1), (1, format!("1 instance in http/web-1{end}")));
    let three = "instances in http/web-1, http/web-2, http/web-3";
    assert_eq!(names(3), (3, format!("3 {three}{end}")));
    assert_eq!(names(5), (5, format!("5 {three} and 2 more{end}")));
}

#[test]
fn a_note_that_says_no_time_or_one_that_lies_ahead_is_none() {
    for text in ["", "yesterday", &since(-DAY)] {
        let orphans = Orphans::of(&noted(left_behind(), text).0, Existence::Gone);
        assert_eq!((orphans.step, orphans.since), (OrphanStep::Note, Some(NOW)), "{text}");
    }
}

#[test]
fn of_several_notes_the_latest_counts() {
    let world = noted(noted_on("d", left_behind(), &since(DAY)), &since(WEEK));
    let orphans = Orphans::of(&world.0, Existence::Gone);
    assert_eq!((orphans.step, orphans.since), (OrphanStep::Leave, Some(NOW - DAY)));
}

#[test]
fn a_policy_that_ends_no_claim_purges_nothing_and_notes_nothing() {
    for policy in [Policy::UpsertOnly, Policy::CreateOnly] {
        let world = noted(left_behind(), &since(WEEK));
        let world = world.under(Rules { policy, ..purging(Some(WEEK)) });
        let orphans = Orphans::of(&world.0, Existence::Gone);
        assert_eq!(orphans.step, OrphanStep::Leave);
        assert!(orphans.to_string().ends_with(&format!("they stay because of POLICY={policy}")));
    }
}

#[test]
fn a_purge_takes_out_the_orphans_of_that_cluster_alone() {
    let world = noted(left_behind(), &since(WEEK));
    let plan = Orphans::of(&world.0, Existence::Gone).step.plan(&world.0);
    assert_snapshot!(lines_of(&plan), @r"
    shop/cart: deregister http/cart d: 10.0.0.4: its cluster is gone, first noticed at 2026-11-14T10:51:00Z
    shop/gone: deregister http/cart e: 10.0.0.5: its cluster is gone, first noticed at 2026-11-14T10:51:00Z
    shop/web: deregister dns/web b: 10.0.0.2: its cluster is gone, first noticed at 2026-11-14T10:51:00Z
    ");
}

#[test]
fn the_time_is_noted_on_one_instance_of_the_dead_cluster() {
    let world = left_behind();
    let plan = Orphans::of(&world.0, Existence::Gone).step.plan(&world.0);
    assert_snapshot!(lines_of(&plan), @"shop/web: rewrite dns/web b: cloud-map-sync/orphaned-since nothing -> 2026-11-21T10:51:00Z");
    assert_snapshot!(lines_of(&OrphanStep::Note.plan(&noted(world, &since(DAY)).0)), @"");
}

#[test]
fn a_note_is_taken_back_where_the_cluster_is_there_and_nowhere_else() {
    let world = noted(left_behind(), &since(DAY));
    assert_snapshot!(lines_of(&OrphanStep::TakeNoteBack.plan(&world.0)), @"shop/gone: rewrite http/cart e: cloud-map-sync/orphaned-since 2026-11-20T10:51:00Z -> nothing");
}

#[test]
fn orphans_are_reported_in_a_sentence() {
    let planned = |existence, after| {
        Orphans::of(&left_behind().under(purging(after)).0, existence).to_string()
    };
    assert_snapshot!(planned(Existence::Gone, None), @"3 instances in dns/web, http/cart: not found in EKS: they stay until they are purged");
    assert_snapshot!(planned(Existence::Gone, Some(WEEK)), @"3 instances in dns/web, http/cart: not found in EKS, first noticed at 2026-11-21T10:51:00Z: they will be deregistered from 2026-11-28T10:51:00Z on");
    assert_snapshot!(planned(Existence::NotAsked, None), @"3 instances in dns/web, http/cart: this cluster is not in CLUSTERS: they stay until they are purged");
    assert_snapshot!(planned(Existence::Exists, Some(WEEK)), @"3 instances in dns/web, http/cart: this cluster is not in CLUSTERS, but exists in EKS: they stay until they are purged");
    assert_snapshot!(planned(Existence::Unknown("denied".to_owned()), Some(WEEK)), @"3 instances in dns/web, http/cart: this cluster is not in CLUSTERS, and it is unknown whether it exists in EKS (denied): they stay until they are purged");
    let due = Orphans::of(&noted(left_behind(), &since(WEEK)).0, Existence::Gone);
    assert_snapshot!(due.to_string(), @"3 instances in dns/web, http/cart: not found in EKS, first noticed at 2026-11-14T10:51:00Z: they are deregistered");
}

#[test]
fn what_a_cluster_left_in_its_former_cloud_map_is_reported_and_never_purged() {
    let world = noted(left_behind(), &since(WEEK));
    let orphans = Orphans::of(&world.0, Existence::Exists).moved_to("in eu-west-1".to_owned());
    assert_eq!((orphans.code(), orphans.step), ("ClusterMoved", OrphanStep::TakeNoteBack));
    assert_snapshot!(orphans.to_string(), @"3 instances in dns/web, http/cart: this cluster is kept in another Cloud Map now (in eu-west-1): they stay until they are purged");
    let gone = Orphans::of(&world.0, Existence::Gone).moved_to("in eu-west-1".to_owned());
    assert_eq!(gone.code(), "ClusterGone");
}

#[test]
fn cluster_that_eks_does_not_know_for_sure_has_a_code_of_its_own() {
    let code = |existence| Orphans::of(&left_behind().0, existence).code();
    assert_eq!(code(Existence::Unknown("denied".to_owned())), "ClusterUnknown");
    for existence in [Existence::Exists, Existence::NotAsked] {
        assert_eq!(code(existence), "ClusterNotConfigured");
    }
}

#[test]
fn what_another_cloud_map_shows_too_is_left_out_by_the_arn_of_its_namespace() {
    let registry = left_behind().0.registry;
    let arn = |id: &str| registry.namespaces[id].arn.clone().expect("an ARN");
    let left = |shown: &[String]| {
        let left = registry.not_shown(&shown.iter().cloned().collect());
        left.services.keys().map(|key| key.namespace.clone()).collect::<Vec<_>>()
    };
    assert_eq!(left(&[]), ["ns-dns", "ns-http"]);
    assert_eq!(left(&[arn("ns-dns")]), ["ns-http"]);
    assert_eq!(left(&[arn("ns-dns").replace("1111", "4444")]), ["ns-dns", "ns-http"]);
    assert_eq!(left(&[arn("ns-dns"), arn("ns-http")]), [""; 0]);
}

/// A cluster that was made again under its name: one of its former instances was noted.
fn made_again(attributes: crate::model::Attributes) -> World {
    World::of(service("shop/web", "http/web").ready([pod("one", "10.0.0.1")])).http(
        "web",
        [(
            "a",
            with(with(attributes, "cloud-map-sync/pod", "one"), ORPHANED, "2026-11-01T00:00:00Z"),
        )],
    )
}

#[test]
fn a_full_sync_of_a_cluster_that_is_there_takes_the_note_back() {
    let wanted = made_again(ours("shop/web", "10.0.0.1"));
    assert_snapshot!(wanted.planned(), @"shop/web: rewrite http/web a: cloud-map-sync/orphaned-since 2026-11-01T00:00:00Z -> nothing");
    let drifted = made_again(with(ours("shop/web", "10.0.0.1"), "REGION", "elsewhere"));
    assert_snapshot!(drifted.planned(), @"shop/web: rewrite http/web a: REGION elsewhere -> eu-central-1, cloud-map-sync/orphaned-since 2026-11-01T00:00:00Z -> nothing");
    let unwanted = made_again(ours("shop/web", "10.0.0.2"));
    assert_snapshot!(unwanted.planned(), @r"
    shop/web: rewrite http/web a: cloud-map-sync/orphaned-since 2026-11-01T00:00:00Z -> nothing
    shop/web: register http/web: 10.0.0.1 (pod one)
    shop/web: deregister http/web a: 10.0.0.2 (pod one): no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ");
    assert_snapshot!(lines_of(&wanted.plan_of("shop/web")), @"shop/web: rewrite http/web a: cloud-map-sync/orphaned-since 2026-11-01T00:00:00Z -> nothing");
}

#[test]
fn what_stays_unrequested_loses_its_note_too() {
    let mut keeps = made_again(ours("shop/web", "10.0.0.2"));
    keeps.0.extent = Extent::Everything;
    let keeps = keeps.service(service("shop/web", "http/web").keeps(false, true));
    assert_snapshot!(keeps.planned(), @r"
    shop/web: rewrite http/web a: cloud-map-sync/orphaned-since 2026-11-01T00:00:00Z -> nothing
    ! shop/web http/web: no endpoint is ready; 1 instance stays here because of when-none-ready (NoneReady)
    ");
}

#[test]
fn a_time_is_noted_as_people_write_it() {
    assert_eq!(NOW.to_string().parse::<Timestamp>().ok(), Some(NOW));
}

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
    assert_snapshot!(lines_of(&purge(&crowded().0, &DeregisterReason::Purged)), @r"
    shop/gone: deregister http/web b: 10.0.0.2: its cluster is purged
    shop/web: deregister dns/web f: 10.0.0.1: its cluster is purged
    shop/web: deregister http/web a: 10.0.0.1: its cluster is purged
    ");
}

#[test]
fn a_purge_of_one_cluster_takes_nothing_of_another() {
    let mut world = crowded();
    world.0.owner = owner_of("green");
    assert_snapshot!(lines_of(&purge(&world.0, &DeregisterReason::Purged)), @"shop/web: deregister http/web c: 10.0.0.3: its cluster is purged");
}

#[test]
fn a_purge_waits_for_nothing_and_says_which_names_it_empties_and_who_is_left() {
    let plan = purge(&crowded().0, &DeregisterReason::Purged);
    let waits = |change: &Change| matches!(change, Change::Deregister { waits_for: Some(_), .. });
    assert!(!plan.changes.values().flatten().any(waits));
    let planned = report::of_plan("blue", plan).services.into_iter().map(|service| {
        let foreign: Vec<Foreign> = service.foreign.into_keys().collect();
        (format!("{}/{}", service.namespace, service.name), service.emptied, foreign)
    });
    let planned: BTreeSet<_> = planned.collect();
    let expected = [
        ("dns/web".to_owned(), true, vec![]),
        ("http/web".to_owned(), false, vec![Foreign::Ecs, Foreign::OtherCluster]),
    ];
    assert_eq!(planned, expected.into());
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
