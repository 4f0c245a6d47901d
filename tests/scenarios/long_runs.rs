//! Runs that take long: pods come and go in the meantime, and further runs of the schedule begin. Time stands still in
//! these tests but for waiting.

use std::collections::BTreeSet;
use std::time::Duration;

use cloud_map_sync::report::Report;
use cloud_map_sync::time::Deadline;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::fleet::{Fleet, annotated, ips, refs};
use crate::limits::{HALF, assert_throttled_less_than_one_in, like_the_real_one};
use crate::queue::batch_of;
use crate::run::{converge, settled, sync, synced};
use testbed::clock::StandInClock;
use testbed::cloud_map::{Behaviour, Fault, FaultKind, Quotas, ServiceKind};
use testbed::function::invoke_until;
use testbed::kubernetes::{Fault as ClusterFault, FaultKind as ClusterFaultKind};

/// Gives so many Services ten pods each, with addresses in a network of this number.
fn give_pods(fleet: &Fleet, services: usize, network: usize) {
    for service in 0..services {
        fleet.web(&format!("web-{service}"), "prod", &refs(&addresses(network, service, 10)));
    }
}

/// So many addresses of pods of one Service.
fn addresses(network: usize, service: usize, pods: usize) -> Vec<String> {
    (0..pods).map(|pod| format!("10.{network}.{service}.{pod}")).collect()
}

/// Three processes of the function begin a full sync, ten seconds apart.
async fn three_overlapping_runs(fleet: &Fleet) -> Vec<Report> {
    let run = |index: u64| async move {
        sleep(Duration::from_secs(10 * index)).await;
        let clock = StandInClock::new();
        clock.advance(Duration::from_mins(index));
        sync(&fleet.function_with(&HALF).await.with_clock(clock.clock())).await
    };
    join_all((0..3).map(run)).await
}

#[tokio::test(start_paused = true)]
async fn overlapping_runs_do_not_repeat_each_others_work_and_none_fails() {
    let fleet = Fleet::start().await;
    give_pods(&fleet, 80, 1);
    fleet.cloud_map.behave(like_the_real_one());

    for report in three_overlapping_runs(&fleet).await {
        assert!(report.ok, "{report}");
    }
    let registrations = fleet.cloud_map.count("RegisterInstance");
    // A registration that is under way cannot be seen.
    assert!(registrations <= 960, "{registrations} registrations for 800 instances");
    assert_throttled_less_than_one_in(50, &fleet);
    fleet.cloud_map.behave(Behaviour::default());
    settled(&fleet, &fleet.function().await).await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_replaced_during_a_run_are_not_registered_from_the_old_plan() {
    let fleet = Fleet::start().await;
    give_pods(&fleet, 80, 1);
    fleet.cloud_map.behave(like_the_real_one());
    let function = fleet.function_with(&HALF).await;

    let replace = async {
        sleep(Duration::from_secs(6)).await;
        let before = fleet.cloud_map.count("RegisterInstance");
        give_pods(&fleet, 80, 2);
        before
    };
    let (report, before) = tokio::join!(sync(&function), replace);

    assert!(report.ok, "{}", report.counts);
    let found = (0..80).flat_map(|it| fleet.addresses("prod", &format!("web-{it}")));
    let dead = found.filter(|address| address.starts_with("10.1.")).count();
    // What was already on its way or planned within the last seconds, of 800.
    assert!(dead < before + 200, "{dead} dead addresses are registered, {before} before");
    // A Service looks again at its slices once, and at instances only if there may be any.
    assert!(fleet.cloud_map.count("ListInstances") <= 80);
}

/// Names in step get new pods, which a process that may register five a second registers; in the first second these are
/// replaced, too.
#[tokio::test(start_paused = true)]
async fn no_pod_is_registered_that_has_been_gone_for_more_than_five_seconds() {
    for (services, pods, latency) in [(1, 50, 20), (10, 5, 20), (10, 5, 500)] {
        let fleet = Fleet::start().await;
        let give = |network, pods| {
            for service in 0..services {
                let addresses = addresses(network, service, pods);
                fleet.pods(&format!("web-{service}"), &refs(&addresses));
            }
        };
        give_pods(&fleet, services, 1);
        give(1, 1);
        converge(&fleet, &fleet.function().await).await;
        give(2, pods);
        let latency = Duration::from_millis(latency);
        fleet.cloud_map.behave(Behaviour { latency, ..like_the_real_one() });
        fleet.cluster.forget_requests();
        let function = fleet.function_with(&[("QUOTA_SHARE", "0.1")]).await;
        let start = Instant::now();

        let dead = || {
            let calls = fleet.cloud_map.calls().into_iter();
            let calls = calls.filter(|call| call.operation == "RegisterInstance");
            calls.filter(|call| call.instance.as_ref().is_some_and(|id| id.starts_with("ip-10-2-")))
        };
        let replace = async {
            while fleet.cloud_map.count("RegisterInstance") == 0 {
                sleep(Duration::from_millis(10)).await;
            }
            give(3, pods);
            sleep(Duration::from_secs(5) + 2 * latency).await;
            dead().count()
        };
        let (report, within) = tokio::join!(sync(&function), replace);

        assert!(report.ok, "{}", report.counts);
        let late = dead().count() - within;
        assert_eq!(late, 0, "and {within} before, of {services} Services, {latency:?} a call");
        for service in 0..services {
            let found = fleet.addresses("prod", &format!("web-{service}"));
            let expected: BTreeSet<_> = addresses(3, service, pods).into_iter().collect();
            assert!(expected.is_subset(&found.into_iter().collect()), "{}", report.counts);
        }
        // Twice at the start and the end, and once in five seconds.
        let requests = fleet.cluster.requests().into_iter();
        let looks = requests.filter(|request| request.path.ends_with("/endpointslices")).count();
        let seconds = start.elapsed().as_secs();
        let most = services * (usize::try_from(seconds / 5).expect("few") + 4);
        assert!(looks <= most, "{looks} looks in {seconds} s at {services} Services");
    }
}

/// The slices of `blue` come late, once its run has read them.
#[tokio::test(start_paused = true)]
async fn cluster_that_answers_late_holds_up_no_registration_of_another() {
    let (fleet, green) = Fleet::with_green().await;
    give_pods(&fleet, 20, 1);
    for service in 0..20 {
        fleet.cloud_map.service(&fleet.http, &format!("web-{service}"), ServiceKind::Http);
    }
    for service in 0..5 {
        let name = format!("green-{service}");
        fleet.cloud_map.service(&fleet.http, &name, ServiceKind::Http);
        green.service(annotated(&name, "prod", &name));
        crate::fleet::give_pods(&green, &name, &refs(&addresses(2, service, 10)));
    }
    fleet.cloud_map.behave(like_the_real_one());
    let settings = [("QUOTA_SHARE", "0.1"), ("CLUSTERS", "blue,green")];
    let function = fleet.function_with(&settings).await;
    let start = Instant::now();

    let late = async {
        sleep(Duration::from_secs(3)).await;
        let kind = ClusterFaultKind::Late(Duration::from_secs(25));
        fleet.cluster.fail(ClusterFault::always("/apis/discovery.k8s.io", kind));
    };
    let is_done = async {
        let done = |service| fleet.addresses("prod", &format!("green-{service}")).len() == 10;
        while !(0..5).all(done) {
            sleep(Duration::from_millis(100)).await;
        }
        start.elapsed()
    };
    let (_, (), took) = tokio::join!(sync(&function), late, is_done);

    // The rates force ten seconds for these alone, and twenty if they are shared.
    assert!(took < Duration::from_secs(25), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn pod_that_comes_back_while_its_instance_is_deregistered_is_registered_in_the_same_run() {
    let (fleet, function) = Fleet::in_step("web", "prod", &["10.0.1.1"]).await;
    fleet.cloud_map.adjust(|it| it.operation_delay = Duration::from_secs(2));
    fleet.pods("web", &[]);

    let come_back = async {
        while fleet.cloud_map.count("DeregisterInstance") == 0 {
            sleep(Duration::from_millis(10)).await;
        }
        fleet.pods("web", &["10.0.1.1"]);
    };
    let (report, ()) = tokio::join!(synced(&function), come_back);

    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"], "{report}");
    assert_eq!(fleet.cloud_map.count("ListInstances"), 2);
    settled(&fleet, &function).await;
}

#[tokio::test(start_paused = true)]
async fn service_that_another_writer_is_said_to_have_created_is_not_tried_without_end() {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
    let exists = FaultKind::Error(400, "ServiceAlreadyExists", "Service already exists");
    fleet.cloud_map.inject(Fault::on("CreateService", exists).always());
    // At half a creation a second each plan is old when its turn comes.
    let function = fleet.function_with(&[("QUOTA_SHARE", "0.1")]).await;

    let report = sync(&function).await;

    assert!(!report.ok, "{report}");
    let creations = fleet.cloud_map.count("CreateService");
    assert!((2..=10).contains(&creations), "{creations} creations");
}

fn add_more_than_there_is_time_for(fleet: &Fleet, services: usize) {
    for service in 0..services {
        fleet.web(&format!("web-{service}"), "prod", &[&format!("10.1.0.{service}")]);
    }
    let quotas = Quotas::none().limit("RegisterInstance", 10.0, 10.0);
    fleet.cloud_map.adjust(|it| it.quotas = Some(quotas));
}

fn registered(fleet: &Fleet) -> usize {
    let services = fleet.cloud_map.services(&fleet.http);
    services.iter().map(|service| fleet.instances("prod", &service.name).len()).sum()
}

/// A cluster that is too large for one invocation, in one process and in a new one for each run.
#[tokio::test(start_paused = true)]
async fn short_runs_one_after_the_other_serve_every_service() {
    for is_warm in [true, false] {
        let fleet = Fleet::with_web("old", "prod", &["10.2.0.1"]).await;
        let mut function = fleet.function_with(&HALF).await;
        converge(&fleet, &function).await;
        add_more_than_there_is_time_for(&fleet, 250);
        fleet.cluster.delete_service("shop", "old");
        let mut done = vec![1];
        while registered(&fleet) != 250 || !fleet.instances("prod", "old").is_empty() {
            if !is_warm {
                function = fleet.function_with(&HALF).await;
            }
            let deadline = Deadline::after(Duration::from_secs(20));
            invoke_until(&function, &batch_of(&[full_sync()]), deadline).await;
            done.push(registered(&fleet));
            assert!(done.is_sorted() && done.len() < 20, "{is_warm}: {done:?}");
        }
        assert!(done.len() > 4, "one run does not do: {done:?}");
        settled(&fleet, &function).await;
    }
}

/// The guard's note is a write like any other, and may be among those for which there was no time.
#[tokio::test(start_paused = true)]
async fn next_runs_hold_what_a_short_run_held_though_its_note_was_not_written() {
    let fleet = Fleet::start().await;
    let gone = ["gone-0", "gone-1", "gone-2", "gone-3"];
    for (index, name) in gone.iter().enumerate() {
        fleet.web(name, "prod", &refs(&ips(&format!("10.2.{index}"), 0..100)));
    }
    let function = fleet.function_with(&HALF).await;
    converge(&fleet, &function).await;
    for name in &gone {
        fleet.cluster.delete_service("shop", name);
        let id = fleet.cloud_map.service_id("prod", name);
        fleet.cloud_map.deny_in(&id, "RegisterInstance");
    }
    add_more_than_there_is_time_for(&fleet, 120);
    let mut runs = 0;
    while registered(&fleet) < 520 {
        let deadline = Deadline::after(Duration::from_secs(20));
        invoke_until(&function, &batch_of(&[full_sync()]), deadline).await;
        let held: usize = gone.iter().map(|name| fleet.instances("prod", name).len()).sum();
        runs += 1;
        assert_eq!(held, 400, "run {runs} has taken out what the first one held");
        assert!(runs < 20, "it ends");
    }
    assert!(runs > 1, "one run does");
}

fn full_sync() -> Value {
    json!({ "action": "sync", "cluster": "blue" })
}
