//! Each reason has one sentence, wherever a person meets it: in the report and its table, in a plan, in `explain`, in the
//! log, and in the Event of the Service.

use std::collections::BTreeSet;

use cloud_map_sync::actions::explain::Explanation;
use cloud_map_sync::function::Function;
use cloud_map_sync::model::Line;
use cloud_map_sync::report::{ClusterReport, Report};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::fleet::{Fleet, annotated, ips, refs};
use crate::logged::invoke_logged;
use crate::run::{converge, plan, synced};
use testbed::cloud_map::{Fault, FaultKind, NamespaceKind, RecordType, ServiceKind};
use testbed::function::invoke;
use testbed::kubernetes::{Headless, Pod};

const TTL: &str = "cloudmap.controller/ttl";
const PORT: &str = "cloudmap.controller/port";

/// A Service `shop/<name>` that claims its own name in `prod.local`, and is older than `late`.
fn claims(name: &str) -> Headless {
    annotated(name, "prod.local", name).created("2026-10-01T00:00:00Z")
}

/// Services that have a reason each.
struct World {
    fleet: Fleet,
    settings: Vec<(&'static str, &'static str)>,
    /// The names of the Services, with the code of the reason of each.
    reasons: Vec<(&'static str, &'static str)>,
    /// The codes of the reasons without an Event: nobody but the operators can end them, or nobody has to.
    without_event: Vec<&'static str>,
}

impl World {
    async fn empty(settings: &[(&'static str, &'static str)]) -> Self {
        let fleet = Fleet::start().await;
        let settings = settings.to_vec();
        Self { fleet, settings, reasons: Vec::new(), without_event: Vec::new() }
    }

    async fn function(&self) -> Function {
        self.fleet.function_with(&self.settings).await
    }

    /// What the annotations ask for cannot be done.
    async fn of_annotations() -> Self {
        let mut world = Self::empty(&[]).await;
        let many: Vec<String> = (0..101).map(|index| format!("many-{index}")).collect();
        world.add("BadAnnotation", "bad-ttl", claims("bad-ttl").annotate(TTL, "soon"));
        let colour = "cloudmap.controller/colour";
        world.add("UnknownAnnotation", "colourful", claims("colourful").annotate(colour, "red"));
        world.add("NamespaceMissing", "nowhere", annotated("nowhere", "absent.local", "nowhere"));
        let late = annotated("late", "prod.local", "colourful").created("2026-11-01T00:00:00Z");
        world.add("DomainConflict", "late", late);
        world.add("TooManyNames", "many", annotated("many", "prod.local", &many.join(",")));
        world.add("NoSuchPort", "no-port", claims("no-port").annotate(PORT, "metrics"));
        let repeated = annotated("repeated", "prod.local", "repeated.prod.local");
        world.add("RepeatedNamespace", "repeated", repeated);
        let maximum = "cloudmap.controller/max-instances";
        world.add("MaxInstances", "canary", claims("canary").annotate(maximum, "1"));
        world.fleet.pods("canary", &["10.0.3.1", "10.0.3.2"]);
        // Its own annotation asks for it.
        world.without_event = vec!["MaxInstances"];
        world
    }

    /// The Cloud Map namespaces and services that are there do not fit.
    async fn of_present_services() -> Self {
        let mut world = Self::empty(&[]).await;
        for (name, records) in [
            ("port", RecordType::A),
            ("ttl", RecordType::A),
            ("weighted", RecordType::A),
            ("alias", RecordType::Cname),
            ("srv", RecordType::Srv),
            ("six", RecordType::Aaaa),
        ] {
            world.fleet.dns_service(name, &[records]);
        }
        world.add("PortNotServed", "port", claims("port").annotate(PORT, "http"));
        world.add("TtlStays", "ttl", claims("ttl").annotate(TTL, "7"));
        let policy = "cloudmap.controller/routing-policy";
        world.add(
            "RoutingPolicyFixed",
            "weighted",
            claims("weighted").annotate(policy, "WEIGHTED"),
        );
        world.add("CnameService", "alias", claims("alias"));
        world.add("PortNeeded", "srv", Headless::new("shop", "srv").claim("srv", "prod.local"));
        world.add("RecordTypeMismatch", "six", claims("six"));
        world.fleet.ecs_service("moving", "10.0.9.1");
        world.add("NeighboursDiffer", "moving", claims("moving"));
        let cloud_map = world.fleet.cloud_map.clone();
        cloud_map.service(&world.fleet.dns, "http", ServiceKind::Http);
        let connect = cloud_map.service(&world.fleet.dns, "connect", ServiceKind::Http);
        cloud_map.tag(&connect, "AmazonECSManaged", "true");
        world.add("NotInDns", "http", claims("http"));
        world.add("ServiceConnect", "connect", claims("connect"));
        let public = cloud_map.namespace("example.com", NamespaceKind::DnsPublic);
        let checked =
            cloud_map.service(&public, "checked", ServiceKind::of_records(&[RecordType::A]));
        cloud_map.dress(&checked, "by hand", &json!({ "Type": "TCP", "FailureThreshold": 3 }));
        world.add("AddressNotCheckable", "checked", annotated("checked", "example.com", "checked"));
        for _ in 0..2 {
            let twin = cloud_map.namespace("twin.local", NamespaceKind::DnsPrivate);
            cloud_map.service(&twin, "twin", ServiceKind::of_records(&[RecordType::A]));
        }
        world.add("NamespaceAmbiguous", "twin", annotated("twin", "twin.local", "twin"));
        world
    }

    /// The endpoints have addresses that are not published.
    async fn of_endpoints() -> Self {
        let mut world = Self::empty(&[]).await;
        world.add("NotPublishable", "link-local", claims("link-local"));
        world.fleet.pods("link-local", &["169.254.1.1"]);
        for (code, name, address_type, addresses) in [
            ("AddressMalformed", "zeros", "IPv4", vec!["010.001.000.005".to_owned()]),
            ("AddressTypeFqdn", "host", "FQDN", vec!["db-0.example.com".to_owned()]),
            ("EndpointsTruncated", "truncated", "IPv4", ips("10.0.4", 1..=2)),
            ("TooManyEndpoints", "crowd", "IPv4", Vec::new()),
            ("ServiceFull", "crowd", "IPv4", Vec::new()),
        ] {
            world.fleet.service(claims(name).without_selector());
            world.put_slice(name, 0, address_type, &addresses);
            world.reasons.push((name, code));
        }
        for third in 0..24 {
            world.put_slice("crowd", third, "IPv4", &ips(&format!("10.1.{third}"), 0..250));
        }
        world
    }

    fn put_slice(&self, service: &str, index: usize, address_type: &str, addresses: &[String]) {
        let endpoints: Vec<Value> =
            addresses.iter().map(|address| json!({ "addresses": [address] })).collect();
        let capacity = if service == "truncated" { "truncated" } else { "" };
        self.fleet.cluster.put(json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": address_type,
            "metadata": {
                "name": format!("{service}-{index}"), "namespace": "shop",
                "labels": { "kubernetes.io/service-name": service },
                "annotations": { "endpoints.kubernetes.io/over-capacity": capacity },
            },
            "endpoints": endpoints, "ports": [],
        }));
    }

    /// The function's settings and rights do not allow it.
    async fn of_settings() -> Self {
        let policy = r#"[{"clusters": ["*"], "kubernetesNamespaces": ["shop"],
            "cloudMapNamespaces": ["prod*"], "names": ["allowed*"], "cidrs": ["10.0.1.0/24"]}]"#;
        let mut world = Self::empty(&[("NAME_POLICY", policy), ("DNS_NAMESPACES", "false")]).await;
        let in_http = |name: &str| annotated(name, "prod", name);
        world.add("NotAllowed", "forbidden", in_http("forbidden"));
        world.add("AddressNotAllowed", "allowed-far", in_http("allowed-far"));
        world.fleet.pods("allowed-far", &["10.0.9.1"]);
        world.add("DnsNotAllowed", "allowed-dns", claims("allowed-dns"));
        world
    }

    /// Instances of an earlier sync would go, and the annotation or the policy keeps them.
    async fn of_kept_instances() -> Self {
        let mut world = Self::empty(&[("POLICY", "create-only")]).await;
        let kept = claims("kept").annotate("cloudmap.controller/when-none-ready", "keep");
        world.add("NoneReady", "kept", kept);
        world.add("Policy", "scaled", claims("scaled"));
        let function = world.function().await;
        converge(&world.fleet, &function).await;
        world.fleet.cluster.pods(
            "shop",
            "kept",
            &[Pod::new("kept-10-0-1-0", "10.0.1.0").not_ready()],
        );
        world.fleet.pods("scaled", &[]);
        world.without_event = vec!["Policy"];
        world
    }

    /// All Services lose their pods at once.
    async fn of_the_guard() -> Self {
        let mut world = Self::empty(&[]).await;
        for name in ["cart", "search", "web"] {
            world.fleet.web(name, "prod.local", &refs(&ips("10.0.1", 1..=10)));
            world.reasons.push((name, "Guard"));
        }
        let function = world.function().await;
        converge(&world.fleet, &function).await;
        for name in ["cart", "search", "web"] {
            world.fleet.pods(name, &[]);
        }
        world.without_event = vec!["Guard"];
        world
    }

    /// Cloud Map refuses changes. What it says about capacity is about a whole namespace.
    async fn of_refusals() -> Self {
        let mut world = Self::empty(&[]).await;
        let invalid = FaultKind::Error(400, "InvalidInput", "Not like this");
        let full = FaultKind::Error(400, "ResourceLimitExceeded", "No more");
        for (code, name, namespace, kind) in [
            ("AddressTaken", "taken", "prod", FaultKind::OperationFails("INVALID_CHANGE_BATCH")),
            ("InvalidInput", "invalid", "prod", invalid.clone()),
            ("Waiting", "last", "prod", invalid),
            ("LimitExceeded", "full", "prod.local", full),
        ] {
            let service = world.fleet.cloud_map.ensure_service(namespace, name);
            world.add(code, name, annotated(name, namespace, name));
            if name == "last" {
                synced(&world.function().await).await;
                world.fleet.pods(name, &["10.0.5.1"]);
            }
            let fault = Fault::on("RegisterInstance", kind).service(&service);
            world.fleet.cloud_map.inject(fault.always());
        }
        world.without_event = vec!["Waiting"];
        world
    }

    /// Adds a Service with one pod.
    fn add(&mut self, code: &'static str, name: &'static str, service: Headless) {
        self.fleet.service(service);
        self.fleet.pods(name, &[&format!("10.0.1.{}", self.reasons.len())]);
        self.reasons.push((name, code));
    }
}

/// The lines with a reason of a report, as (Service, code, sentence).
fn reasons(report: &Report) -> BTreeSet<(String, String, String)> {
    let lines = report.clusters.iter().flat_map(ClusterReport::all_lines);
    let reasons = lines.filter(|line| line.has_reason());
    let named = reasons.filter_map(|line| {
        let Line { service, code, text, .. } = line;
        Some((service.as_ref()?.name.clone(), code.to_string(), text.clone()))
    });
    named.collect()
}

async fn explain(function: &Function, service: &str) -> Explanation {
    let question = json!({ "action": "explain", "namespace": "shop", "service": service });
    let answer = invoke(function, &question).await.response.expect("an explanation");
    Explanation::deserialize(answer).expect("of this release")
}

/// Compares the sentence of each reason wherever a person reads it. `is_foreseen`: whether a plan has the reasons. It has
/// not if only Cloud Map's answers bring them, which a person who asks for a plan does not wait for.
async fn compare(world: World, is_foreseen: bool) {
    let function = world.function().await;
    let World { fleet, reasons: expected, without_event, .. } = world;
    let before = plan(&function).await;

    let (answer, log) = invoke_logged(&function, &json!({ "action": "sync" })).await;

    let synced = answer.report.expect("a report");
    let said = reasons(&synced);
    let expected: BTreeSet<(&str, &str)> = expected.into_iter().collect();
    let found: BTreeSet<(&str, &str)> =
        said.iter().map(|(service, code, _)| (service.as_str(), code.as_str())).collect();
    assert!(expected.is_subset(&found), "{:?}\n{synced}", expected.difference(&found));
    if is_foreseen {
        assert_eq!(reasons(&before), said, "the plan");
        assert_eq!(reasons(&plan(&function).await), said, "a later plan");
    }

    let table = synced.to_string();
    let messages: Vec<String> = log
        .iter()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .map(|line| line["message"].as_str().unwrap_or_default().to_owned())
        .collect();
    for (service, code, sentence) in &said {
        let line = format!("shop/{service} ({code}): {sentence}");
        assert!(table.contains(&line), "the table lacks: {line}\n{table}");
        let is_logged = messages.iter().any(|message| message.ends_with(&format!(": {sentence}")));
        assert!(is_logged, "the log lacks: {line}\n{messages:#?}");
        if !is_foreseen {
            continue;
        }
        let explanation = explain(&function, service).await.to_string();
        // Only a full sync knows the loss of the whole cluster, and decides between namespaces of one name.
        let is_decided_by_full_sync = ["Guard", "NamespaceAmbiguous"].contains(&code.as_str());
        let explained = if is_decided_by_full_sync { format!("({code}): ") } else { line };
        assert!(explanation.contains(&explained), "explain lacks: {explained}\n{explanation}");
    }

    let events = fleet.cluster.events("shop").into_iter();
    let warnings: BTreeSet<(String, String, String)> = events
        .filter(|event| event["type"] == "Warning")
        .map(|event| {
            let text = |value: &Value| value.as_str().expect("a text").to_owned();
            (text(&event["regarding"]["name"]), text(&event["reason"]), text(&event["note"]))
        })
        .collect();
    let other_codes: BTreeSet<&str> =
        said.difference(&warnings).map(|(_, code, _)| code.as_str()).collect();
    assert!(warnings.is_subset(&said), "{:?}", warnings.difference(&said));
    assert_eq!(other_codes, without_event.into_iter().collect(), "without an Event");
}

#[tokio::test]
async fn reason_in_the_annotations_has_the_same_sentence_wherever_it_is_read() {
    compare(World::of_annotations().await, true).await;
}

#[tokio::test]
async fn reason_in_present_services_has_the_same_sentence_wherever_it_is_read() {
    compare(World::of_present_services().await, true).await;
}

#[tokio::test]
async fn reason_in_the_endpoints_has_the_same_sentence_wherever_it_is_read() {
    compare(World::of_endpoints().await, true).await;
}

#[tokio::test]
async fn reason_in_the_settings_has_the_same_sentence_wherever_it_is_read() {
    compare(World::of_settings().await, true).await;
}

#[tokio::test]
async fn reason_that_keeps_instances_has_the_same_sentence_wherever_it_is_read() {
    compare(World::of_kept_instances().await, true).await;
}

#[tokio::test]
async fn verdict_of_the_guard_has_the_same_sentence_wherever_it_is_read() {
    compare(World::of_the_guard().await, true).await;
}

#[tokio::test]
async fn refusal_of_cloud_map_has_the_same_sentence_wherever_it_is_read() {
    compare(World::of_refusals().await, false).await;
}
