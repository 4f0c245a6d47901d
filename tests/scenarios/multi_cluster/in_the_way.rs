//! Objects, namespaces and refusals of the API server that stand in the way of an import, and objects of imports that
//! another writer changed or deletes. Other imports go on, and the virtual IPs of an import last as long as its
//! ServiceImport.

use std::time::Duration;

use cloud_map_sync::model::Outcome;
use cloud_map_sync::report::Report;
use serde_json::{Value, json};

use super::{
    ClusterIp, DERIVED, IMPORT, MANAGED_BY, Members, SERVICES, SLICES, exported, foreign_import,
    foreign_slice, held_back, imported, imported_from, in_full, part, pods, service, slices, web,
    writes,
};
use crate::fleet::OWNER;
use crate::run::{sync, synced};
use testbed::kubernetes::{Fault, FaultKind, KubernetesServer, Policy};

/// The changes of green that failed.
fn failures(report: &Report) -> Vec<String> {
    let failed = part(report, "green").lines.iter().filter_map(|line| match &line.outcome {
        Outcome::Failed { error } => Some(error.clone()),
        _ => None,
    });
    failed.collect()
}

#[tokio::test]
async fn foreign_import_or_service_in_the_way_is_untouched_and_others_go_on() {
    let derived = ClusterIp::new("shop", DERIVED).port("http", 80).into();
    for (kind, object) in [("services", derived), ("serviceimports", foreign_import("web"))] {
        let members = Members::start().await;
        let before = members.green.put(object);
        exported(&members.blue, web(), &["10.0.0.1"]);
        exported(&members.blue, service("cart"), &["10.0.0.2"]);

        let report = sync(&members.function).await;
        members.green.forget_requests();
        let again = sync(&members.function).await;

        assert_eq!(writes(&members.green), [""; 0], "{kind}: it was seen");
        assert!(report.ok && again.ok, "{kind}: {}", in_full(&again));
        assert_eq!(held_back(&report, "green"), held_back(&again, "green"));
        let name = before["metadata"]["name"].as_str().expect("a name").to_owned();
        let [("web", "ForeignObject", detail)] = held_back(&report, "green")[..] else {
            panic!("{kind}: {}", in_full(&report))
        };
        assert!(detail.contains(&format!("kubectl delete {kind}")), "{detail}");
        let after = members.green.objects(kind, "shop");
        assert_eq!(after.into_iter().find(|it| it["metadata"]["name"] == *name), Some(before));
        assert_eq!(imported(&members.green, "cart"), "blue 10.0.0.2:8080");
        assert_eq!(imported(&members.blue, "web"), "blue 10.0.0.1:8080");
        members.green.delete(kind, "shop", &name);
        members.converge().await;
        assert_eq!(imported(&members.green, "web"), "blue 10.0.0.1:8080");
    }
}

#[tokio::test]
async fn import_in_an_excluded_namespace_is_held_back_and_asked_for_once() {
    let members = Members::with_web(&["10.0.0.1"]).await;
    let excluding = Policy { excluded: vec!["shop".to_owned()] };
    members.green.enforce_admission(Some(excluding));

    let report = synced(&members.function).await;

    let [("web", "NamespaceExcluded", sentence)] = held_back(&report, "green")[..] else {
        panic!("{}", in_full(&report))
    };
    assert!(sentence.contains("excludedNamespaces"), "{sentence}");
    assert_eq!(failures(&report), [""; 0]);
    let asked = "POST /apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/serviceimports 422";
    assert_eq!(writes(&members.green), [asked]);
    assert_eq!(imported(&members.blue, "web"), "blue 10.0.0.1:8080");
    members.assert_settled().await;
    assert_eq!(held_back(&sync(&members.function).await, "green"), held_back(&report, "green"));

    members.green.enforce_admission(Some(Policy::default()));
    members.clock.advance(Duration::from_mins(11));
    members.converge().await;
    assert_eq!(imported(&members.green, "web"), "blue 10.0.0.1:8080");
}

impl Members {
    /// `web` is imported and then gets another pod; `cart` is exported; an annotated Service has a pod.
    async fn with_changes() -> Self {
        let members = Self::start().await;
        exported(&members.blue, web(), &["10.0.0.1"]);
        members.converge().await;
        pods(&members.blue, "web", &["10.0.0.1", "10.0.0.2"]);
        exported(&members.blue, service("cart"), &["10.0.0.3"]);
        members.fleet.web("mail", "prod", &["10.0.1.1"]);
        members
    }

    fn assert_first_flow_is_unharmed(&self) {
        assert_eq!(self.fleet.addresses("prod", "mail"), ["10.0.1.1"]);
        assert_eq!(self.fleet.addresses("shop", "web"), ["10.0.0.1", "10.0.0.2"]);
    }

    async fn assert_reached(&self) {
        self.converge().await;
        assert_eq!(imported(&self.green, "web"), "blue 10.0.0.1:8080 10.0.0.2:8080");
        assert_eq!(imported(&self.green, "cart"), "blue 10.0.0.3:8080");
    }
}

#[tokio::test]
async fn object_that_changed_meanwhile_is_looked_at_again() {
    let members = Members::with_changes().await;
    for (method, path) in [("PATCH", SLICES), ("POST", SERVICES)] {
        members.green.fail(Fault::once(path, FaultKind::Status(409)).of_method(method));
    }

    synced(&members.function).await;

    members.assert_first_flow_is_unharmed();
    members.assert_settled().await;
    members.assert_reached().await;
}

#[tokio::test]
async fn object_that_changes_again_and_again_is_left_to_the_next_run() {
    let members = Members::with_changes().await;
    members.green.refuse_method("PATCH", SLICES, 409);
    members.green.forget_requests();

    let report = sync(&members.function).await;

    assert!(!report.ok, "a message about it would come back: {}", in_full(&report));
    assert_eq!(failures(&report).len(), 1, "{}", in_full(&report));
    let refused = super::writes(&members.green).into_iter().filter(|it| it.ends_with("409"));
    assert_eq!(refused.count(), 3, "one for each try");
    assert!(imported_from(&members.green, "web")["blue"].contains("10.0.0.1:8080"));
    members.green.clear_faults();
    members.assert_reached().await;
}

#[tokio::test]
async fn foreign_object_with_values_that_the_api_does_not_have_is_foreign() {
    let mut odd = foreign_import("web");
    odd["spec"] = json!({
        "type": "Gateway", "ips": ["none"], "ports": [{"port": 80, "protocol": "HTTP"}],
    });
    let members = Members::with_web(&["10.0.0.1"]).await;
    let before = members.green.put(odd);

    let report = synced(&members.function).await;

    let [("web", "ForeignObject", _)] = held_back(&report, "green")[..] else {
        panic!("{}", in_full(&report))
    };
    assert_eq!(members.green.service_import("shop", "web"), Some(before));
}

/// Another number is free.
#[tokio::test]
async fn foreign_slice_of_names_is_in_the_way_of_no_import() {
    let members = Members::with_web(&["10.0.0.1"]).await;
    let mut names = foreign_slice("imported-isrlchlhrq-ac321fb1-1");
    names["addressType"] = "FQDN".into();
    names["endpoints"] = json!([{"addresses": ["web.example.org"]}]);
    let before = members.green.put(names);

    let report = synced(&members.function).await;

    assert_eq!(imported(&members.green, "web"), "blue 10.0.0.1:8080", "{}", in_full(&report));
    assert!(members.green.objects("endpointslices", "shop").contains(&before));
    members.assert_settled().await;
}

/// Its IP would go with it.
#[tokio::test]
async fn object_of_an_import_without_its_label_gets_it_back_by_the_command_of_the_line() {
    for (resource, name) in [("services", DERIVED), ("serviceimports", "web")] {
        let members = Members::in_step(&["10.0.0.1"]).await;
        let Members { blue, green, .. } = &members;
        let before = ips(green);
        let find = || {
            let mut objects = green.objects(resource, "shop").into_iter();
            objects.find(|it| it["metadata"]["name"] == name).expect("the object")
        };
        let mut object = find();
        let label = object["metadata"]["labels"]
            .as_object_mut()
            .and_then(|labels| labels.remove("cloud-map-sync/owner"))
            .expect("our label");
        green.put(object);
        pods(blue, "web", &["10.0.0.1", "10.0.0.2"]);

        let report = synced(&members.function).await;

        let [("web", "ForeignObject", sentence)] = held_back(&report, "green")[..] else {
            panic!("{}", in_full(&report))
        };
        assert!(sentence.contains(&format!("kubectl label {resource}")), "{sentence}");
        let label = label.as_str().expect("a text");
        let rest = format!(" {name} --namespace shop cloud-map-sync/owner={label}");
        assert!(sentence.ends_with(&rest), "{sentence}");
        let mut object = find();
        object["metadata"]["labels"]["cloud-map-sync/owner"] = label.into();
        green.put(object);
        members.converge().await;
        assert_eq!(ips(green), before);
        assert_eq!(imported(green, "web"), "blue 10.0.0.1:8080 10.0.0.2:8080");
    }
}

#[tokio::test]
async fn values_that_another_writer_sets_in_an_import_are_overwritten() {
    let members = Members::in_step(&["10.0.0.1"]).await;
    let Members { blue, green, .. } = &members;
    let before = ips(green);
    let mut import = green.service_import("shop", "web").expect("an import");
    import["spec"]["ips"] = json!(["none"]);
    import["spec"]["ports"] = json!([{"name": "http", "port": 80, "protocol": "HTTP"}]);
    green.put(import);
    let mut service = green.service_object("shop", DERIVED).expect("a Service");
    service["spec"]["externalIPs"] = json!(["203.0.113.1"]);
    green.put(service);
    pods(blue, "web", &["10.0.0.2"]);

    members.converge().await;

    assert_eq!(ips(green), before);
    let import = green.service_import("shop", "web").expect("an import");
    assert_eq!(import["spec"]["ports"], json!([{"name": "http", "port": 80, "protocol": "TCP"}]));
    let service = green.service_object("shop", DERIVED).expect("a Service");
    assert_eq!(service["spec"]["externalIPs"], Value::Null);
    assert_eq!(imported(green, "web"), "blue 10.0.0.2:8080");
}

/// The API server takes the IPs from it.
fn make_external(cluster: &KubernetesServer) {
    let mut service = cluster.service_object("shop", DERIVED).expect("a Service");
    service["spec"] = json!({
        "type": "ExternalName", "externalName": "example.org", "ports": service["spec"]["ports"],
    });
    cluster.put(service);
}

#[tokio::test]
async fn service_that_somebody_made_an_external_name_has_its_ips_again() {
    let members = imported_with_both_families().await;
    let before = ips(&members.green);
    make_external(&members.green);

    members.converge().await;

    assert_eq!(ips(&members.green), before);
    assert!(members.green.events("shop").iter().all(|it| it["reason"] != "ClusterSetIPChanged"));
}

#[tokio::test]
async fn slice_without_its_labels_is_found_by_its_owner_and_mended() {
    for labels in [&[MANAGED_BY][..], &[IMPORT], &[IMPORT, MANAGED_BY]] {
        let members = Members::in_step(&["10.0.0.1", "10.0.0.2"]).await;
        let Members { blue, green, .. } = &members;
        let mut slice = slices(green, "web").remove(0);
        for label in labels {
            slice["metadata"]["labels"].as_object_mut().expect("labels").remove(*label);
        }
        green.put(slice);
        pods(blue, "web", &["10.0.0.2"]);

        members.converge().await;

        assert_eq!(imported(green, "web"), "blue 10.0.0.2:8080", "{labels:?}");
        assert_eq!(green.objects("endpointslices", "shop").len(), 1, "{labels:?}");
        let mended = &slices(green, "web")[0]["metadata"]["labels"];
        assert!(labels.iter().all(|label| !mended[*label].is_null()), "{mended}");
    }
}

/// The resources of which objects are left of a deleted import, and the number of these objects.
const LEFT: [(&[&str], usize); 3] =
    [(&["services", "endpointslices"], 3), (&["services"], 1), (&["endpointslices"], 2)];

/// A person deletes an import and leaves some of what it owns, of which then neither a label nor an owner names it.
fn leave_unnamed(cluster: &KubernetesServer, name: &str, left: &[&str]) {
    let import = cluster.service_import("shop", name).expect("an import");
    let derived = &import["metadata"]["annotations"]["multicluster.kubernetes.io/derived-service"];
    let derived = cluster.service_object("shop", derived.as_str().expect("a name"));
    let derived = derived.map(|it| ("services", it));
    let slices = slices(cluster, name).into_iter().map(|it| ("endpointslices", it));
    for (resource, mut object) in slices.chain(derived) {
        if left.contains(&resource) {
            object["metadata"]["ownerReferences"] = json!([]);
            object["metadata"]["labels"].as_object_mut().expect("labels").remove(IMPORT);
            cluster.put(object);
        } else {
            cluster.delete(resource, "shop", object["metadata"]["name"].as_str().expect("a name"));
        }
    }
    cluster.delete("serviceimports", "shop", name);
}

/// The names of the derived Services and slices of this owner.
pub fn left_of(cluster: &KubernetesServer, owner: &str) -> Vec<String> {
    let all = ["services", "endpointslices"].map(|it| cluster.objects(it, "shop")).concat();
    let ours = all.iter().filter(|it| it["metadata"]["labels"]["cloud-map-sync/owner"] == owner);
    ours.map(|it| it["metadata"]["name"].to_string()).collect()
}

#[tokio::test]
async fn what_is_left_of_an_import_goes_once_it_is_known_that_no_cluster_exports_its_name() {
    for (left, count) in LEFT {
        let members = Members::with_web(&["10.0.0.1"]).await;
        let Members { blue, green, fleet, .. } = &members;
        members.amber("web", &["10.2.0.1"]);
        members.converge().await;
        leave_unnamed(green, "web", left);
        blue.unexport("shop", "web");
        fleet.cloud_map.deny_in(&fleet.cloud_map.service_id("shop", "web"), "ListInstances");

        let report = sync(&members.function).await;

        // Amber may export it.
        assert_eq!(left_of(green, OWNER).len(), count, "{left:?}\n{report}");
        fleet.cloud_map.heal();
        members.amber("web", &[]);
        let report = sync(&members.function).await;
        assert_eq!(left_of(green, OWNER), [""; 0], "{left:?}\n{report}");
        members.converge().await;
    }
}

/// Garbage collection takes the Service with the import, which may also be one that another run has just made.
#[tokio::test]
async fn derived_service_stays_while_an_import_owns_it_that_is_not_ours_any_more() {
    let members = Members::in_step(&[]).await;
    let Members { blue, green, .. } = &members;
    let mut import = green.service_import("shop", "web").expect("an import");
    import["metadata"]["labels"].as_object_mut().expect("labels").remove("cloud-map-sync/owner");
    green.put(import);
    blue.unexport("shop", "web");

    let report = sync(&members.function).await;

    assert_eq!(left_of(green, OWNER).len(), 1, "{report}");
}

/// The IPs of the import, which are those of its Service, too, if that is there.
fn ips(cluster: &KubernetesServer) -> Vec<String> {
    let import = cluster.service_import("shop", "web").expect("an import");
    let ips = &import["spec"]["ips"];
    if let Some(service) = cluster.service_object("shop", DERIVED) {
        assert_eq!(&service["spec"]["clusterIPs"], ips);
    }
    ips.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

async fn imported_with_both_families() -> Members {
    let members = Members::start().await;
    members.green.set_families(&["IPv4", "IPv6"]);
    members.blue.set_families(&["IPv4", "IPv6"]);
    exported(&members.blue, web().families(&["IPv4", "IPv6"]), &["10.0.0.1"]);
    members.converge().await;
    members
}

#[tokio::test]
async fn service_that_somebody_deletes_is_made_again_with_its_ips_also_after_a_failure() {
    let members = imported_with_both_families().await;
    let before = ips(&members.green);
    assert_eq!(before.len(), 2);
    assert!(members.green.delete_service("shop", DERIVED));
    members.green.refuse_method("POST", SERVICES, 500);

    sync(&members.function).await;

    assert_eq!(ips(&members.green), before, "they wait for the Service");
    members.green.clear_faults();
    members.converge().await;
    assert!(members.green.service_object("shop", DERIVED).is_some());
    assert_eq!(ips(&members.green), before);
    assert!(members.green.events("shop").iter().all(|it| it["reason"] != "ClusterSetIPChanged"));
}

#[tokio::test]
async fn ip_that_another_service_has_is_replaced_and_an_event_says_so() {
    let deleted = |cluster: &KubernetesServer| assert!(cluster.delete_service("shop", DERIVED));
    let losses: [fn(&KubernetesServer); 2] = [deleted, make_external];
    for (taken, lose) in [1, 0].into_iter().flat_map(|taken| losses.map(|lose| (taken, lose))) {
        let members = imported_with_both_families().await;
        let before = ips(&members.green);
        lose(&members.green);
        members.green.take_cluster_ip(&before[taken]);

        synced(&members.function).await;

        let after = ips(&members.green);
        assert!(members.green.service_object("shop", DERIVED).is_some());
        assert_eq!(after.len(), 2);
        assert_ne!(after[taken], before[taken]);
        assert_eq!(after[0] == before[0], taken == 1, "the primary one is kept alone");
        let events = members.green.events("shop");
        let event = events.iter().find(|it| it["reason"] == "ClusterSetIPChanged");
        let event = event.expect("an Event");
        assert_eq!(event["regarding"]["kind"], "ServiceImport");
        let note = event["note"].as_str().expect("a note");
        assert!(note.contains(&before[taken]) && note.contains(&after[taken]), "{note}");
        members.assert_settled().await;
    }
}
