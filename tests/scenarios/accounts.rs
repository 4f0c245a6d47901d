//! A cluster of another account and Region, reached through a role.

use serde_json::json;

use crate::fleet::{Fleet, OWNER, web_of};
use crate::run::{converge, problem, sync};
use testbed::kubernetes::ClusterIdentity;

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
    web_of(&far, "web", "prod", &["10.8.1.1"]);
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
