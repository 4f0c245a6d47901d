//! Many clusters in one invocation, also of other accounts and Regions, which are reached through a role: each is
//! served for itself, and what is wrong with one stops no other.

use std::time::Duration;

use cloud_map_sync::time::Deadline;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::fleet::{Fleet, OTHER_ACCOUNT, OTHER_REGION, OWNER, READER, give_pods, web_of};
use crate::queue::{batch, failures, message, scope};
use crate::run::{converge, problem, sync, warnings};
use testbed::function::{event, invoke, invoke_until};
use testbed::kubernetes::{ClusterIdentity, Fault, FaultKind, KubernetesServer};
use testbed::{ACCOUNT, REGION, ROLE_ARN};

/// A cluster with a Service `web` that claims its name in `prod`, and one pod.
async fn cluster(fleet: &Fleet, name: &str, pod: &str) -> (KubernetesServer, String) {
    let name = name.to_owned();
    let region = REGION.to_owned();
    let account = ACCOUNT.to_owned();
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

/// A byte every two seconds keeps a connection open for longer than any invocation.
#[tokio::test(start_paused = true)]
async fn clusters_that_dribble_keep_no_other_from_its_turn() {
    let fleet = Fleet::start().await;
    let mut arns = Vec::new();
    for index in 0..8 {
        let (server, arn) = cluster(&fleet, &format!("dribbling-{index}"), "10.0.1.1").await;
        server.fail(Fault::always("/", FaultKind::Dribble(Duration::from_secs(2))));
        arns.push(arn);
    }
    let (good, arn) = cluster(&fleet, "good", "10.0.9.0").await;
    arns.push(arn);
    fleet.cloud_map.watch_over(OWNER, &arns);
    let function = fleet.serving(&json!(arns)).await;
    for last in 1..=3 {
        let pod = format!("10.0.9.{last}");
        give_pods(&good, "web", &[&pod]);
        let start = Instant::now();

        let deadline = Deadline::after(Duration::from_mins(1));
        let schedule = event("schedule-eventbridge-scheduler");
        let answer = invoke_until(&function, &schedule, deadline).await;

        assert!(start.elapsed() < Duration::from_mins(1), "{:?}", start.elapsed());
        let report = answer.report.expect("a report");
        assert_eq!((report.counts.unreadable, fleet.addresses("prod", "web")), (8, vec![pod]));
        let problem = problem(&report, "dribbling-0");
        assert!(problem.contains("list the headless Services"), "{problem}");
        fleet.clock.advance(Duration::from_mins(1));
    }
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

/// The number of times that EKS was asked to describe a cluster.
fn descriptions(fleet: &Fleet) -> usize {
    let requests = fleet.sandbox.aws().requests();
    requests.iter().filter(|request| request.operation == "DescribeCluster").count()
}

#[tokio::test]
async fn later_of_two_entries_for_one_cluster_is_held_back_without_a_call_of_eks() {
    let fleet = Fleet::start().await;
    let (_, arn) = cluster(&fleet, "twice", "10.0.1.1").await;
    fleet.cloud_map.watch_over(OWNER, &[&arn]);
    for (entries, later) in [
        (json!(["twice", arn]), arn.as_str()),
        (json!([arn, "twice"]), "twice"),
        (json!(["twice", "twice"]), "twice"),
    ] {
        let before = descriptions(&fleet);
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
        assert_eq!((report.clusters.len(), report.ok), (1, true), "{report}");
        let [warning] = warnings(&report)[..] else { panic!("{report}") };
        let held_back = format!("as \"{later}\": the first entry is served");
        assert!(warning.contains(&arn) && warning.contains(&held_back), "{warning}");
        assert!(report.to_string().contains(&format!("! warning    {warning}")), "{report}");
        assert_eq!(descriptions(&fleet), before + 1, "the first entry alone");
    }
}

/// The two entries have Cloud Maps of their own.
#[tokio::test]
async fn later_entry_for_a_cluster_changes_nothing_in_its_cloud_map() {
    let fleet = Fleet::start().await;
    let (_, arn) = cluster(&fleet, "twice", "10.0.1.1").await;
    let (_, good) = cluster(&fleet, "good", "10.0.2.1").await;
    fleet.cloud_map.watch_over(OWNER, &[&arn, &good]);
    let west = fleet.registry(OTHER_REGION, ACCOUNT, &arn);
    let entries = json!(["twice", { "cluster": arn, "registryRegion": OTHER_REGION }, good]);
    let function = fleet.serving(&entries).await;

    let report = converge(&fleet, &function).await;

    assert_eq!(report.orphans.len(), 0, "{report}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.2.1"]);
    assert_eq!(west.calls(), []);
    let checkup = invoke(&function, &json!({ "action": "doctor" })).await.response.expect("checks");
    let failed = |cluster: usize| {
        let checks = checkup["clusters"][cluster]["checks"].as_array().expect("checks");
        checks.iter().any(|check| check["outcome"] == "failed")
    };
    assert!(failed(0) && !failed(1), "{checkup}");
    let fixes = checkup["clusters"][0]["checks"].to_string();
    assert!(fixes.contains("list the cluster once in CLUSTERS"), "{checkup}");
}

/// There is a cluster of the name in both Regions, and one in another account that the function reaches by a role.
#[tokio::test]
async fn name_means_the_cluster_in_the_region_of_the_function_and_others_have_an_arn() {
    let fleet = Fleet::start().await;
    let (_, here) = cluster(&fleet, "blue-green", "10.0.1.1").await;
    let west = ClusterIdentity {
        name: "blue-green".to_owned(),
        local_id: None,
        region: OTHER_REGION.to_owned(),
        account: ACCOUNT.to_owned(),
    };
    let west_arn = west.arn();
    web_of(&fleet.sandbox.add_cluster(west, ROLE_ARN).await, "web", "prod", &["10.0.2.1"]);
    let (far, far_arn) = fleet.far(None).await;
    web_of(&far, "web", "prod", &["10.0.3.1"]);
    fleet.cloud_map.watch_over(OWNER, &[&here, &west_arn, &far_arn]);
    let in_west = format!("arn:aws:lambda:{OTHER_REGION}:{ACCOUNT}:function:cloud-map-sync:admin");
    let entries = json!(["blue-green", { "cluster": far_arn, "roleArn": READER }]).to_string();
    let settings = [("CLUSTERS", entries.as_str())];
    let function = fleet.sandbox.function_invoked_as(&in_west, &settings).await;

    let report = sync(&function).await;

    let clusters: Vec<&str> =
        report.clusters.iter().map(|cluster| cluster.cluster.as_str()).collect();
    assert_eq!(
        (report.ok, clusters),
        (true, vec![west_arn.as_str(), far_arn.as_str()]),
        "{report}"
    );
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.2.1", "10.0.3.1"]);
    let identity_calls = fleet.sandbox.aws().requests();
    let mut identity_calls = identity_calls.iter().map(|request| request.operation.as_str());
    assert!(!identity_calls.any(|operation| operation == "GetCallerIdentity"));
}

/// `twin` in the function's account, and `twin` in another one; the entries of both, and the other's ARN.
async fn twins(fleet: &Fleet) -> (String, String, Value) {
    let (_, own) = cluster(fleet, "twin", "10.0.1.1").await;
    fleet.sandbox.role(READER, None);
    let name = "twin".to_owned();
    let region = REGION.to_owned();
    let account = OTHER_ACCOUNT.to_owned();
    let identity = ClusterIdentity { name, local_id: None, region, account };
    let far = identity.arn();
    web_of(&fleet.sandbox.add_cluster(identity, READER).await, "web", "prod", &["10.0.2.1"]);
    fleet.cloud_map.watch_over(OWNER, &[&own, &far]);
    let entries = json!(["twin", { "cluster": far, "roleArn": READER }]);
    (own, far, entries)
}

#[tokio::test]
async fn cluster_that_eks_does_not_describe_delays_no_other() {
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

    let deadline = Deadline::after(Duration::from_secs(6));
    let answer = invoke_until(&function, &batch(&records), deadline).await;

    assert_eq!(failures(&answer), ["own"]);
    let report = answer.report.expect("a report");
    let dropped: Vec<_> = report.dropped.iter().map(|it| (&*it.message, &*it.reason)).collect();
    assert_eq!(dropped, [("name", "ambiguous_cluster")], "{report}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.2.1", "10.0.3.1"]);
}

#[tokio::test]
async fn message_that_names_a_cluster_by_its_arn_is_served_if_the_settings_have_its_name() {
    let fleet = Fleet::with_web("web", "prod", &["10.0.1.1"]).await;
    let own = fleet.sandbox.cluster_arn("blue");
    let other = own.replace(ACCOUNT, OTHER_ACCOUNT);
    let about = |cluster: &str| json!({ "cluster": cluster, "namespace": "shop" });
    let records = batch(&[message("own", &about(&own)), message("other", &about(&other))]);
    let function = fleet.function_with(&[("CLUSTERS", "blue")]).await;
    for (is_denied, failed) in [(true, &["own"][..]), (false, &[])] {
        fleet.sandbox.aws().eks.deny(&own, is_denied);
        let answer = invoke(&function, &records).await;
        assert_eq!(failures(&answer), failed);
        let report = answer.report.expect("a report");
        let dropped: Vec<_> = report.dropped.iter().map(|it| (&*it.message, &*it.reason)).collect();
        assert_eq!(dropped, [("other", "unknown_cluster")], "{report}");
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
