//! A cluster `amber` that AWS's controller serves, beside `blue` and `green`. Until an adoption, what is AWS's stays AWS's.
//! The adoption makes its instances and imports ours without a gap. On the way back AWS's controller runs again, and what
//! is left of ours is purged.

use cloud_map_sync::function::Function;
use cloud_map_sync::report::Report;
use serde_json::{Value, json};

use super::in_the_way::left_of;
use super::{
    CLUSTERSET, LATER, Members, condition, exported, exported_at, held_back, imported,
    imported_from, in_full, join, part, pods, service, web, writes,
};
use crate::fleet::OWNER;
use crate::run::{purge, report, said_of, sync, sync_of, synced};
use testbed::aws_controller::{AwsController, FINALIZER};
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

    /// The same, of which the function may adopt `web`.
    async fn to_adopt() -> Self {
        let moving = Self::start().await;
        moving.keep_ready();
        moving.take_finalizers_off();
        moving.allow_adoption("web");
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

    /// Lets the function take all instances of a name that AWS's controller registered for amber.
    pub fn allow_adoption(&self, name: &str) {
        let service = self.members.place(name);
        self.members.fleet.allow_adoption_in(&[service], |id, attributes| {
            attributes["CLUSTER_ID"] == "amber" && id.contains('_')
        });
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

    fn clusters(&self) -> [&KubernetesServer; 3] {
        [&self.members.blue, &self.members.green, &self.amber]
    }

    /// No import of these clusters had a gap.
    fn assert_no_gap(&self) {
        assert_eq!(self.clusters().map(KubernetesServer::gaps).concat(), [""; 0]);
    }

    fn keep_ready(&self) {
        for cluster in self.clusters() {
            cluster.keep_ready("shop", "web");
            cluster.keep_ready("shop", "api");
        }
        self.members.fleet.cloud_map.keep_ready("shop", "web", "amber");
        self.members.fleet.cloud_map.keep_ready("shop", "api", "blue");
    }
}

fn obstacle(report: &Report) -> (String, String) {
    let obstacle = part(report, "amber").obstacles.first().expect("an obstacle");
    (obstacle.reason.to_string(), obstacle.detail.clone())
}

#[tokio::test]
async fn export_without_adoption_is_held_back_and_served_clusters_import_what_was_read() {
    let moving = Moving::start().await;
    let Moving { members, amber, .. } = &moving;
    moving.take_finalizers_off();
    for name in ["web", "api"] {
        amber.delete("serviceimports", "shop", name);
    }
    let before = members.fleet.instances("shop", "web");
    pods(amber, "web", &["10.2.0.2", "10.2.0.3"]);
    members.fleet.cloud_map.keep_ready("shop", "web", "amber");

    let report = moving.converge(&moving.function).await;

    let held = said_of(&report, "NotAdopted");
    let arn = members.fleet.sandbox.cluster_arn("amber");
    assert!(held.starts_with("2 instances under this name"), "{held}");
    assert!(held.ends_with(&format!("{{\"action\":\"adopt\",\"cluster\":\"{arn}\"}}")), "{held}");
    assert_eq!(condition(amber, "web", "Ready"), "False Failed");
    assert_eq!(members.fleet.instances("shop", "web"), before, "others see AWS's");
    assert_eq!(imported(&members.green, "web"), "amber 10.2.0.2:8080 10.2.0.3:8080");
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

/// Its ServiceExports, which would show the finalizer, are not read.
#[tokio::test]
async fn cluster_that_only_imports_is_not_adopted() {
    let moving = Moving::start().await;
    let clusters = json!([{ "cluster": "amber", "multiCluster": "import" }]).to_string();
    let function = moving.members.fleet.function_with(&[("CLUSTERS", &clusters)]).await;
    moving.amber.forget_requests();

    let payload = json!({ "action": "adopt", "cluster": "amber", "confirm": true });
    let report = report(&function, &payload).await;

    assert_eq!(obstacle(&report).0, "AnotherController", "{}", in_full(&report));
    assert_eq!(writes(&moving.amber), [""; 0]);
}

#[tokio::test]
async fn present_form_of_an_adoption_takes_no_export() {
    for payload in [
        json!({ "action": "adopt", "confirm": true }),
        json!({ "action": "adopt", "cluster": "amber", "namespace": "shop", "confirm": true }),
        json!({ "action": "adopt", "cluster": "amber", "owner": "old", "confirm": true }),
    ] {
        let moving = Moving::start().await;
        moving.take_finalizers_off();
        moving.forget();
        moving.assert_nothing_written(&report(&moving.function, &payload).await);
    }
}

#[tokio::test]
async fn adoption_is_refused_while_the_finalizers_are_there_and_names_the_command() {
    let moving = Moving::start().await;
    moving.forget();

    let report = moving.adopt().await;

    let (reason, detail) = obstacle(&report);
    assert_eq!(reason, "AnotherController", "{}", in_full(&report));
    let command = "kubectl patch serviceexports.multicluster.x-k8s.io web --namespace shop \
                   --type merge --patch '{\"metadata\":{\"finalizers\":null}}'";
    assert!(detail.contains(command), "{detail}");
    moving.assert_nothing_written(&report);
}

#[tokio::test]
async fn without_confirm_an_adoption_is_its_plan() {
    let moving = Moving::start().await;
    moving.take_finalizers_off();
    moving.forget();

    let payload = json!({ "action": "adopt", "cluster": "amber" });
    let planned = report(&moving.function, &payload).await;

    moving.assert_nothing_written(&planned);
    assert_eq!((planned.counts.adopted, planned.counts.registered), (2, 2), "{planned}");
    let text = planned.to_string();
    for line in [
        "adopt      tcp-10_2_0_1-8080  10.2.0.1 port 8080",
        "of the AWS MCS controller, which must not run any more",
        "~ import     shop/web  taken over from AWS's controller",
        "+ service    shop/derived-",
        "kubectl delete services --namespace shop imported-",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[tokio::test]
async fn cluster_moves_over_without_a_gap_and_is_an_ordinary_one_then() {
    let moving = Moving::to_adopt().await;
    let Moving { members, amber, .. } = &moving;
    let old = amber.service_import("shop", "web").expect("an import")["spec"]["ips"].clone();
    let untouched = amber.objects("services", "shop");

    let report = moving.adopt().await;

    assert!(report.ok, "{}", in_full(&report));
    let instances = members.fleet.instances("shop", "web");
    assert_eq!(instances.keys().collect::<Vec<_>>(), ["tcp-10_2_0_1-8080", "tcp-10_2_0_2-8080"]);
    for attributes in instances.values() {
        assert_eq!(attributes["cloud-map-sync/exporter"], OWNER);
        assert_eq!(attributes["K8S_CONTROLLER"], "aws-cloud-map-mcs-controller-for-k8s 0.3.1");
        assert_eq!(attributes.get("HOSTNAME"), None);
    }
    let import = amber.service_import("shop", "web").expect("an import");
    assert_eq!(import["metadata"]["labels"]["cloud-map-sync/owner"], OWNER);
    assert_ne!(import["spec"]["ips"], old);
    let services = amber.objects("services", "shop");
    for service in untouched {
        assert!(services.contains(&service), "{service:#}");
    }
    assert_eq!(imported(&members.green, "web"), "amber 10.2.0.1:8080 10.2.0.2:8080");

    moving.converge(&moving.function).await;
    assert_eq!(condition(amber, "web", "Ready"), "True Exported");
    pods(amber, "web", &["10.2.0.2", "10.2.0.3"]);
    moving.converge(&moving.function).await;
    assert_eq!(members.fleet.addresses("shop", "web"), ["10.2.0.2", "10.2.0.3"]);
    moving.assert_no_gap();
}

/// A marked instance without a record counts for no cluster, so an instance without its record stays AWS's.
#[tokio::test]
async fn record_that_is_refused_leaves_the_instances_to_a_second_adoption() {
    let moving = Moving::to_adopt().await;
    let fleet = &moving.members.fleet;
    let before = moving.amber.objects("serviceimports", "");
    fleet.cloud_map.deny("CreateService");

    let report = moving.adopt().await;

    assert_eq!((report.ok, report.counts.adopted), (false, 0), "{}", in_full(&report));
    assert_eq!(moving.amber.objects("serviceimports", ""), before, "imports come last");
    fleet.cloud_map.heal();
    let report = moving.adopt().await;
    assert_eq!((report.ok, report.counts.adopted), (true, 2), "{}", in_full(&report));
    moving.converge(&moving.function).await;
    moving.assert_no_gap();
}

#[tokio::test]
async fn cluster_moves_back_without_a_gap() {
    let moving = Moving::to_adopt().await;
    let Moving { members, amber, aws, .. } = &moving;
    assert!(moving.adopt().await.ok);
    moving.converge(&moving.function).await;
    members.fleet.cloud_map.allow_adoption(&[]);
    for service in amber.objects("services", "shop") {
        let name = service["metadata"]["name"].as_str().expect("a name");
        if name.starts_with("imported-") {
            amber.delete("services", "shop", name);
        }
    }
    // One more pod: this one is registered under an id of ours.
    pods(amber, "web", &["10.2.0.1", "10.2.0.2", "10.2.0.3"]);
    moving.converge(&moving.function).await;

    let clusters = json!(["blue", "green", { "cluster": "amber", "multiCluster": "off" }]);
    let function = members.serving(&clusters.to_string(), &[]).await;
    aws.run();
    moving.converge(&function).await;
    let report = purge(&function, "amber").await;

    assert!(report.ok, "{}", in_full(&report));
    moving.converge(&function).await;
    moving.assert_no_gap();
    assert!(members.fleet.instances("clusterset.shop-set", "amber").is_empty());
    let web = members.fleet.instances("shop", "web");
    let ids = ["tcp-10_2_0_1-8080", "tcp-10_2_0_2-8080", "tcp-10_2_0_3-8080"];
    assert_eq!(web.keys().collect::<Vec<_>>(), ids);
    assert!(web.values().all(|it| !it.contains_key("cloud-map-sync/exporter")));
    for name in ["web", "api"] {
        let import = amber.service_import("shop", name).expect("an import of AWS's controller");
        assert_eq!(import["metadata"]["labels"]["cloud-map-sync/owner"], Value::Null);
        let annotations = &import["metadata"]["annotations"];
        assert!(annotations["multicluster.k8s.aws/derived-service"].is_string());
    }
    let count = amber.objects("serviceimports", "shop").len();
    assert_eq!((left_of(amber, OWNER), count), (vec![], 2));
    let green = imported_from(&members.green, "web");
    assert_eq!(green["amber"].len(), 3, "{green:?}");
    let export = amber.service_export("shop", "web").expect("it stays");
    assert_eq!(export["metadata"]["finalizers"][0], FINALIZER);
}

#[tokio::test]
async fn purge_before_awss_controller_serves_the_imports_leaves_them() {
    fn held(report: &Report) -> Vec<&str> {
        assert_eq!(part(report, "amber").changes.len(), 0, "{}", in_full(report));
        held_back(report, "amber").into_iter().map(|(_, reason, _)| reason).collect()
    }
    let moving = Moving::to_adopt().await;
    let Moving { amber, aws, .. } = &moving;
    assert!(moving.adopt().await.ok);
    moving.converge(&moving.function).await;
    let imports = amber.objects("serviceimports", "");
    let purge = json!({ "action": "purge", "cluster": "amber" });
    let planned = report(&moving.function, &purge).await;
    assert_eq!(held(&planned), ["ServicesOfAws"; 2], "old Services are never deleted by us");
    aws.export();
    let planned = report(&moving.function, &purge).await;
    assert_eq!(held(&planned), ["NotTakenBack"; 2], "their IPs are still ours");
    assert_eq!(amber.objects("serviceimports", ""), imports);
}
