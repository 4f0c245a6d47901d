//! Registries with many namespaces. ListServices filters by namespace only after it has made its pages, so that the
//! services of all namespaces are listed once; GetService returns the namespace of each service that the process has not
//! seen. The calls are counted, and a list that shows too little is not believed.

use std::collections::BTreeMap;
use std::time::Duration;

use cloud_map_sync::function::Function;
use serde_json::json;

use crate::fleet::Fleet;
use crate::logged::invoke_logged;
use crate::run::{converge, settled, sync};
use testbed::clock::StandInClock;
use testbed::cloud_map::{Fault, FaultKind, NamespaceKind, ServiceKind};

/// The two namespaces of a fleet with so many more, and these services spread over all; three of them are claimed and in
/// step.
async fn registry(namespaces: usize, services: usize) -> (Fleet, Vec<String>) {
    let fleet = Fleet::start().await;
    let mut ids = vec![fleet.http.clone(), fleet.dns.clone()];
    ids.extend(
        (2..namespaces)
            .map(|index| fleet.cloud_map.namespace(&format!("team-{index}"), NamespaceKind::Http)),
    );
    for index in 0..services {
        let namespace = &ids[index % namespaces];
        fleet.cloud_map.service(namespace, &format!("service-{index}"), ServiceKind::Http);
    }
    for (name, namespace) in [("web", "prod"), ("cart", "team-2"), ("mail", "team-3")] {
        let id = fleet.cloud_map.find_namespace(namespace).expect("a namespace");
        fleet.cloud_map.service(&id, name, ServiceKind::Http);
        fleet.web(name, namespace, &["10.0.1.1"]);
    }
    converge(&fleet, &fleet.function().await).await;
    fleet.cloud_map.forget_calls();
    (fleet, ids)
}

/// The calls of a full sync that are not made for each name: the lists, and GetService.
async fn lists(fleet: &Fleet, function: &Function) -> BTreeMap<&'static str, usize> {
    fleet.cloud_map.forget_calls();
    let report = sync(function).await;
    assert!(report.ok, "{report}");
    let counts = ["ListNamespaces", "ListServices", "GetService"]
        .map(|operation| (operation, fleet.cloud_map.count(operation)));
    counts.into_iter().filter(|(_, count)| *count > 0).collect()
}

fn of(calls: &[(&'static str, usize)]) -> BTreeMap<&'static str, usize> {
    calls.iter().copied().collect()
}

#[tokio::test(start_paused = true)]
async fn fifty_namespaces_with_two_thousand_services_cost_twenty_lists_and_each_service_is_asked_for_once()
 {
    let (fleet, _) = registry(50, 1997).await;
    let function = fleet.function().await;

    let cold = of(&[("ListNamespaces", 1), ("ListServices", 20), ("GetService", 2000)]);
    assert_eq!(lists(&fleet, &function).await, cold);
    assert_eq!(lists(&fleet, &function).await, of(&[("ListServices", 20)]));
    assert_eq!(fleet.cloud_map.count("ListInstances"), 3);
}

#[tokio::test(start_paused = true)]
async fn few_services_in_two_namespaces_are_listed_by_namespace_until_they_are_known() {
    let (fleet, _) = registry(4, 4).await;
    let function = fleet.function().await;

    let cold = of(&[("ListNamespaces", 1), ("ListServices", 4)]);
    assert_eq!(lists(&fleet, &function).await, cold);
    assert_eq!(lists(&fleet, &function).await, of(&[("ListServices", 1)]));
}

#[tokio::test(start_paused = true)]
async fn service_of_another_writer_is_asked_for_once_and_one_of_the_function_never() {
    let (fleet, ids) = registry(10, 240).await;
    let function = fleet.function().await;
    sync(&function).await;
    fleet.cloud_map.service(&ids[5], "new", ServiceKind::Http);
    fleet.web("ours", "team-4", &["10.0.1.9"]);

    assert_eq!(lists(&fleet, &function).await, of(&[("ListServices", 3), ("GetService", 1)]));
    assert_eq!(fleet.addresses("team-4", "ours"), ["10.0.1.9"]);
    assert_eq!(lists(&fleet, &function).await, of(&[("ListServices", 3)]));
}

#[tokio::test(start_paused = true)]
async fn list_that_shows_fewer_services_than_the_namespace_has_is_not_believed() {
    let (fleet, ids) = registry(10, 240).await;
    let function = fleet.function().await;
    sync(&function).await;
    // As if the list of all lacked a service: the number of the last list, or Cloud Map's own count, is higher.
    let gone = fleet.cloud_map.service(&ids[2], "gone", ServiceKind::Http);
    assert_eq!(lists(&fleet, &function).await, of(&[("ListServices", 3), ("GetService", 1)]));
    fleet.cloud_map.remove_service(&gone);

    assert_eq!(lists(&fleet, &function).await, of(&[("ListServices", 6)]), "one namespace again");
    assert_eq!(lists(&fleet, &function).await, of(&[("ListServices", 3)]));
    settled(&fleet, &function).await;
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_get_services_each_namespace_is_listed_and_the_log_says_so_once() {
    let (fleet, _) = registry(10, 240).await;
    fleet.cloud_map.inject(Fault::on("GetService", FaultKind::AccessDenied).always());
    let clock = StandInClock::new();
    let function = fleet.function().await.with_clock(clock.clock());

    let (answer, log) = invoke_logged(&function, &json!({ "action": "sync" })).await;

    assert!(answer.report.is_some_and(|report| report.ok));
    let said =
        |log: &[String]| log.iter().filter(|it| it.contains("servicediscovery:GetService")).count();
    assert_eq!(said(&log), 1, "{log:#?}");
    // The list of all up to the first refusal, and then one of each namespace with three pages.
    assert!(fleet.cloud_map.count("ListServices") > 30);
    assert_eq!(lists(&fleet, &function).await, of(&[("ListServices", 30)]), "not tried again");
    fleet.cloud_map.heal();
    clock.advance(Duration::from_hours(1));
    // By now the lists of the namespaces have shown where each service is.
    let calls = of(&[("ListNamespaces", 1), ("ListServices", 3)]);
    assert_eq!(lists(&fleet, &function).await, calls);
}

#[tokio::test(start_paused = true)]
async fn service_that_goes_between_its_list_and_the_question_is_gone() {
    let (fleet, _) = registry(10, 240).await;
    let kind = FaultKind::Error(400, "ServiceNotFound", "no such service");
    fleet.cloud_map.inject(Fault::on("GetService", kind));
    let function = fleet.function().await;

    let calls = lists(&fleet, &function).await;

    // One namespace shows a service less than Cloud Map counts.
    let expected = of(&[("ListNamespaces", 1), ("ListServices", 6), ("GetService", 243)]);
    assert_eq!(calls, expected);
    settled(&fleet, &function).await;
}

#[tokio::test(start_paused = true)]
async fn services_in_namespaces_of_other_accounts_are_not_asked_for() {
    let (fleet, _) = registry(10, 240).await;
    let other = fleet.cloud_map.shared_namespace("platform", NamespaceKind::Http, "444455556666");
    for index in 0..60 {
        fleet.cloud_map.service(&other, &format!("theirs-{index}"), ServiceKind::Http);
    }
    let function = fleet.function().await;

    let cold = of(&[("ListNamespaces", 1), ("ListServices", 4), ("GetService", 243)]);
    assert_eq!(lists(&fleet, &function).await, cold);
    assert_eq!(lists(&fleet, &function).await, of(&[("ListServices", 4)]));
}

#[tokio::test(start_paused = true)]
async fn of_many_namespaces_those_that_the_settings_name_are_listed_by_themselves() {
    let (fleet, _) = registry(10, 240).await;
    let settings = [("CLOUD_MAP_NAMESPACES", "prod,team-2,team-3")];
    let function = fleet.function_with(&settings).await;

    let cold = of(&[("ListNamespaces", 1), ("ListServices", 9)]);
    assert_eq!(lists(&fleet, &function).await, cold);
    assert_eq!(lists(&fleet, &function).await, of(&[("ListServices", 9)]));
}
