//! Clusters and registries of other accounts and Regions, reached through roles.

use serde_json::json;

use crate::fleet::{Fleet, OWNER, annotated, give_pods};
use crate::run::{converge, problem, sync};
use testbed::cloud_map::NamespaceKind;
use testbed::kubernetes::ClusterIdentity;
use testbed::{ACCOUNT, REGION};

const OTHER_ACCOUNT: &str = "444455556666";
const OTHER_REGION: &str = "eu-west-1";
const READER: &str = "arn:aws:iam::444455556666:role/cluster-reader";

#[tokio::test]
async fn cluster_of_another_account_and_region_is_read_with_its_role() {
    let fleet = Fleet::start().await;
    let identity = ClusterIdentity {
        name: "far".to_owned(),
        region: OTHER_REGION.to_owned(),
        account: OTHER_ACCOUNT.to_owned(),
    };
    let arn = identity.arn();
    let far = fleet.sandbox.add_cluster(identity, READER).await;
    fleet.sandbox.role(READER, Some("shared-secret"));
    fleet.cloud_map.watch_over(OWNER, &[&arn]);
    far.service(annotated("web", "prod", "web"));
    give_pods(&far, "web", &["10.8.1.1"]);
    let with = |external_id: &str| {
        json!([{ "cluster": arn, "roleArn": READER, "externalId": external_id }]).to_string()
    };

    let refused = fleet.function_with(&[("CLUSTERS", &with("wrong"))]).await;
    let report = sync(&refused).await;
    assert!(problem(&report, "far").contains("AssumeRole"), "{report}");

    let function = fleet.function_with(&[("CLUSTERS", &with("shared-secret"))]).await;
    converge(&fleet, &function).await;
    let (_, attributes) = fleet.instance("prod", "web");
    assert_eq!(attributes["cloud-map-sync/cluster"], arn);
    assert_eq!(attributes["REGION"], OTHER_REGION);

    let assumed = || fleet.sandbox.aws().identities.assumed().len();
    let before = assumed();
    converge(&fleet, &function).await;
    assert_eq!(assumed(), before, "warm invocations use the session again");
}

#[tokio::test]
async fn registry_of_another_account_and_region_is_written_with_its_role() {
    let fleet = Fleet::start().await;
    let role = "arn:aws:iam::444455556666:role/registry-writer";
    fleet.sandbox.role(role, None);
    let far = fleet.sandbox.cloud_map_of(OTHER_REGION, OTHER_ACCOUNT);
    far.watch_over(OWNER, &[&fleet.sandbox.cluster_arn("blue")]);
    far.namespace("prod", NamespaceKind::Http);
    fleet.web("web", "prod", &["10.0.1.1"]);
    let clusters =
        json!([{ "cluster": "blue", "registryRoleArn": role, "registryRegion": OTHER_REGION }]);
    let function = fleet.function_with(&[("CLUSTERS", &clusters.to_string())]).await;

    converge(&fleet, &function).await;

    assert!(fleet.cloud_map.calls().is_empty());
    let service = far.find_service("prod", "web").expect("created there");
    assert_eq!(far.instances(&service).len(), 1);
}

#[tokio::test]
async fn clusters_with_a_registry_each_do_not_mix() {
    let fleet = Fleet::start().await;
    let green = fleet.green().await;
    let west = fleet.sandbox.cloud_map_of(OTHER_REGION, ACCOUNT);
    west.namespace("prod", NamespaceKind::Http);
    fleet.web("web", "prod", &["10.0.1.1"]);
    green.service(annotated("web", "prod", "web"));
    give_pods(&green, "web", &["10.0.2.1"]);
    let clusters = json!(["blue", { "cluster": "green", "registryRegion": OTHER_REGION }]);
    let function = fleet.function_with(&[("CLUSTERS", &clusters.to_string())]).await;

    converge(&fleet, &function).await;

    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
    let service = west.find_service("prod", "web").expect("created there");
    let (_, attributes) = west.instances(&service).pop_first().expect("registered");
    assert_eq!(attributes["AWS_INSTANCE_IPV4"], "10.0.2.1");
    assert_eq!(attributes["REGION"], REGION, "the cluster's, not the registry's");
}

#[tokio::test]
async fn clusters_that_share_a_registry_read_it_once_for_each_invocation() {
    let fleet = Fleet::start().await;
    let green = fleet.green().await;
    for service in ["web", "cart"] {
        fleet.web(service, "prod", &["10.0.1.1"]);
        green.service(annotated(service, "prod", service));
        give_pods(&green, service, &["10.0.2.1"]);
    }
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    fleet.cloud_map.forget_calls();

    sync(&function).await;

    let counts = ["ListNamespaces", "ListServices", "ListInstances"]
        .map(|operation| fleet.cloud_map.count(operation));
    assert_eq!(counts, [1, 1, 2]);
}
