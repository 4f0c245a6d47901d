//! New processes in a Cloud Map that takes a minute or more to be read: additions come first, removals come in the second
//! run at the latest, and nobody is told that all is well before all was read.

use std::collections::BTreeSet;

use cloud_map_sync::function::Function;

use super::{
    MINUTE, address, begin, cold, full_sync, give, in_step, is_good, is_registered, name, pass,
    seconds, until,
};
use crate::fleet::{Fleet, OTHER_ACCOUNT};
use testbed::cloud_map::{NamespaceKind, ServiceKind};
use testbed::function::TIMEOUT;

/// The number of services whose instances were asked for.
fn asked(fleet: &Fleet) -> usize {
    let calls = fleet.cloud_map.calls().into_iter();
    let reads = calls.filter(|call| call.operation == "ListInstances");
    reads.filter_map(|call| call.service).collect::<BTreeSet<_>>().len()
}

/// A process starts among 2,600 Services, of which one has a new pod and one has lost one. The pod is registered in the
/// first full sync, the dead address is gone by the second, and no run is good before each service with instances was
/// asked for.
#[tokio::test(start_paused = true)]
async fn new_process_among_2600_services_registers_at_once_and_says_when_it_has_not_read_all() {
    const SERVICES: usize = 2600;
    let fleet = in_step(SERVICES, &[1]).await;
    give(&fleet, 7, &[1, 2]);
    give(&fleet, 1300, &[2]);
    give(&fleet, 9, &[]);
    let function = cold(&fleet).await;

    let mut good = Vec::new();
    for run in 1..=2 {
        let report = full_sync(&function, TIMEOUT).await;
        let asked = asked(&fleet);
        good.push((is_good(&report), asked));
        let is_all = asked == SERVICES;
        assert!(!is_good(&report) || is_all, "run {run} is good and has read {asked}: {good:?}");
        let registered = [(7, 2), (1300, 2)].map(|(of, pod)| is_registered(&fleet, of, pod));
        assert_eq!(registered, [true; 2], "run {run}: {}", report.counts);
        pass(&fleet, MINUTE).await;
    }
    let dead = [9, 1300].map(|service| is_registered(&fleet, service, 1));
    assert_eq!(dead, [false; 2], "dead addresses after two runs: {good:?}");
}

/// Each run is that of a new process, as after a deployment or with execution environments that alternate, among 3,000
/// services. Each minute a pod comes and one ends. Each pod is registered by the run that begins after it, and each
/// address is gone with the next one at the latest.
#[tokio::test(start_paused = true)]
async fn new_execution_environment_in_each_run_among_3000_services_loses_nothing() {
    let fleet = in_step(3000, &[1]).await;
    let mut late = Vec::new();
    for run in 0..4 {
        give(&fleet, 10 + run, &[1, 2]);
        give(&fleet, 20 + run, &[]);
        let function = cold(&fleet).await;

        let report = full_sync(&function, TIMEOUT).await;

        if !is_registered(&fleet, 10 + run, 2) {
            late.push(format!("run {run} did not register: {}", report.counts));
        }
        if run > 0 && is_registered(&fleet, 20 + run - 1, 1) {
            late.push(format!("run {run} left a dead address: {}", report.counts));
        }
        pass(&fleet, MINUTE).await;
    }
    assert_eq!(late, [""; 0]);
}

/// A new process over 1,000 names, of which one has a pod more, registers it within the half minute that reading all of
/// them takes, and well before it if the count of the list differs.
#[tokio::test(start_paused = true)]
async fn new_process_over_1000_names_registers_within_half_a_minute() {
    let fleet = in_step(1000, &[1]).await;
    give(&fleet, 7, &[1, 2]);
    give(&fleet, 700, &[2]);
    let function = cold(&fleet).await;

    let registered = until(|| is_registered(&fleet, 7, 2) && is_registered(&fleet, 700, 2));
    let (took, report) = tokio::join!(registered, full_sync(&function, TIMEOUT));

    // The rates force 38 s for the reads of 1,000 names, and ten for the lists before them.
    assert!(took < seconds(50), "{took:?}: {}", report.counts);
}

/// Names of ours come before those of others: among 2,000 services of another party a new process registers the pod of
/// one of its twenty Services as soon as the list of services shows it.
#[tokio::test(start_paused = true)]
async fn new_process_reads_its_own_names_before_those_of_others() {
    let fleet = Fleet::start().await;
    for service in 0..20 {
        fleet.web(&name(service), "prod", &[&address(service, 1)]);
    }
    begin(&fleet).await;
    for service in 0..2000 {
        let id = fleet.cloud_map.ensure_service("prod", &format!("ecs-{service}"));
        fleet.ecs_task(&id, "0123456789abcdef0123456789abcdef", "10.200.0.1");
    }
    // One of the same number, which no count shows.
    give(&fleet, 7, &[2]);
    let function = cold(&fleet).await;

    let registered = until(|| is_registered(&fleet, 7, 2));
    let (took, report) = tokio::join!(registered, full_sync(&function, TIMEOUT));

    // 22 pages of the list, of which a new process has two at once and then between one and two a second.
    assert!(took < seconds(25), "{took:?}: {}", report.counts);
}

/// A namespace that another account shares has a service whose instances the function may not list, for ever. It holds
/// no removal, neither in a new process nor in one that has met it before, and neither of a full sync nor of a message.
#[tokio::test(start_paused = true)]
async fn shared_service_that_answers_403_holds_no_removal() {
    let fleet = Fleet::start().await;
    for service in 0..20 {
        fleet.web(&name(service), "prod", &[&address(service, 1), &address(service, 2)]);
    }
    let shared = fleet.cloud_map.shared_namespace("theirs", NamespaceKind::Http, OTHER_ACCOUNT);
    let denied = fleet.cloud_map.service(&shared, "denied", ServiceKind::Http);
    for task in ["a", "b", "c"] {
        fleet.cloud_map.instance(&denied, task, &[("AWS_INSTANCE_IPV4", "10.200.0.1")]);
    }
    fleet.cloud_map.deny_in(&denied, "ListInstances");
    fleet.web("over-there", "theirs", &["10.9.0.1"]);
    begin(&fleet).await;
    let function = cold(&fleet).await;
    for run in 0..3 {
        assert_removed(&fleet, &function, run).await;
        pass(&fleet, MINUTE).await;
    }
}

/// A pod ends, and a Service is deleted. The next full sync removes both, and is good.
async fn assert_removed(fleet: &Fleet, function: &Function, run: usize) {
    give(fleet, run, &[1]);
    fleet.cluster.delete_service("shop", &name(10 + run));

    let report = full_sync(function, TIMEOUT).await;

    assert!(is_good(&report) && !is_registered(fleet, run, 2), "run {run}: {report}");
    assert_eq!(fleet.addresses("prod", &name(10 + run)), [""; 0], "run {run}: {report}");
}
