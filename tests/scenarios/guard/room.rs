//! What is held stays also where its Service waits for room in Cloud Map that others make.

use super::{SHOPS, Shops, WAIT, guard, holds};
use crate::run::{held_back, sync};
use crate::sandbox::cloud_map::Behaviour;

#[tokio::test]
async fn what_is_held_stays_when_its_service_gets_the_room_that_it_waited_for() {
    let mut shops = Shops::start().await;
    let settings =
        [("NAMESPACE_INSTANCE_LIMIT", "12"), ("GUARD_SHARE", "20"), ("GUARD_MINIMUM", "2")];
    shops.function = shops.fleet.function_with(&settings).await.with_clock(shops.clock.clock());
    let full = Behaviour { instances_per_namespace: 12, ..Behaviour::default() };
    shops.fleet.cloud_map.behave(full);
    for name in &SHOPS[2..] {
        shops.fleet.cluster.delete_service("shop", name);
    }
    holds(&sync(&shops.function).await);
    shops.clock.advance(WAIT);
    shops.fleet.pods("cart", &["10.0.9.1"]);
    shops.fleet.pods("mail", &[]);

    let report = sync(&shops.function).await;

    assert_eq!(guard(&report).state, "held", "{report}");
    assert_eq!((report.counts.registered, report.counts.deregistered), (1, 6), "{report}");
    assert_eq!(held_back(&report).iter().filter(|reason| **reason == "Guard").count(), 2);
    let stay = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.9.1"];
    assert_eq!(shops.fleet.addresses("prod", "cart"), stay);
    shops.clock.advance(WAIT);
    let report = sync(&shops.function).await;
    assert_eq!(report.counts.deregistered, 6, "what was seen is remembered: {report}");
}
