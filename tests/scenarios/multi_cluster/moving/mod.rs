//! A cluster `amber` that AWS's controller serves, beside `blue` and `green`: it moves to the function (`over`), is left
//! alone until then (`apart`), and moves `back`.

mod apart;
mod back;
mod over;

use cloud_map_sync::function::Function;
use cloud_map_sync::report::Report;
use serde_json::{Value, json};

use super::{CLUSTERSET, Members, exported, in_full, join, service, web, writes};
use crate::fleet::OWNER;
use crate::run::{report, sync};
use testbed::aws_controller::AwsController;
use testbed::kubernetes::{ClusterIp, KubernetesServer};

const CREATED: &str = "2026-01-01T00:00:00Z";
const LATER: &str = "2026-02-01T00:00:00Z";

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
        Box::pin(Self::in_step()).await
    }

    async fn in_step() -> Self {
        let moving = Self::new(web()).await;
        let api = service("api");
        exported(&moving.members.blue, api, &["10.0.0.1"], LATER);
        moving.members.converge().await;
        moving.aws.run();
        moving.members.converge().await;
        moving
    }

    /// `amber` has this Service `web` with two pods, which nobody has exported yet.
    pub async fn new(web: ClusterIp) -> Self {
        let members = Members::start().await;
        let sandbox = members.fleet.sandbox.clone().cluster("amber").await;
        let amber = sandbox.kubernetes("amber");
        join(&amber, "amber");
        let arns = ["blue", "green", "amber"].map(|cluster| sandbox.cluster_arn(cluster));
        members.fleet.cloud_map.watch_over(OWNER, &arns.each_ref().map(String::as_str));
        exported(&amber, web, &["10.2.0.1", "10.2.0.2"], CREATED);
        let aws = AwsController {
            kubernetes: amber.clone(),
            cloud_map: members.fleet.cloud_map.clone(),
            cluster: "amber".to_owned(),
            clusterset: CLUSTERSET.to_owned(),
        };
        let function = members.serving("blue,green,amber", &[]).await;
        Self { members, amber, aws, function }
    }

    /// The Cloud Map service of a name in `shop`.
    fn place(&self, name: &str) -> String {
        self.members.fleet.cloud_map.find_service("shop", name).expect("a Cloud Map service")
    }

    /// Lets the function take all instances of a name that AWS's controller registered for amber.
    pub fn allow_adoption(&self, name: &str) {
        let place = self.place(name);
        let all = self.members.fleet.cloud_map.instances(&place).into_iter();
        let of_amber = all.filter(|(id, it)| it["CLUSTER_ID"] == "amber" && id.contains('_'));
        let ids: Vec<String> = of_amber.map(|(id, _)| id).collect();
        let ids: Vec<(&str, &str)> = ids.iter().map(|id| (place.as_str(), id.as_str())).collect();
        self.members.fleet.cloud_map.allow_adoption(&ids);
    }

    /// What the printed `kubectl patch` does.
    pub fn take_finalizers_off(&self) {
        for mut export in self.amber.objects("serviceexports", "") {
            export["metadata"]["finalizers"] = Value::Null;
            self.amber.put(export);
        }
    }

    pub async fn adopt(&self) -> Report {
        let payload = json!({ "action": "adopt", "cluster": "amber", "confirm": true });
        report(&self.function, &payload).await
    }

    /// A full sync of all three in which nothing fails, and one more that writes nothing.
    pub async fn converge(&self, function: &Function) -> Report {
        let report = sync(function).await;
        assert!(report.ok, "{}", in_full(&report));
        self.members.fleet.cloud_map.forget_calls();
        let all = [&self.members.blue, &self.members.green, &self.amber];
        all.into_iter().for_each(KubernetesServer::forget_requests);
        let again = sync(function).await;
        let none: [Vec<String>; 3] = Default::default();
        assert_eq!(all.map(writes), none, "{}", in_full(&again));
        assert_eq!(self.members.fleet.cloud_map.writes(), 0, "{}", in_full(&again));
        report
    }

    /// No import of these clusters had a gap.
    fn assert_no_gap(&self) {
        for cluster in [&self.members.blue, &self.members.green, &self.amber] {
            assert_eq!(cluster.gaps(), [""; 0]);
        }
    }

    fn keep_ready(&self) {
        for cluster in [&self.members.blue, &self.members.green, &self.amber] {
            cluster.keep_ready("shop", "web");
            cluster.keep_ready("shop", "api");
        }
        self.members.fleet.cloud_map.keep_ready("shop", "web", "amber");
        self.members.fleet.cloud_map.keep_ready("shop", "api", "blue");
    }
}

/// The part of a cluster in its clusterset.
fn of<'a>(report: &'a Report, cluster: &str) -> &'a cloud_map_sync::report::ClusterReport {
    report.clusters.iter().find(|it| it.cluster.ends_with(cluster)).expect("a report")
}

fn obstacle(report: &Report) -> (String, String) {
    let part = of(report, "amber").multi_cluster.as_ref().expect("a part in the clusterset");
    let obstacle = part.obstacles.first().expect("an obstacle");
    (obstacle.reason.to_string(), obstacle.detail.clone())
}
