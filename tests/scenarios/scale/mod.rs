//! The formulas of docs/sizing.md against the function: rounds over four small clusters, with and without `FAN_OUT`, in
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
use simulation::calls::{Fleet, Names, Process, Round};
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
            for fan_out in [false, true] {
                let round = Round { fan_out, process };
                let (calls, of_accounts, of_clusters) = world.measure(round).await;
                assert_eq!(calls, fleet.calls(round), "{round:?} of {fleet:?}");
                for (account, calls) in of_accounts.iter().enumerate() {
                    let predicted = fleet.calls_to_account(account, round);
                    assert_eq!(*calls, predicted, "{round:?}, account {account} of {fleet:?}");
                }
                let requests = vec![fleet.requests_to_cluster(); fleet.clusters];
                assert_eq!(of_clusters, requests, "{round:?} of {fleet:?}");
            }
        }
    }
}

/// A round takes the time of the formulas, and little more; with `FAN_OUT` by this number of processes at once.
async fn round_takes_the_time_of_the_formulas(fleet: Fleet, at_once: usize) {
    let world = World::start(fleet).await;
    let fan_out = at_once > 1;
    let mut processes = Vec::new();
    for _ in 0..at_once {
        let process = world.function(fan_out, SHARE).await;
        world.play(&[&process], Round { fan_out, process: Process::Recent }).await;
        processes.push(process);
    }
    world.registries[0].behave(Behaviour {
        latency: Duration::from_millis(20),
        quotas: Some(Quotas::of_an_account()),
        discovery_on_any_host: true,
        ..Behaviour::default()
    });
    // All bursts are whole again.
    sleep(Duration::from_mins(5)).await;
    let start = Instant::now();

    let processes: Vec<_> = processes.iter().collect();
    world.play(&processes, Round { fan_out, process: Process::Recent }).await;

    let took = start.elapsed().as_secs_f64();
    let deployment = Deployment { fleet, fan_out, share: SHARE, at_once };
    let Time { seconds, cause } = deployment.forced();
    // Shares that add up to more than the rate are throttled, and lose time by it.
    let is_throttled = SHARE * f64::from(u8::try_from(at_once).expect("few")) > 1.0;
    let most = if is_throttled { 2.5 } else { 1.5 };
    let is_near = (seconds * 0.95..seconds * most).contains(&took);
    assert!(seconds > 4.0 && is_near, "{took} s, and {seconds} s by formula, forced by {cause}");
}

#[tokio::test(start_paused = true)]
async fn round_by_lists_takes_the_time_that_list_instances_forces() {
    let fleet = Fleet { services: 60, endpoints: 1, ..SMALL };
    Box::pin(round_takes_the_time_of_the_formulas(fleet, 1)).await;
}

#[tokio::test(start_paused = true)]
async fn round_of_fan_out_takes_the_time_of_all_of_its_reads_at_the_rate_of_the_account() {
    let fleet = Fleet { services: 30, endpoints: 1, ..SMALL };
    Box::pin(round_takes_the_time_of_the_formulas(fleet, 4)).await;
}

#[tokio::test(start_paused = true)]
async fn replaced_pod_has_the_calls_of_the_formula() {
    for fleet in [SMALL, SHARED] {
        let world = World::start(fleet).await;
        let process = world.function(false, UNLIMITED).await;
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
