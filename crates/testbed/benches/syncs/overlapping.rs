//! Processes that sync at the same time, each with its half of an account's quotas: three first syncs of one cluster, and
//! a message about one cluster beside the first sync of another.

use serde_json::json;
use tokio::time::{Duration, Instant, sleep};

use crate::function::Binary;
use crate::runs::{message, one_change, one_event};
use crate::table::{Events, Row, Table};
use crate::world::{
    LARGE_UNDER_QUOTAS, SMALL_UNDER_QUOTAS, Tenant, World, address, pods, sandbox_of,
};
use testbed::cloud_map::NamespaceKind;
use testbed::kubernetes::Headless;

/// The names of the worlds.
pub const THREE_SYNCS: &str =
    "200 x 10, three first syncs at once, half of an account's quotas each";
pub const BESIDE_A_FIRST_SYNC: &str = "1 x 10, beside a first sync of 1,000 x 20 in another cluster, half of an account's quotas each";

const HALF: [(&str, &str); 1] = [("QUOTA_SHARE", "0.5")];

/// The first sync is under way after so many registrations.
const UNDER_WAY: usize = 100;

/// Three processes sync one cluster from nothing.
pub async fn three_syncs(binary: &Binary) -> Table {
    let world = World::named(SMALL_UNDER_QUOTAS);
    let (sandbox, _cluster, cloud_map) = world.seed(Tenant::Function).await;
    let mut first = binary.start(&sandbox, &HALF).await;
    let mut second = binary.start(&sandbox, &HALF).await;
    let mut third = binary.start(&sandbox, &HALF).await;
    let sync = || json!({ "action": "sync" });
    cloud_map.forget_calls();
    let start = Instant::now();
    let answers = tokio::join!(first.invoke(sync()), second.invoke(sync()), third.invoke(sync()));
    let took = start.elapsed();
    for answer in <[_; 3]>::from(answers) {
        answer.expect("an answer");
    }
    let row = Row {
        name: "first sync",
        took,
        calls: cloud_map.counts(),
        throttled: cloud_map.throttled(),
        forced: None,
        used: first.used(),
    };
    Table { name: THREE_SYNCS.to_owned(), rows: vec![row], ..Table::default() }
}

/// A pod of a cluster changes while another process syncs a large cluster from nothing.
pub async fn beside_a_first_sync(binary: &Binary) -> Table {
    let world = World::named(LARGE_UNDER_QUOTAS);
    let (sandbox, cloud_map, clusters) = sandbox_of(2).await;
    world.fill(&clusters[0], &cloud_map, Tenant::Function);
    // No Service of the large cluster has this number.
    let number = world.services;
    let namespace = "api";
    cloud_map.namespace(namespace, NamespaceKind::Http);
    clusters[1].service(Headless::new("shop", "web").port("http", 8080).claim("web", namespace));
    clusters[1].pods("shop", "web", &pods(number, 10, 0));
    let message = || message("c1", "shop", "web");
    let mut function = binary.start(&sandbox, &HALF).await;
    one_event(&mut function, message()).await;
    let mut other = binary.start(&sandbox, &HALF).await;
    let mut events = Events { what: "One pod changed", ..Events::default() };
    let change = async {
        while cloud_map.counts().get("RegisterInstance").is_none_or(|count| *count < UNDER_WAY) {
            sleep(Duration::from_millis(100)).await;
        }
        clusters[1].pods("shop", "web", &pods(number, 10, 1));
        let newest = address(number, 10);
        one_change(&mut events, &mut function, message(), (&cloud_map, namespace, "web", &newest))
            .await;
    };
    tokio::select! {
        answer = other.invoke(json!({ "action": "sync" })) => panic!("it has ended before: {answer:?}"),
        () = change => {}
    }
    Table { name: BESIDE_A_FIRST_SYNC.to_owned(), events: Some(events), ..Table::default() }
}
