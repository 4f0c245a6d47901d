//! The adoption: instances and imports of AWS's controller become ours, without a gap.

use serde_json::json;

use super::super::{condition, imported, in_full, pods, sources, writes};
use super::{Moving, obstacle};
use crate::fleet::OWNER;
use crate::run::report;
use testbed::cloud_map::{Fault, FaultKind};

#[tokio::test]
async fn adoption_is_refused_while_the_finalizers_are_there_and_names_the_command() {
    let moving = Moving::start().await;
    let before = moving.amber.objects("serviceimports", "");
    let instances = moving.members.fleet.instances("shop", "web");

    let report = moving.adopt().await;

    let (reason, detail) = obstacle(&report);
    assert_eq!(reason, "AnotherController", "{}", in_full(&report));
    let command = "kubectl patch serviceexports.multicluster.x-k8s.io web --namespace shop \
                   --type merge --patch '{\"metadata\":{\"finalizers\":null}}'";
    assert!(detail.contains(command), "{detail}");
    assert_eq!(moving.amber.objects("serviceimports", ""), before);
    assert_eq!(moving.members.fleet.instances("shop", "web"), instances);
    assert!(moving.members.fleet.instances("clusterset.shop-set", "amber").is_empty());
}

#[tokio::test]
async fn without_confirm_an_adoption_is_its_plan() {
    let moving = Moving::start().await;
    moving.take_finalizers_off();
    moving.members.fleet.cloud_map.forget_calls();
    moving.amber.forget_requests();

    let payload = json!({ "action": "adopt", "cluster": "amber" });
    let planned = report(&moving.function, &payload).await;

    assert_eq!(moving.members.fleet.cloud_map.writes(), 0, "{planned}");
    assert_eq!(writes(&moving.amber), [""; 0], "{planned}");
    assert_eq!((planned.counts.adopted, planned.counts.registered), (2, 2), "{planned}");
    let text = planned.to_string();
    for line in [
        "adopt      tcp-10_2_0_1-8080  10.2.0.1 port 8080",
        "of the AWS MCS controller, which must not run any more",
        "~ import     shop/web  taken over from AWS's controller",
        "+ service    shop/derived-",
        "kubectl delete services --namespace shop imported-",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[tokio::test]
async fn cluster_moves_over_without_a_gap_and_is_an_ordinary_one_then() {
    let moving = Moving::start().await;
    let Moving { members, amber, .. } = &moving;
    let old = amber.service_import("shop", "web").expect("an import")["spec"]["ips"].clone();
    let untouched = amber.objects("services", "shop");
    moving.keep_ready();
    moving.take_finalizers_off();
    moving.allow_adoption("web");

    let report = moving.adopt().await;

    assert!(report.ok, "{}", in_full(&report));
    let instances = members.fleet.instances("shop", "web");
    assert_eq!(instances.keys().collect::<Vec<_>>(), ["tcp-10_2_0_1-8080", "tcp-10_2_0_2-8080"]);
    for attributes in instances.values() {
        assert_eq!(attributes["cloud-map-sync/exporter"], OWNER);
        assert_eq!(attributes["K8S_CONTROLLER"], "aws-cloud-map-mcs-controller-for-k8s 0.3.1");
        assert_eq!(attributes.get("HOSTNAME"), None);
    }
    let import = amber.service_import("shop", "web").expect("an import");
    assert_eq!(import["metadata"]["labels"]["cloud-map-sync/owner"], OWNER);
    assert_ne!(import["spec"]["ips"], old);
    let services = amber.objects("services", "shop");
    for service in untouched {
        assert!(services.contains(&service), "{service:#}");
    }
    let web = sources([("amber", &["10.2.0.1:8080", "10.2.0.2:8080"])]);
    assert_eq!(imported(&members.green, "web"), web);

    moving.converge(&moving.function).await;
    assert_eq!(condition(amber, "web", "Ready"), "True Exported");
    pods(amber, "web", &["10.2.0.2", "10.2.0.3"]);
    moving.converge(&moving.function).await;
    assert_eq!(members.fleet.addresses("shop", "web"), ["10.2.0.2", "10.2.0.3"]);
    moving.assert_no_gap();
}

/// A marked instance without a record counts for nobody, so an instance without its record stays AWS's.
#[tokio::test]
async fn record_that_is_refused_leaves_the_instances_to_a_second_adoption() {
    let moving = Moving::start().await;
    let fleet = &moving.members.fleet;
    moving.keep_ready();
    moving.take_finalizers_off();
    moving.allow_adoption("web");
    let before = moving.amber.objects("serviceimports", "");
    fleet.cloud_map.inject(Fault::on("CreateService", FaultKind::AccessDenied).always());

    let report = moving.adopt().await;

    assert_eq!((report.ok, report.counts.adopted), (false, 0), "{}", in_full(&report));
    assert_eq!(moving.amber.objects("serviceimports", ""), before, "imports come last");
    fleet.cloud_map.heal();
    let report = moving.adopt().await;
    assert_eq!((report.ok, report.counts.adopted), (true, 2), "{}", in_full(&report));
    moving.converge(&moving.function).await;
    moving.assert_no_gap();
}
