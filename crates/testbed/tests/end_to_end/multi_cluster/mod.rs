//! Services across clusters on real API servers: `blue` with its controllers and addresses of both families, `green`
//! without controllers and with IPv4 alone. What leaves an import is removed by the garbage collector in the one, and by
//! the next sync in the other. One story, since control planes take seconds to start; the admission policy is in force
//! from the beginning (`admission`), and a CoreDNS of each answers for what is imported (`dns`).

mod admission;
mod dns;
mod imports;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::lambda::Lambda;
use crate::real_cluster::{RealCluster, ZONE, headless};
use crate::world::{World, blue};
use testbed::kubernetes::ClusterIdentity;

const CLUSTERSET: &str = "shop-set";
/// The node of the pods, which endpoints of the own cluster name.
const NODE: &str = "ip-10-0-0-10.eu-central-1.compute.internal";

#[tokio::test]
async fn export_of_a_real_cluster_is_an_import_in_every_member_until_it_ends() {
    let Some(mut story) = Story::start().await else { return };

    story.services_come().await;
    story.plan_writes_nothing().await;
    story.converge().await;
    story.virtual_ip_leads_to_the_endpoints_of_the_export().await;
    story.export_of_both_families_has_an_ip_of_each_that_the_importer_has().await;
    story.export_of_a_family_that_the_importer_lacks_has_no_ip_there().await;
    story.headless_export_has_endpoints_and_no_ip().await;
    story.headless_export_without_ports_has_its_endpoints().await;
    story.instances_and_records_are_in_cloud_map();
    story.names_in_clusterset_local_lead_to_the_imports().await;

    story.pod_that_is_not_ready_leaves_the_imports_and_one_that_comes_is_added().await;
    story.exports_in_two_clusters_are_one_import_and_their_conflict_is_reported_on_both().await;
    story.port_without_a_name_has_one_beside_that_of_another_cluster().await;
    story.ports_change_and_the_virtual_ip_stays().await;
    story.second_family_comes_and_goes_with_the_properties_of_the_service().await;
    story.headless_service_gets_an_ip_and_another_loses_its_own().await;
    story.function_is_kept_off_the_objects_of_others().await;
    story.label_alone_admits_no_service_or_slice().await;
    story.excluded_namespace_takes_nothing_and_lets_go().await;
    story.import_that_somebody_deletes_is_made_again().await;

    story.export_without_its_service_is_invalid_and_has_no_import().await;
    story.ended_export_leaves_nothing_behind().await;
    story.either_role_is_enough_for_its_own_part().await;
    story.world.assert_that_the_ecs_task_is_unchanged();
}

struct Story {
    world: World,
    blue: RealCluster,
    green: RealCluster,
    lambda: Lambda,
}

impl Story {
    async fn start() -> Option<Self> {
        let world = World::start().await;
        let green = ClusterIdentity::own("green");
        world.cloud_map.watch_over("cloud-map-sync", &[&blue().arn(), &green.arn()]);
        let (of_blue, of_green) = tokio::join!(
            RealCluster::start_member(&world, blue(), true),
            RealCluster::start_member(&world, green, false),
        );
        let of_blue = of_blue?;
        let of_green = of_green?;
        tokio::join!(of_blue.join("blue", CLUSTERSET), of_green.join("green", CLUSTERSET));
        let lambda = lambda(&world, "blue,green").await;
        Some(Self { world, blue: of_blue, green: of_green, lambda })
    }

    /// `web` near its clients, `both` with addresses of both families and two ports of one number, `six` with IPv6
    /// alone, as `mail` a port without a name; `db` and `bare` are headless, one with names for its pods and one without ports.
    async fn services_come(&self) {
        let blue = &self.blue;
        let none = json!({});
        let web = json!({"ports": [http()], "trafficDistribution": "PreferClose"});
        let both = json!({
            "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"],
            "sessionAffinity": "ClientIP", "ports": dns(),
        });
        let six = json!({
            "ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"], "ports": [{"port": 8080}],
        });
        let bare = json!({"clusterIP": "None", "ports": []});
        let mail = json!({"ports": [{"port": 25}]});
        blue.node().await;
        let services: [(&str, &Value, &[&str]); 5] = [
            ("web", &web, &["10.0.1.1"]),
            ("both", &both, &["10.0.2.1", "fd00::2:1"]),
            ("six", &six, &["fd00::3:1"]),
            ("bare", &bare, &["10.0.5.1"]),
            ("mail", &mail, &["10.0.6.1"]),
        ];
        for (name, spec, addresses) in services {
            blue.service(name, &none, spec).await;
            blue.pod(name, &format!("{name}-a"), addresses).await;
            blue.wait_for_ready(name, addresses).await;
        }
        blue.pod("web", "web-b", &["10.0.1.2"]).await;
        blue.service("db", &none, &headless()).await;
        blue.stateful_pod("db", "db-0", &["10.0.4.1"]).await;
        // A ServiceExport takes any text, and a label is not any text.
        let marks = json!({
            "exportedLabels": {"team": "checkout", "on call": "us", "who": "all of us"},
            "exportedAnnotations": {"page": "1", "the, page": "2"},
        });
        blue.export("web", &marks).await;
        for name in ["both", "six", "db", "bare", "mail"] {
            blue.export(name, &none).await;
        }
        blue.wait_for_ready("web", &["10.0.1.1", "10.0.1.2"]).await;
        blue.wait_for_ready("db", &["10.0.4.1"]).await;
    }

    async fn plan_writes_nothing(&mut self) {
        let before = self.state().await;
        self.invoke(json!({"action": "plan"})).await;
        assert_eq!(self.state().await, before);
        assert_eq!(self.world.cloud_map.writes(), 0);
    }

    fn members(&self) -> [&RealCluster; 2] {
        [&self.blue, &self.green]
    }

    /// A full sync in which nothing fails; the next one writes nothing, to Cloud Map or to a cluster.
    async fn converge(&mut self) {
        self.sync().await;
        self.assert_settled().await;
    }

    async fn assert_settled(&mut self) {
        let before = self.state().await;
        self.world.cloud_map.forget_calls();
        let report = self.sync().await;
        assert_eq!(self.state().await, before, "{report:#}");
        assert_eq!(self.world.cloud_map.writes(), 0, "{report:#}");
    }

    /// The versions of all objects, and what the function has asked for.
    async fn state(&self) -> [Vec<String>; 4] {
        let [blue, green] = self.members();
        [blue.versions().await, green.versions().await, blue.written(), green.written()]
    }

    async fn sync(&mut self) -> Value {
        self.invoke(json!({"action": "sync"})).await
    }

    /// A message about one Service.
    async fn sync_service(&mut self, cluster: &str, service: &str) {
        let message = json!({
            "action": "sync", "cluster": cluster, "namespace": "shop", "service": service,
        });
        self.invoke(message).await;
    }

    async fn invoke(&mut self, payload: Value) -> Value {
        let report = self.lambda.invoke(payload).await;
        let report = report.unwrap_or_else(|failure| panic!("{failure:?}"));
        assert_eq!(report["ok"], true, "{report:#}");
        report
    }

    /// The attributes of the instances of an export, by address.
    fn instances(&self, name: &str) -> BTreeMap<String, BTreeMap<String, String>> {
        let instances = self.world.instances("shop", name).into_values();
        instances
            .map(|it| {
                let address = it.get("AWS_INSTANCE_IPV4").or(it.get("AWS_INSTANCE_IPV6"));
                (address.cloned().unwrap_or_default(), it)
            })
            .collect()
    }
}

/// The function for these clusters, and without the rates of AWS, which lets it list namespaces every other second.
async fn lambda(world: &World, clusters: &str) -> Lambda {
    let settings = [
        ("CLUSTERS", clusters),
        ("MULTI_CLUSTER", "on"),
        ("CREATE_NAMESPACES", "true"),
        ("QUOTA_SHARE", "1000"),
    ];
    world.lambda(&settings).await
}

/// Port 80, which leads to 8080.
fn http() -> Value {
    json!({"name": "http", "port": 80, "targetPort": 8080})
}

/// Two ports of one number.
fn dns() -> Value {
    json!([{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53}])
}
