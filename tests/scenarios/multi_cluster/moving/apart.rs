//! Before an adoption, what is AWS's stays AWS's.

use serde_json::{Value, json};

use super::super::{condition, exported, imported, in_full, pods, service, sources, web, writes};
use super::{LATER, Moving, obstacle};
use crate::run::{report, said_of, sync};

#[tokio::test]
async fn export_without_adoption_is_held_back_and_served_clusters_import_what_was_read() {
    let moving = Moving::start().await;
    let Moving { members, amber, .. } = &moving;
    moving.take_finalizers_off();
    for name in ["web", "api"] {
        amber.delete("serviceimports", "shop", name);
    }
    let before = members.fleet.instances("shop", "web");
    pods(amber, "web", &["10.2.0.2", "10.2.0.3"]);
    members.fleet.cloud_map.keep_ready("shop", "web", "amber");

    let report = moving.converge(&moving.function).await;

    let held = said_of(&report, "NotAdopted");
    let arn = members.fleet.sandbox.cluster_arn("amber");
    assert!(held.starts_with("2 instances under this name"), "{held}");
    assert!(held.ends_with(&format!("{{\"action\":\"adopt\",\"cluster\":\"{arn}\"}}")), "{held}");
    assert_eq!(condition(amber, "web", "Ready"), "False Failed");
    assert_eq!(members.fleet.instances("shop", "web"), before, "others see AWS's");
    let web = sources([("amber", &["10.2.0.2:8080", "10.2.0.3:8080"])]);
    assert_eq!(imported(&members.green, "web"), web);
}

#[tokio::test]
async fn nothing_is_imported_into_a_cluster_whose_exports_belong_to_awss_controller() {
    let moving = Moving::new(web()).await;
    let Moving { members, amber, aws, function } = &moving;
    aws.export();
    let api = service("api");
    exported(&members.blue, api, &["10.0.0.1"], LATER);

    let synced = sync(function).await;
    let message = json!({
        "action": "sync", "cluster": "blue", "namespace": "shop", "service": "api",
    });
    report(function, &message).await;

    assert_eq!(obstacle(&synced).0, "AnotherController", "{}", in_full(&synced));
    assert_eq!(amber.objects("serviceimports", ""), [Value::Null; 0]);
    assert_eq!(imported(&members.green, "api"), sources([("blue", &["10.0.0.1:8080"])]));
}

/// Its ServiceExports, which would show the finalizer, are not read.
#[tokio::test]
async fn cluster_that_only_imports_is_not_adopted() {
    let moving = Moving::start().await;
    let clusters = json!([{ "cluster": "amber", "multiCluster": "import" }]).to_string();
    let function = moving.members.fleet.function_with(&[("CLUSTERS", &clusters)]).await;
    moving.amber.forget_requests();

    let payload = json!({ "action": "adopt", "cluster": "amber", "confirm": true });
    let report = report(&function, &payload).await;

    assert_eq!(obstacle(&report).0, "AnotherController", "{}", in_full(&report));
    assert_eq!(writes(&moving.amber), [""; 0]);
}

#[tokio::test]
async fn present_form_of_an_adoption_takes_no_export() {
    for payload in [
        json!({ "action": "adopt", "confirm": true }),
        json!({ "action": "adopt", "cluster": "amber", "namespace": "shop", "confirm": true }),
        json!({ "action": "adopt", "cluster": "amber", "owner": "old", "confirm": true }),
    ] {
        let moving = Moving::start().await;
        moving.take_finalizers_off();
        moving.members.fleet.cloud_map.forget_calls();
        moving.amber.forget_requests();
        let report = report(&moving.function, &payload).await;
        assert_eq!(moving.members.fleet.cloud_map.writes(), 0, "{}", in_full(&report));
        assert_eq!(writes(&moving.amber), [""; 0], "{}", in_full(&report));
    }
}
