//! The turns in which Cloud Map is read again: a service that cannot be read, or has become empty, takes no other's
//! turn. The function has a tenth of the rates of an account: a run reads 100 services again in a third of a minute.

use std::collections::BTreeMap;

use cloud_map_sync::function::Function;

use super::{
    MINUTE, address, begin, full_sync, give, is_registered, name, pass, seconds, warm_with,
};
use crate::fleet::{Fleet, refs};
use testbed::cloud_map::{Fault, FaultKind, ServiceKind};

const TENTH: [(&str, &str); 1] = [("QUOTA_SHARE", "0.1")];
/// The services that a run reads again.
const TURN: usize = 100;

/// So many Services of ours with two pods each, and so many services of another party with an instance each.
async fn fleet(ours: usize, theirs: usize) -> Fleet {
    let fleet = Fleet::start().await;
    for service in 0..ours {
        fleet.web(&name(service), "prod", &refs(&[address(service, 1), address(service, 2)]));
    }
    for service in 0..theirs {
        let id = fleet.cloud_map.ensure_service("prod", &theirs_name(service));
        fleet.ecs_task(&id, "0123456789abcdef0123456789abcdef", "10.200.0.1");
    }
    begin(&fleet).await;
    fleet
}

fn theirs_name(service: usize) -> String {
    format!("ecs-{service}")
}

/// Another party writes another address on our instance of the first pod, which changes no count.
fn bend(fleet: &Fleet, service: usize) {
    let id = fleet.cloud_map.service_id("prod", &name(service));
    let instances = fleet.instances("prod", &name(service)).into_iter();
    let is_first = |it: &BTreeMap<String, String>| it["AWS_INSTANCE_IPV4"] == address(service, 1);
    let (instance, mut attributes) =
        instances.into_iter().find(|(_, it)| is_first(it)).expect("it is registered");
    attributes.insert("AWS_INSTANCE_IPV4".to_owned(), "10.250.0.1".to_owned());
    fleet.put(&id, &instance, &attributes);
}

async fn minute(fleet: &Fleet, function: &Function) -> String {
    pass(fleet, MINUTE).await;
    full_sync(function, seconds(60)).await.to_string()
}

/// As many names that no Service claims as a run refreshes lose their last instance, as at night when ECS is scaled to
/// zero. The turns go on: instances of ours that another party bends are right again within five runs.
#[tokio::test(start_paused = true)]
async fn names_that_lose_their_last_instance_stop_no_turn() {
    let fleet = fleet(TURN + TURN / 2, TURN + TURN / 2).await;
    let function = warm_with(&fleet, &TENTH).await;
    for service in 0..TURN + TURN / 2 {
        let id = fleet.cloud_map.service_id("prod", &theirs_name(service));
        fleet.cloud_map.withdraw(&id, "0123456789abcdef0123456789abcdef");
    }
    for _ in 0..2 {
        minute(&fleet, &function).await;
    }
    let bent = [0, TURN / 2, TURN, TURN + TURN / 2 - 1];
    for service in &bent {
        bend(&fleet, *service);
    }

    let mut reads = Vec::new();
    for _ in 0..5 {
        fleet.cloud_map.forget_calls();
        minute(&fleet, &function).await;
        reads.push(fleet.cloud_map.count("ListInstances"));
    }

    let repaired = bent.map(|service| is_registered(&fleet, service, 1));
    assert_eq!(repaired, [true; 4], "reads of instances in each run: {reads:?}");
    assert!(!reads.contains(&0), "{reads:?}");
}

/// The reads of one name fail in one run, whether the API answers with an error, throttles or ends the connection. The
/// next run registers the name's new pod, however many names wait for their turn.
#[tokio::test(start_paused = true)]
async fn failed_read_is_repeated_in_the_next_run() {
    for kind in [FaultKind::ServerError, FaultKind::Throttling, FaultKind::Reset] {
        let fleet = fleet(6 * TURN, 0).await;
        let function = warm_with(&fleet, &TENTH).await;
        let id = fleet.cloud_map.service_id("prod", &name(7));
        let fault = Fault::on("ListInstances", kind.clone()).service(&id).always();
        fleet.cloud_map.inject(fault);
        give(&fleet, 7, &[1, 2, 3]);
        minute(&fleet, &function).await;
        assert!(!is_registered(&fleet, 7, 3));
        fleet.cloud_map.heal();

        let text = minute(&fleet, &function).await;
        assert!(is_registered(&fleet, 7, 3), "{kind:?}: {text}");
    }
}

/// The same if the pod changes after the run whose read failed.
#[tokio::test(start_paused = true)]
async fn name_whose_read_failed_is_read_for_a_later_change_as_any_other() {
    let fleet = fleet(6 * TURN, 0).await;
    let function = warm_with(&fleet, &TENTH).await;
    fail_one_turn(&fleet, &function, &name(7)).await;
    give(&fleet, 7, &[3, 4]);

    let text = minute(&fleet, &function).await;

    assert_eq!(fleet.addresses("prod", &name(7)), [address(7, 3), address(7, 4)], "{text}");
}

/// The service of another party with 400 instances cannot be read in its turn. That may count as a loss of 400, where
/// there are 200 of ours, and hold the removals of that run. The next run reads it, and makes them.
#[tokio::test(start_paused = true)]
async fn failed_read_of_a_large_service_holds_removals_for_one_run_at_most() {
    let fleet = fleet(TURN, 5 * TURN).await;
    let theirs = fleet.cloud_map.service_id("prod", &theirs_name(0));
    for task in 0..400 {
        let address = format!("10.201.{}.{}", task / 250, task % 250);
        fleet.ecs_task(&theirs, &format!("{task:032x}"), &address);
    }
    let function = warm_with(&fleet, &TENTH).await;
    fail_one_turn(&fleet, &function, &theirs_name(0)).await;
    give(&fleet, 7, &[1]);

    let text = minute(&fleet, &function).await;

    assert!(!is_registered(&fleet, 7, 2), "{text}");
}

/// Runs each minute until a read of this name has failed.
async fn fail_one_turn(fleet: &Fleet, function: &Function, name: &str) {
    let id = fleet.cloud_map.service_id("prod", name);
    let fault = Fault::on("ListInstances", FaultKind::ServerError).service(&id).always();
    fleet.cloud_map.inject(fault);
    let has_failed = || {
        let calls = fleet.cloud_map.calls().into_iter();
        calls.filter(|call| call.service.as_ref() == Some(&id)).any(|call| call.status != 200)
    };
    for _ in 0..10 {
        minute(fleet, function).await;
        if has_failed() {
            break;
        }
    }
    assert!(has_failed(), "each name has its turn");
    fleet.cloud_map.heal();
}

/// One name is refused to the function for ever. It is read in its turn, and no other name is read later for it.
#[tokio::test(start_paused = true)]
async fn name_that_may_not_be_read_takes_no_other_turn() {
    let fleet = fleet(TURN + TURN / 2, 1).await;
    let theirs = fleet.cloud_map.service(&fleet.http, "refused", ServiceKind::Http);
    fleet.ecs_task(&theirs, "0123456789abcdef0123456789abcdef", "10.200.0.1");
    fleet.cloud_map.deny_in(&theirs, "ListInstances");
    let function = warm_with(&fleet, &TENTH).await;
    let bent = [0, TURN / 2, TURN + TURN / 2 - 1];
    for service in &bent {
        bend(&fleet, *service);
    }

    for _ in 0..5 {
        minute(&fleet, &function).await;
    }

    let repaired = bent.map(|service| is_registered(&fleet, service, 1));
    assert_eq!(repaired, [true; 3]);
    let calls = fleet.cloud_map.calls().into_iter();
    let refused = calls.filter(|call| call.service.as_ref() == Some(&theirs)).count();
    assert!(refused <= 10, "{refused} reads of the name in eleven runs");
}
