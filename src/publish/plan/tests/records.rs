//! The records of a member: those that are wanted are written, those of ended exports go, and those of others stay.

use std::collections::BTreeMap;

use insta::assert_snapshot;

use super::world::{World, key, lines_of, named, own, owner_of, with, written};
use crate::model::{Attributes, Flow, Marks, Owner, Place, Selection};
use crate::publish::plan::{Observation, Plan, PlanPhase, Policy, Rules, WantedRecords};

fn owner(cluster: &str) -> Owner {
    Owner { flow: Flow::Exports, ..owner_of(cluster) }
}

/// The record of an export, as this installation writes it for a cluster.
fn record(cluster: &str, service: &str, text: &str) -> Attributes {
    with(Marks { service: named(service), pod: None }.write(&owner(cluster)), "record", text)
}

/// The records of `web` and `mail`, written with `new`, and nothing of `old` any more.
fn records(world: &World) -> WantedRecords {
    let wanted = ["web", "mail"].map(|name| {
        let service = format!("shop/{name}");
        (format!("export-{name}"), (named(&service), record("blue", &service, "new")))
    });
    WantedRecords {
        place: Place::of(&key("http/blue"), &world.0.registry),
        wanted: wanted.into(),
        ended: [named("shop/old"), named("shop/web")].into(),
        in_one_group: false,
        taken_over: [].into(),
    }
}

fn world() -> World {
    let mut world = World::new();
    world.0.owner = owner("blue");
    world
}

fn plan(world: &World, records: &WantedRecords) -> Plan {
    records.plan(&world.observed(&Selection::Everything))
}

#[test]
fn service_of_the_member_is_created_with_its_first_records() {
    let world = world();
    let records = records(&world);
    let lines = |world: &World, records: &WantedRecords| -> Vec<String> {
        lines_of(&plan(world, records)).lines().map(|line| line.trim_end().to_owned()).collect()
    };
    let creation = "/: create http/blue: an HTTP service";
    let of_services =
        ["shop/mail: register http/blue export-mail:", "shop/web: register http/blue export-web:"];
    assert_eq!(lines(&world, &records), [&[creation], of_services.as_slice()].concat());
    let in_one_group = WantedRecords { in_one_group: true, ..records.clone() };
    let of_none = ["/: register http/blue export-mail:", "/: register http/blue export-web:"];
    assert_eq!(lines(&world, &in_one_group), [&[creation], of_none.as_slice()].concat());
    let none = WantedRecords { wanted: BTreeMap::new(), ..records.clone() };
    assert!(lines(&world, &none).is_empty());
    let exists = world.http("blue", []);
    assert_eq!(lines(&exists, &records), of_services);
}

/// A member has a thousand records, each in a group of its own.
#[test]
fn plan_of_a_group_has_the_records_of_its_own_services() {
    let present = record("blue", "shop/old", "old");
    let world = world().http("blue", [("export-old", present)]);
    let records = records(&world);
    let of_group = |service: &str| {
        let affected = [named(service)].into();
        let observed = world.observed(&Selection::Everything);
        records.plan(&Observation { phase: PlanPhase::Group, affected, ..observed })
    };
    assert_snapshot!(lines_of(&of_group("shop/web")), @"shop/web: register http/blue export-web:");
    assert_snapshot!(lines_of(&of_group("shop/old")), @"shop/old: deregister http/blue export-old: : Service shop/old is gone, or no longer exported");
}

#[test]
fn record_that_is_right_stays_and_an_ended_one_goes() {
    let world = world().http(
        "blue",
        [
            ("export-web", record("blue", "shop/web", "new")),
            ("export-mail", record("blue", "shop/mail", "old")),
            ("export-old", record("blue", "shop/old", "old")),
            ("export-other", record("blue", "shop/other", "old")),
        ],
    );
    assert_snapshot!(lines_of(&plan(&world, &records(&world))), @r"
    shop/mail: rewrite http/blue export-mail: record old -> new
    shop/old: deregister http/blue export-old: : Service shop/old is gone, or no longer exported
    ");
}

#[test]
fn records_of_others_stay_and_ours_are_held_back() {
    let theirs = [
        ("export-web", record("green", "shop/web", "old")),
        ("export-old", record("green", "shop/old", "old")),
        own("export-mail", "shop/mail", "10.0.0.1"),
    ];
    let world = world().http("blue", theirs);
    insta::assert_snapshot!(lines_of(&plan(&world, &records(&world))), @"
    ! shop/mail http/blue: instance export-mail exists and belongs to another endpoint; it is not overwritten (IdTaken)
    ! shop/web http/blue: instance export-web exists and belongs to another endpoint; it is not overwritten (IdTaken)
    ");
}

/// Another run may have taken a record over since the read.
#[test]
fn record_of_the_same_cluster_under_another_owner_id_is_taken_over_if_it_was_read_as_such() {
    let of = |cluster: &str, service: &str| {
        let owner = owner(cluster).formerly("team-b");
        with(Marks { service: named(service), pod: None }.write(&owner), "record", "old")
    };
    let theirs = [
        ("export-web", of("blue", "shop/web")),
        ("export-mail", of("green", "shop/mail")),
        ("export-old", of("blue", "shop/old")),
    ];
    let world = world().http("blue", theirs);
    let mut records = records(&world);
    assert_snapshot!(lines_of(&plan(&world, &records)), @"
    ! shop/mail http/blue: instance export-mail exists and belongs to another endpoint; it is not overwritten (IdTaken)
    ! shop/web http/blue: instance export-web exists and belongs to another endpoint; it is not overwritten (IdTaken)
    ");

    records.taken_over = ["export-web", "export-mail", "export-old"].map(str::to_owned).into();

    assert_snapshot!(lines_of(&plan(&world, &records)), @"
    shop/web: adopt http/blue export-web: : of the owner team-b; record old -> new
    ! shop/mail http/blue: instance export-mail exists and belongs to another endpoint; it is not overwritten (IdTaken)
    ");
    let written = written(&plan(&world, &records), "http/blue").remove("export-web");
    assert_eq!(written, Some(record("blue", "shop/web", "new")));
}

/// The record of the cluster is written under every policy: it has the heartbeat.
#[test]
fn policy_keeps_records_of_exports_and_never_that_of_the_cluster() {
    let stands = [("export-mail", "shop/mail"), ("export-old", "shop/old"), ("cluster", "/")];
    let stands = stands.map(|(id, service)| (id, record("blue", service, "old")));
    let world = world().http("blue", stands);
    let mut records = records(&world);
    let cluster = (named("/"), record("blue", "/", "new"));
    records.wanted.insert("cluster".to_owned(), cluster);
    let under = |policy| {
        let world = world.clone().under(Rules { policy, ..Rules::default() });
        let planned = lines_of(&plan(&world, &records));
        planned.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(under(Policy::UpsertOnly), @"
    /: rewrite http/blue cluster: record old -> new
    shop/mail: rewrite http/blue export-mail: record old -> new
    shop/web: register http/blue export-web:
    ! shop/old http/blue: POLICY=upsert-only does not allow this: deregister export-old in http/blue (Policy)
    ");
    assert_snapshot!(under(Policy::CreateOnly), @"
    /: rewrite http/blue cluster: record old -> new
    shop/web: register http/blue export-web:
    ! shop/mail http/blue: POLICY=create-only does not allow this: rewrite export-mail in http/blue (Policy)
    ! shop/old http/blue: POLICY=create-only does not allow this: deregister export-old in http/blue (Policy)
    ");
}
