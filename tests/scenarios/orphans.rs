//! What clusters leave behind that are not configured any more, or are kept in another Cloud Map now: it is counted, and
//! stays until a person purges the cluster.

use cloud_map_sync::report::{OrphanReport, Report};
use serde_json::{Value, json};

use crate::fleet::{Fleet, OTHER_ACCOUNT, OTHER_REGION, OWNER, web_of};
use crate::run::{converge, converged, documents, purge, report, sync, sync_service, warnings};
use testbed::cloud_map::NamespaceKind;

/// Clusters `blue` and `green` under one name, beside a task of ECS and an instance of another owner for `green`;
/// converged.
struct World {
    fleet: Fleet,
    green: String,
}

const EVERYTHING: [&str; 5] = ["10.0.1.1", "10.0.2.1", "10.0.2.2", "10.0.9.1", "10.0.9.2"];
const WITHOUT_GREEN: [&str; 3] = ["10.0.1.1", "10.0.9.1", "10.0.9.2"];

impl World {
    async fn start() -> Self {
        let (fleet, cluster) = Fleet::with_green().await;
        let green = fleet.sandbox.cluster_arn("green");
        let service = fleet.ecs_service("web", "10.0.9.1");
        let mut theirs = fleet.ours("web", "10.0.9.2");
        theirs.insert("cloud-map-sync/owner".into(), "team-a".into());
        theirs.insert("cloud-map-sync/cluster".into(), green.clone());
        fleet.put(&service, "of-team-a", &theirs);
        fleet.web("web", "prod.local", &["10.0.1.1"]);
        web_of(&cluster, "web", "prod.local", &["10.0.2.1", "10.0.2.2"]);
        Box::pin(converged(&fleet)).await;
        Self { fleet, green }
    }

    fn addresses(&self) -> Vec<String> {
        self.fleet.addresses("prod.local", "web")
    }

    /// How often EKS was asked about a cluster.
    fn questions(&self) -> usize {
        let requests = self.fleet.sandbox.aws().requests().into_iter();
        requests.filter(|request| request.operation == "DescribeCluster").count()
    }
}

fn only(report: &Report) -> &OrphanReport {
    assert_eq!(report.orphans.len(), 1, "{report}");
    &report.orphans[0]
}

#[tokio::test]
async fn instances_of_a_cluster_that_is_not_configured_are_counted_named_and_never_touched() {
    let world = World::start().await;
    world.fleet.sandbox.aws().eks.delete(&world.green);
    let function = world.fleet.function_with(&[("CLUSTERS", "blue")]).await;
    for _ in 0..2 {
        let before = world.questions();
        let report = sync(&function).await;
        let found = only(&report);
        assert_eq!((found.instances, report.counts.orphaned), (2, 2), "{report}");
        let purge = format!("kubectl cloudmap purge --cluster {}", world.green);
        assert!(
            found.detail.contains("prod.local/web") && found.detail.ends_with(&purge),
            "{report}"
        );
        assert!(report.ok, "orphans are no failure: {report}");
        assert_eq!(documents(&report).pop().expect("the invocation's")["Orphans"], 2);
        assert!(world.questions() - before <= 1, "EKS is asked about blue alone");
        world.fleet.clock.advance(std::time::Duration::from_hours(24 * 30));
    }
    assert_eq!(
        (world.addresses(), world.fleet.cloud_map.writes()),
        (EVERYTHING.map(str::to_owned).to_vec(), 0)
    );
    let targeted = sync_service(&function, "web").await;
    assert!(targeted.orphans.is_empty(), "{targeted}");
}

#[tokio::test]
async fn full_sync_of_one_cluster_counts_them_once_for_the_metric() {
    let world = World::start().await;
    let function = world.fleet.function_with(&[("CLUSTERS", "blue")]).await;
    let of_blue = report(&function, &json!({ "action": "sync", "cluster": "blue" })).await;
    assert_eq!(only(&of_blue).instances, 2, "{of_blue}");
    assert_eq!(documents(&of_blue).pop().expect("the invocation's")["Orphans"], 2);
}

#[tokio::test]
async fn plan_of_a_purge_says_whether_the_cluster_exists_is_gone_or_is_unknown() {
    for (case, expected) in [
        ("exists", "the cluster exists in EKS"),
        ("gone", "the cluster is gone: EKS does not find it"),
        ("denied", "it is unknown whether the cluster exists in EKS"),
    ] {
        let world = World::start().await;
        let eks = &world.fleet.sandbox.aws().eks;
        match case {
            "gone" => eks.delete(&world.green),
            "denied" => eks.deny(&world.green, true),
            _ => {}
        }
        let function = world.fleet.function_with(&[("CLUSTERS", "blue")]).await;
        let before = world.questions();
        let payload: Value = json!({ "action": "purge", "cluster": world.green });
        let planned = report(&function, &payload).await;
        let said = warnings(&planned).join("; ");
        assert!(said.contains(expected), "{case}: {planned}");
        assert_eq!((planned.counts.deregistered, world.questions() - before), (2, 1), "{planned}");
        assert_eq!(world.addresses(), EVERYTHING);

        let purged = purge(&function, &world.green).await;
        assert!(purged.ok && warnings(&purged).is_empty(), "{purged}");
        assert_eq!(world.addresses(), WITHOUT_GREEN);
        assert!(sync(&function).await.orphans.is_empty());
    }
}

/// Another cluster of the settings is still kept in the former one.
#[tokio::test]
async fn cluster_that_moved_to_another_cloud_map_is_named_with_the_former_one() {
    let world = World::start().await;
    let role = format!("arn:aws:iam::{OTHER_ACCOUNT}:role/registry-writer");
    world.fleet.sandbox.role(&role, None);
    let far = world.fleet.registry(OTHER_REGION, OTHER_ACCOUNT, &world.green);
    far.watch_over(OWNER, &[&world.green]);
    let moved =
        json!({ "cluster": "green", "registryRoleArn": role, "registryRegion": OTHER_REGION });
    let clusters = json!(["blue", moved]).to_string();
    let function = world.fleet.function_with(&[("CLUSTERS", &clusters)]).await;

    let report = converge(&world.fleet, &function).await;

    let found = only(&report);
    assert!(found.detail.contains("another Cloud Map now"), "{report}");
    assert!(found.detail.ends_with("--registry 111122223333/eu-central-1"), "{report}");
    assert_eq!(world.addresses(), EVERYTHING);

    // The account of its Cloud Map shares a namespace with the former one, and it publishes there now.
    let cloud_map = &world.fleet.cloud_map;
    cloud_map.shared_namespace("shared.local", NamespaceKind::DnsPrivate, OTHER_ACCOUNT);
    let shared = cloud_map.ensure_service("shared.local", "api");
    let mut living = world.fleet.ours("api", "10.0.2.7");
    living.insert("cloud-map-sync/cluster".to_owned(), world.green.clone());
    world.fleet.put(&shared, "living", &living);
    let advised = json!({
        "action": "purge", "cluster": world.green, "registry": "111122223333/eu-central-1", "confirm": true,
    });
    let purged = self::report(&function, &advised).await;
    assert_eq!((purged.ok, purged.counts.deregistered), (true, 2), "{purged}");
    assert_eq!(world.fleet.addresses("shared.local", "api"), ["10.0.2.7"]);
    assert_eq!(world.addresses(), WITHOUT_GREEN);
}
