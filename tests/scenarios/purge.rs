//! All of ours for one cluster goes where a person asks for it, be the cluster there, gone, or no longer
//! configured; what belongs to anybody else stays.

use cloud_map_sync::function::Function;
use serde_json::json;

use crate::fleet::{Fleet, attributes, web_of};
use crate::run::{converge, converged, problem, purge, report, settled, warnings, writes};
use testbed::cloud_map::{Fault, FaultKind};
use testbed::function::invoke;
use testbed::{ACCOUNT, REGION};

/// Clusters `blue` and `green`, with a task of ECS and an instance by hand under the name that both
/// claim; converged.
async fn shared_name() -> (Fleet, Function) {
    let (fleet, green) = Fleet::with_green().await;
    let service = fleet.ecs_service("web", "10.0.9.1");
    fleet.put(&service, "by-hand", &attributes(&[("AWS_INSTANCE_IPV4", "10.0.1.1")]));
    fleet.web("web", "prod.local", &["10.0.1.1", "10.0.1.2"]);
    fleet.web("cart", "prod", &["10.0.1.3"]);
    web_of(&green, "web", "prod.local", &["10.0.2.1"]);
    let function = converged(&fleet).await;
    (fleet, function)
}

const LEFT: [&str; 3] = ["10.0.1.1", "10.0.2.1", "10.0.9.1"];

#[tokio::test]
async fn without_the_word_confirm_a_purge_is_its_plan() {
    let (fleet, function) = shared_name().await;
    let planned = report(&function, &json!({ "action": "purge", "cluster": "blue" })).await;
    assert_eq!((planned.counts.deregistered, fleet.cloud_map.writes()), (3, 0), "{planned}");
    let text = planned.to_string();
    assert!(text.contains("its cluster is purged"), "{text}");
    assert!(text.contains("emptied    no instance is left under this name"), "{text}");
}

#[tokio::test]
async fn purge_takes_out_all_of_one_cluster_and_nothing_of_another_of_ecs_or_of_a_person() {
    let (fleet, function) = shared_name().await;
    let report = purge(&function, "blue").await;
    assert!(report.ok, "{report}");
    assert_eq!(fleet.addresses("prod.local", "web"), LEFT);
    assert!(fleet.addresses("prod", "cart").is_empty());
    assert!(writes(&fleet).iter().all(|call| call.starts_with("DeregisterInstance")));
}

#[tokio::test]
async fn purge_of_a_cluster_that_still_claims_names_warns_that_they_come_back() {
    let (fleet, function) = shared_name().await;
    let report = purge(&function, "blue").await;
    let warning = warnings(&report)[0];
    assert!(warning.starts_with("2 Services of the cluster claim names"), "{warning}");
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod.local", "web").len(), 5);

    for service in ["web", "cart"] {
        fleet.annotate(service, "publish", "false");
    }
    let report = purge(&function, "blue").await;
    assert_eq!(warnings(&report), [""; 0], "{report}");
    settled(&fleet, &function).await;
}

#[tokio::test]
async fn cluster_that_is_gone_is_purged_by_its_arn_or_if_it_is_configured_by_its_name() {
    for (configured, is_named) in [("green", false), ("blue,green", false), ("blue,green", true)] {
        let (fleet, _) = shared_name().await;
        let arn = fleet.sandbox.cluster_arn("blue");
        fleet.sandbox.aws().eks.delete(&arn);
        let function = fleet.function_with(&[("CLUSTERS", configured)]).await;
        let report = purge(&function, if is_named { "blue" } else { &arn }).await;
        assert!(report.ok, "{configured}: {report}");
        assert_eq!(warnings(&report), [""; 0], "{configured}: {report}");
        assert_eq!(fleet.addresses("prod.local", "web"), LEFT, "{configured}");
        let report = purge(&function, &arn).await;
        assert_eq!((report.ok, report.counts.deregistered), (true, 0), "{configured}: {report}");
    }
}

/// CLUSTERS has the name `blue`, which is a cluster of the function's account.
#[tokio::test]
async fn purge_of_a_namesake_in_another_account_is_not_about_this_cluster() {
    let (fleet, function) = shared_name().await;
    let other = fleet.sandbox.cluster_arn("blue").replace(ACCOUNT, "444455556666");
    let report = purge(&function, &other).await;
    assert_eq!(warnings(&report), [""; 0], "{report}");
    assert_eq!((report.ok, fleet.cloud_map.writes()), (true, 0), "{report}");
}

#[tokio::test]
async fn name_of_no_cluster_or_of_several_is_refused_with_the_advice_to_use_the_arn() {
    let (fleet, _) = shared_name().await;
    let west = fleet.sandbox.cluster_arn("blue").replace(REGION, "eu-west-1");
    let function = fleet.serving(&json!(["blue", west])).await;
    for cluster in ["blue", "red"] {
        let payload = json!({ "action": "purge", "cluster": cluster, "confirm": true });
        let error = invoke(&function, &payload).await.response.expect_err("refused");
        assert_eq!(error.kind(), "UnknownCluster");
        assert!(error.to_string().contains("use the ARN"), "{error}");
    }
    assert_eq!(fleet.cloud_map.writes(), 0);
}

#[tokio::test]
async fn policies_that_end_no_claim_refuse_a_purge_and_dry_run_plans_it() {
    let (fleet, _) = shared_name().await;
    let payload = json!({ "action": "purge", "cluster": "blue", "confirm": true });
    for policy in ["upsert-only", "create-only"] {
        let function = fleet.function_with(&[("POLICY", policy)]).await;
        let error = invoke(&function, &payload).await.response.expect_err("refused");
        assert_eq!(error.kind(), "PolicyForbids");
        assert!(error.to_string().contains(policy), "{error}");
    }
    let dry = purge(&fleet.function_with(&[("DRY_RUN", "true")]).await, "blue").await;
    assert_eq!((dry.counts.deregistered, fleet.cloud_map.writes()), (3, 0), "{dry}");
}

#[tokio::test]
async fn purge_keeps_to_the_namespaces_that_are_looked_at() {
    let (fleet, _) = shared_name().await;
    let function = fleet.function_with(&[("CLOUD_MAP_NAMESPACES", "prod")]).await;
    let report = purge(&function, "blue").await;
    assert_eq!(report.counts.deregistered, 1, "{report}");
    assert_eq!(fleet.addresses("prod.local", "web").len(), 5);
}

#[tokio::test]
async fn purge_looks_into_every_cloud_map_of_the_settings_and_into_the_functions_own() {
    let (fleet, _) = shared_name().await;
    let arn = fleet.sandbox.cluster_arn("blue");
    let west = fleet.registry("eu-west-1", ACCOUNT, &arn);
    let service = west.ensure_service("prod", "web");
    let ours = fleet.ours("web", "10.0.1.1");
    let ours: Vec<_> = ours.iter().map(|(key, it)| (key.as_str(), it.as_str())).collect();
    west.instance(&service, "left-behind", &ours);
    let green = json!([{ "cluster": "green", "registryRegion": "eu-west-1" }]);
    let function = fleet.serving(&green).await;

    let report = purge(&function, &arn).await;

    assert_eq!((report.ok, report.counts.deregistered), (true, 4), "{report}");
    assert!(west.instances(&service).is_empty());
    assert!(report.to_string().contains("(Cloud Map in eu-west-1)"), "{report}");
    assert_eq!(fleet.addresses("prod.local", "web"), LEFT);
}

/// Its instances would stay without a word.
#[tokio::test(start_paused = true)]
async fn purge_names_a_cloud_map_that_it_had_no_time_to_read() {
    let (fleet, _) = shared_name().await;
    let arn = fleet.sandbox.cluster_arn("blue");
    let west = fleet.registry("eu-west-1", ACCOUNT, &arn);
    for (cloud_map, services) in [(&fleet.cloud_map, 1_000), (&west, 100)] {
        for index in 0..services {
            let service = cloud_map.ensure_service("prod", &format!("other-{index}"));
            cloud_map.instance(&service, "theirs", &[("AWS_INSTANCE_IPV4", "10.0.9.2")]);
        }
    }
    let green = json!([{ "cluster": "green", "registryRegion": "eu-west-1" }]).to_string();
    let slow = [("CLUSTERS", green.as_str()), ("QUOTA_SHARE", "0.05")];
    let function = fleet.function_with(&slow).await;

    let report = purge(&function, &arn).await;

    let text = report.to_string();
    assert!(text.contains("(Cloud Map in eu-west-1)"), "{text}");
    assert_eq!(text.matches("Cloud Map services not read yet").count(), 2, "{text}");
}

#[tokio::test]
async fn region_of_the_function_spelled_out_is_no_second_cloud_map() {
    let (fleet, _) = shared_name().await;
    let blue = json!([{ "cluster": "blue", "registryRegion": REGION }]);
    let report = purge(&fleet.serving(&blue).await, "blue").await;
    assert_eq!((report.clusters.len(), report.counts.deregistered), (1, 3), "{report}");
    assert_eq!(fleet.cloud_map.count("ListNamespaces"), 1);
}

#[tokio::test]
async fn cloud_map_that_cannot_be_read_leaves_the_purge_incomplete() {
    let (fleet, function) = shared_name().await;
    fleet.cloud_map.deny("ListServices");
    let report = purge(&function, "blue").await;
    assert!(!report.ok && problem(&report, "blue").contains("AccessDenied"), "{report}");
}

/// The second look fails once, and while it is made again somebody else takes the id.
#[tokio::test]
async fn instance_that_is_not_ours_any_more_at_the_second_look_stays() {
    let (fleet, function) = shared_name().await;
    let cart = fleet.cloud_map.service_id("prod", "cart");
    let (id, _) = fleet.instance("prod", "cart");
    let failing = Fault::on("ListInstances", FaultKind::ServerError).service(&cart).after(1);
    fleet.cloud_map.inject(failing);
    let (report, ()) = tokio::join!(purge(&function, "blue"), async {
        while !fleet.cloud_map.calls().iter().any(|call| call.status == 500) {
            tokio::task::yield_now().await;
        }
        fleet.ecs_task(&cart, &id, "10.0.9.9");
    });
    assert_eq!((report.ok, report.counts.deregistered), (true, 2), "{report}");
    assert_eq!(fleet.addresses("prod", "cart"), ["10.0.9.9"]);
}
