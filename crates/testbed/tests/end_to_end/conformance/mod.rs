//! The conformance suite of the Multi-Cluster Services API (kubernetes-sigs/mcs-api) as its project publishes it, against
//! two clusters that only the function's binary joins. `tests/conformance/run` builds it and starts the test.
//!
//! `blue` and `green` have control planes with their controllers, CoreDNS and a kubelet without containers; the role of
//! the function has the rights of `deploy/`, under the admission policy. A spec waits at most 20 s for an effect, so full
//! syncs follow each other while the suite runs. AWS would let the function list Cloud Map's namespaces only every
//! other second; `QUOTA_SHARE` takes these rates away, and the stand-in has none.
//!
//! `suite` is the process, `report` what it says of itself.

mod report;
mod suite;

use serde_json::{Value, json};

use crate::real_cluster::RealCluster;
use crate::real_cluster::member::MEMBER_KINDS;
use crate::world::{World, blue};
use suite::Suite;
use testbed::kubernetes::ClusterIdentity;

/// The ranges of pods' addresses, which route between the clusters.
const PODS_OF_BLUE: &str = "10.64.0.0/16,fd00:64::/112";
const PODS_OF_GREEN: &str = "10.65.0.0/16,fd00:65::/112";

#[tokio::test]
#[ignore = "tests/conformance/run builds the suite"]
async fn unmodified_suite_passes_in_two_clusters_that_the_function_joins() {
    let world = World::start().await;
    world.cloud_map.watch_over("cloud-map-sync", &[&blue().arn(), &green().arn()]);
    let [blue, green] = clusters(&world).await;
    let settings = [
        ("CLUSTERS", "blue,green"),
        ("MULTI_CLUSTER", "on"),
        ("CREATE_NAMESPACES", "true"),
        ("QUOTA_SHARE", "1000"),
    ];
    let mut lambda = world.lambda(&settings).await;
    let sync = json!({"action": "sync"});

    let mut suite = Suite::start(&[("blue", &blue.control_plane), ("green", &green.control_plane)]);
    let (mut syncs, mut failed) = (0, Vec::new());
    while suite.runs() {
        let report = lambda.invoke(sync.clone()).await;
        syncs += 1;
        if !report.as_ref().is_ok_and(|it| it["ok"] == true) {
            failed.push(json!(format!("{report:?}")));
        }
    }
    suite.keep("failed-syncs.json", &Value::from(failed.clone()));
    println!("{syncs} full syncs meanwhile, {} of them with a failure", failed.len());
    suite.report().assert_that_all_passed();

    for cluster in [&blue, &green] {
        cluster.wait_until_namespaces_are_gone("mcs-conformance-").await;
    }
    // Two of the namespaces may have gone since the last sync, with all that was left: the guard asks a person.
    let last = lambda.invoke(json!({"action": "confirm"})).await.expect("a report");
    assert_eq!(last["ok"], true, "{last:#}");
    for cluster in [&blue, &green] {
        for path in MEMBER_KINDS {
            assert_eq!(cluster.names_across_namespaces(path).await, [""; 0], "{path}");
        }
    }
    for id in ["blue", "green"] {
        let records = world.instances("clusterset.conformance", id);
        assert_eq!(records.keys().collect::<Vec<_>>(), ["cluster"], "the records of {id}");
    }
    world.assert_that_the_ecs_task_is_unchanged();
}

async fn clusters(world: &World) -> [RealCluster; 2] {
    let (blue, green) = tokio::join!(
        RealCluster::start_member(world, blue(), true),
        RealCluster::start_member(world, green(), true),
    );
    let [blue, green] =
        [blue, green].map(|it| it.expect("Go built the suite, and builds a control plane"));
    tokio::join!(blue.join("blue", "conformance"), green.join("green", "conformance"));
    let network = [&blue.control_plane, &green.control_plane];
    for (cluster, pods) in [(&blue, PODS_OF_BLUE), (&green, PODS_OF_GREEN)] {
        let nameserver = cluster.control_plane.start_dns().await;
        cluster.control_plane.start_kubelet(nameserver, pods, &network).await;
    }
    [blue, green]
}

fn green() -> ClusterIdentity {
    ClusterIdentity { name: "green".to_owned(), ..blue() }
}
