//! The formulas of docs/sizing.md against the function: rounds over four small clusters, in
//! one account and in two. Every call to AWS and to the clusters is counted, and the counts are those of
//! `tests/scale/calls.rs`. The times are those that the function takes under the rates of an account.

#[path = "../../scale/mod.rs"]
#[allow(dead_code, reason = "shared with the command that writes docs/sizing.md")]
pub mod simulation;

mod world;

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::fleet::{give_pods, ips, refs};
use crate::queue::{batch_of, failures};
use simulation::calls::{Fleet, Names, Process};
use simulation::deployment::{Deployment, SHARE, Time};
use testbed::cloud_map::{Behaviour, Quotas};
use testbed::function::invoke;
use world::{UNLIMITED, World, name};

const SMALL: Fleet = Fleet {
    clusters: 4,
    services: 20,
    endpoints: 2,
    namespaces: 2,
    accounts: 1,
    names: Names::Separate,
};

/// With more than a hundred instances under each name, which are two pages.
const SHARED: Fleet = Fleet { services: 4, endpoints: 26, names: Names::Shared, ..SMALL };

/// With several pages of services.
const PAGES: Fleet = Fleet { clusters: 2, services: 90, endpoints: 1, namespaces: 5, ..SMALL };

#[tokio::test(start_paused = true)]
async fn every_round_has_the_calls_of_the_formulas() {
    for fleet in [SMALL, Fleet { accounts: 2, ..SMALL }, SHARED, PAGES] {
        let world = World::start(fleet).await;
        for process in [Process::New, Process::Warm, Process::Recent] {
            let (calls, of_accounts, of_clusters) = world.measure(process).await;
            assert_eq!(calls, fleet.calls(process), "{process:?} of {fleet:?}");
            for (account, calls) in of_accounts.iter().enumerate() {
                let predicted = fleet.calls_to_account(account, process);
                assert_eq!(*calls, predicted, "{process:?}, account {account} of {fleet:?}");
            }
            let requests = vec![fleet.requests_to_cluster(); fleet.clusters];
            assert_eq!(of_clusters, requests, "{process:?} of {fleet:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn round_by_lists_takes_the_time_that_list_instances_forces() {
    let fleet = Fleet { services: 60, endpoints: 1, ..SMALL };
    let world = World::start(fleet).await;
    let process = world.function(SHARE).await;
    world.play(&process, Process::Recent).await;
    world.registries[0].behave(Behaviour {
        latency: Duration::from_millis(20),
        quotas: Some(Quotas::of_an_account()),
        discovery_on_any_host: true,
        ..Behaviour::default()
    });
    // All bursts are whole again.
    sleep(Duration::from_mins(5)).await;
    let start = Instant::now();

    world.play(&process, Process::Recent).await;

    let took = start.elapsed().as_secs_f64();
    let Time { seconds, cause } = Deployment { fleet, share: SHARE }.forced();
    let is_near = (seconds * 0.95..seconds * 1.5).contains(&took);
    assert!(seconds > 4.0 && is_near, "{took} s, and {seconds} s by formula, forced by {cause}");
}

#[tokio::test(start_paused = true)]
async fn replaced_pod_has_the_calls_of_the_formula() {
    for fleet in [SMALL, SHARED] {
        let world = World::start(fleet).await;
        let process = world.function(UNLIMITED).await;
        let body = json!({ "cluster": name(0), "namespace": "shop", "service": "web-0" });
        let payload = batch_of(&[body]);
        invoke(&process, &payload).await;
        give_pods(&world.clusters[0], "web-0", &refs(&ips("10.0.0", 2..=fleet.endpoints + 1)));
        world.forget();

        let answer = invoke(&process, &payload).await;

        assert_eq!(failures(&answer), [""; 0]);
        let counts = world.registries[0].counts();
        let counts: Vec<(&str, usize)> =
            counts.iter().map(|(operation, count)| (operation.as_str(), *count)).collect();
        assert_eq!(counts, fleet.changed_pod().into_iter().collect::<Vec<_>>(), "{fleet:?}");
    }
}
