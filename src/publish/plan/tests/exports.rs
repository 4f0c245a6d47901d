//! Instances that this installation registered for a `ServiceExport` of the same cluster, under a name that an annotated
//! Service claims. For the flow of annotations they are foreign in every respect.

use insta::assert_snapshot;

use super::world::{World, foreign, lines_of, named, own, owner_of, pod, service};
use crate::model::{Attributes, Flow, Foreign, Marks, Owner, Selection};
use crate::publish::plan::{Adoption, DeregisterReason, purge, unread};
use crate::publish::report;

fn exported(cluster: &str, address: &str) -> Attributes {
    let owner = Owner { flow: Flow::Exports, ..owner_of(cluster) };
    let mut attributes = Marks { service: named("shop/web"), pod: None }.write(&owner);
    attributes.extend(&foreign(address));
    attributes
}

/// `shop/web` with one ready pod, which is registered by both flows, and one that is gone.
fn shared() -> World {
    World::of(service("shop/web", "http/web").ready([pod("one", "10.0.0.1")])).http(
        "web",
        [
            own("a", "shop/web", "10.0.0.9"),
            ("b", exported("blue", "10.0.0.1")),
            ("c", exported("blue", "10.0.0.8")),
            ("d", exported("green", "10.0.0.7")),
        ],
    )
}

#[test]
fn a_sync_registers_beside_them_and_leaves_them() {
    let plan = shared().plan();
    assert_snapshot!(lines_of(&plan), @r"
    shop/web: register http/web: 10.0.0.1 (pod one)
    shop/web: deregister http/web a: 10.0.0.9: no ready endpoint has this address and port; stays until one of the ready endpoints is registered
    ");
    let services = report::of_plan("blue", plan).services;
    assert_eq!(services[0].foreign, [(Foreign::Export, 3)].into());
}

#[test]
fn a_purge_takes_none_of_them() {
    assert_snapshot!(lines_of(&purge(&shared().0, &DeregisterReason::Purged)), @"shop/web: deregister http/web a: 10.0.0.9: its cluster is purged");
}

#[test]
fn an_adoption_takes_none_of_them() {
    for owner in [None, Some("cloud-map-sync".to_owned())] {
        let observed = shared().observed(&Selection::Everything);
        let planned = lines_of(&Adoption { owner }.plan(&observed));
        assert_eq!(planned.matches("(NotAdopted)").count(), 3, "{planned}");
        assert!(!planned.contains(": adopt "), "{planned}");
    }
}

#[test]
fn they_belong_to_an_owner_of_their_own_and_make_no_service_ours() {
    let world = World::new().http("web", [("d", exported("green", "10.0.0.7"))]);
    let owners = world.0.registry.marked_owners("cloud-map-sync");
    assert_eq!(owners.iter().map(|it| it.flow).collect::<Vec<_>>(), [Flow::Exports]);
    assert_eq!(unread::seen_as_ours(&world.0).count(), 0);
}
