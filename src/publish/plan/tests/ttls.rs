//! The TTL of a name under which several clusters have instances: the smallest that they ask for, and only lowered if
//! not all of them were read.

use std::collections::{BTreeMap, BTreeSet};

use super::simulation::{Course, Simulation};
use super::world::{
    A, BOTH, Kubernetes, SRV, World, key, lines_of, of_other_cluster, own, owner_of, pod, service,
    tagged,
};
use crate::model::{Selection, Tags};

/// The request of `green`: it was not read, it asks for no TTL, or for this one.
#[derive(Clone, Copy, Debug)]
enum Green {
    Unread,
    Asks(Option<u32>),
}

/// The requests of `blue` and `green`, the TTLs of the records, the update of `blue`, and whether it waits.
type Case<'a> = (Option<u32>, Green, &'a [u32], &'a str, bool);

/// `blue` and `green` under one name; `blue` asks for `own`, and the records have `present`.
fn both(own_ttl: Option<u32>, green: Green, present: &[u32], tags: Tags) -> World {
    let claim = service("shop/web", "dns/web").ready([pod("one", "10.0.0.1")]);
    let claim = own_ttl.into_iter().fold(claim, Kubernetes::ttl);
    let (_, ours) = own("a", "shop/web", "10.0.0.1");
    let ours = super::world::with(ours, "cloud-map-sync/pod", "one");
    let theirs = of_other_cluster("shop/web", "10.0.0.2");
    let world = World::of(claim);
    world.dns("web", [("a", ours), ("b", theirs)]).with("dns/web", |service| {
        service.ttls = present.iter().copied().collect();
        service.tags = tags;
        if let Green::Asks(ttl) = green {
            service.ttls_asked = BTreeMap::from([(owner_of("green").cluster, ttl)]);
        }
    })
}

/// The same without the instance of `blue`.
fn without_ours(world: World) -> World {
    world.with("dns/web", |it| _ = it.instances.as_mut().expect("read").remove("a"))
}

#[test]
fn the_smallest_counts_if_all_were_read_and_else_it_is_only_lowered() {
    use Green::{Asks, Unread};
    let cases: [Case; 15] = [
        (Some(30), Asks(Some(60)), &[60], "ttl 60 -> 30", false),
        (Some(30), Asks(None), &[60], "ttl 60 -> 30", false),
        (Some(30), Unread, &[60], "ttl 60 -> 30", false),
        (Some(30), Asks(Some(60)), &[15], "ttl 15 -> 30", false),
        (Some(90), Asks(Some(60)), &[15], "ttl 15 -> 60", true),
        (None, Asks(Some(60)), &[15], "ttl 15 -> 60", false),
        (Some(30), Unread, &[15], "", true),
        (Some(30), Asks(Some(30)), &[30], "", false),
        // The other one lowers it itself.
        (Some(90), Asks(Some(15)), &[60], "", true),
        (Some(90), Asks(Some(15)), &[15], "", true),
        (None, Asks(Some(15)), &[60], "", false),
        (None, Asks(None), &[60], "", false),
        (Some(90), Asks(Some(60)), &[15, 60], "", true),
        (Some(30), Unread, &[15, 60], "ttl 15 and 60 -> 15", true),
        (Some(30), Asks(None), &[15, 60], "ttl 15 and 60 -> 30", false),
    ];
    for (own, green, present, expected, waits) in cases {
        let plan = both(own, green, present, tagged("cloud-map-sync")).plan();
        let case = format!("{own:?} {green:?} {present:?}\n{}", lines_of(&plan));
        let expected = match expected {
            "" => String::new(),
            update => format!("shop/web: update dns/web: {update}"),
        };
        assert_eq!(lines_of(&plan), expected, "{case}");
        let notes: Vec<String> =
            plan.unchanged.values().flat_map(|it| &it.notes).map(ToString::to_string).collect();
        assert_eq!(notes.len(), usize::from(waits), "{case}{notes:?}");
    }
}

#[test]
fn cluster_that_has_left_the_name_raises_it_for_the_others_if_it_knows_what_they_ask_for() {
    let left = |green, service: Option<Kubernetes>| {
        let mut world = both(None, green, &[15], tagged("cloud-map-sync"));
        world.0.desired.services.clear();
        let world = service.into_iter().fold(world, World::service);
        let needs_tags = world.observed(&Selection::Everything).tags_needed().len();
        let planned = world.planned();
        (planned.lines().next().unwrap_or_default().to_owned(), needs_tags)
    };
    let gone = "shop/web: deregister dns/web a: 10.0.0.1 (pod one): Service shop/web is gone, or no longer annotated and headless";
    let raised = "shop/web: update dns/web: ttl 15 -> 60";
    assert_eq!(left(Green::Asks(Some(60)), None), (raised.to_owned(), 1));
    assert_eq!(left(Green::Asks(None), None), (gone.to_owned(), 0));
    assert_eq!(left(Green::Unread, None), (gone.to_owned(), 0));
    // It may ask for less.
    let (planned, needs_tags) =
        left(Green::Asks(Some(60)), Some(service("shop/web", "dns/web").mistaken()));
    assert!(planned.contains("BadAnnotation") && needs_tags == 0, "{planned}");
}

#[test]
fn what_waits_says_for_whom() {
    let plan = both(Some(90), Green::Asks(Some(15)), &[15], tagged("cloud-map-sync")).plan();
    let note = plan.unchanged.values().next().map(|it| it.notes[0].to_string());
    insta::assert_snapshot!(note.expect("a note"), @"ttl 90 is requested, and the records have 15: other clusters also have instances under this name (green); the smallest TTL that any of the clusters requests applies, and a run that has not read all of them only lowers it");
}

#[test]
fn a_service_of_others_keeps_its_ttl_and_one_that_asks_for_nothing_hears_of_nothing() {
    let planned = |own| lines_of(&both(own, Green::Asks(Some(30)), &[15], tagged("team-a")).plan());
    assert!(planned(Some(60)).ends_with("(TtlNotOurs)"));
    assert_eq!(planned(None), "");
}

#[test]
fn a_cluster_without_an_instance_there_has_no_say_beside_others() {
    let absent = |world: World| without_ours(world).service(service("shop/web", "dns/web").ttl(15));
    let tags = || tagged("cloud-map-sync");
    assert_eq!(absent(both(None, Green::Asks(Some(60)), &[60], tags())).planned(), "");
    assert_eq!(absent(both(None, Green::Unread, &[60], tags())).planned(), "");
    // It asks for a TTL and cannot get it: the pod has no port for the record.
    let world = without_ours(both(Some(15), Green::Unread, &[60], tags()));
    let planned = world.with("dns/web", |it| it.kind = SRV).planned();
    assert!(planned.contains("PortNeeded") && !planned.contains("update"), "{planned}");
}

#[test]
fn a_cluster_whose_registration_cloud_map_refuses_has_no_say() {
    let world = without_ours(both(Some(15), Green::Unread, &[60], tagged("cloud-map-sync")));
    let course = |namespace_quota| Course { namespace_quota, ..Course::undisturbed() };
    let fails = Course { failing: 1, ..Course::undisturbed() };
    for (course, ttl) in [(course(1), 60), (fails, 60), (course(2), 15)] {
        let mut simulation = Simulation::new(world.clone(), course.clone());
        simulation.sync(&Selection::Everything);
        let service = &simulation.world.0.registry.services[&key("dns/web")];
        assert_eq!(service.ttls, BTreeSet::from([ttl]), "{course:?}");
    }
    let planned = world.with("dns/web", |it| it.kind = BOTH).planned();
    assert!(planned.contains("register") && !planned.contains("update"), "{planned}");
}

#[test]
fn the_holder_of_each_name_asks_for_its_ttl() {
    let web = service("shop/web", "dns/web").also("mail").created(2).ttl(15);
    let world = World::of(web)
        .service(service("shop/old", "dns/mail").created(1))
        .service(service("shop/wrong", "dns/wrong").mistaken())
        .service(service("shop/moved", "missing/new").ttl(90))
        .service(service("shop/next", "dns/left"))
        .cloud_map("dns/left", A, [own("a", "shop/moved", "10.0.0.1")]);
    let asked = world.observed(&Selection::Everything).ttls_asked();
    assert_eq!(asked, [(key("dns/mail"), None), (key("dns/web"), Some(15))].into());
}

#[test]
fn updates_alone_are_those_of_services() {
    let registers = both(Some(30), Green::Asks(Some(60)), &[60], tagged("cloud-map-sync"));
    let pods = [pod("one", "10.0.0.1"), pod("two", "10.0.0.3")];
    let world = registers
        .service(service("shop/web", "dns/web").ttl(30).ready(pods))
        .service(service("shop/mail", "http/mail").ready([pod("one", "10.0.0.1")]));
    let plan = world.plan();
    assert_eq!(plan.changes.values().flatten().count(), 4, "{}", lines_of(&plan));
    let alone = plan.updates_alone();
    assert_eq!(lines_of(&alone), "shop/web: update dns/web: ttl 60 -> 30");
    assert_eq!((alone.changes.len(), alone.unchanged.len()), (1, 0));
}

#[test]
fn note_about_a_ttl_is_for_a_cluster_with_an_instance_there() {
    let notes = |world: &World| {
        let plan = world.plan();
        plan.unchanged.values().map(|it| it.notes.len()).sum::<usize>()
    };
    let waits = || both(Some(90), Green::Asks(Some(15)), &[15], tagged("cloud-map-sync"));
    assert_eq!(notes(&waits()), 1);
    // Its pod is registered by this plan.
    assert_eq!(notes(&without_ours(waits())), 1);
    let none = without_ours(waits()).service(service("shop/web", "dns/web").ttl(90));
    assert_eq!(notes(&none), 0);
}

#[test]
fn tags_are_needed_if_the_records_differ_from_the_own_ttl_or_from_the_one_to_set() {
    let needed = |own, green, present: &[u32]| {
        let world = both(own, green, present, Tags::Unread);
        !world.observed(&Selection::Everything).tags_needed().is_empty()
    };
    assert!(needed(Some(90), Green::Asks(Some(15)), &[15]), "only from its own");
    assert!(needed(None, Green::Asks(Some(60)), &[15]), "only from the one to set");
    assert!(!needed(Some(30), Green::Asks(Some(60)), &[30]));
}
