//! The attributes from annotations, and the limit of Cloud Map for the attributes of an instance.

use insta::assert_snapshot;

use super::instances::right;
use super::world::{Kubernetes, World, own, pod, service, written};
use crate::model::attributes::ANNOTATED;

/// `shop/web` with this number of attributes from annotations.
fn annotated(count: usize) -> Kubernetes {
    let mut web = service("shop/web", "http/web").ready([pod("one", "10.0.0.1")]);
    let attributes = (0..count).map(|index| (format!("key-{index:02}"), "x".to_owned()));
    web.annotated.claims.as_mut().expect("they are right").attributes = attributes.collect();
    web
}

#[test]
fn attributes_of_annotations_are_registered_and_listed_in_a_mark() {
    let plan = World::of(annotated(2)).http("web", []).plan();
    let (_, attributes) = written(&plan, "http/web").pop_first().expect("one instance");
    let found = ["key-00", "key-01", ANNOTATED].map(|key| attributes.get(key));
    assert_eq!(found, [Some("x"), Some("x"), Some("key-00,key-01")]);
}

#[test]
fn instance_with_more_attributes_than_cloud_map_takes_is_neither_registered_nor_rewritten() {
    let new = World::of(annotated(40)).http("web", []);
    assert_snapshot!(new.told(), @"! shop/web http/web: instance ip-10-0-0-1-7f9c7a236b would have 48 attributes, and Cloud Map allows 30; it is neither registered nor rewritten (AttributeLimit)");
    let present = new.clone().http("web", [("a", right())]);
    assert_snapshot!(present.told(), @"! shop/web http/web: instance a would have 48 attributes, and Cloud Map allows 30; it is neither registered nor rewritten (AttributeLimit)");
}

#[test]
fn instance_that_keeps_old_attributes_lets_its_service_leave_its_former_name() {
    let renamed = World::of(annotated(40)).http("web", [("a", right())]);
    let renamed = renamed.http("old", [own("b", "shop/web", "10.0.0.1")]);
    assert_snapshot!(renamed.told(), @r"
    shop/web: deregister http/old b: 10.0.0.1: Service shop/web asks for another name now
    ! shop/web http/web: instance a would have 48 attributes, and Cloud Map allows 30; it is neither registered nor rewritten (AttributeLimit)
    ");
}

#[test]
fn instance_that_keeps_the_marks_of_a_service_that_is_gone_stands_for_the_next_holder() {
    let gone = [own("a", "shop/gone", "10.0.0.1"), own("b", "shop/gone", "10.0.0.2")];
    let world = World::of(annotated(40)).http("web", gone);
    assert_snapshot!(world.told(), @r"
    shop/web: deregister http/web b: 10.0.0.2: Service shop/gone is gone, or no longer annotated and headless
    ! shop/web http/web: instance a would have 48 attributes, and Cloud Map allows 30; it is neither registered nor rewritten (AttributeLimit)
    ");
}
