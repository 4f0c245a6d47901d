//! What Cloud Map refuses for good, and what it refuses for now: the one is held back and counted, the other fails.

use cloud_map_sync::model::{Outcome, Verb};
use cloud_map_sync::report::Report;
use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::queue::{batch, failures, message};
use crate::run::{converge, documents, held_back, said_of, sync};
use testbed::cloud_map::{Fault, FaultKind, ServiceKind};
use testbed::function::{Answer, invoke};

const INVALID: FaultKind = FaultKind::Error(400, "InvalidInput", "The attribute is not valid");

/// What the metrics of the only cluster say.
fn metric(report: &Report, name: &str) -> Value {
    documents(report).first().expect("the cluster's document")[name].clone()
}

async fn message_about_web(fleet: &Fleet) -> Answer {
    let body = json!({ "cluster": "blue", "namespace": "shop", "service": "web" });
    invoke(&fleet.function().await, &batch(&[message("web", &body)])).await
}

#[tokio::test]
async fn refused_dns_change_of_a_removal_is_a_failed_change_and_is_tried_again() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod.local", &["10.0.1.1", "10.0.1.2"]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    fleet.pods("web", &["10.0.1.1"]);
    let refused = FaultKind::OperationFails("INVALID_CHANGE_BATCH");
    fleet.cloud_map.inject(Fault::on("DeregisterInstance", refused));

    let report = sync(&function).await;

    assert!(!report.ok && held_back(&report).is_empty(), "{report}");
    let change = &report.clusters[0].services[0].changes[0];
    let Outcome::Failed { error } = &change.result else { panic!("{report}") };
    assert!(
        change.change == Verb::Deregister && error.contains("INVALID_CHANGE_BATCH"),
        "{report}"
    );
    assert_eq!(metric(&report, "Leftover"), 1);
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.1"]);
}

#[tokio::test]
async fn refused_dns_change_of_a_registration_says_what_cloud_map_said() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    let refused = FaultKind::OperationFails("INVALID_CHANGE_BATCH");
    fleet.cloud_map.inject(Fault::on("RegisterInstance", refused));
    let report = sync(&fleet.function().await).await;
    let said = said_of(&report, "AddressTaken");
    assert!(report.ok && said.contains("The operation failed"), "{said}");
}

#[tokio::test]
async fn registration_that_is_invalid_is_held_back_in_cloud_maps_words_and_counted_as_missing() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod", &["10.0.1.1", "10.0.1.2"]);
    fleet.web("cart", "prod", &["10.0.2.1"]);
    let web = fleet.cloud_map.service(&fleet.http, "web", ServiceKind::Http);
    fleet.cloud_map.inject(Fault::on("RegisterInstance", INVALID).service(&web).always());

    let report = sync(&fleet.function().await).await;

    assert!(report.ok && report.counts.failed == 0, "{report}");
    assert_eq!(held_back(&report), ["InvalidInput"; 2], "{report}");
    assert!(said_of(&report, "InvalidInput").contains("The attribute is not valid"), "{report}");
    assert_eq!(metric(&report, "Missing"), 2);
    assert_eq!(fleet.addresses("prod", "cart"), ["10.0.2.1"]);
    assert_eq!(failures(&message_about_web(&fleet).await), [""; 0]);
}

#[tokio::test]
async fn service_that_cannot_be_created_as_asked_is_held_back_and_its_endpoints_are_missing() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod", &["10.0.1.1", "10.0.1.2"]);
    fleet.cloud_map.inject(Fault::on("CreateService", INVALID).service("web").always());

    let report = sync(&fleet.function().await).await;

    assert!(report.ok && report.counts.failed == 0, "{report}");
    assert_eq!(held_back(&report), ["InvalidInput"], "{report}");
    assert!(said_of(&report, "InvalidInput").contains("The attribute is not valid"), "{report}");
    assert_eq!(metric(&report, "Missing"), 2);
    assert_eq!(failures(&message_about_web(&fleet).await), [""; 0]);
}

#[tokio::test]
async fn any_other_call_that_is_invalid_is_a_failed_change() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod.local", &["10.0.1.1", "10.0.1.2"]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    fleet.pods("web", &["10.0.1.1"]);
    fleet.annotate("web", "ttl", "15");
    for operation in ["DeregisterInstance", "UpdateService"] {
        fleet.cloud_map.inject(Fault::on(operation, INVALID));
    }

    let report = sync(&function).await;

    assert!(!report.ok && held_back(&report).is_empty(), "{report}");
    assert_eq!(report.counts.failed, 2, "{report}");
    converge(&fleet, &function).await;
}
