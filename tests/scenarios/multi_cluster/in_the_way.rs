//! Objects, namespaces and refusals of the API server that stand in the way of an import. Other imports go on, and so do
//! the annotated Services.

use std::time::Duration;

use cloud_map_sync::report::Report;
use serde_json::json;

use super::{Members, exported, imported, in_full, part, pods, service, sources, web, writes};
use crate::run::sync;
use testbed::kubernetes::{Fault, FaultKind, Policy};

const CREATED: &str = "2026-01-01T00:00:00Z";
const SERVICES: &str = "/api/v1/namespaces/shop/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices";

/// The lines of green: names, reasons and sentences.
fn lines(report: &Report) -> Vec<(&str, &str, &str)> {
    let lines = part(report, "green").held_back.iter();
    lines.map(|it| (&*it.service.name, &*it.reason, &*it.detail)).collect()
}

/// The changes of green that failed.
fn failures(report: &Report) -> Vec<String> {
    let changes = serde_json::to_value(&part(report, "green").changes).expect("JSON");
    let failed = changes.as_array().into_iter().flatten().filter_map(|it| it["error"].as_str());
    failed.map(str::to_owned).collect()
}

#[tokio::test]
async fn foreign_import_or_service_in_the_way_is_untouched_and_others_go_on() {
    let foreign = [
        (
            "services",
            json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"namespace": "shop", "name": "derived-isrlchlhrq"},
                "spec": {"type": "ClusterIP", "clusterIP": "10.96.7.7", "clusterIPs": ["10.96.7.7"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "ports": [{"port": 80, "protocol": "TCP"}]},
            }),
        ),
        (
            "serviceimports",
            json!({
                "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport",
                "metadata": {"namespace": "shop", "name": "web"},
                "spec": {"type": "Headless", "ports": []},
            }),
        ),
    ];
    for (kind, object) in foreign {
        let members = Members::start().await;
        let before = members.green.put(object);
        exported(&members.blue, web(), &["10.0.0.1"], CREATED);
        exported(&members.blue, service("cart"), &["10.0.0.2"], CREATED);

        let report = sync(&members.function).await;
        members.green.forget_requests();
        let again = sync(&members.function).await;

        assert_eq!(writes(&members.green), [""; 0], "{kind}: it was seen");
        assert!(report.ok && again.ok, "{kind}: {}", in_full(&again));
        assert_eq!(lines(&report), lines(&again));
        let name = before["metadata"]["name"].as_str().expect("a name").to_owned();
        let [(held, "ForeignObject", detail)] = lines(&report)[..] else {
            panic!("{kind}: {}", in_full(&report))
        };
        assert_eq!(held, "web");
        assert!(detail.contains(&format!("kubectl delete {kind}")), "{detail}");
        let after = members.green.objects(kind, "shop");
        assert_eq!(after.into_iter().find(|it| it["metadata"]["name"] == *name), Some(before));
        assert_eq!(imported(&members.green, "cart"), sources([("blue", &["10.0.0.2:8080"])]));
        assert_eq!(imported(&members.blue, "web"), sources([("blue", &["10.0.0.1:8080"])]));
        members.green.delete(kind, "shop", &name);
        members.converge().await;
        assert_eq!(imported(&members.green, "web"), sources([("blue", &["10.0.0.1:8080"])]));
    }
}

/// The namespace of the members, excluded from imports.
fn excluding() -> Policy {
    Policy { excluded: vec!["shop".to_owned()], ..Policy::default() }
}

#[tokio::test]
async fn import_in_an_excluded_namespace_is_held_back_and_asked_for_once() {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1"], CREATED);
    members.green.enforce_admission(Some(excluding()));

    let report = sync(&members.function).await;

    assert!(report.ok, "{}", in_full(&report));
    let [("web", "NamespaceExcluded", sentence)] = lines(&report)[..] else {
        panic!("{}", in_full(&report))
    };
    assert!(sentence.contains("excludedNamespaces"), "{sentence}");
    assert_eq!(failures(&report), [""; 0]);
    let asked = "POST /apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/serviceimports 422";
    assert_eq!(writes(&members.green), [asked]);
    assert_eq!(imported(&members.blue, "web"), sources([("blue", &["10.0.0.1:8080"])]));
    members.assert_settled().await;
    assert_eq!(lines(&sync(&members.function).await), lines(&report));

    members.green.enforce_admission(Some(Policy::default()));
    members.clock.advance(Duration::from_mins(11));
    members.converge().await;
    assert_eq!(imported(&members.green, "web"), sources([("blue", &["10.0.0.1:8080"])]));
}

impl Members {
    /// `web` is imported and then gets another pod; `cart` is exported; an annotated Service has a pod.
    async fn with_changes() -> Self {
        let members = Self::start().await;
        exported(&members.blue, web(), &["10.0.0.1"], CREATED);
        members.converge().await;
        pods(&members.blue, "web", &["10.0.0.1", "10.0.0.2"]);
        exported(&members.blue, service("cart"), &["10.0.0.3"], CREATED);
        members.fleet.web("mail", "prod", &["10.0.1.1"]);
        members
    }

    fn assert_first_flow_is_unharmed(&self) {
        assert_eq!(self.fleet.addresses("prod", "mail"), ["10.0.1.1"]);
        assert_eq!(self.fleet.addresses("shop", "web"), ["10.0.0.1", "10.0.0.2"]);
    }

    async fn assert_reached(&self) {
        self.converge().await;
        let both = sources([("blue", &["10.0.0.1:8080", "10.0.0.2:8080"])]);
        assert_eq!(imported(&self.green, "web"), both);
        assert_eq!(imported(&self.green, "cart"), sources([("blue", &["10.0.0.3:8080"])]));
    }
}

#[tokio::test]
async fn object_that_changed_meanwhile_is_looked_at_again() {
    let members = Members::with_changes().await;
    members.green.fail(Fault::once(SLICES, FaultKind::Status(409)).of_method("PATCH"));
    members.green.fail(Fault::once(SERVICES, FaultKind::Status(409)).of_method("POST"));

    let report = sync(&members.function).await;

    assert!(report.ok, "{}", in_full(&report));
    members.assert_first_flow_is_unharmed();
    members.assert_settled().await;
    members.assert_reached().await;
}

#[tokio::test]
async fn object_that_changes_again_and_again_is_left_to_the_next_run() {
    let members = Members::with_changes().await;
    members.green.fail(Fault::always(SLICES, FaultKind::Status(409)).of_method("PATCH"));
    members.green.forget_requests();

    let report = sync(&members.function).await;

    assert!(!report.ok, "a message about it would come back: {}", in_full(&report));
    assert_eq!(failures(&report).len(), 1, "{}", in_full(&report));
    let refused = super::writes(&members.green).into_iter().filter(|it| it.ends_with("409"));
    assert_eq!(refused.count(), 2, "one for each look");
    assert!(imported(&members.green, "web")["blue"].contains("10.0.0.1:8080"));
    members.green.clear_faults();
    members.assert_reached().await;
}

#[tokio::test]
async fn refusal_of_a_policy_is_one_line_with_the_rule() {
    let rule = "ValidatingAdmissionPolicy 'team' with binding 'team' denied request: Services have the label team";
    let members = Members::with_changes().await;
    members.green.fail(Fault::always(SERVICES, FaultKind::DeniedByPolicy(rule)).of_method("POST"));

    let report = sync(&members.function).await;

    let failures = failures(&report);
    let [failure] = failures.as_slice() else { panic!("{}", in_full(&report)) };
    assert!(failure.contains("422") && failure.contains(rule), "{failure}");
    let import = members.green.service_import("shop", "cart").expect("an import without an IP");
    assert_eq!(import["status"]["conditions"][0]["reason"], "Pending", "{import:#}");
    assert_eq!(imported(&members.green, "web")["blue"].len(), 2, "other imports go on");
    members.assert_first_flow_is_unharmed();
    members.green.clear_faults();
    members.assert_reached().await;
}
