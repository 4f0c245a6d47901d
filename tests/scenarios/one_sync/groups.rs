//! Groups of Services that share a name: each has its own plan and its own fate.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::{MINUTE, at_the_rates, begin, full_sync, pass, seconds, until, warm, warm_with};
use crate::fleet::{Fleet, refs};
use crate::multi_cluster::{exported, join, service};
use crate::run::sync;
use testbed::cloud_map::{Fault, FaultKind};
use testbed::function::TIMEOUT;
use testbed::kubernetes::KubernetesServer;

/// The pods of a Service that rolls, of which one is replaced each second.
const PODS: usize = 300;

/// The exports of a cluster.
const EXPORTS: usize = 300;

fn address(network: usize, pod: usize) -> String {
    format!("10.{network}.{}.{}", pod / 250, pod % 250)
}

/// The addresses of pods by their numbers. The first one ends in the first second.
fn pods(numbers: Range<usize>) -> Vec<String> {
    numbers.map(|pod| address(7, pod)).collect()
}

/// The pods of a large Service are replaced one by one for ten minutes, so each plan of each run has an addition. Removals
/// have their turn all the same: an address is gone two minutes after its pod, and a new pod is there after one.
#[tokio::test(start_paused = true)]
async fn service_that_rolls_for_ten_minutes_loses_its_dead_addresses_meanwhile() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod", &refs(&pods(0..PODS)));
    begin(&fleet).await;
    let function = warm(&fleet).await;
    let roll = async {
        for second in 1..=600 {
            fleet.pods("web", &refs(&pods(second..second + PODS)));
            pass(&fleet, seconds(1)).await;
        }
    };
    let schedule = async {
        let mut seen = Vec::new();
        for second in (60..=540_usize).step_by(60) {
            let next = Instant::now() + MINUTE;
            let report = full_sync(&function, TIMEOUT).await;
            sleep_until(next).await;
            let found: BTreeSet<String> = fleet.addresses("prod", "web").into_iter().collect();
            let dead = pods(0..second.saturating_sub(120)).into_iter();
            let dead = dead.filter(|address| found.contains(address)).count();
            let ready = pods(second..second - 60 + PODS).into_iter();
            let missing = ready.filter(|address| !found.contains(address)).count();
            seen.push((dead, missing, report.ok));
        }
        seen
    };
    let ((), seen) = tokio::join!(roll, schedule);
    let is_right = seen.iter().all(|it| *it == (0, 0, true));
    assert!(is_right, "dead for two minutes, missing for one, ok: {seen:?}");
}

/// The settings of the members, with a share of the rates.
fn members_at(share: &str) -> [(&str, &str); 4] {
    [
        ("CLUSTERS", "blue,green"),
        ("MULTI_CLUSTER", "on"),
        ("CREATE_NAMESPACES", "true"),
        ("QUOTA_SHARE", share),
    ]
}

/// Two clusters, of which one exports so many Services, in step.
async fn members(fleet: &Fleet, exports: usize) -> KubernetesServer {
    let green = fleet.green().await;
    join(&fleet.cluster, "blue", &["shop"]);
    join(&green, "green", &["shop"]);
    for export in 0..exports {
        let name = format!("export-{export}");
        exported(&fleet.cluster, service(&name), &[&address(8, export)]);
    }
    sync(&fleet.function_with(&members_at("1000")).await).await;
    green
}

/// The records of all exports of a cluster lie in one service of Cloud Map, and are no name that joins them: a
/// registration that fails, or hangs, stops no export but its own, and delays none.
#[tokio::test(start_paused = true)]
async fn export_that_fails_or_hangs_stops_no_other_though_their_records_share_a_service() {
    for kind in [FaultKind::ServerError, FaultKind::Silence(10 * MINUTE)] {
        let fleet = Fleet::start().await;
        let _green = members(&fleet, EXPORTS).await;
        let function = warm_with(&fleet, &members_at("0.5")).await;
        for export in 0..EXPORTS {
            let addresses = [address(8, export), address(9, export)];
            let name = format!("export-{export}");
            exported(&fleet.cluster, service(&name), &refs(&addresses));
        }
        fleet.cloud_map.behave(at_the_rates());
        let first = fleet.cloud_map.service_id("shop", "export-0");
        let fault = Fault::on("RegisterInstance", kind.clone()).service(&first);
        fleet.cloud_map.inject(fault.always());

        let found = |export: usize| fleet.instances("shop", &format!("export-{export}")).len();
        let registered = until(|| (1..EXPORTS).all(|export| found(export) == 2));
        let (took, report) = tokio::join!(registered, full_sync(&function, TIMEOUT));

        let missing = (1..EXPORTS).filter(|export| found(*export) != 2).count();
        // The rates force 12 s for the reads, and as much for the registrations.
        let most = seconds(45);
        assert!(took < most, "{kind:?}: {missing} missing, {took:?}: {}", report.counts);
    }
}

/// A Service has moved to a name that has no Cloud Map service yet. One full sync registers it there and takes it out of the
/// old one, whether the registration ends before all of Cloud Map is read or after it.
#[tokio::test(start_paused = true)]
async fn service_moves_to_a_new_name_in_one_sync_however_long_an_operation_takes() {
    for (milliseconds, is_new) in [(0, false), (30, false), (500, false), (30, true), (500, true)] {
        let (fleet, mut function) = Fleet::in_step("web", "prod.local", &["10.0.1.1"]).await;
        fleet.cloud_map.adjust(|it| it.operation_delay = Duration::from_millis(milliseconds));
        fleet.annotate("web", "namespace", "prod");
        fleet.annotate("web", "hostname", "moved");
        if is_new {
            function = fleet.function().await;
        }

        let report = sync(&function).await;

        let case = format!("{milliseconds} ms, a new process: {is_new}: {report:?}");
        assert_eq!(fleet.addresses("prod", "moved"), ["10.0.1.1"], "{case}");
        assert_eq!(fleet.addresses("prod.local", "web"), [""; 0], "{case}");
    }
}
