//! Each reason has one sentence, wherever a person meets it: in the report and its table, in a plan, in `explain`, in the
//! log, and in the Event of the Service.

use std::collections::BTreeSet;

use cloud_map_sync::actions::explain::Explanation;
use cloud_map_sync::function::Function;
use cloud_map_sync::model::Line;
use cloud_map_sync::report::{ClusterReport, Report};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::fleet::{Fleet, annotated};
use crate::logged::invoke_logged;
use crate::run::plan;
use testbed::cloud_map::{RecordType, ServiceKind};
use testbed::function::invoke;
use testbed::kubernetes::Headless;

const TTL: &str = "cloudmap.controller/ttl";
const PORT: &str = "cloudmap.controller/port";

/// A Service `shop/<name>` that claims its own name in `prod.local`, and is older than `late`.
fn claims(name: &str) -> Headless {
    annotated(name, "prod.local", name).created("2026-10-01T00:00:00Z")
}

/// Services that have a reason each.
struct World {
    fleet: Fleet,
    /// The names of the Services, with the code of the reason of each.
    reasons: Vec<(&'static str, &'static str)>,
}

impl World {
    async fn start() -> Self {
        let mut world = Self { fleet: Fleet::start().await, reasons: Vec::new() };
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
        world.add("NotPublishable", "link-local", claims("link-local"));
        world.fleet.pods("link-local", &["169.254.1.1"]);
        let maximum = "cloudmap.controller/max-instances";
        world.add("MaxInstances", "canary", claims("canary").annotate(maximum, "1"));
        world.fleet.pods("canary", &["10.0.3.1", "10.0.3.2"]);
        world.add_to_present_services();
        world
    }

    /// The Services whose reasons come from the Cloud Map services that are there.
    fn add_to_present_services(&mut self) {
        for (name, records) in [
            ("port", RecordType::A),
            ("ttl", RecordType::A),
            ("weighted", RecordType::A),
            ("alias", RecordType::Cname),
            ("srv", RecordType::Srv),
            ("six", RecordType::Aaaa),
        ] {
            self.fleet.dns_service(name, &[records]);
        }
        self.add("PortNotServed", "port", claims("port").annotate(PORT, "http"));
        self.add("TtlStays", "ttl", claims("ttl").annotate(TTL, "7"));
        let policy = "cloudmap.controller/routing-policy";
        self.add("RoutingPolicyFixed", "weighted", claims("weighted").annotate(policy, "WEIGHTED"));
        self.add("CnameService", "alias", claims("alias"));
        self.add("PortNeeded", "srv", Headless::new("shop", "srv").claim("srv", "prod.local"));
        self.add("RecordTypeMismatch", "six", claims("six"));
        self.fleet.ecs_service("moving", "10.0.9.1");
        self.add("NeighboursDiffer", "moving", claims("moving"));
        let Fleet { cloud_map, dns, .. } = &self.fleet;
        cloud_map.service(dns, "http", ServiceKind::Http);
        let connect = cloud_map.service(dns, "connect", ServiceKind::Http);
        cloud_map.tag(&connect, "AmazonECSManaged", "true");
        self.add("NotInDns", "http", claims("http"));
        self.add("ServiceConnect", "connect", claims("connect"));
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

#[tokio::test]
async fn each_reason_has_the_same_sentence_wherever_it_is_read() {
    let World { fleet, reasons: expected } = World::start().await;
    let function = fleet.function().await;
    let planned = plan(&function).await;

    let (answer, log) = invoke_logged(&function, &json!({ "action": "sync" })).await;

    let synced = answer.report.expect("a report");
    let said = reasons(&synced);
    let expected: BTreeSet<(&str, &str)> = expected.into_iter().collect();
    let found: BTreeSet<(&str, &str)> =
        said.iter().map(|(service, code, _)| (service.as_str(), code.as_str())).collect();
    assert!(expected.is_subset(&found), "{:?}\n{synced}", expected.difference(&found));
    assert_eq!(reasons(&planned), said, "the plan");
    assert_eq!(reasons(&plan(&function).await), said, "a later plan");

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
        let explanation = explain(&function, service).await.to_string();
        assert!(explanation.contains(&line), "explain lacks: {line}\n{explanation}");
    }

    let events = fleet.cluster.events("shop").into_iter();
    let warnings: BTreeSet<(String, String, String)> = events
        .filter(|event| event["type"] == "Warning")
        .map(|event| {
            let text = |value: &Value| value.as_str().expect("a text").to_owned();
            (text(&event["regarding"]["name"]), text(&event["reason"]), text(&event["note"]))
        })
        .collect();
    let without_event: Vec<&str> =
        said.difference(&warnings).map(|(_, code, _)| code.as_str()).collect();
    assert!(warnings.is_subset(&said), "{:?}", warnings.difference(&said));
    // Its own annotation asks for it.
    assert_eq!(without_event, ["MaxInstances"]);
}
