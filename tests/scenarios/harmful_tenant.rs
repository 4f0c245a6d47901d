//! A tenant who means harm: a user who may annotate the Services of some namespaces, and no more; in the last test one who
//! may write to Cloud Map. Whatever the annotations are, each of these Services costs a run a bounded number of bytes of
//! the report and of the log, and of calls, however many there are.

use std::collections::BTreeMap;

use cloud_map_sync::function::Function;
use cloud_map_sync::report::Report;
use serde_json::{Value, json};

use crate::fleet::{Fleet, annotated, ips};
use crate::logged::invoke_logged;
use crate::run::{converge, converged, held_back, plan, said_of, sync};
use testbed::cloud_map::{NamespaceKind, ServiceKind};
use testbed::function::invoke;
use testbed::kubernetes::{Headless, Pod};

/// Bytes of the report, and of the log, for each name that a Service claims.
const OF_A_CLAIM: usize = 2_500;
/// The most names that a Service claims.
const NAMES: usize = 100;
/// Bytes for a run without any of these Services.
const OF_A_RUN: usize = 50_000;

/// Asserts that the report and the log of a full sync stay within the bound for so many claims.
async fn assert_bounded(function: &Function, claims: usize) {
    let (answer, log) = invoke_logged(function, &json!({ "action": "sync" })).await;
    let report = answer.report.expect("a report");
    assert!(report.ok, "{}", report.counts);
    let most = OF_A_RUN + claims * OF_A_CLAIM;
    let report = serde_json::to_string(&report).expect("JSON").len();
    let log: usize = log.iter().map(|line| line.len() + 1).sum();
    assert!(report < most, "{report} bytes of the report for {claims} claims, at most {most}");
    assert!(log < most, "{log} bytes of the log for {claims} claims, at most {most}");
}

/// The namespace and the name of a Service of the tenant, both as long as they may be.
fn place(index: usize) -> (String, String) {
    (format!("tenant-{:0>56}", index % 7), format!("s{index:0>62}"))
}

fn hostile(index: usize) -> Headless {
    let (namespace, name) = place(index);
    Headless::new(&namespace, &name).port("http", 8080)
}

/// `shop/web` of another team, with one pod under each of these names.
async fn victim(names: &[String]) -> (Fleet, Function) {
    let fleet = Fleet::start().await;
    fleet.service(annotated("web", "prod", &names.join(",")));
    fleet.pods("web", &["10.0.1.1"]);
    let function = converged(&fleet).await;
    (fleet, function)
}

/// The longest names that Cloud Map takes.
fn longest_names() -> Vec<String> {
    (0..NAMES).map(|index| format!("{index:0>63}.{}", "n".repeat(63))).collect()
}

#[tokio::test]
async fn six_hundred_claims_of_one_name_cost_as_much_each_as_one() {
    let (fleet, function) = victim(&["web".to_owned()]).await;
    for index in 0..600 {
        fleet.service(hostile(index).claim("web", "prod"));
    }

    assert_bounded(&function, 600).await;

    let report = sync(&function).await;
    assert_eq!(held_back(&report).len(), 600);
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
}

#[tokio::test]
async fn hundred_names_each_with_the_longest_values_stay_within_the_same_bound() {
    let names = longest_names();
    let (fleet, function) = victim(&names).await;
    let attributes: Vec<String> =
        (0..NAMES).map(|it| format!("{it:0>50}={}", "v".repeat(1024))).collect();
    for index in 0..100 {
        let service = hostile(index).claim(&names.join(","), "prod");
        let service = service.annotate("cloudmap.controller/attributes", &attributes.join(","));
        fleet.service(service.annotate("cloudmap.controller/ttl", "2147483647"));
    }

    assert_bounded(&function, 100 * NAMES).await;

    let (namespace, service) = place(1);
    let explain = json!({ "action": "explain", "namespace": namespace, "service": service });
    for payload in [explain, json!({ "action": "status" })] {
        let answer = invoke(&function, &payload).await.response.expect("an answer").to_string();
        let most = OF_A_RUN + NAMES * OF_A_CLAIM;
        assert!(answer.len() < most, "{payload}: {} bytes, at most {most}", answer.len());
    }
}

/// Each has an instance of its own to register, so each takes a turn, with a read of its own if the plan is old by then.
#[tokio::test(start_paused = true)]
async fn names_that_another_service_holds_are_not_read_for_each_of_their_claimants() {
    let others: Vec<String> = (1..NAMES).map(|index| format!("web-{index}")).collect();
    let (fleet, _) = victim(&others).await;
    let count = 260;
    for index in 0..count {
        let names = format!("own-{index},{}", others.join(","));
        fleet.service(hostile(index).claim(&names, "prod"));
        let address = format!("10.2.{}.{}", index / 250, index % 250);
        let (namespace, name) = place(index);
        fleet.cluster.pods(&namespace, &name, &[Pod::new("pod", &address)]);
    }
    // At the rates of an account the last turns come long after the first.
    let function = fleet.function_with(&[("QUOTA_SHARE", "1")]).await;
    fleet.cloud_map.forget_calls();
    let report = sync(&function).await;

    assert!(report.ok, "{}", report.counts);
    assert_eq!(report.counts.registered, count, "{}", report.counts);
    let lists = fleet.cloud_map.count("ListInstances");
    assert!(lists <= others.len() + count, "{lists} lists");
}

#[tokio::test]
async fn namespaces_that_are_missing_are_named_with_a_few_of_those_that_exist() {
    let (fleet, function) = victim(&["web".to_owned()]).await;
    for index in 0..60 {
        fleet.cloud_map.namespace(&format!("team-{index:0>60}"), NamespaceKind::Http);
    }
    for index in 0..100 {
        let service = hostile(index).claim(&longest_names().join(","), "prod");
        let missing = format!("{index:0>1000}");
        fleet.service(service.annotate("cloudmap.controller/namespace", &missing));
    }

    assert_bounded(&function, 100).await;
}

#[tokio::test]
async fn thousands_of_ports_are_one_mistake() {
    let (fleet, function) = victim(&["web".to_owned()]).await;
    let ports: Vec<String> = (1..=3000).map(|port: u16| port.to_string()).collect();
    let service = hostile(0).claim("ports", "prod");
    fleet.service(service.annotate("cloudmap.controller/port", &ports.join(",")));
    let (namespace, name) = place(0);
    fleet.cluster.pods(&namespace, &name, &[Pod::new("pod", "10.2.0.1")]);

    assert_bounded(&function, 1).await;

    let said = said_of(&sync(&function).await, "BadAnnotation");
    assert!(said.contains("it names 3000 ports"), "{said}");
}

#[tokio::test]
async fn names_beyond_the_hundredth_are_one_line() {
    let (fleet, function) = victim(&["web".to_owned()]).await;
    let names: Vec<String> = (0..30_000).map(|index| format!("n-{index:05}")).collect();
    fleet.service(hostile(0).claim(&names.join(","), "prod"));
    let (namespace, name) = place(0);
    fleet.cluster.pods(&namespace, &name, &[Pod::new("pod", "10.2.0.1")]);

    let report = plan(&function).await;

    assert_eq!(report.counts.registered, 100, "{:?}", report.counts);
    assert_eq!(held_back(&report), ["TooManyNames"]);
    let said = said_of(&report, "TooManyNames");
    assert!(said.contains("30000 names") && said.contains("first 100"), "{said}");
}

/// 60 pods with 20 ports are 1,200 instances under each of six names.
#[tokio::test]
async fn instances_beyond_the_limits_of_a_name_and_of_a_service_are_one_line_a_name() {
    let fleet = Fleet::start().await;
    let ports: Vec<String> = (1..=20).map(|port| format!("p-{port}")).collect();
    let web = |names: &str| {
        let service = Headless::new("shop", "web").claim(names, "prod");
        let service = service.annotate("cloudmap.controller/port", &ports.join(","));
        (1..=20).fold(service, |service, port| service.port(&format!("p-{port}"), 8000 + port))
    };
    let pods: Vec<Pod> =
        (1..=60).map(|last| Pod::new(&format!("pod-{last}"), &format!("10.0.1.{last}"))).collect();
    fleet.service(web("a,b,c,d,e,f"));
    fleet.cluster.pods("shop", "web", &pods);

    let report = plan(&fleet.function().await).await;

    let registered = |report: &Report| -> BTreeMap<String, usize> {
        let names = report.clusters[0].services.iter();
        names.map(|it| (it.name.clone(), it.changes().count())).collect()
    };
    assert_eq!(report.counts.registered, 5_000, "{:?}", report.counts);
    let full = "ServiceFull";
    assert_eq!(held_back(&report), ["MaxInstances", full, full, full, full, full], "{report}");
    let said = said_of(&report, full);
    assert!(said.contains("1000 of 1200 instances fit"), "{said}");
    let said = said_of(&report, "MaxInstances");
    assert!(said.contains("0 of 1200") && said.contains("5,000 for all names"), "{said}");
    let first = registered(&report);

    // A name at the end takes no instance from another.
    fleet.service(web("a,b,c,d,e,f,g"));
    let report = plan(&fleet.function().await).await;
    assert_eq!(report.counts.registered, 5_000, "{:?}", report.counts);
    for name in ["a", "b", "c", "d", "e"] {
        assert_eq!(registered(&report).get(name), first.get(name), "{name}");
    }
}

/// Six names with 820 instances each are below the limit of the Service, and the pods of a rollout would be above it.
#[tokio::test]
async fn rollout_past_the_limit_of_a_service_takes_nothing_from_its_last_names() {
    let fleet = Fleet::start().await;
    let ports: Vec<String> = (1..=20).map(|port| format!("p-{port}")).collect();
    let service = Headless::new("shop", "web").claim("a,b,c,d,e,f", "prod");
    let service = service.annotate("cloudmap.controller/port", &ports.join(","));
    let service =
        (1..=20).fold(service, |service, port| service.port(&format!("p-{port}"), 8000 + port));
    fleet.service(service);
    let pods = |count: usize| {
        let pods = ips("10.0.1", 1..=count).into_iter();
        let pods = pods.map(|address| Pod::new(&format!("pod-{address}"), &address));
        fleet.cluster.pods("shop", "web", &pods.collect::<Vec<_>>());
    };
    fleet.cloud_map.adjust(|behaviour| behaviour.instances_per_namespace = 10_000);
    pods(41);
    let function = converged(&fleet).await;
    pods(49);

    let report = plan(&function).await;

    assert_eq!(report.counts.deregistered, 0, "{:?}", report.counts);
    assert_eq!(report.counts.registered, 80, "{:?}", report.counts);
}

#[tokio::test]
async fn endpoints_beyond_five_thousand_are_one_line() {
    let fleet = Fleet::start().await;
    fleet.service(annotated("web", "prod", "web").without_selector());
    for third in 0..24 {
        let address = |last: usize| json!({ "addresses": [format!("10.1.{third}.{last}")] });
        let endpoints: Vec<Value> = (0..250).map(address).collect();
        fleet.cluster.put(json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {
                "name": format!("web-{third}"), "namespace": "shop",
                "labels": { "kubernetes.io/service-name": "web" },
            },
            "endpoints": endpoints, "ports": [],
        }));
    }

    let report = plan(&fleet.function().await).await;

    assert_eq!(report.counts.registered, 1_000, "{:?}", report.counts);
    assert_eq!(held_back(&report), ["ServiceFull", "TooManyEndpoints"], "{report}");
    let said = said_of(&report, "TooManyEndpoints");
    assert!(said.contains("6000 endpoints, and 5000 of them count"), "{said}");
}

/// Whoever may write to Cloud Map can write marks, so they may name what cannot be asked for.
#[tokio::test]
async fn instances_of_ours_that_name_no_possible_service_are_repaired_or_taken_out() {
    for name in ["", "../nodes", "Web shop"] {
        let fleet = Fleet::start().await;
        let service = fleet.cloud_map.service(&fleet.http, "web", ServiceKind::Http);
        for (id, address) in [("wanted", "10.0.1.1"), ("unwanted", "10.0.1.9")] {
            let mut instance = fleet.ours("web", address);
            instance.insert("cloud-map-sync/service".into(), name.into());
            fleet.put(&service, id, &instance);
        }
        fleet.web("web", "prod", &["10.0.1.1"]);

        let report = converge(&fleet, &fleet.function().await).await;

        assert_eq!((report.counts.rewritten, report.counts.deregistered), (1, 1), "{report}");
        let expected = fleet.ours("web", "10.0.1.1");
        assert_eq!(fleet.instance("prod", "web"), ("wanted".to_owned(), expected));
    }
}
