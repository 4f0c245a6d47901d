//! Missing Cloud Map namespaces that are created, and those that are not.

use insta::assert_snapshot;

use super::world::{World, pod, service};
use crate::model::NamespaceReference;
use crate::publish::plan::Rules;

/// The plan for Services with one pod each that claim these names.
fn planned(places: &[(&'static str, &'static str)], rules: Rules) -> String {
    let claim = |world: World, (name, place): &(&'static str, &'static str)| {
        world.service(service(name, place).ready([pod("one", "10.0.0.1")]))
    };
    places.iter().fold(World::new(), claim).under(rules).planned()
}

fn creating() -> Rules {
    Rules { create_namespaces: true, ..Rules::default() }
}

#[test]
fn a_missing_namespace_is_created_once_for_all_services_that_need_it() {
    let places = [("shop/api", "prod/api"), ("shop/web", "prod/web")];
    assert_snapshot!(planned(&places, creating()), @r"
    shop/api: create-namespace prod/api: prod, an HTTP namespace
    shop/api: create prod/api: an HTTP service
    shop/api: register prod/api: 10.0.0.1 (pod one)
    shop/web: create prod/web: an HTTP service
    shop/web: register prod/web: 10.0.0.1 (pod one)
    ");
    assert_snapshot!(planned(&places, Rules::default()), @r#"
    ! shop/api: no Cloud Map namespace "prod" is visible here; visible: dns, http; registered instances stay (NamespaceMissing)
    ! shop/web: no Cloud Map namespace "prod" is visible here; visible: dns, http; registered instances stay (NamespaceMissing)
    "#);
}

#[test]
fn nothing_is_created_for_a_service_with_nothing_to_register() {
    let world = World::of(service("shop/web", "prod/web")).under(creating());
    assert_snapshot!(world.planned(), @"");
}

#[test]
fn two_services_that_claim_one_name_in_a_missing_namespace_settle_it_first() {
    let places = [("shop/api", "prod/web"), ("shop/web", "prod/web")];
    assert_snapshot!(planned(&places, creating()), @r"
    shop/api: create-namespace prod/web: prod, an HTTP namespace
    shop/api: create prod/web: an HTTP service
    shop/api: register prod/web: 10.0.0.1 (pod one)
    ! shop/web prod/web: Service shop/api of this cluster holds the name; this one takes over when that ends (DomainConflict)
    ");
}

#[test]
fn a_namespace_is_not_created_where_its_name_may_mean_another_one() {
    let reason = |namespace: &'static str, rules: Rules| {
        let web = service("shop/web", "http/web").ready([pod("one", "10.0.0.1")]);
        let planned = World::of(web.within(namespace)).under(rules).planned();
        let reason = planned.split_once("it is not created: ").map(|(_, reason)| reason.to_owned());
        reason.unwrap_or(planned)
    };
    let only = |name: &str| {
        let named = NamespaceReference::parse(name).expect("a reference");
        Rules { namespaces: vec![named], ..creating() }
    };
    let arn = "arn:aws:servicediscovery:eu-central-1:111122223333:namespace/ns-1";
    assert_snapshot!(reason("prod.local", creating()), @"it may be a DNS name, and HTTP namespaces do not answer DNS queries; registered instances stay (NamespaceMissing)");
    assert_snapshot!(reason("ns-abcdefghijklmnop", creating()), @"it may be the id of a namespace; registered instances stay (NamespaceMissing)");
    assert_snapshot!(reason(arn, creating()), @"an ARN refers to an existing namespace; registered instances stay (NamespaceMissing)");
    assert_snapshot!(reason("prod", only("other")), @"CLOUD_MAP_NAMESPACES does not contain it; registered instances stay (NamespaceMissing)");
    assert!(reason("prod", only("prod")).contains("create-namespace"));
}
