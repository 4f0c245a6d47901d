//! A pod beside the tasks of an ECS service under one name: what callers find at every task and not at the pod is one
//! remark, in the plan, the report of a run and `explain`, which holds nothing back. So is a hostname that repeats its
//! namespace.

use serde_json::json;

use cloud_map_sync::report::Report;

use crate::fleet::{Fleet, annotated, attributes};
use crate::run::{converge, held_back, plan, remarks, said_of, synced};
use testbed::cloud_map::{NamespaceKind, RecordType, ServiceKind};
use testbed::function::invoke;
use testbed::kubernetes::Pod;

const TASKS: [(&str, &str, &str); 2] = [
    ("0123456789abcdef0123456789abcdef", "10.0.9.1", "32768"),
    ("123456789abcdef0123456789abcdef0", "10.0.9.2", "32769"),
];

/// Two tasks of the ECS service `web` as ECS registers them on EC2 instances: each has a port and the host besides what a
/// task of Fargate has.
fn add_tasks(fleet: &Fleet, service: &str) {
    for (id, address, port) in TASKS {
        fleet.put(
            service,
            id,
            &attributes(&[
                ("AWS_INSTANCE_IPV4", address),
                ("AWS_INSTANCE_PORT", port),
                ("AWS_INIT_HEALTH_STATUS", "HEALTHY"),
                ("AVAILABILITY_ZONE", "eu-central-1a"),
                ("REGION", "eu-central-1"),
                ("EC2_INSTANCE_ID", "i-0123456789abcdef0"),
                ("ECS_CLUSTER_NAME", "legacy"),
                ("ECS_SERVICE_NAME", "web"),
                ("ECS_TASK_DEFINITION_FAMILY", "web"),
            ]),
        );
    }
}

/// Tasks under `web` in `prod.local`, and a Service of one pod that claims it.
async fn beside_tasks() -> Fleet {
    let fleet = Fleet::start().await;
    let service = fleet.dns_service("web", &[RecordType::A]);
    add_tasks(&fleet, &service);
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    fleet
}

async fn explained(fleet: &Fleet) -> String {
    let command = json!({"action": "explain", "namespace": "shop", "service": "web"});
    let answer = invoke(&fleet.function().await, &command).await.response;
    answer.expect("an explanation").to_string()
}

/// A remark is no part of the counts, and leaves the run good and in step.
fn assert_only_remark(report: &Report, reason: &str) {
    assert!(report.ok, "{report}");
    assert_eq!(remarks(report), [reason], "{report}");
    assert!(held_back(report).is_empty(), "{report}");
    assert_eq!(report.counts.held_back, 0, "{report}");
    assert!(
        report.to_string().contains(&format!("~ remark     shop/web ({reason}): ")),
        "{report}"
    );
}

#[tokio::test]
async fn pod_without_the_attributes_of_its_tasks_is_registered_with_one_remark() {
    let fleet = beside_tasks().await;
    let function = fleet.function().await;
    let annotations = "annotate port: \"8080\" and attributes: ECS_CLUSTER_NAME=legacy,ECS_SERVICE_NAME=web,\
                       ECS_TASK_DEFINITION_FAMILY=web";

    let planned = plan(&function).await;
    assert_only_remark(&planned, "NeighboursDiffer");
    assert!(said_of(&planned, "NeighboursDiffer").ends_with(annotations), "{planned}");
    let report = converge(&fleet, &function).await;
    assert_only_remark(&report, "NeighboursDiffer");
    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.1", "10.0.9.1", "10.0.9.2"]);
    let explained = explained(&fleet).await;
    assert!(
        explained.contains("NeighboursDiffer") && explained.contains("\"ok\":true"),
        "{explained}"
    );
    let event = fleet
        .cluster
        .events("shop")
        .into_iter()
        .find(|event| event["reason"] == "NeighboursDiffer");
    assert!(event.is_some(), "{:?}", fleet.cluster.events("shop"));
}

#[tokio::test]
async fn pod_with_the_annotations_of_the_remark_looks_like_its_tasks_and_stays_ours() {
    let fleet = beside_tasks().await;
    let attributes = "ECS_CLUSTER_NAME=legacy,ECS_SERVICE_NAME=web,ECS_TASK_DEFINITION_FAMILY=web";
    fleet.annotate("web", "attributes", attributes);
    fleet.annotate("web", "port", "8080");
    let function = fleet.function().await;

    let report = converge(&fleet, &function).await;

    assert!(remarks(&report).is_empty(), "{report}");
    let names = fleet.values("prod.local", "web", "ECS_SERVICE_NAME");
    assert_eq!(names, ["web", "web", "web"]);
    let web = &report.clusters[0].services[0];
    assert_eq!(web.foreign.values().sum::<usize>(), 2, "{report}");
    let status = invoke(&function, &json!({"action": "status", "cluster": "blue"})).await;
    let status = status.response.expect("a status");
    let by = |by: &str| {
        let instances = status["registries"][0]["services"][0]["instances"].as_array();
        let of_party = instances.into_iter().flatten().filter(|share| share["by"] == by);
        of_party.filter_map(|share| share["count"].as_u64()).sum::<u64>()
    };
    assert_eq!((by("cluster"), by("ecs")), (1, 2), "{status}");

    fleet.pods("web", &[]);
    synced(&function).await;
    assert_eq!(
        fleet.addresses("prod.local", "web"),
        ["10.0.9.1", "10.0.9.2"],
        "ours alone is gone"
    );
}

#[tokio::test]
async fn pod_of_the_other_address_family_is_registered_with_one_remark() {
    let fleet = Fleet::start().await;
    let service = fleet.cloud_map.service(&fleet.http, "web", ServiceKind::Http);
    fleet.put(&service, "by-hand", &attributes(&[("AWS_INSTANCE_IPV6", "2001:db8::9")]));
    fleet.web("web", "prod", &["10.0.1.1"]);

    let report = converge(&fleet, &fleet.function().await).await;

    assert_only_remark(&report, "NeighboursDiffer");
    let said = said_of(&report, "NeighboursDiffer");
    assert!(said.contains("IPv6 addresses alone") && said.contains("ipFamilies"), "{said}");
}

#[tokio::test]
async fn hostname_that_repeats_its_namespace_is_registered_with_one_remark() {
    let fleet = Fleet::start().await;
    fleet.cloud_map.namespace("shop.local", NamespaceKind::DnsPrivate);
    fleet.service(annotated("web", "shop.local", "web.shop.local"));
    fleet.cluster.pods("shop", "web", &[Pod::new("web-1", "10.0.1.1")]);
    let function = fleet.function().await;

    let planned = plan(&function).await;
    assert_only_remark(&planned, "RepeatedNamespace");
    let report = converge(&fleet, &function).await;
    assert_only_remark(&report, "RepeatedNamespace");

    let said = said_of(&report, "RepeatedNamespace");
    assert!(
        said.contains("web.shop.local.shop.local; hostname: web makes it web.shop.local"),
        "{said}"
    );
    let explained = explained(&fleet).await;
    assert_eq!(explained.matches("web.shop.local.shop.local; ").count(), 1, "{explained}");
    assert_eq!(fleet.addresses("shop.local", "web.shop.local"), ["10.0.1.1"]);
}
