//! A clusterset across accounts and Regions: one registry reached by role, one in namespaces that another account
//! shares, and two functions that know nothing of each other.

use std::collections::BTreeMap;

use cloud_map_sync::function::Function;
use serde_json::{Value, json};

use super::{
    LATER, exported, exported_at, imported, imported_from, join, pods, serving, slices, web, writes,
};
use crate::fleet::{Fleet, OTHER_ACCOUNT, OWNER, READER};
use crate::run::synced;
use testbed::clock::StandInClock;
use testbed::cloud_map::{Call, NamespaceKind};
use testbed::kubernetes::KubernetesServer;
use testbed::{ACCOUNT, REGION, ROLE_ARN};

/// `blue` in the account and Region of the function, `far` in others.
struct Apart {
    fleet: Fleet,
    blue: KubernetesServer,
    far: KubernetesServer,
    arn: String,
}

impl Apart {
    async fn start() -> Self {
        let fleet = Fleet::start().await;
        let (far, arn) = fleet.far(None).await;
        let blue = fleet.cluster.clone();
        join(&blue, "blue", &["shop"]);
        join(&far, "far", &["shop"]);
        exported(&blue, web(), &["10.0.0.1"]);
        exported_at(&far, web(), &["10.8.0.1"], LATER);
        Self { fleet, blue, far, arn }
    }

    /// The entry of `far` in `CLUSTERS`, with these fields besides.
    fn entry(&self, fields: &Value) -> Value {
        let mut entry = json!({ "cluster": self.arn, "roleArn": READER });
        entry.as_object_mut().expect("an object").extend(fields.as_object().expect("one").clone());
        entry
    }

    async fn function(&self, clusters: &Value, settings: &[(&str, &str)]) -> Function {
        serving(&self.fleet, &StandInClock::new(), &clusters.to_string(), settings).await
    }

    /// Both import the endpoints of both.
    fn assert_joined(&self) {
        for cluster in [&self.blue, &self.far] {
            assert_eq!(imported(cluster, "web"), "blue 10.0.0.1:8080, far 10.8.0.1:8080");
        }
    }

    /// The zones in the slices of an import, by the cluster that they are of.
    fn zones(cluster: &KubernetesServer) -> BTreeMap<String, bool> {
        let all = slices(cluster, "web").into_iter().map(|slice| {
            let source = &slice["metadata"]["labels"]["multicluster.kubernetes.io/source-cluster"];
            let has_zone = !slice["endpoints"][0]["zone"].is_null();
            (source.as_str().expect("a source").to_owned(), has_zone)
        });
        all.collect()
    }

    fn forget(&self) {
        self.fleet.cloud_map.forget_calls();
        [&self.blue, &self.far].into_iter().for_each(KubernetesServer::forget_requests);
    }

    fn writes(&self) -> Vec<String> {
        [&self.blue, &self.far].into_iter().flat_map(writes).collect()
    }
}

#[tokio::test]
async fn clusters_of_two_accounts_and_regions_share_the_registry_of_a_third_by_role() {
    let apart = Apart::start().await;
    let role = "arn:aws:iam::777788889999:role/registry-writer";
    let account = "777788889999";
    apart.fleet.sandbox.role(role, None);
    let registry = apart.fleet.sandbox.cloud_map_of("eu-north-1", account);
    registry.watch_over(OWNER, &[&apart.fleet.sandbox.cluster_arn("blue"), &apart.arn]);
    let fields = json!({ "registryRoleArn": role, "registryRegion": "eu-north-1" });
    let mut blue = fields.clone();
    blue["cluster"] = json!("blue");
    let function = apart.function(&json!([blue, apart.entry(&fields)]), &[]).await;

    synced(&function).await;

    apart.assert_joined();
    assert_eq!(apart.fleet.cloud_map.calls(), [], "the function's own Cloud Map has nothing of it");
    let of = |name: &str| {
        let id = registry.find_namespace(name).expect("created there");
        let services = registry.services(&id).into_iter();
        services.map(|it| registry.instances(&it.id).len()).sum::<usize>()
    };
    assert_eq!((of("shop"), of("clusterset.shop-set")), (2, 4));
    // Zones of another account or Region mean nothing.
    let own = |own: &str| ["blue", "far"].map(|it| (it.to_owned(), it == own)).into();
    assert_eq!((Apart::zones(&apart.blue), Apart::zones(&apart.far)), (own("blue"), own("far")));
    apart.forget();
    registry.forget_calls();
    synced(&function).await;
    let calls: Vec<_> = registry.calls().into_iter().filter(Call::is_write).collect();
    assert_eq!((calls, apart.writes()), (vec![], vec![]));
}

#[tokio::test]
async fn functions_that_know_nothing_of_each_other_join_their_clusters_in_one_registry() {
    let apart = Apart::start().await;
    let cloud_map = &apart.fleet.cloud_map;
    let role = format!("arn:aws:iam::{ACCOUNT}:role/registry-writer");
    apart.fleet.sandbox.role(&role, None);
    let fields = json!({ "registryRoleArn": role, "registryRegion": REGION });
    let one = apart.function(&json!(["blue"]), &[]).await;
    let other = json!([apart.entry(&fields)]);
    let other = apart.function(&other, &[("OWNER_ID", "team-far")]).await;
    cloud_map.watch_over(OWNER, &[&apart.fleet.sandbox.cluster_arn("blue")]);

    synced(&one).await;
    assert!(apart.far.requests().is_empty(), "a function reads its own clusters alone");
    // What the other function writes is its own, and the stand-in watches over one owner at a time.
    cloud_map.watch_over("team-far", &[&apart.arn]);
    synced(&other).await;
    assert_eq!(imported_from(&apart.far, "web").len(), 2, "the second sees the first at once");
    cloud_map.watch_over(OWNER, &[&apart.fleet.sandbox.cluster_arn("blue")]);
    synced(&one).await;

    apart.assert_joined();
    apart.forget();
    synced(&one).await;
    synced(&other).await;
    assert_eq!((cloud_map.writes(), apart.writes()), (0, vec![]));

    // A pod goes and an export ends in the one, and the other follows by Cloud Map alone.
    pods(&apart.blue, "web", &["10.0.0.2"]);
    synced(&one).await;
    synced(&other).await;
    assert_eq!(imported(&apart.far, "web"), "blue 10.0.0.2:8080, far 10.8.0.1:8080");
    apart.blue.unexport("shop", "web");
    synced(&one).await;
    synced(&other).await;
    for cluster in [&apart.blue, &apart.far] {
        assert_eq!(imported(cluster, "web"), "far 10.8.0.1:8080");
    }
    assert!(cloud_map.violations().is_empty());
}

#[tokio::test]
async fn namespaces_that_another_account_shares_hold_a_clusterset() {
    let apart = Apart::start().await;
    let cloud_map = &apart.fleet.cloud_map;
    for name in ["shop", "clusterset.shop-set"] {
        cloud_map.shared_namespace(name, NamespaceKind::Http, OTHER_ACCOUNT);
    }
    cloud_map.watch_over(OWNER, &[&apart.fleet.sandbox.cluster_arn("blue"), &apart.arn]);
    let role = format!("arn:aws:iam::{ACCOUNT}:role/registry-writer");
    apart.fleet.sandbox.role(&role, None);
    assert!(ROLE_ARN.contains(ACCOUNT));
    let fields = json!({ "registryRoleArn": role, "registryRegion": REGION });
    let blue = json!({ "cluster": "blue", "registryRoleArn": role, "registryRegion": REGION });
    let entries = json!([blue, apart.entry(&fields)]);
    let function = apart.function(&entries, &[]).await;

    synced(&function).await;

    apart.assert_joined();
    apart.forget();
    synced(&function).await;
    // A new process has never seen them, and one that only imports claims nothing there.
    synced(&apart.function(&entries, &[]).await).await;
    synced(&apart.function(&entries, &[("MULTI_CLUSTER", "import")]).await).await;
    assert_eq!((cloud_map.writes(), apart.writes()), (0, vec![]));
    apart.assert_joined();
}
