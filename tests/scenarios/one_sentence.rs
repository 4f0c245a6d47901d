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
use crate::run::{plan, report};
use testbed::cloud_map::{RecordType, ServiceKind};
use testbed::function::invoke;
use testbed::kubernetes::{Headless, Pod};

/// A Service, its claim, and the change that gives it a reason.
struct Reasoned {
    code: &'static str,
    service: &'static str,
    set_up: fn(&Fleet, Headless),
}

/// The Services of the world. Each claims its own name in `prod.local` and has one pod, unless its row changes that.
const REASONED: &[Reasoned] = &[
    Reasoned {
        code: "BadAnnotation",
        service: "bad-ttl",
        set_up: |fleet, claims| fleet.service(claims.annotate("cloudmap.controller/ttl", "soon")),
    },
    Reasoned {
        code: "UnknownAnnotation",
        service: "colourful",
        set_up: |fleet, claims| fleet.service(claims.annotate("cloudmap.controller/colour", "red")),
    },
    Reasoned {
        code: "NamespaceMissing",
        service: "nowhere",
        set_up: |fleet, _| fleet.service(annotated("nowhere", "absent.local", "nowhere")),
    },
    Reasoned {
        code: "DomainConflict",
        service: "late",
        set_up: |fleet, _| {
            let claims = annotated("late", "prod.local", "colourful");
            fleet.service(claims.created("2026-11-01T00:00:00Z"));
        },
    },
    Reasoned {
        code: "TooManyNames",
        service: "many-names",
        set_up: |fleet, _| {
            let names: Vec<String> = (0..101).map(|index| format!("many-{index}")).collect();
            fleet.service(annotated("many-names", "prod.local", &names.join(",")));
        },
    },
    Reasoned {
        code: "NotPublishable",
        service: "link-local",
        set_up: |fleet, claims| {
            fleet.service(claims);
            fleet.pods("link-local", &["169.254.1.1"]);
        },
    },
    Reasoned {
        code: "NoSuchPort",
        service: "no-port",
        set_up: |fleet, claims| {
            fleet.service(claims.annotate("cloudmap.controller/port", "metrics"));
        },
    },
    Reasoned {
        code: "PortNotServed",
        service: "port",
        set_up: |fleet, claims| {
            fleet.dns_service("port", &[RecordType::A]);
            fleet.service(claims.annotate("cloudmap.controller/port", "http"));
        },
    },
    Reasoned {
        code: "RepeatedNamespace",
        service: "repeated",
        set_up: |fleet, _| {
            fleet.service(annotated("repeated", "prod.local", "repeated.prod.local"));
        },
    },
    Reasoned {
        code: "NeighboursDiffer",
        service: "moving",
        set_up: |fleet, claims| {
            fleet.ecs_service("moving", "10.0.9.1");
            fleet.service(claims);
        },
    },
    Reasoned {
        code: "TtlStays",
        service: "ttl",
        set_up: |fleet, claims| {
            fleet.dns_service("ttl", &[RecordType::A]);
            fleet.service(claims.annotate("cloudmap.controller/ttl", "7"));
        },
    },
    Reasoned {
        code: "RoutingPolicyFixed",
        service: "weighted",
        set_up: |fleet, claims| {
            fleet.dns_service("weighted", &[RecordType::A]);
            fleet.service(claims.annotate("cloudmap.controller/routing-policy", "WEIGHTED"));
        },
    },
    Reasoned {
        code: "NotInDns",
        service: "http",
        set_up: |fleet, claims| {
            fleet.cloud_map.service(&fleet.dns, "http", ServiceKind::Http);
            fleet.service(claims);
        },
    },
    Reasoned {
        code: "CnameService",
        service: "alias",
        set_up: |fleet, claims| {
            fleet.dns_service("alias", &[RecordType::Cname]);
            fleet.service(claims);
        },
    },
    Reasoned {
        code: "PortNeeded",
        service: "srv",
        set_up: |fleet, _| {
            fleet.dns_service("srv", &[RecordType::Srv]);
            fleet.service(Headless::new("shop", "srv").claim("srv", "prod.local"));
        },
    },
    Reasoned {
        code: "RecordTypeMismatch",
        service: "six",
        set_up: |fleet, claims| {
            fleet.dns_service("six", &[RecordType::Aaaa]);
            fleet.service(claims);
        },
    },
    Reasoned {
        code: "ServiceConnect",
        service: "connect",
        set_up: |fleet, claims| {
            let service = fleet.cloud_map.service(&fleet.dns, "connect", ServiceKind::Http);
            fleet.cloud_map.tag(&service, "AmazonECSManaged", "true");
            fleet.service(claims);
        },
    },
    Reasoned {
        code: "MaxInstances",
        service: "canary",
        set_up: |fleet, claims| {
            fleet.service(claims.annotate("cloudmap.controller/max-instances", "1"));
            fleet.pods("canary", &["10.0.3.1", "10.0.3.2"]);
        },
    },
];

async fn world() -> Fleet {
    let fleet = Fleet::start().await;
    for (index, reasoned) in REASONED.iter().enumerate() {
        let Reasoned { service, set_up, .. } = reasoned;
        let pod = Pod::new(&format!("{service}-0"), &format!("10.0.1.{index}"));
        set_up(&fleet, annotated(service, "prod.local", service).created("2026-10-01T00:00:00Z"));
        let has_pods = ["canary", "link-local"].contains(service);
        if !has_pods {
            fleet.cluster.pods("shop", service, &[pod]);
        }
    }
    fleet
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
    let fleet = world().await;
    let function = fleet.function().await;
    let planned = plan(&function).await;

    let (answer, log) = invoke_logged(&function, &json!({ "action": "sync" })).await;

    let synced = answer.report.expect("a report");
    let said = reasons(&synced);
    let expected: BTreeSet<(&str, &str)> =
        REASONED.iter().map(|reasoned| (reasoned.service, reasoned.code)).collect();
    let found: BTreeSet<(&str, &str)> =
        said.iter().map(|(service, code, _)| (service.as_str(), code.as_str())).collect();
    assert!(expected.is_subset(&found), "{:?}\n{synced}", expected.difference(&found));
    assert_eq!(reasons(&planned), said, "the plan");
    assert_eq!(
        reasons(&report(&function, &json!({ "action": "plan" })).await),
        said,
        "a later plan"
    );

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
