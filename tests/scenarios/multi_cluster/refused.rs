//! An importer whose API server is older, or refuses a field: the import does without the field, and its endpoints go on
//! to be right whatever becomes of its Service.

use std::time::Duration;

use serde_json::Value;

use super::{DERIVED, Members, SERVICES, exported, imported, in_full, pods, web, writes};
use crate::run::{sync, synced};
use testbed::kubernetes::{Fault, FaultKind, KubernetesServer};

fn ready(cluster: &KubernetesServer) -> (String, String) {
    let import = cluster.service_import("shop", "web").expect("an import");
    let text =
        |key: &str| import["status"]["conditions"][0][key].as_str().unwrap_or_default().to_owned();
    (text("status"), text("message"))
}

fn distribution(cluster: &KubernetesServer) -> Value {
    cluster.service_object("shop", DERIVED).expect("a Service")["spec"]["trafficDistribution"]
        .clone()
}

#[tokio::test]
async fn value_that_an_older_api_server_refuses_is_left_out_until_its_version_changes() {
    let members = Members::start().await;
    let Members { blue, green, .. } = &members;
    green.set_minor_version(32);
    exported(blue, web().spec("trafficDistribution", "PreferClose"), &["10.0.0.1"]);
    members.converge().await;
    exported(blue, web().spec("trafficDistribution", "PreferSameZone"), &["10.0.0.2"]);

    members.converge().await;

    assert_eq!(imported(green, "web"), "blue 10.0.0.2:8080");
    assert_eq!(distribution(green), Value::Null);
    assert_eq!(distribution(blue), "PreferSameZone");
    let (status, message) = ready(green);
    assert_eq!(status, "True", "{message}");
    assert!(message.contains("trafficDistribution PreferSameZone"), "{message}");
    // A new process does not try it either, nor does one hours later.
    let function = members.serving("blue,green", &[]).await;
    members.clock.advance(Duration::from_hours(3));
    green.forget_requests();
    synced(&function).await;
    assert_eq!(writes(green), [""; 0]);
    green.set_minor_version(33);
    members.converge().await;
    assert_eq!(distribution(green), "PreferSameZone");
    assert!(!ready(green).1.contains("refuse"), "{}", ready(green).1);
}

/// It writes back what a sync takes out.
#[tokio::test]
async fn value_that_a_webhook_sets_is_left_alone_after_one_write() {
    for (exported_value, next) in
        [(None, "PreferSameZone"), (Some("PreferSameZone"), "PreferClose")]
    {
        let members = Members::start().await;
        let Members { blue, green, .. } = &members;
        green.set_webhook_distribution(Some("PreferClose"));
        let service =
            exported_value.map_or_else(web, |value| web().spec("trafficDistribution", value));
        exported(blue, service, &["10.0.0.1"]);
        for _ in 0..2 {
            synced(&members.function).await;
        }

        green.forget_requests();
        for _ in 0..3 {
            let function = members.serving("blue,green", &[]).await;
            members.clock.advance(Duration::from_hours(2));
            synced(&function).await;
        }

        assert_eq!(writes(green), [""; 0], "{exported_value:?}");
        assert_eq!(distribution(green), "PreferClose");
        assert_eq!(imported(green, "web"), "blue 10.0.0.1:8080");
        let (status, message) = ready(green);
        assert_eq!(status, "True", "{message}");
        assert!(message.contains("trafficDistribution"), "{message}");

        green.set_webhook_distribution(None);
        exported(blue, web().spec("trafficDistribution", next), &["10.0.0.1"]);
        members.converge().await;
        assert_eq!(distribution(green), next, "another value is tried");
    }
}

/// Execution environments that alternate know nothing of each other.
#[tokio::test]
async fn value_that_is_refused_is_not_sent_by_each_new_process() {
    let members = Members::start().await;
    let Members { blue, green, .. } = &members;
    green.set_minor_version(32);
    exported(blue, web().spec("trafficDistribution", "PreferSameZone"), &["10.0.0.1"]);
    synced(&members.function).await;
    green.forget_requests();
    for last in 2..6 {
        let function = members.serving("blue,green", &[]).await;
        pods(blue, "web", &[&format!("10.0.0.{last}")]);
        synced(&function).await;
        let refused = writes(green).into_iter().filter(|line| line.ends_with("422"));
        assert_eq!(refused.count(), 0);
    }
}

/// Else some processes would leave the value out for an hour, and others write it.
#[tokio::test]
async fn refusal_before_an_upgrade_is_forgotten_by_the_first_sync_after_it() {
    let members = Members::start().await;
    let Members { blue, green, .. } = &members;
    green.set_minor_version(32);
    exported(blue, web().spec("trafficDistribution", "PreferSameZone"), &["10.0.0.1"]);
    sync(&members.function).await;
    green.set_minor_version(33);

    sync(&members.function).await;

    assert_eq!(distribution(green), "PreferSameZone");
}

/// It refuses every patch of a Service with a value that it took before.
#[tokio::test]
async fn value_that_stands_leaves_an_import_whose_api_server_was_downgraded() {
    let members = Members::start().await;
    let Members { blue, green, .. } = &members;
    exported(blue, web().spec("trafficDistribution", "PreferSameZone"), &["10.0.0.1"]);
    members.converge().await;
    green.set_minor_version(32);
    let sticky = web().spec("sessionAffinity", "ClientIP");
    exported(blue, sticky.spec("trafficDistribution", "PreferSameZone"), &["10.0.0.2"]);

    members.converge().await;

    assert_eq!(distribution(green), Value::Null);
    let service = green.service_object("shop", DERIVED).expect("a Service");
    assert_eq!(service["spec"]["sessionAffinity"], "ClientIP");
    let (status, message) = ready(green);
    assert_eq!(status, "True", "{message}");
    assert!(message.contains("trafficDistribution PreferSameZone"), "{message}");
}

/// A new import meets the refusal, and the one that stands has nothing to change.
#[tokio::test]
async fn refused_value_that_stands_stays_until_its_service_is_changed() {
    let members = Members::start().await;
    let Members { blue, green, .. } = &members;
    exported(blue, web().spec("trafficDistribution", "PreferSameZone"), &["10.0.0.1"]);
    members.converge().await;
    green.set_minor_version(32);
    let api = super::service("api").spec("trafficDistribution", "PreferSameZone");
    exported(blue, api, &["10.0.0.2"]);

    members.converge().await;

    assert_eq!(distribution(green), "PreferSameZone");
    assert!(!ready(green).1.contains("trafficDistribution"), "{}", ready(green).1);
}

/// Imports that are made side by side meet the refusal at the same time.
#[tokio::test]
async fn each_of_several_new_imports_does_without_a_refused_value_at_once() {
    let members = Members::start().await;
    members.green.set_minor_version(32);
    let names = ["web", "api", "cart", "mail"];
    for (last, name) in names.iter().enumerate() {
        let service = super::service(name);
        let service = service.spec("trafficDistribution", "PreferSameZone");
        exported(&members.blue, service, &[&format!("10.0.0.{}", last + 1)]);
    }

    synced(&members.function).await;

    for name in names {
        let import = members.green.service_import("shop", name).expect("an import");
        assert_eq!(import["status"]["conditions"][0]["status"], "True", "{name}");
    }
    members.assert_settled().await;
}

#[tokio::test]
async fn endpoints_are_right_though_the_service_of_the_import_cannot_be_written() {
    for fault in [FaultKind::Status(403), FaultKind::Status(500)] {
        let members = Members::in_step(&["10.0.0.1", "10.0.0.2"]).await;
        let Members { blue, green, .. } = &members;
        green.fail(Fault::always(SERVICES, fault.clone()).of_method("PATCH"));
        let renamed = super::ClusterIp::new("shop", "web").port_of("TCP", "web", 80, 8080);
        exported(blue, renamed.spec("sessionAffinity", "ClientIP"), &["10.0.0.2", "10.0.0.3"]);

        let report = sync(&members.function).await;

        let addresses = "blue 10.0.0.2:8080 10.0.0.3:8080";
        assert_eq!(imported(green, "web"), addresses, "{fault:?}: {}", in_full(&report));
        assert!(!report.ok, "{fault:?}: {}", in_full(&report));
        // kube-proxy finds them by the name that the Service still has.
        let names = super::slices(green, "web")[0]["ports"].to_string();
        assert!(names.contains(r#""name":"http""#), "{names}");
        green.clear_faults();
        members.converge().await;
        assert_eq!(imported(green, "web"), addresses);
    }
}

#[tokio::test]
async fn new_import_has_its_endpoints_though_its_service_cannot_be_created() {
    let members = Members::start().await;
    let Members { blue, green, .. } = &members;
    green.refuse_method("POST", SERVICES, 500);
    exported(blue, web(), &["10.0.0.1"]);

    sync(&members.function).await;

    assert_eq!(imported(green, "web"), "blue 10.0.0.1:8080");
    assert_eq!(ready(green).0, "False");
    pods(blue, "web", &["10.0.0.2"]);
    sync(&members.function).await;
    assert_eq!(imported(green, "web"), "blue 10.0.0.2:8080");
    green.clear_faults();
    members.converge().await;
}
