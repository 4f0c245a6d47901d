//! What the API servers have of an import, and how it follows its exports.

use serde_json::{Value, json};

use super::{NODE, Story, ZONE, dns, http};
use crate::real_cluster::RealCluster;
use crate::real_cluster::member::{EXPORTS, IMPORTS, SERVICES, SLICES};

/// The names of the derived Services, which the reference implementation gives them, too.
const WEB: &str = "derived-isrlchlhrq";

impl Story {
    pub(super) async fn virtual_ip_leads_to_the_endpoints_of_the_export(&self) {
        for (cluster, node) in [(&self.blue, json!(NODE)), (&self.green, Value::Null)] {
            let import = import(cluster, "web").await;
            assert_eq!(import["spec"]["type"], "ClusterSetIP");
            assert_eq!(
                import["spec"]["ports"],
                json!([{"name": "http", "port": 80, "protocol": "TCP"}])
            );
            assert_eq!(import["metadata"]["labels"]["team"], "checkout");
            assert_eq!(import["metadata"]["annotations"]["page"], "1");
            assert_ready(&import, &["blue"]);
            let derived = cluster.object(SERVICES, WEB).await.expect("the derived Service");
            assert_eq!(import["spec"]["ips"], derived["spec"]["clusterIPs"]);
            assert_eq!(derived["spec"]["selector"], Value::Null);
            assert_eq!(derived["spec"]["trafficDistribution"], "PreferClose");
            assert_eq!(owner(&derived), owner_of(&import));

            let slices = slices(cluster, "web").await;
            let [slice] = slices.as_slice() else { panic!("one slice: {slices:?}") };
            let labels = &slice["metadata"]["labels"];
            assert_eq!(labels["endpointslice.kubernetes.io/managed-by"], "cloud-map-sync");
            assert_eq!(labels["multicluster.kubernetes.io/source-cluster"], "blue");
            assert_eq!(labels["kubernetes.io/service-name"], WEB);
            assert_eq!(owner(slice), owner_of(&import));
            let endpoint = &slice["endpoints"][0];
            assert_eq!(endpoint["zone"], ZONE);
            assert_eq!(endpoint["hints"]["forZones"], json!([{"name": ZONE}]));
            assert_eq!(endpoint["nodeName"], node);
            assert_eq!(
                imported(cluster, "web").await,
                ["blue 10.0.1.1:8080", "blue 10.0.1.2:8080"]
            );
        }
        for (kind, expected) in
            [("Valid", "True Valid"), ("Ready", "True Exported"), ("Conflict", "False NoConflicts")]
        {
            assert_eq!(self.blue.condition("web", kind).await, expected);
        }
    }

    pub(super) async fn export_of_both_families_has_an_ip_of_each_that_the_importer_has(&self) {
        // TCP and UDP.
        let of_both =
            ["blue 10.0.2.1:53", "blue 10.0.2.1:53", "blue fd00::2:1:53", "blue fd00::2:1:53"];
        for (cluster, count, expected) in
            [(&self.blue, 2, &of_both[..]), (&self.green, 1, &of_both[..2])]
        {
            let import = import(cluster, "both").await;
            assert_ready(&import, &["blue"]);
            assert_eq!(import["spec"]["ips"].as_array().map(Vec::len), Some(count), "{import:#}");
            assert_eq!(import["spec"]["sessionAffinity"], "ClientIP");
            assert_eq!(imported(cluster, "both").await, expected);
        }
    }

    pub(super) async fn export_of_a_family_that_the_importer_lacks_has_no_ip_there(&self) {
        assert_ready(&import(&self.blue, "six").await, &["blue"]);
        let import = import(&self.green, "six").await;
        assert_eq!(import["spec"]["ips"], Value::Null);
        assert_eq!(
            import["status"]["conditions"][0]["reason"], "IPFamilyNotSupported",
            "{import:#}"
        );
    }

    pub(super) async fn headless_export_has_endpoints_and_no_ip(&self) {
        for cluster in self.members() {
            let import = import(cluster, "db").await;
            assert_eq!(import["spec"]["type"], "Headless");
            assert_eq!(import["spec"]["ips"], Value::Null);
            assert_ready(&import, &["blue"]);
            assert_eq!(imported(cluster, "db").await, ["blue 10.0.4.1:8080"]);
            let slice = &slices(cluster, "db").await[0];
            assert_eq!(slice["metadata"]["labels"]["kubernetes.io/service-name"], Value::Null);
            assert_eq!(slice["endpoints"][0]["hostname"], "db-0");
        }
    }

    pub(super) async fn headless_export_without_ports_has_its_endpoints(&self) {
        for cluster in self.members() {
            assert_ready(&import(cluster, "bare").await, &["blue"]);
            let slice = &slices(cluster, "bare").await[0];
            assert_eq!(slice["endpoints"][0]["addresses"], json!(["10.0.5.1"]));
            assert_eq!(slice["ports"], Value::Null);
        }
    }

    pub(super) fn instances_and_records_are_in_cloud_map(&self) {
        let web = self.instances("web");
        assert_eq!(web.keys().collect::<Vec<_>>(), ["10.0.1.1", "10.0.1.2"]);
        let expected = [
            ("AWS_INSTANCE_PORT", "8080"),
            ("AVAILABILITY_ZONE", ZONE),
            ("CLUSTERSET_ID", "shop-set"),
            ("CLUSTER_ID", "blue"),
            ("ENDPOINT_PORT_NAME", "http"),
            ("NODENAME", NODE),
            ("SERVICE_PORT", "80"),
            ("SERVICE_TYPE", "ClusterSetIP"),
            ("cloud-map-sync/exporter", "cloud-map-sync"),
        ];
        for (key, value) in expected {
            assert_eq!(web["10.0.1.1"].get(key).map(String::as_str), Some(value), "{key}");
        }
        assert_eq!(self.instances("both").keys().collect::<Vec<_>>(), ["10.0.2.1", "fd00::2:1"]);
        let records = |cluster| self.world.instances("clusterset.shop-set", cluster).len();
        // Its own, and one of each export.
        assert_eq!((records("blue"), records("green")), (7, 1));
    }

    pub(super) async fn pod_that_is_not_ready_leaves_the_imports_and_one_that_comes_is_added(
        &mut self,
    ) {
        self.blue.readiness("web-a", false).await;
        self.blue.wait_for_ready("web", &["10.0.1.2"]).await;
        self.sync_service("blue", "web").await;
        for cluster in self.members() {
            assert_eq!(imported(cluster, "web").await, ["blue 10.0.1.2:8080"]);
        }
        assert_eq!(self.instances("web").len(), 1);

        self.blue.readiness("web-a", true).await;
        self.blue.pod("web", "web-c", &["10.0.1.3"]).await;
        self.blue.wait_for_ready("web", &["10.0.1.1", "10.0.1.2", "10.0.1.3"]).await;
        self.sync_service("blue", "web").await;
        let all = ["blue 10.0.1.1:8080", "blue 10.0.1.2:8080", "blue 10.0.1.3:8080"];
        for cluster in self.members() {
            assert_eq!(imported(cluster, "web").await, all);
        }
        self.assert_settled().await;
    }

    pub(super) async fn exports_in_two_clusters_are_one_import_and_their_conflict_is_reported_on_both(
        &mut self,
    ) {
        let web = json!({"ports": [http()], "sessionAffinity": "ClientIP"});
        self.green.service("web", &json!({}), &web).await;
        self.green.slice("web", &["10.1.0.1"]).await;
        self.green.export("web", &json!({})).await;
        self.converge().await;

        for cluster in self.members() {
            let conflict = cluster.condition("web", "Conflict").await;
            assert!(conflict.starts_with("True SessionAffinityConflict,"), "{conflict}");
            let import = import(cluster, "web").await;
            assert_eq!(import["spec"]["sessionAffinity"], "None");
            assert_ready(&import, &["blue", "green"]);
            let imported = imported(cluster, "web").await;
            assert_eq!(imported.len(), 4, "{imported:?}");
            assert_eq!(imported[3], "green 10.1.0.1:8080");
        }

        self.green.end_export("web").await;
        self.converge().await;
        for cluster in self.members() {
            assert_eq!(imported(cluster, "web").await.len(), 3);
        }
        assert_eq!(self.blue.condition("web", "Conflict").await, "False NoConflicts");
    }

    /// A Service may leave out the name of its only port.
    pub(super) async fn port_without_a_name_has_one_beside_that_of_another_cluster(&mut self) {
        let of_import = async |cluster: &RealCluster| {
            let spec = import(cluster, "mail").await["spec"].clone();
            let ports = spec["ports"].as_array().cloned().unwrap_or_default();
            let names: Vec<Value> = ports.iter().map(|port| port["name"].clone()).collect();
            (names, spec["ips"].clone())
        };
        let (names, ips) = of_import(&self.green).await;
        assert_eq!(names, [Value::Null]);

        let submission = json!({"name": "submission", "port": 587});
        let green = &self.green;
        green.service("mail", &json!({}), &json!({"ports": [submission]})).await;
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": "mail-abcde", "labels": {"kubernetes.io/service-name": "mail"}},
            "addressType": "IPv4", "endpoints": [{"addresses": ["10.1.0.2"]}],
            "ports": [submission],
        });
        green.create_object(SLICES, slice).await;
        green.export("mail", &json!({})).await;
        self.converge().await;
        for cluster in self.members() {
            assert_eq!(of_import(cluster).await.0, ["tcp-25", "submission"]);
            assert_eq!(imported(cluster, "mail").await, ["blue 10.0.6.1:25", "green 10.1.0.2:587"]);
            assert_eq!(cluster.condition("mail", "Conflict").await, "True PortConflict");
        }

        self.green.end_export("mail").await;
        self.converge().await;
        assert_eq!(of_import(&self.green).await, ([Value::Null].to_vec(), ips));
        assert_eq!(imported(&self.green, "mail").await, ["blue 10.0.6.1:25"]);
    }

    /// One port is renamed and one is added, which an API server takes in no order but one.
    pub(super) async fn ports_change_and_the_virtual_ip_stays(&mut self) {
        let before = import(&self.green, "web").await;
        let metrics = json!({"name": "metrics", "port": 9090, "targetPort": 9090});
        let www = json!({"name": "www", "port": 80, "targetPort": 8080});
        let ports = json!({"spec": {"ports": [www, metrics]}});
        self.blue.change_object(SERVICES, "web", ports).await;
        let followed = async || {
            let of_service = self.blue.objects(SLICES).await.into_iter();
            let mut of_service = of_service
                .filter(|it| it["metadata"]["labels"]["kubernetes.io/service-name"] == "web");
            of_service.all(|it| it["ports"].as_array().is_some_and(|ports| ports.len() == 2))
        };
        self.blue.control_plane.wait_until("for the new ports", followed).await;
        self.converge().await;

        for cluster in self.members() {
            let import = import(cluster, "web").await;
            let derived = cluster.object(SERVICES, WEB).await.expect("the derived Service");
            for object in [&import, &derived] {
                let ports = object["spec"]["ports"].as_array().into_iter().flatten();
                let names: Vec<&Value> = ports.map(|port| &port["name"]).collect();
                assert_eq!(names, ["www", "metrics"], "{object:#}");
            }
            assert_eq!(imported(cluster, "web").await.len(), 6);
        }
        assert_eq!(import(&self.green, "web").await["spec"]["ips"], before["spec"]["ips"]);
    }

    pub(super) async fn second_family_comes_and_goes_with_the_properties_of_the_service(&mut self) {
        let before = import(&self.blue, "web").await;
        let dual = json!({"spec": {
            "ipFamilyPolicy": "RequireDualStack", "trafficDistribution": null,
            "internalTrafficPolicy": "Local", "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
        }});
        self.blue.change_object(SERVICES, "web", dual).await;
        let labels = json!({"spec": {"exportedLabels": {"team": null, "tier": "front"}}});
        self.blue.change_object(EXPORTS, "web", labels).await;
        self.converge().await;
        for (cluster, families) in [(&self.blue, 2), (&self.green, 1)] {
            let import = import(cluster, "web").await;
            let derived = cluster.object(SERVICES, WEB).await.expect("the derived Service");
            assert_eq!(import["spec"]["ips"], derived["spec"]["clusterIPs"]);
            assert_eq!(import["spec"]["ips"].as_array().map(Vec::len), Some(families));
            for spec in [&import["spec"], &derived["spec"]] {
                assert_eq!(spec["internalTrafficPolicy"], "Local");
                assert_eq!(spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"], 60);
                assert_eq!(spec["trafficDistribution"], Value::Null);
            }
            let labels = &import["metadata"]["labels"];
            assert_eq!((&labels["team"], &labels["tier"]), (&Value::Null, &json!("front")));
            assert_eq!(slices(cluster, "web").await[0]["endpoints"][0]["hints"], Value::Null);
        }

        let single = json!({"spec": {
            "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster",
            "sessionAffinity": "None", "sessionAffinityConfig": null,
        }});
        self.blue.change_object(SERVICES, "web", single).await;
        self.converge().await;
        let after = import(&self.blue, "web").await;
        assert_eq!(after["spec"]["ips"], before["spec"]["ips"]);
        assert_eq!(after["spec"]["sessionAffinity"], "None");
        assert_eq!(after["spec"]["internalTrafficPolicy"], "Cluster");
    }

    /// The type of a Service changes only with a new Service under its name; the export stays.
    pub(super) async fn headless_service_gets_an_ip_and_another_loses_its_own(&mut self) {
        let blue = &self.blue;
        for name in ["db", "both"] {
            blue.delete_service(name).await;
        }
        blue.service("db", &json!({}), &json!({})).await;
        let both = json!({"clusterIP": "None", "ports": dns()});
        blue.service("both", &json!({}), &both).await;
        blue.wait_for_ready("db", &["10.0.4.1"]).await;
        blue.wait_for_ready("both", &["10.0.2.1"]).await;
        self.converge().await;

        for cluster in self.members() {
            let db = import(cluster, "db").await;
            assert_eq!(db["spec"]["type"], "ClusterSetIP");
            assert_eq!(db["spec"]["ips"].as_array().map(Vec::len), Some(1), "{db:#}");
            assert_eq!(imported(cluster, "db").await, ["blue 10.0.4.1:8080"]);
            let both = import(cluster, "both").await;
            assert_eq!(both["spec"]["type"], "Headless");
            assert_eq!(both["spec"]["ips"], Value::Null);
            assert_eq!(imported(cluster, "both").await, ["blue 10.0.2.1:53", "blue 10.0.2.1:53"]);
            let derived: Vec<Value> = cluster.objects(SERVICES).await;
            let derived = derived.iter().filter(|it| !it["metadata"]["ownerReferences"].is_null());
            let owners = derived.map(|it| it["metadata"]["ownerReferences"][0]["name"].clone());
            let owners: Vec<Value> = owners.collect();
            assert!(
                owners.contains(&json!("db")) && !owners.contains(&json!("both")),
                "{owners:?}"
            );
        }
    }

    pub(super) async fn import_that_somebody_deletes_is_made_again(&mut self) {
        self.blue.delete_object(IMPORTS, "web").await;
        wait_until_nothing_is_left(&self.blue, "web", WEB).await;
        self.converge().await;
        assert_ready(&import(&self.blue, "web").await, &["blue"]);
        assert_eq!(imported(&self.blue, "web").await.len(), 6);
    }
}

/// Waits until the garbage collector has removed what an import had.
pub(super) async fn wait_until_nothing_is_left(cluster: &RealCluster, name: &str, derived: &str) {
    let collected = async || {
        slices(cluster, name).await.is_empty() && cluster.object(SERVICES, derived).await.is_none()
    };
    cluster.control_plane.wait_until("for the garbage collector", collected).await;
}

pub(super) async fn import(cluster: &RealCluster, name: &str) -> Value {
    cluster.object(IMPORTS, name).await.expect("an import")
}

/// The slices of an import.
pub(super) async fn slices(cluster: &RealCluster, name: &str) -> Vec<Value> {
    let label = "multicluster.kubernetes.io/service-name";
    let all = cluster.objects(SLICES).await.into_iter();
    all.filter(|slice| slice["metadata"]["labels"][label] == name).collect()
}

/// The ready endpoints of an import: source cluster, address and port, sorted.
async fn imported(cluster: &RealCluster, name: &str) -> Vec<String> {
    let mut all = Vec::new();
    for slice in slices(cluster, name).await {
        let source = &slice["metadata"]["labels"]["multicluster.kubernetes.io/source-cluster"];
        for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
            assert_eq!(
                endpoint["conditions"],
                json!({"ready": true, "serving": true, "terminating": false})
            );
            for port in slice["ports"].as_array().into_iter().flatten() {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let address = text(&endpoint["addresses"][0]);
                all.push(format!("{} {address}:{}", text(source), port["port"]));
            }
        }
    }
    all.sort();
    all
}

pub(super) fn assert_ready(import: &Value, clusters: &[&str]) {
    let status = &import["status"];
    let clusters: Vec<Value> = clusters.iter().map(|id| json!({"cluster": id})).collect();
    assert_eq!(status["clusters"], json!(clusters), "{import:#}");
    assert_eq!(status["endpointSliceObjects"], "Present", "{import:#}");
    let ready = &status["conditions"][0];
    assert_eq!((&ready["type"], &ready["status"]), (&json!("Ready"), &json!("True")), "{import:#}");
}

/// The kind and uid of the only owner.
fn owner(object: &Value) -> (Value, Value) {
    let owners = object["metadata"]["ownerReferences"].as_array().expect("owners");
    let [owner] = owners.as_slice() else { panic!("one owner: {owners:?}") };
    (owner["kind"].clone(), owner["uid"].clone())
}

fn owner_of(import: &Value) -> (Value, Value) {
    (json!("ServiceImport"), import["metadata"]["uid"].clone())
}
