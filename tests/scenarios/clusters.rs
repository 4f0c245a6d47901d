//! Many clusters in one invocation, also of other accounts and Regions, which are reached through a role: each is
//! served for itself, and what is wrong with one stops no other.

use std::time::Duration;

use cloud_map_sync::time::Deadline;
use serde_json::{Value, json};

use crate::fleet::{Fleet, OTHER_ACCOUNT, OTHER_REGION, OWNER, READER, web_of};
use crate::queue::{batch, batch_about, failures, message, scope};
use crate::run::{converge, problem, sync};
use testbed::function::{event, invoke, invoke_until};
use testbed::kubernetes::{ClusterIdentity, Fault, FaultKind, KubernetesServer};
use testbed::{ACCOUNT, REGION, ROLE_ARN};

/// A cluster with a Service `web` that claims its name in `prod`, and one pod.
async fn cluster(fleet: &Fleet, name: &str, pod: &str) -> (KubernetesServer, String) {
    let (name, region, account) = (name.to_owned(), REGION.to_owned(), ACCOUNT.to_owned());
    let identity = ClusterIdentity { name, local_id: None, region, account };
    let arn = identity.arn();
    let server = fleet.sandbox.add_cluster(identity, ROLE_ARN).await;
    web_of(&server, "web", "prod", &[pod]);
    (server, arn)
}

#[tokio::test]
async fn schedule_serves_every_cluster_that_it_can_and_names_the_others_in_the_end() {
    let fleet = Fleet::start().await;
    let (forbidden, one) = cluster(&fleet, "forbidden", "10.0.1.1").await;
    let (slow, two) = cluster(&fleet, "slow", "10.0.2.1").await;
    let (_, three) = cluster(&fleet, "strange", "10.0.3.1").await;
    let (_, good) = cluster(&fleet, "good", "10.0.4.1").await;
    fleet.cloud_map.watch_over(OWNER, &[&one, &two, &three, &good]);
    forbidden.refuse("/", 403);
    slow.fail(Fault::always("/", FaultKind::Slow(Duration::from_mins(1))));
    fleet.sandbox.role(READER, Some("shared-secret"));
    let strange = json!({ "cluster": three, "roleArn": READER, "externalId": "another" });
    let function = fleet.serving(&json!([one, two, strange, good])).await;

    // Three seconds are kept for the end, so three are left to work in.
    let deadline = Deadline::after(Duration::from_secs(6));
    let answer = invoke_until(&function, &event("schedule-eventbridge-scheduler"), deadline).await;

    let error = answer.response.expect_err("three were not served");
    assert_eq!(error.kind(), "SyncIncomplete");
    assert!(error.to_string().contains("3 clusters not read"), "{error}");
    let report = answer.report.expect("a report");
    let wrong = [("forbidden", "rbac.yaml"), ("slow", "time"), ("strange", "AssumeRole")];
    for (cluster, helps) in wrong {
        assert!(problem(&report, cluster).contains(helps), "{cluster}: {report}");
    }
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.4.1"]);
}

#[tokio::test]
async fn local_cluster_on_outposts_is_served_with_tokens_for_its_id() {
    let fleet = Fleet::start().await;
    let identity = ClusterIdentity::on_outposts("edge", "7d0d4f1c-8f5c-4f5b-9d6a-0c6f2a1b3c4d");
    let arn = identity.arn();
    let edge = fleet.sandbox.add_cluster(identity, ROLE_ARN).await;
    web_of(&edge, "web", "prod", &["10.0.1.1"]);
    fleet.cloud_map.watch_over(OWNER, &[&arn]);
    let function = fleet.serving(&json!(["edge"])).await;
    let answer = invoke(&function, &event("schedule-eventbridge-scheduler")).await;
    answer.response.expect("the cluster was served");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);

    edge.revoke(ROLE_ARN);
    let answer = invoke(&function, &json!({"action": "doctor", "cluster": "edge"})).await;
    let checkup = answer.response.expect("a checkup").to_string();
    assert!(checkup.contains("mapRoles of the ConfigMap aws-auth"), "{checkup}");
    assert!(!checkup.contains("create-access-entry"), "{checkup}");
}

#[tokio::test]
async fn registry_that_cannot_be_reached_stops_only_the_clusters_that_are_kept_in_it() {
    let fleet = Fleet::start().await;
    let (_, here) = cluster(&fleet, "here", "10.0.1.1").await;
    let (_, there) = cluster(&fleet, "there", "10.0.2.1").await;
    fleet.cloud_map.watch_over(OWNER, &[&here]);
    let role = "arn:aws:iam::444455556666:role/registry-writer";
    fleet.sandbox.role(role, Some("shared-secret"));
    let far = fleet.registry(REGION, OTHER_ACCOUNT, &there);
    let with = |external_id: &str| json!([here, { "cluster": there, "registryRoleArn": role, "externalId": external_id }]);

    let report = sync(&fleet.serving(&with("wrong")).await).await;
    assert!(problem(&report, "there").contains("AssumeRole"), "{report}");
    assert_eq!((problem(&report, "here").as_str(), report.counts.registered), ("", 1), "{report}");

    converge(&fleet, &fleet.serving(&with("shared-secret")).await).await;
    assert_eq!(far.instances(&far.service_id("prod", "web")).len(), 1);
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
}

#[tokio::test]
async fn more_clusters_than_are_served_at_once_are_all_served() {
    let fleet = Fleet::start().await;
    let mut arns = Vec::new();
    for index in 0..12 {
        let pod = format!("10.0.{index}.1");
        arns.push(cluster(&fleet, &format!("c-{index}"), &pod).await.1);
    }
    fleet.cloud_map.watch_over(OWNER, &arns);

    let report = converge(&fleet, &fleet.serving(&json!(arns)).await).await;

    assert_eq!((report.clusters.len(), report.counts.registered), (12, 12), "{report}");
    assert_eq!(fleet.cloud_map.services(&fleet.http).len(), 1, "one was created for all");
}

#[tokio::test]
async fn cluster_that_is_named_and_given_by_its_arn_is_served_once_and_the_name_is_held_back() {
    let fleet = Fleet::start().await;
    let (_, arn) = cluster(&fleet, "twice", "10.0.1.1").await;
    fleet.cloud_map.watch_over(OWNER, &[&arn]);
    for entries in [json!(["twice", arn]), json!([arn, "twice"])] {
        let function = fleet.serving(&entries).await;
        let records = [
            message("name", &scope("twice", "web")),
            message("arn", &scope(&arn, "web")),
            message("only", &json!({ "namespace": "shop", "service": "web" })),
        ];
        let answer = invoke(&function, &batch(&records)).await;
        assert_eq!(failures(&answer), [""; 0]);
        let report = answer.report.expect("a report");
        assert_eq!((report.ok, report.dropped.len()), (true, 0), "{report}");
        assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
        let report = converge(&fleet, &function).await;
        assert_eq!((report.clusters.len(), report.counts.held_back), (2, 1), "{report}");
        let answer = invoke(&function, &batch(&records)).await;
        assert_eq!(answer.report.expect("a report").clusters.len(), 1, "the name is known");
    }
}

/// The two have Cloud Maps of their own, and the name was alone before.
#[tokio::test]
async fn entry_with_the_name_of_a_cluster_that_another_gives_by_its_arn_changes_nothing() {
    let fleet = Fleet::start().await;
    let (_, arn) = cluster(&fleet, "twice", "10.0.1.1").await;
    let (_, good) = cluster(&fleet, "good", "10.0.2.1").await;
    fleet.cloud_map.watch_over(OWNER, &[&arn, &good]);
    let west = fleet.registry("eu-west-1", ACCOUNT, &arn);
    converge(&fleet, &fleet.function_with(&[("CLUSTERS", "twice")]).await).await;
    let entries = json!(["twice", { "cluster": arn, "registryRegion": "eu-west-1" }, good]);
    let function = fleet.function_with(&[("CLUSTERS", &entries.to_string())]).await;

    let report = converge(&fleet, &function).await;

    let warning = &report.clusters[0].warnings[0];
    assert!(warning.contains("as twice and as") && warning.contains(&arn), "{report}");
    assert!(report.to_string().contains(&format!("! warning    {warning}")), "{report}");
    assert!(report.orphans[0].detail.contains("another Cloud Map now"), "{report}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.2.1"], "nothing is lost");
    let service = west.service_id("prod", "web");
    let (_, attributes) = west.instances(&service).pop_first().expect("registered");
    assert_eq!(attributes["REGION"], REGION, "the cluster's, not the registry's");
    let checkup = invoke(&function, &json!({ "action": "doctor" })).await.response.expect("checks");
    let failed = |cluster: usize| {
        let checks = checkup["clusters"][cluster]["checks"].as_array().expect("checks");
        checks.iter().any(|check| check["outcome"] == "failed")
    };
    assert!(failed(0) && !failed(1) && !failed(2), "{checkup}");
}

#[tokio::test]
async fn message_about_a_cluster_that_may_be_named_twice_comes_back_until_it_is_described() {
    let fleet = Fleet::start().await;
    let (_, arn) = cluster(&fleet, "twice", "10.0.1.1").await;
    fleet.cloud_map.watch_over(OWNER, &[&arn]);
    let function = fleet.serving(&json!(["twice", arn])).await;
    let records = batch_about("twice", "web");
    fleet.sandbox.aws().eks.deny(&arn, true);
    assert_eq!(failures(&invoke(&function, &records).await), ["web"]);
    fleet.sandbox.aws().eks.deny(&arn, false);
    assert_eq!(failures(&invoke(&function, &records).await), [""; 0]);
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
}

/// `twin` in the function's account, and `twin` in another one; the entries of both, and the other's ARN.
async fn twins(fleet: &Fleet) -> (String, String, Value) {
    let (_, own) = cluster(fleet, "twin", "10.0.1.1").await;
    fleet.sandbox.role(READER, None);
    let (name, region, account) = ("twin".to_owned(), REGION.to_owned(), OTHER_ACCOUNT.to_owned());
    let identity = ClusterIdentity { name, local_id: None, region, account };
    let far = identity.arn();
    web_of(&fleet.sandbox.add_cluster(identity, READER).await, "web", "prod", &["10.0.2.1"]);
    fleet.cloud_map.watch_over(OWNER, &[&own, &far]);
    let entries = json!(["twin", { "cluster": far, "roleArn": READER }]);
    (own, far, entries)
}

#[tokio::test]
async fn cluster_whose_name_eks_does_not_resolve_is_reported_and_delays_no_other() {
    let fleet = Fleet::start().await;
    let (own, far, entries) = twins(&fleet).await;
    let (_, good) = cluster(&fleet, "good", "10.0.3.1").await;
    fleet.cloud_map.watch_over(OWNER, &[&own, &far, &good]);
    fleet.sandbox.aws().eks.silence(&own);
    let function = fleet.serving(&json!([entries[0], entries[1], good])).await;
    let about = |cluster: &str| json!({ "cluster": cluster, "namespace": "shop" });
    let records = [
        message("name", &about("twin")),
        message("own", &about(&own)),
        message("far", &about(&far)),
        message("good", &about(&good)),
    ];

    let deadline = Deadline::after(Duration::from_secs(20));
    let answer = invoke_until(&function, &batch(&records), deadline).await;

    assert_eq!(failures(&answer), ["name", "own"]);
    let report = answer.report.expect("a report");
    let problem = problem(&report, "twin");
    assert!(problem.contains("did not return the ARN of the cluster \"twin\""), "{report}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.2.1", "10.0.3.1"]);
}

#[tokio::test]
async fn message_that_names_a_cluster_by_its_arn_is_served_if_the_settings_have_its_name() {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
    let own = fleet.sandbox.cluster_arn("blue");
    let other = own.replace(ACCOUNT, OTHER_ACCOUNT);
    let about = |cluster: &str| json!({ "cluster": cluster, "namespace": "shop" });
    let records = batch(&[message("own", &about(&own)), message("other", &about(&other))]);
    let function = fleet.function().await;
    fleet.sandbox.aws().eks.deny(&own, true);
    assert_eq!(failures(&invoke(&function, &records).await), ["other", "own"], "not known");
    fleet.sandbox.aws().eks.deny(&own, false);
    for run in ["in which EKS is asked", "in which the ARN is known"] {
        let answer = invoke(&function, &records).await;
        assert_eq!(failures(&answer), [""; 0], "the run {run}");
        let report = answer.report.expect("a report");
        let dropped: Vec<_> = report.dropped.iter().map(|it| (&*it.message, &*it.reason)).collect();
        assert_eq!(dropped, [("other", "unknown_cluster")], "the run {run}: {report}");
    }
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
}

#[tokio::test]
async fn cluster_of_another_account_and_region_is_read_with_its_role() {
    let fleet = Fleet::start().await;
    let (far, arn) = fleet.far(Some("shared-secret")).await;
    fleet.cloud_map.watch_over(OWNER, &[&arn]);
    web_of(&far, "web", "prod", &["10.8.1.1"]);
    let entry = json!({ "cluster": arn, "roleArn": READER, "externalId": "shared-secret" });
    let function = fleet.serving(&json!([entry])).await;
    converge(&fleet, &function).await;
    let (_, attributes) = fleet.instance("prod", "web");
    assert_eq!(attributes["cloud-map-sync/cluster"], arn);
    assert_eq!(attributes["REGION"], OTHER_REGION);

    let assumed = || fleet.sandbox.aws().identities.assumed().len();
    let before = assumed();
    converge(&fleet, &function).await;
    assert_eq!(assumed(), before, "warm invocations use the session again");
}
