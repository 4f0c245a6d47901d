//! The largest number of instances, against the quotas.

use super::world::{World, foreign, own, pod, service};
use crate::publish::plan::Peak;

#[test]
fn new_instances_count_before_old_ones_go_and_those_of_others_do_too() {
    let world = World::of(service("shop/web", "http/web").ready([pod("two", "10.0.0.2")]))
        .http("web", [own("a", "shop/web", "10.0.0.1"), ("b", foreign("10.0.0.9"))])
        .http("cart", [])
        .with("http/cart", |cart| (cart.instances, cart.instance_count) = (None, 2))
        .dns("web", [("c", foreign("10.0.0.1"))]);
    let peaks: Vec<(String, usize, usize, bool)> = world
        .0
        .peaks(&world.plan())
        .into_iter()
        .map(|Peak { of, count, quota, is_fixed }| (of, count, quota, is_fixed))
        .collect();
    let expected = [("http/web", 3, 1000, true), ("http", 5, 2000, false)];
    assert_eq!(
        peaks,
        expected.map(|(of, count, quota, is_fixed)| (of.to_owned(), count, quota, is_fixed))
    );
}
