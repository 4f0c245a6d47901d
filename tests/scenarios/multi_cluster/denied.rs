//! Quotas and admission rules of an importing cluster are limits of its own teams: the import that meets one is held back
//! with the sentence of the API server, what else it has is written, and no run fails.

use super::explain::explain;
use super::{Members, SERVICES, SLICES, held_back, imported, imported_from, in_full, part, pods};
use crate::run::sync;
use testbed::kubernetes::{Fault, FaultKind, KubernetesServer, Right};

/// The condition `Ready` of the import of `web`.
fn ready(cluster: &KubernetesServer) -> String {
    let import = cluster.service_import("shop", "web").expect("an import");
    let condition = &import["status"]["conditions"][0];
    let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
    format!("{} {}: {}", text("status"), text("reason"), text("message"))
}

#[tokio::test]
async fn quota_holds_an_import_back_with_its_sentence_and_fails_no_run() {
    let quota = "exceeded quota: q, requested: services=1, used: services=0, limited: services=0";
    let members = Members::with_web(&["10.0.0.1"]).await;
    members.green.set_quota("shop", "services", 0);

    for report in [sync(&members.function).await, sync(&members.function).await] {
        assert!(report.ok, "{}", in_full(&report));
        let [("web", "AdmissionDenied", sentence)] = held_back(&report, "green")[..] else {
            panic!("{}", in_full(&report))
        };
        assert!(sentence.contains(quota) && !sentence.contains("kubectl"), "{sentence}");
        assert!(
            !part(&report, "green")
                .lines
                .iter()
                .any(|line| line.outcome.is_failed_or_not_attempted())
        );
    }

    let ready = ready(&members.green);
    assert!(ready.starts_with("False AdmissionDenied") && ready.contains(quota), "{ready}");
    let explanation = explain(&members, "green", "web").await.to_string();
    assert!(explanation.contains(quota) && !explanation.contains("kubectl"), "{explanation}");
    assert_eq!(imported(&members.green, "web"), "blue 10.0.0.1:8080");
    members.green.set_quota("shop", "services", 1);
    members.converge().await;
    let import = members.green.service_import("shop", "web").expect("an import");
    assert!(import["spec"]["ips"][0].is_string(), "{import:#}");
}

#[tokio::test]
async fn refusal_of_an_admission_rule_is_held_back_whatever_its_code() {
    let webhook = r#"admission webhook "team.example.org" denied the request: no team"#;
    let policy = r#"services "derived-isrlchlhrq" is forbidden: ValidatingAdmissionPolicy 'team' with binding 'team' denied request: no team"#;
    let plugin = r#"services "derived-isrlchlhrq" is forbidden: no team"#;
    let denials = [400, 403, 409, 500].map(|code| (code, webhook));
    for (code, text) in denials.into_iter().chain([(422, policy), (403, policy), (403, plugin)]) {
        let members = Members::with_web(&["10.0.0.1"]).await;
        let denied = Fault::always(SERVICES, FaultKind::Denied(code, text)).of_method("POST");
        members.green.fail(denied);

        let report = sync(&members.function).await;

        assert!(report.ok, "{code} {text}: {}", in_full(&report));
        let [("web", "AdmissionDenied", sentence)] = held_back(&report, "green")[..] else {
            panic!("{code} {text}: {}", in_full(&report))
        };
        assert!(sentence.contains(text), "{sentence}");
        assert_eq!(imported(&members.green, "web"), "blue 10.0.0.1:8080");
        members.green.clear_faults();
        members.converge().await;
    }
}

#[tokio::test]
async fn missing_right_is_a_failure_with_the_command_that_grants_it() {
    let members = Members::with_web(&["10.0.0.1"]).await;
    let right = |verb: &str| Right {
        group: String::new(),
        resource: "services".to_owned(),
        verb: verb.to_owned(),
    };
    members.green.withdraw(&right("create"));

    let report = sync(&members.function).await;

    assert!(!report.ok, "{}", in_full(&report));
    assert!(in_full(&report).contains("kubectl apply -k deploy/multi-cluster"));
    assert!(ready(&members.green).starts_with("False Pending"), "{}", ready(&members.green));
}

/// The addresses of so many pods of amber.
fn of_amber(count: usize) -> Vec<String> {
    (1..=count).map(|last| format!("10.2.0.{last}")).collect()
}

/// amber has as many endpoints as fit into a slice, and the namespace as many slices as its quota allows.
async fn with_full_slices() -> Members {
    let members = Members::with_web(&["10.0.0.1", "10.0.0.2"]).await;
    let addresses = of_amber(100);
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    members.amber("web", &addresses);
    members.converge().await;
    members.green.set_quota("shop", "endpointslices", 2);
    members
}

#[tokio::test]
async fn quota_on_slices_stops_neither_the_endpoints_of_other_clusters_nor_those_in_other_slices() {
    let members = with_full_slices().await;
    let Members { blue, green, .. } = &members;
    let addresses = of_amber(102);
    let addresses: Vec<&str> = addresses.iter().skip(1).map(String::as_str).collect();
    members.amber("web", &addresses);
    pods(blue, "web", &["10.0.0.2", "10.0.0.3"]);

    let report = sync(&members.function).await;

    assert!(report.ok, "{}", in_full(&report));
    let [("web", "AdmissionDenied", sentence)] = held_back(&report, "green")[..] else {
        panic!("{}", in_full(&report))
    };
    assert!(sentence.contains("exceeded quota: q"), "{sentence}");
    let of_cluster = imported_from(green, "web");
    assert_eq!(of_cluster["blue"], ["10.0.0.2:8080", "10.0.0.3:8080"].map(str::to_owned).into());
    assert_eq!(of_cluster["amber"].len(), 100);
    pods(blue, "web", &["10.0.0.3"]);
    sync(&members.function).await;
    assert_eq!(imported_from(green, "web")["blue"], ["10.0.0.3:8080".to_owned()].into());
    green.set_quota("shop", "endpointslices", 3);
    members.converge().await;
    assert_eq!(imported_from(green, "web")["amber"].len(), 101);
}

#[tokio::test]
async fn new_import_has_its_ip_though_a_slice_cannot_be_written() {
    for kind in [FaultKind::Status(500), FaultKind::Status(403)] {
        let members = Members::with_web(&["10.0.0.1"]).await;
        members.green.fail(Fault::always(SLICES, kind).of_method("POST"));

        let report = sync(&members.function).await;

        assert!(!report.ok, "{}", in_full(&report));
        let import = members.green.service_import("shop", "web").expect("an import");
        assert!(import["spec"]["ips"][0].is_string(), "{import:#}");
        members.green.clear_faults();
        members.converge().await;
    }
}
