//! Whether a sync of a part of a cluster depends on the rest of it: on namespaces that others name, on other claims to a
//! name, and on instances left under other names. Which additions a full sync makes first.

use crate::publish::plan::{additions_from_memory, holds_names_exclusively, namespaces};
use std::collections::BTreeSet;

use serde_json::json;

use super::name_policy::rules;
use super::world::{Kubernetes, World, foreign, key, of_other_cluster, own, pod, service};
use crate::model::{NamespaceKind, Selection};

#[test]
fn namespaces_that_claims_name_are_known_or_lacking() {
    let world = World::of(service("shop/web", "http/web"))
        .service(service("shop/mail", "dns/mail"))
        .service(service("shop/wrong", "gone/wrong").mistaken());
    let known = ["ns-dns".to_owned(), "ns-http".to_owned()];
    assert!(!namespaces::is_one_missing(&world.0));
    assert_eq!(namespaces::claimed(&world.0), known.clone().into());
    let lacking = world.service(service("shop/api", "gone/api"));
    assert!(namespaces::is_one_missing(&lacking.0));
    assert_eq!(namespaces::claimed(&lacking.0), known.into());
    assert!(namespaces::claimed(&World::new().0).is_empty());
}

#[test]
fn service_holds_its_names_exclusively_if_all_of_ours_under_them_is_its_own() {
    let world = |web: Kubernetes| {
        World::of(web).http(
            "web",
            [
                own("a", "shop/web", "10.0.0.1"),
                ("b", foreign("10.0.0.2")),
                ("c", of_other_cluster("shop/old", "10.0.0.3")),
            ],
        )
    };
    let web = || service("shop/web", "http/web");
    let holds = |world: &World| {
        let observed = world.observed(&Selection::namespace("shop"));
        holds_names_exclusively(&observed, &observed.affected)
    };
    assert!(holds(&world(web())));
    assert!(!holds(&world(web().mistaken())), "its names are not known");
    assert!(!holds(&world(web().also("mail"))), "there is nothing of it under the second name");
    let with_old = world(web()).with("http/web", |it| {
        let (id, attributes) = own("d", "shop/old", "10.0.0.4");
        it.instances.as_mut().expect("read").insert(id.into(), attributes);
    });
    assert!(!holds(&with_old), "a former holder has an instance there");
    let denied = |names: &str| world(web().also("mail")).under(rules(&[("names", json!([names]))]));
    assert!(!holds(&denied("web*")), "a name is denied");
    assert!(!holds(&world(web()).service(service("shop/api", "http/api"))), "each of them");
}

#[test]
fn name_that_was_seen_and_is_not_listed_is_not_added_first() {
    let ready = || [pod("one", "10.0.0.1")];
    let world = World::of(service("shop/web", "http/web").ready(ready()))
        .service(service("shop/api", "http/api").ready(ready()))
        .http("web", []);
    let observed = world.observed(&Selection::Everything);
    let added = |seen: &[&str]| {
        let seen = seen.iter().map(|name| key(name)).collect();
        let additions = additions_from_memory(&observed, &seen);
        additions.into_keys().map(|service| service.name).collect::<Vec<_>>()
    };
    assert_eq!(added(&[]), ["api", "web"]);
    assert_eq!(added(&["http/web"]), ["api", "web"]);
    assert_eq!(added(&["http/web", "http/api"]), ["web"]);
}

/// The claim that has to choose may turn out to be the older one, once all is read.
#[test]
fn name_in_one_of_several_namespaces_that_a_service_has_to_choose_from_is_not_added_first() {
    let world = World::new()
        .namespace("ns-one", "twice", NamespaceKind::Http)
        .namespace("ns-two", "twice", NamespaceKind::Http)
        .service(service("shop/pay", "twice/web").created(1))
        .service(service("shop/web", "ns-one/web").created(2).ready([pod("one", "10.0.0.1")]));
    let additions =
        additions_from_memory(&world.observed(&Selection::Everything), &BTreeSet::new());
    assert!(additions.is_empty(), "{additions:?}");
}
