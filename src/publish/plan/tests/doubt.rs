//! The services that discovery leaves in doubt and that are to be listed: those that a plan would change or report on,
//! and no others.

use super::guard::shops;
use super::world::{HTTP, World, own, pod, service};
use crate::model::{NamespaceKind, Selection};
use crate::publish::plan::{Policy, Rules, in_doubt};

/// The names of the Cloud Map services that are to be listed.
fn doubts(world: &World) -> Vec<String> {
    let doubt = in_doubt(world.observed(&Selection::Everything).basis());
    doubt.into_iter().map(|key| key.name).collect()
}

/// `shop/web` and `shop/api` in sync, and a pod of `shop/cart` that is not registered.
fn cart_differs() -> World {
    let ready = |name: &str, address| {
        service(&format!("shop/{name}"), &format!("http/{name}")).ready([pod("one", address)])
    };
    let registered = |name: &str, address| {
        super::world::with(
            own("a", &format!("shop/{name}"), address).1,
            "cloud-map-sync/pod",
            "one",
        )
    };
    World::new()
        .service(ready("web", "10.0.0.1").also("www"))
        .service(ready("api", "10.0.0.2"))
        .service(ready("cart", "10.0.0.3"))
        .cloud_map("http/web", HTTP, [("a", registered("web", "10.0.0.1"))])
        .cloud_map("http/www", HTTP, [("a", registered("web", "10.0.0.1"))])
        .cloud_map("http/api", HTTP, [("a", registered("api", "10.0.0.2"))])
        .cloud_map("http/cart", HTTP, [])
}

#[test]
fn what_is_to_be_changed_is_in_doubt_and_what_is_in_step_is_not() {
    assert_eq!(doubts(&cart_differs()), ["cart"]);
    let left = cart_differs().cloud_map("http/old", HTTP, [own("x", "shop/gone", "10.0.0.9")]);
    assert_eq!(doubts(&left), ["cart", "old"]);
}

#[test]
fn what_there_is_something_to_say_of_is_in_doubt() {
    let left = cart_differs().cloud_map("http/old", HTTP, [own("x", "shop/gone", "10.0.0.9")]);
    let kept = left.under(Rules { policy: Policy::UpsertOnly, ..Rules::default() });
    assert_eq!(doubts(&kept), ["cart", "old"], "the policy keeps what is there");
    let second = service("shop/zoo", "http/api").also("zoo").created(200);
    assert_eq!(doubts(&cart_differs().service(second)), ["api", "cart", "zoo"]);
}

#[test]
fn name_of_which_the_namespace_was_chosen_is_in_doubt_in_all_of_them() {
    let web = service("shop/web", "twice/web").ready([pod("one", "10.0.0.1")]);
    let world = World::new()
        .namespace("ns-one", "twice", NamespaceKind::Http)
        .namespace("ns-two", "twice", NamespaceKind::Http)
        .service(web)
        .cloud_map("one/web", HTTP, [own("a", "shop/web", "10.0.0.9")])
        .cloud_map("two/web", HTTP, []);
    assert_eq!(doubts(&world), ["web", "web"]);
}

#[test]
fn where_a_loss_may_be_too_large_all_that_was_seen_is_in_doubt() {
    let lost = shops(&[("a", 4, None), ("b", 4, None), ("c", 3, Some(3))]);
    let unseen =
        lost.clone().cloud_map("http/d", HTTP, []).with("http/d", |it| it.instances = None);
    assert_eq!(doubts(&unseen), ["a", "b", "c"]);
    let few = shops(&[("a", 1, None), ("b", 1, None), ("c", 3, Some(3))]);
    assert_eq!(doubts(&few), ["a", "b"]);
}
