//! The TTL of an existing service: a cluster with an instance there lowers it, and raises it unless another cluster has an
//! instance there, too.

use crate::publish::plan::services::tags_needed;
use std::collections::BTreeSet;

use super::simulation::{Course, Simulation};
use super::world::{
    BOTH, Kubernetes, SRV, World, key, lines_of, of_other_cluster, own, pod, service, tagged, with,
};
use crate::model::{Outcome, Selection, Tags};

/// `shop/web` of `blue` asks for `wanted`. Its records have `present`, and the function created them. `instances` are
/// those of `blue` and of `green`.
fn world(wanted: Option<u32>, present: &[u32], instances: &[&str]) -> World {
    let claim = service("shop/web", "dns/web").ready([pod("one", "10.0.0.1")]);
    let claim = wanted.into_iter().fold(claim, Kubernetes::ttl);
    let (_, ours) = own("a", "shop/web", "10.0.0.1");
    let ours = with(ours, "cloud-map-sync/pod", "one");
    let theirs = of_other_cluster("shop/web", "10.0.0.2");
    World::of(claim).dns("web", [("a", ours), ("b", theirs)]).with("dns/web", |service| {
        service.ttls = present.iter().copied().collect();
        service.tags = tagged("cloud-map-sync");
        let all = service.instances.as_mut().expect("read");
        all.retain(|id, _| instances.contains(&if id == "a" { "blue" } else { "green" }));
    })
}

#[test]
fn ttl_is_lowered_by_each_cluster_there_and_raised_by_the_only_one() {
    type Case = (Option<u32>, &'static [u32], &'static [&'static str], &'static str);
    let cases: [Case; 15] = [
        (Some(30), &[60], &["blue"], "ttl 60 -> 30"),
        (Some(90), &[60], &["blue"], "ttl 60 -> 90"),
        (Some(30), &[15, 60], &["blue"], "ttl 15 and 60 -> 30"),
        (Some(60), &[60], &["blue"], ""),
        (None, &[60], &["blue"], ""),
        (Some(30), &[60], &["blue", "green"], "ttl 60 -> 30"),
        (Some(15), &[15, 60], &["blue", "green"], "ttl 15 and 60 -> 15"),
        (Some(30), &[15, 60], &["blue", "green"], "other clusters"),
        (Some(90), &[60], &["blue", "green"], "other clusters"),
        (Some(60), &[60], &["blue", "green"], ""),
        (None, &[60], &["blue", "green"], ""),
        // The plan registers the first instance of `blue`.
        (Some(30), &[60], &["green"], "ttl 60 -> 30"),
        (Some(90), &[60], &["green"], "other clusters"),
        (Some(30), &[60], &[], "ttl 60 -> 30"),
        (Some(90), &[60], &[], "ttl 60 -> 90"),
    ];
    for (wanted, present, instances, expected) in cases {
        let planned = world(wanted, present, instances).planned();
        let is_quiet = !planned.contains("ttl ") && !planned.contains("TtlStays");
        let case = format!("{wanted:?} {present:?} {instances:?}\n{planned}");
        assert!(if expected.is_empty() { is_quiet } else { planned.contains(expected) }, "{case}");
    }
}

#[test]
fn ttl_that_stays_is_a_remark_with_both_numbers() {
    let line = |world: World| {
        let plan = world.plan();
        let line = plan.held_back.iter().find(|line| line.reason.code() == "TtlStays");
        let reason = &line.unwrap_or_else(|| panic!("{}", lines_of(&plan))).reason;
        assert_eq!(reason.outcome(), Outcome::Remark);
        reason.to_string()
    };
    insta::assert_snapshot!(line(world(Some(90), &[15], &["blue", "green"])), @"the records have TTL 15 s and the annotation asks for 90: the TTL stays, since other clusters also have instances there (green), and may ask for less");
    let foreign = world(Some(30), &[15, 60], &["blue"]);
    let foreign = foreign.with("dns/web", |service| service.tags = tagged("team-a"));
    insta::assert_snapshot!(line(foreign), @"the records have TTL 15 and 60 s and the annotation asks for 30: the TTL stays, since the Cloud Map service does not carry our tag");
    let absent = world(None, &[60], &["green"]).service(service("shop/web", "dns/web").ttl(15));
    insta::assert_snapshot!(line(absent), @"the records have TTL 60 s and the annotation asks for 15: the TTL stays, since this cluster has no instance there");
    // A pod that these records probably do not take.
    let misfit = world(Some(15), &[60], &["green"]).with("dns/web", |service| service.kind = BOTH);
    assert!(line(misfit).contains("no instance there"));
}

#[test]
fn cluster_without_an_instance_there_changes_nothing() {
    // The pod has no port for the record.
    let planned = world(Some(15), &[60], &["green"]).with("dns/web", |it| it.kind = SRV).planned();
    assert!(planned.contains("PortNeeded") && !planned.contains("update"), "{planned}");
}

#[test]
fn cluster_whose_registration_is_refused_changes_nothing() {
    let course = |namespace_quota| Course { namespace_quota, ..Course::undisturbed() };
    let fails = Course { failing: 1, ..Course::undisturbed() };
    for (course, ttl) in [(course(1), 60), (fails, 60), (course(2), 15)] {
        let world = world(Some(15), &[60], &["green"]);
        let mut simulation = Simulation::new(world, course.clone());
        simulation.sync(&Selection::Everything);
        let service = &simulation.world.0.registry.services[&key("dns/web")];
        assert_eq!(service.ttls, BTreeSet::from([ttl]), "{course:?}");
    }
}

#[test]
fn tags_are_needed_if_the_records_differ_from_the_annotated_ttl() {
    let needed = |wanted, present: &[u32]| {
        let world = world(wanted, present, &["blue", "green"]);
        let world = world.with("dns/web", |service| service.tags = Tags::Unread);
        !tags_needed(&world.observed(&Selection::Everything)).is_empty()
    };
    assert!(needed(Some(90), &[15]));
    assert!(needed(Some(15), &[15, 60]));
    assert!(!needed(Some(30), &[30]));
    assert!(!needed(None, &[15, 60]));
}
