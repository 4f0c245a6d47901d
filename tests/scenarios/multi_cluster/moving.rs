//! A cluster `amber` that AWS's controller serves, beside `blue` and `green`. What is AWS's stays AWS's, and a cluster moves
//! over under a new id.

use cloud_map_sync::function::Function;
use cloud_map_sync::report::Report;
use serde_json::{Value, json};

use super::{
    CLUSTER_ID, CLUSTERSET, LATER, Members, exported, exported_at, imported, in_full, join,
    obstacle_lines, pods, service, web, writes,
};
use crate::fleet::OWNER;
use crate::run::{report, sync, sync_of, synced};
use testbed::aws_controller::AwsController;
use testbed::kubernetes::{ClusterIp, KubernetesServer};

/// Three members: AWS's controller serves `amber`, and the function serves all three.
pub struct Moving {
    pub members: Members,
    pub amber: KubernetesServer,
    pub aws: AwsController,
    /// The function with amber among its clusters.
    pub function: Function,
}

impl Moving {
    /// `amber` exports `web` with two pods, and `blue` exports `api`, which all import.
    pub async fn start() -> Self {
        let moving = Box::pin(Self::new(web())).await;
        exported_at(&moving.members.blue, service("api"), &["10.0.0.1"], LATER);
        moving.members.converge().await;
        moving.aws.run();
        moving.members.converge().await;
        moving
    }

    /// `amber` has this Service `web` with two pods, which are not exported yet.
    pub async fn new(web: ClusterIp) -> Self {
        let members = Members::start().await;
        let sandbox = members.fleet.sandbox.clone().cluster("amber").await;
        let amber = sandbox.kubernetes("amber");
        join(&amber, "amber", &["shop"]);
        let arns = ["blue", "green", "amber"].map(|cluster| sandbox.cluster_arn(cluster));
        members.fleet.cloud_map.watch_over(OWNER, &arns);
        exported(&amber, web, &["10.2.0.1", "10.2.0.2"]);
        let aws = AwsController {
            kubernetes: amber.clone(),
            cloud_map: members.fleet.cloud_map.clone(),
            cluster: "amber".to_owned(),
            clusterset: CLUSTERSET.to_owned(),
        };
        let function = members.serving("blue,green,amber", &[]).await;
        Self { members, amber, aws, function }
    }

    /// What the documented `kubectl patch` does.
    fn take_finalizers_off(&self) {
        for mut export in self.amber.objects("serviceexports", "") {
            export["metadata"]["finalizers"] = Value::Null;
            self.amber.put(export);
        }
    }

    /// What the documented `kubectl delete` does; garbage collection takes their Services.
    fn delete_imports_of_aws(&self) {
        for name in ["web", "api"] {
            self.amber.delete("serviceimports", "shop", name);
        }
    }

    /// A full sync of all three in which nothing fails, and one more that writes nothing.
    async fn converge(&self, function: &Function) -> Report {
        let report = synced(function).await;
        self.forget();
        let again = sync(function).await;
        self.assert_nothing_written(&again);
        report
    }

    fn forget(&self) {
        self.members.forget();
        self.amber.forget_requests();
    }

    /// Nothing was written since then, to Cloud Map or to one of the three.
    fn assert_nothing_written(&self, report: &Report) {
        self.members.assert_nothing_written(&in_full(report));
        assert_eq!(writes(&self.amber), [""; 0], "{}", in_full(report));
    }
}

fn obstacle(report: &Report) -> (String, String) {
    let obstacle = obstacle_lines(report, "amber")[0];
    (obstacle.code.to_string(), obstacle.text.clone())
}

/// Its controller is at zero, and what it registered stands under the cluster's id.
#[tokio::test]
async fn cluster_with_instances_of_awss_controller_and_no_record_is_left_alone() {
    let moving = Moving::start().await;
    let Moving { members, amber, .. } = &moving;
    moving.take_finalizers_off();
    moving.delete_imports_of_aws();
    exported(amber, service("cart"), &["10.2.0.7"]);

    for payload in [json!({ "action": "sync" }), sync_of("amber", "cart")] {
        moving.forget();

        let report = report(&moving.function, &payload).await;

        moving.assert_nothing_written(&report);
        if payload["service"].is_null() {
            assert_eq!(obstacle(&report).0, "AnotherController", "{}", in_full(&report));
        }
    }
    assert_eq!(imported(&members.green, "web"), "amber 10.2.0.1:8080 10.2.0.2:8080");
}

#[tokio::test]
async fn nothing_is_imported_into_a_cluster_whose_exports_belong_to_awss_controller() {
    let moving = Moving::new(web()).await;
    let Moving { members, amber, aws, function } = &moving;
    aws.export();
    exported_at(&members.blue, service("api"), &["10.0.0.1"], LATER);

    let synced = sync(function).await;
    report(function, &sync_of("blue", "api")).await;

    assert_eq!(obstacle(&synced).0, "AnotherController", "{}", in_full(&synced));
    assert_eq!(amber.objects("serviceimports", ""), [Value::Null; 0]);
    assert_eq!(imported(&members.green, "api"), "blue 10.0.0.1:8080");
}

/// The documented move, with what callers see at each step.
#[tokio::test]
async fn cluster_moves_over_under_a_new_id_and_no_other_cluster_loses_it() {
    let moving = Moving::start().await;
    let Moving { members, amber, .. } = &moving;
    let others = [&members.blue, &members.green];
    for cluster in others {
        cluster.keep_ready("shop", "web");
    }
    let ip = |cluster: &KubernetesServer| {
        cluster.service_import("shop", "web").expect("an import")["spec"]["ips"].clone()
    };
    let ip_of_green = ip(&members.green);
    let ip_of_aws = ip(amber);

    // Its controller is at zero. The cluster has a new id, and its exports stand beside those of the controller.
    moving.take_finalizers_off();
    amber.cluster_property(CLUSTER_ID, "lime");
    let clusters = json!(["blue", "green", { "cluster": "amber", "multiCluster": "export" }]);
    let exporting = members.serving(&clusters.to_string(), &[]).await;
    moving.converge(&exporting).await;
    let twice = ["10.2.0.1", "10.2.0.1", "10.2.0.2", "10.2.0.2"];
    assert_eq!(members.fleet.addresses("shop", "web"), twice);
    let both = "amber 10.2.0.1:8080 10.2.0.2:8080, lime 10.2.0.1:8080 10.2.0.2:8080";
    assert_eq!(imported(&members.green, "web"), both);
    assert_eq!(ip(amber), ip_of_aws);

    // New pods are exported again.
    pods(amber, "web", &["10.2.0.2", "10.2.0.3"]);
    moving.converge(&exporting).await;
    let both = "amber 10.2.0.1:8080 10.2.0.2:8080, lime 10.2.0.2:8080 10.2.0.3:8080";
    assert_eq!(imported(&members.green, "web"), both);

    // The instances of the controller are deregistered.
    let place = members.place("web");
    for (id, attributes) in members.fleet.instances("shop", "web") {
        if attributes["CLUSTER_ID"] == "amber" {
            members.fleet.cloud_map.withdraw(&place, &id);
        }
    }
    moving.converge(&exporting).await;
    assert_eq!(members.fleet.addresses("shop", "web"), ["10.2.0.2", "10.2.0.3"]);
    assert_eq!(imported(&members.green, "web"), "lime 10.2.0.2:8080 10.2.0.3:8080");
    assert_eq!(ip(amber), ip_of_aws, "clients in the cluster itself have the old endpoints");

    // Its imports are deleted, and the cluster imports. Until the sync its own clients find no name.
    moving.delete_imports_of_aws();
    assert_eq!(amber.service_import("shop", "web"), None);
    moving.converge(&moving.function).await;
    let lime = "lime 10.2.0.2:8080 10.2.0.3:8080";
    for cluster in [&members.blue, &members.green, amber] {
        assert_eq!(imported(cluster, "web"), lime);
        assert_eq!(imported(cluster, "api"), "blue 10.0.0.1:8080");
    }
    assert_ne!(ip(amber), ip_of_aws);
    assert_eq!(ip(&members.green), ip_of_green);
    assert_eq!(others.map(KubernetesServer::gaps).concat(), [""; 0]);
}
