//! A clusterset in a Cloud Map that is too large for the time of a sync: the names of other members are read in each run.

use std::time::Duration;

use super::{Members, exported, imported, in_full, pods, service, sources, web, writes};
use crate::fleet::Fleet;
use crate::run::sync;
use testbed::cloud_map::{Behaviour, Call, Fault, FaultKind};

const CREATED: &str = "2026-01-01T00:00:00Z";
const SERVICES: [&str; 6] = ["cart", "list", "mail", "pay", "user", "web"];

/// A name with a pod in blue, which also has as many others that are not exported.
fn fill(fleet: &Fleet) {
    for (index, name) in SERVICES.into_iter().enumerate() {
        fleet.web(&format!("own-{name}"), "prod", &[&format!("10.0.{index}.1")]);
    }
}

#[tokio::test]
async fn endpoint_of_a_member_that_another_function_serves_leaves_with_the_next_sync() {
    let members = Members::start().await;
    fill(&members.fleet);
    for (index, name) in SERVICES.into_iter().enumerate() {
        let service = service(name);
        exported(&members.green, service, &[&format!("10.1.{index}.1")], CREATED);
    }
    members.converge().await;
    let (green, blue) = (members.serving("green", &[]).await, members.serving("blue", &[]).await);
    let blue = blue.with_most_reads(1);
    for _ in 0..2 * SERVICES.len() {
        assert!(sync(&blue).await.ok);
    }
    for (index, name) in SERVICES.into_iter().enumerate() {
        pods(&members.green, name, &[&format!("10.1.{index}.2")]);
    }
    assert!(sync(&green).await.ok);
    // What blue was ahead of Cloud Map with counts for five minutes.
    members.clock.advance(Duration::from_mins(6));

    let report = sync(&blue).await;

    for (index, name) in SERVICES.into_iter().enumerate() {
        let now = sources([("green", &[format!("10.1.{index}.2:8080").as_str()])]);
        assert_eq!(imported(&members.blue, name), now, "{}", in_full(&report));
    }
}

#[tokio::test]
async fn new_process_leaves_imports_as_they_are_and_follows_its_own_exports() {
    let members = Members::start().await;
    fill(&members.fleet);
    for (index, name) in SERVICES.into_iter().enumerate() {
        let service = service(name);
        exported(&members.green, service.clone(), &[&format!("10.1.{index}.1")], CREATED);
        exported(&members.blue, service, &[&format!("10.0.{index}.9")], CREATED);
    }
    members.converge().await;
    members.fleet.cloud_map.forget_calls();
    let function = members.serving("blue", &[]).await.with_most_reads(1);
    pods(&members.blue, "web", &["10.0.5.8"]);

    for _ in 0..2 * SERVICES.len() + 2 {
        let report = sync(&function).await;
        assert!(report.ok, "{}", in_full(&report));
        let web = sources([("blue", &["10.0.5.8:8080"]), ("green", &["10.1.5.1:8080"])]);
        assert_eq!(imported(&members.blue, "web"), web, "{}", in_full(&report));
    }

    let writes = members.fleet.cloud_map.calls().into_iter().filter(Call::is_write);
    let writes: Vec<String> = writes.map(|it| it.operation).collect();
    assert_eq!(writes, ["RegisterInstance", "DeregisterInstance"]);
}

#[tokio::test]
async fn status_of_an_export_rests_on_no_failure_of_an_earlier_run() {
    let members = Members::start().await;
    fill(&members.fleet);
    exported(&members.blue, web(), &["10.0.5.9"], CREATED);
    members.converge().await;
    let cloud_map = &members.fleet.cloud_map;
    let function = members.serving("blue", &[]).await.with_most_reads(1);
    let denied = Fault::on("ListInstances", FaultKind::AccessDenied);
    cloud_map.inject(denied.service(&members.place("web")).always());
    let is_denied = |it: &Call| it.operation == "ListInstances" && it.status != 200;
    let mut runs = 0;
    // Of all that is known it is read last.
    while runs < 3 * SERVICES.len() || !cloud_map.calls().iter().any(is_denied) {
        cloud_map.forget_calls();
        assert!(!sync(&function).await.ok);
        runs += 1;
    }
    assert!(!writes(&members.blue).is_empty());
    cloud_map.heal();
    members.converge().await;
    members.blue.forget_requests();

    for _ in 0..2 * SERVICES.len() {
        sync(&function).await;
        assert_eq!(writes(&members.blue), [""; 0]);
    }
}

/// A new member may be on any page of the list of services, so the list is read to its end in each run.
#[tokio::test]
async fn list_is_never_left_where_clusters_are_members() {
    let members = Members::start().await;
    fill(&members.fleet);
    exported(&members.green, service("web"), &["10.1.0.1"], CREATED);
    members.converge().await;
    let cloud_map = &members.fleet.cloud_map;
    cloud_map.behave(Behaviour { page_limit: 2, ..Behaviour::default() });
    let function = members.serving("blue", &[]).await.with_most_reads(1);
    let services = cloud_map.namespaces().into_keys().map(|id| cloud_map.services(&id).len());
    let pages = services.sum::<usize>().div_ceil(2);
    for _ in 0..3 {
        assert!(sync(&function).await.ok);
        assert!(cloud_map.count("ListServices") >= pages, "{pages}");
        cloud_map.forget_calls();
    }
}
