//! A namespace that another account shares with the function's through AWS RAM: it goes by its ARN, and what it
//! holds belongs to that account.

use serde_json::json;

use crate::fleet::{Fleet, annotated};
use crate::run::{converge, held_back, said_of, settled, sync};
use testbed::REGION;
use testbed::cloud_map::{Behaviour, NamespaceKind, RecordType, ServiceKind};
use testbed::function::invoke;

const OTHER_ACCOUNT: &str = "444455556666";

/// A fleet beside which another account shares `platform.local`, its id, and the ARN by which it goes.
async fn shared() -> (Fleet, String, String) {
    let fleet = Fleet::start().await;
    let (kind, name) = (NamespaceKind::DnsPrivate, "platform.local");
    let id = fleet.cloud_map.shared_namespace(name, kind, OTHER_ACCOUNT);
    let arn = format!("arn:aws:servicediscovery:{REGION}:{OTHER_ACCOUNT}:namespace/{id}");
    (fleet, id, arn)
}

#[tokio::test]
async fn cloud_map_refuses_to_update_what_holds_other_accounts_instances_and_that_fails_nothing() {
    let (fleet, _, arn) = shared().await;
    let function = fleet.function().await;
    fleet.service(annotated("web", &arn, "web").annotate("cloudmap.controller/ttl", "60"));
    fleet.pods("web", &["10.0.1.1"]);
    converge(&fleet, &function).await;
    fleet.pods("web", &[]);
    converge(&fleet, &function).await;
    let service = fleet.view("platform.local", "web").id;
    fleet.cloud_map.instance(&service, "theirs", &[("AWS_INSTANCE_IPV4", "10.9.0.1")]);

    fleet.annotate("web", "ttl", "15");
    fleet.pods("web", &["10.0.1.1", "10.0.1.2"]);
    let report = sync(&function).await;

    assert_eq!(held_back(&report), ["UpdateRefused"], "{report}");
    assert!(said_of(&report, "UpdateRefused").contains("other accounts"), "{report}");
    assert!(report.ok, "{report}");
    let addresses = ["10.0.1.1", "10.0.1.2", "10.9.0.1"];
    assert_eq!(fleet.addresses("platform.local", "web"), addresses);
    settled(&fleet, &function).await;
    assert_eq!(held_back(&sync(&function).await), ["UpdateRefused"], "told as long as it holds");
}

#[tokio::test]
async fn explain_asks_discovery_of_the_account_that_the_namespace_belongs_to() {
    let (fleet, id, arn) = shared().await;
    let behaviour = Behaviour { discovery_on_any_host: true, ..Behaviour::default() };
    fleet.cloud_map.behave(behaviour);
    let records = vec![(RecordType::A, 60)];
    let kind = ServiceKind::Dns { records, custom_health: false };
    let service = fleet.cloud_map.service(&id, "web", kind);
    fleet.cloud_map.instance(&service, "theirs", &[("AWS_INSTANCE_IPV4", "10.9.0.1")]);
    fleet.web("web", &arn, &["10.0.1.1"]);
    let function = fleet.function().await;
    sync(&function).await;

    let command = json!({"action": "explain", "namespace": "shop", "service": "web"});
    let answer = invoke(&function, &command).await.response.expect("an explanation").to_string();

    assert!(answer.contains(r#""others":{"UNKNOWN":1},"ours":{"UNKNOWN":1}"#), "{answer}");
}
