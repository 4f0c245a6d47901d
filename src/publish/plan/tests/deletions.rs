//! The Cloud Map services that are deleted, and the obstacles to a deletion.

use super::world::{BOTH, World, foreign, key, own, pod, service, tagged};
use crate::model::{Attributes, ServiceTags, Tags};
use crate::publish::plan::{Claimed, DeletionVerdict, Leaving};

/// The verdict of a full sync of one cluster on `http/web`.
fn web(world: &World, others: &Claimed) -> Option<DeletionVerdict> {
    let plan = world.plan();
    let mut observation = world.0.clone();
    observation.expect_namespaces();
    let claimed = Claimed::of(&observation, plan.leaving()).and(others.clone());
    let registry = &world.0.registry;
    let may = claimed.deletable(registry).contains(&key("http/web"));
    let service = &registry.services[&key("http/web")];
    may.then(|| claimed.verdict(&key("http/web"), service, "cloud-map-sync"))
}

/// `http/web` with our tag and these instances.
fn world<const N: usize>(instances: [(&str, Attributes); N]) -> World {
    let world = World::new().http("web", instances);
    world.with("http/web", |service| service.tags = tagged("cloud-map-sync"))
}

fn alone(world: &World) -> Option<DeletionVerdict> {
    web(world, &Claimed::default())
}

#[test]
fn a_service_of_ours_goes_if_no_service_claims_it_and_nothing_is_in_it() {
    assert_eq!(alone(&world([])), Some(DeletionVerdict::Delete));
    let unread = world([]).with("http/web", |service| service.instances = None);
    assert_eq!(alone(&unread), Some(DeletionVerdict::Keep), "until its instances are read");
}

#[test]
fn nothing_but_our_tag_makes_a_service_ours_to_delete() {
    let untagged = Tags::Read(ServiceTags::default());
    for tags in [untagged, tagged("team-a"), tagged("ECS"), Tags::Unread] {
        let world = world([]).with("http/web", |service| service.tags = tags.clone());
        assert_eq!(alone(&world), Some(DeletionVerdict::Keep), "{tags:?}");
    }
    let unreadable = |service: &mut crate::model::CloudMapService| {
        service.tags = Tags::Unreadable("denied".into());
    };
    let planned = Some(DeletionVerdict::Unreadable("denied".into()));
    assert_eq!(alone(&world([]).with("http/web", unreadable)), planned);
}

#[test]
fn what_is_registered_keeps_a_service_unless_all_of_it_goes() {
    let gone = || own("a", "shop/gone", "10.0.0.1");
    assert_eq!(alone(&world([gone()])), Some(DeletionVerdict::Delete));
    assert_eq!(alone(&world([gone(), ("b", foreign("10.0.0.2"))])), None);
    // The run did not deregister the instance, for example since a call failed.
    let world = world([gone()]);
    let claimed = Claimed::of(&world.0, Leaving::new());
    assert!(claimed.deletable(&world.0.registry).is_empty());
}

#[test]
fn a_claim_keeps_a_service_with_or_without_anything_to_register() {
    let claims = [
        service("shop/web", "http/web"),
        service("shop/web", "http/web").levers(false, None),
        service("shop/api", "http/api").also("web"),
    ];
    for claim in claims {
        assert_eq!(alone(&world([]).service(claim.clone())), None, "{claim:?}");
    }
    let other = service("shop/web", "dns/web");
    assert_eq!(
        alone(&world([]).service(other)),
        Some(DeletionVerdict::Delete),
        "of another namespace"
    );
}

#[test]
fn a_claim_of_another_cluster_keeps_a_service() {
    let green = World::of(service("ops/web", "http/web"));
    let of_green = Claimed::of(&green.0, green.plan().leaving());
    assert_eq!(web(&world([]), &of_green), None);
}

#[test]
fn a_claim_in_a_namespace_that_is_not_found_keeps_every_service_of_that_name() {
    let claims = |place| world([]).service(service("shop/web", place));
    assert_eq!(alone(&claims("typo/Web")), None);
    assert_eq!(alone(&claims("typo/api")), Some(DeletionVerdict::Delete));
}

#[test]
fn single_claim_does_not_keep_a_service_of_records_that_fit_no_endpoint() {
    let web = service("shop/web", "dns/web").families([]).ready([pod("one", "10.0.0.1")]);
    let misfit = || {
        let world = World::of(web.clone()).cloud_map("dns/web", BOTH, []);
        world.with("dns/web", |service| service.tags = tagged("cloud-map-sync"))
    };
    let claimed = |world: &World| Claimed::of(&world.0, world.plan().leaving());
    let may_go =
        |claimed: &Claimed| claimed.deletable(&misfit().0.registry).contains(&key("dns/web"));
    assert!(may_go(&claimed(&misfit())));
    let young = service("shop/young", "dns/web").created(200);
    assert!(!may_go(&claimed(&misfit().service(young))), "another Service of the cluster");
    let other = World::of(service("shop/web", "dns/web"));
    for others in [claimed(&other), claimed(&misfit())] {
        assert!(!may_go(&claimed(&misfit()).and(others)), "another cluster");
    }
}

#[test]
fn a_service_whose_annotations_say_nothing_usable_is_named() {
    let world = world([]).service(service("shop/api", "http/api").mistaken());
    let claimed = Claimed::of(&world.0, world.plan().leaving());
    assert_eq!(claimed.unclear, ["shop/api of cluster blue".to_owned()].into());
}

#[test]
fn a_service_that_could_not_be_read_stays() {
    let unreadable = world([]).with("http/web", |service| {
        (service.instances, service.unreadable) = (None, Some("throttled".into()));
    });
    assert_eq!(alone(&unreadable), None);
    let dns = World::new().dns("web", []);
    let claimed = Claimed::of(&dns.0, dns.plan().leaving());
    assert!(claimed.deletable(&dns.0.registry).contains(&key("dns/web")), "of any kind");
}

#[test]
fn verdict_on_a_service_of_ours_that_cannot_be_read_now_has_the_cause() {
    let world = world([]).with("http/web", |service| {
        (service.instances, service.unreadable) = (None, Some("throttled".into()));
    });
    let of = |world: &World| {
        let service = &world.0.registry.services[&key("http/web")];
        Claimed::default().verdict(&key("http/web"), service, "cloud-map-sync")
    };
    assert_eq!(of(&world), DeletionVerdict::Unreadable("throttled".into()));
    let others = world.with("http/web", |service| service.tags = tagged("team-a"));
    assert_eq!(of(&others), DeletionVerdict::Keep);
}
