//! AWS's Cloud Map MCS controller of one cluster (github.com/aws/aws-cloud-map-mcs-controller-for-k8s, its last commit of
//! October 2024), as far as others can see it: exports are its serviceexport_controller.go, imports its
//! cloudmap_controller.go. It runs when a test says so, and repeats the faults that it is known for.
//!
//! Exports: finalizer, registrations, then the deregistration of everything under its cluster id that it does not want.
//!
//! Imports: a ServiceImport for each name with endpoints, one derived Service with slices for each cluster, then the IPs.
//! The type is that of the first endpoint and never corrected, and an endpoint in a slice is never changed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::cloud_map::CloudMap;
use super::kubernetes::KubernetesServer;
use super::sigv4::digest;

/// The finalizer of its ServiceExports.
pub const FINALIZER: &str = "multicluster.k8s.aws/service-export-finalizer";
/// The annotation of its ServiceImports.
pub const ANNOTATION: &str = "multicluster.k8s.aws/derived-service";
/// The label of its Services and slices that names the import.
pub const IMPORT: &str = "multicluster.kubernetes.io/service-name";
/// Their label that names the exporting cluster.
pub const SOURCE: &str = "multicluster.kubernetes.io/source-cluster";

/// The attributes of a ready endpoint of a cluster, as the controller registers it: port 80 leads to 8080.
pub fn endpoint<'a>(
    cluster: &'a str,
    clusterset: &'a str,
    address: &'a str,
) -> [(&'static str, &'a str); 14] {
    [
        ("AWS_INSTANCE_IPV4", address),
        ("AWS_INSTANCE_PORT", "8080"),
        ("CLUSTER_ID", cluster),
        ("CLUSTERSET_ID", clusterset),
        ("ENDPOINT_PORT_NAME", "http"),
        ("ENDPOINT_PROTOCOL", "TCP"),
        ("K8S_CONTROLLER", "aws-cloud-map-mcs-controller-for-k8s 0.3.1"),
        ("READY", "true"),
        ("SERVICE_EXPORT_CREATION_TIMESTAMP", "1767225600000"),
        ("SERVICE_PORT", "80"),
        ("SERVICE_PORT_NAME", "http"),
        ("SERVICE_PROTOCOL", "TCP"),
        ("SERVICE_TARGET_PORT", "8080"),
        ("SERVICE_TYPE", "ClusterSetIP"),
    ]
}

type Attributes = BTreeMap<String, String>;

/// The controller of one cluster.
pub struct AwsController {
    pub kubernetes: KubernetesServer,
    pub cloud_map: CloudMap,
    pub cluster: String,
    pub clusterset: String,
}

impl AwsController {
    /// One round of both of its loops.
    pub fn run(&self) {
        self.export();
        self.import();
    }

    /// The instances of a Cloud Map service that its reader takes: they belong to the clusterset and have all mandatory
    /// attributes.
    fn endpoints(&self, service: &str) -> Vec<(String, Attributes)> {
        const MANDATORY: [&str; 12] = [
            "AWS_INSTANCE_PORT",
            "CLUSTER_ID",
            "CLUSTERSET_ID",
            "ENDPOINT_PORT_NAME",
            "ENDPOINT_PROTOCOL",
            "READY",
            "SERVICE_EXPORT_CREATION_TIMESTAMP",
            "SERVICE_PORT",
            "SERVICE_PORT_NAME",
            "SERVICE_PROTOCOL",
            "SERVICE_TARGET_PORT",
            "SERVICE_TYPE",
        ];
        let is_read = |attributes: &Attributes| {
            let of_set = attributes.get("CLUSTERSET_ID") == Some(&self.clusterset);
            of_set && MANDATORY.iter().all(|key| attributes.contains_key(*key))
        };
        let all = self.cloud_map.instances(service).into_iter();
        all.filter(|(_, attributes)| is_read(attributes)).collect()
    }

    /// One round over all ServiceExports.
    pub fn export(&self) {
        for export in self.kubernetes.objects("serviceexports", "") {
            let text = |key: &str| export["metadata"][key].as_str().unwrap_or_default().to_owned();
            let namespace = text("namespace");
            let name = text("name");
            let Some(service) = self.kubernetes.service_object(&namespace, &name) else { continue };
            self.add_finalizer(export.clone());
            let registry = self.cloud_map.ensure_service(&namespace, &name);
            let wanted = self.wanted(&export, &service);
            let present = self.endpoints(&registry);
            for (id, attributes) in &wanted {
                let as_it_is =
                    present.iter().any(|endpoint| (&endpoint.0, &endpoint.1) == (id, attributes));
                if !as_it_is {
                    let pairs: Vec<(&str, &str)> = attributes
                        .iter()
                        .map(|(key, value)| (key.as_str(), value.as_str()))
                        .collect();
                    self.cloud_map.instance(&registry, id, &pairs);
                }
            }
            let is_own = |attributes: &Attributes| attributes["CLUSTER_ID"] == self.cluster;
            let is_wanted = |id: &String| wanted.iter().any(|(wanted, _)| wanted == id);
            for (id, _) in
                present.iter().filter(|(id, attributes)| is_own(attributes) && !is_wanted(id))
            {
                self.cloud_map.withdraw(&registry, id);
            }
        }
    }

    fn add_finalizer(&self, mut export: Value) {
        if export["metadata"]["finalizers"].is_null() {
            export["metadata"]["finalizers"] = json!([FINALIZER]);
            self.kubernetes.put(export);
        }
    }

    /// An instance for each address and port of an endpoint, ready or not. Its id has neither the cluster nor the port
    /// of the Service, so of two with one target the last remains.
    fn wanted(&self, export: &Value, service: &Value) -> Vec<(String, Attributes)> {
        let namespace = &service["metadata"]["namespace"];
        let name = &service["metadata"]["name"];
        let created = export["metadata"]["creationTimestamp"].as_str().expect("a time");
        let created: k8s_openapi::jiff::Timestamp = created.parse().expect("a time");
        let kind = if service["spec"]["clusterIP"] == "None" { "Headless" } else { "ClusterSetIP" };
        let slices = self.kubernetes.objects("endpointslices", namespace.as_str().unwrap_or(""));
        let of_service = slices
            .iter()
            .filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == *name);
        let mut wanted: Vec<(String, Attributes)> = Vec::new();
        for slice in of_service {
            for port in slice["ports"].as_array().into_iter().flatten() {
                let ports = service["spec"]["ports"].as_array().into_iter().flatten();
                let of = ports.clone().find(|candidate| candidate["name"] == port["name"]);
                let Some(of) = of.or(ports.clone().next()) else { continue };
                for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
                    let address = endpoint["addresses"][0].as_str().expect("an address");
                    let text = |value: &Value| match value {
                        Value::String(text) => text.clone(),
                        Value::Null => String::new(),
                        other => other.to_string(),
                    };
                    let protocol = text(&port["protocol"]);
                    let attributes = [
                        ("AWS_INSTANCE_IPV4", address.to_owned()),
                        ("AWS_INSTANCE_PORT", text(&port["port"])),
                        ("CLUSTER_ID", self.cluster.clone()),
                        ("CLUSTERSET_ID", self.clusterset.clone()),
                        ("ENDPOINT_PORT_NAME", text(&port["name"])),
                        ("ENDPOINT_PROTOCOL", protocol.clone()),
                        ("HOSTNAME", text(&endpoint["hostname"])),
                        ("K8S_CONTROLLER", "aws-cloud-map-mcs-controller-for-k8s 0.3.1".to_owned()),
                        ("NODENAME", text(&endpoint["nodeName"])),
                        ("READY", (endpoint["conditions"]["ready"] == true).to_string()),
                        ("SERVICE_EXPORT_CREATION_TIMESTAMP", created.as_millisecond().to_string()),
                        ("SERVICE_PORT", text(&of["port"])),
                        ("SERVICE_PORT_NAME", text(&of["name"])),
                        ("SERVICE_PROTOCOL", text(&of["protocol"])),
                        ("SERVICE_TARGET_PORT", text(&of["targetPort"])),
                        ("SERVICE_TYPE", kind.to_owned()),
                    ];
                    let written = address.replace(['.', ':'], "_");
                    let id = format!("{}-{written}-{}", protocol.to_lowercase(), port["port"]);
                    let attributes = attributes.map(|(key, value)| (key.to_owned(), value)).into();
                    wanted.retain(|(known, _)| *known != id);
                    wanted.push((id, attributes));
                }
            }
        }
        wanted
    }

    /// One round over all namespaces of the cluster.
    pub fn import(&self) {
        for namespace in self.kubernetes.objects("namespaces", "") {
            let namespace = namespace["metadata"]["name"].as_str().expect("a name").to_owned();
            let mut left: BTreeSet<String> = BTreeSet::new();
            for import in self.kubernetes.objects("serviceimports", &namespace) {
                left.insert(import["metadata"]["name"].as_str().expect("a name").to_owned());
            }
            let found = self.cloud_map.find_namespace(&namespace);
            let services = found.map(|id| self.cloud_map.services(&id)).unwrap_or_default();
            for service in services {
                let endpoints = self.endpoints(&service.id);
                if !endpoints.is_empty() {
                    self.import_one(&namespace, &service.name, &endpoints);
                    left.remove(&service.name);
                }
            }
            for name in left {
                self.kubernetes.delete("serviceimports", &namespace, &name);
            }
        }
    }

    fn import_one(&self, namespace: &str, name: &str, endpoints: &[(String, Attributes)]) {
        let mut by_cluster: BTreeMap<&str, Vec<&Attributes>> = BTreeMap::new();
        for (_, attributes) in endpoints {
            by_cluster.entry(&attributes["CLUSTER_ID"]).or_default().push(attributes);
        }
        let all: Vec<&Attributes> = endpoints.iter().map(|(_, attributes)| attributes).collect();
        let mut import = self
            .kubernetes
            .service_import(namespace, name)
            .unwrap_or_else(|| self.create(namespace, name, &by_cluster, &all));
        let mut ips = Vec::new();
        for (cluster, endpoints) in &by_cluster {
            let service = self.derived(&import, cluster, endpoints);
            self.fill(&service, name, cluster, endpoints);
            let ip = &service["spec"]["clusterIP"];
            ips.extend(Some(ip.clone()).filter(|ip| *ip != "None"));
        }
        for service in self.kubernetes.objects("services", namespace) {
            let labels = &service["metadata"]["labels"];
            let cluster = labels[SOURCE].as_str().unwrap_or_default();
            if labels[IMPORT] == name && !by_cluster.contains_key(cluster) {
                let name = service["metadata"]["name"].as_str().expect("a name");
                self.kubernetes.delete("services", namespace, name);
            }
        }
        // The API server takes two.
        if import["spec"]["ips"] != json!(ips) && ips.len() <= 2 {
            import["spec"]["ips"] = json!(ips);
            import["spec"]["ports"] = ports(&all, "");
            self.kubernetes.put(import);
        }
    }

    fn create(
        &self,
        namespace: &str,
        name: &str,
        by_cluster: &BTreeMap<&str, Vec<&Attributes>>,
        all: &[&Attributes],
    ) -> Value {
        let clusters = by_cluster.keys().map(|cluster| json!({"cluster": cluster}));
        let derived = by_cluster.keys().map(|cluster| {
            let name = derived_name(namespace, name, cluster);
            json!({"cluster": cluster, "derived-service": name})
        });
        let derived = Value::from(derived.collect::<Vec<_>>()).to_string();
        self.kubernetes.put(json!({
            "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport",
            "metadata": {"namespace": namespace, "name": name, "annotations": {ANNOTATION: derived}},
            "spec": {"ips": [], "type": all[0]["SERVICE_TYPE"], "ports": ports(all, "")},
            "status": {"clusters": clusters.collect::<Vec<_>>()},
        }))
    }

    fn derived(&self, import: &Value, cluster: &str, endpoints: &[&Attributes]) -> Value {
        let metadata = &import["metadata"];
        let text = |key: &str| metadata[key].as_str().expect("a text").to_owned();
        let namespace = text("namespace");
        let import_name = text("name");
        let name = derived_name(&namespace, &import_name, cluster);
        if let Some(present) = self.kubernetes.service_object(&namespace, &name) {
            return present;
        }
        let mut spec = json!({"type": "ClusterIP", "ports": ports(endpoints, "targetPort")});
        if import["spec"]["type"] == "Headless" {
            spec["clusterIP"] = "None".into();
        }
        self.kubernetes.put(json!({
            "apiVersion": "v1", "kind": "Service", "spec": spec,
            "metadata": {
                "namespace": namespace, "name": name,
                "labels": {IMPORT: import_name, SOURCE: cluster},
                "ownerReferences": [{
                    "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport",
                    "name": import_name, "uid": metadata["uid"], "controller": true,
                }],
            },
        }))
    }

    /// Adds and removes endpoints; one that is there stays as it is.
    fn fill(&self, service: &Value, import: &str, cluster: &str, endpoints: &[&Attributes]) {
        let metadata = &service["metadata"];
        let text = |key: &str| metadata[key].as_str().expect("a text").to_owned();
        let namespace = text("namespace");
        let name = text("name");
        let slice_name = format!("{name}-slice");
        let mut slices = self.kubernetes.objects("endpointslices", &namespace).into_iter();
        let present = slices.find(|slice| slice["metadata"]["name"] == *slice_name);
        let known = present.as_ref().and_then(|slice| slice["endpoints"].as_array().cloned());
        let known = known.unwrap_or_default();
        let mut addresses: Vec<&str> =
            endpoints.iter().map(|endpoint| endpoint["AWS_INSTANCE_IPV4"].as_str()).collect();
        addresses.dedup();
        let wanted = addresses.iter().map(|address| {
            let found = known.iter().find(|endpoint| endpoint["addresses"][0] == *address).cloned();
            let of = endpoints.iter().find(|endpoint| endpoint["AWS_INSTANCE_IPV4"] == *address);
            let ready = of.is_some_and(|endpoint| endpoint["READY"] == "true");
            let new = json!({"addresses": [address], "conditions": {"ready": ready}});
            found.unwrap_or(new)
        });
        let number = |text: &String| text.parse::<u16>().expect("a port");
        let mut slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {
                "namespace": namespace, "name": slice_name,
                "labels": {
                    "kubernetes.io/service-name": name, IMPORT: import, SOURCE: cluster,
                    "endpointslice.kubernetes.io/managed-by": "aws-cloud-map-mcs-controller-for-k8s",
                },
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Service", "name": name, "uid": metadata["uid"],
                    "controller": true,
                }],
            },
            "ports": [{
                "name": endpoints[0]["ENDPOINT_PORT_NAME"],
                "protocol": endpoints[0]["ENDPOINT_PROTOCOL"],
                "port": number(&endpoints[0]["AWS_INSTANCE_PORT"]),
            }],
        });
        slice["endpoints"] = wanted.collect::<Vec<_>>().into();
        self.kubernetes.put(slice);
    }
}

/// The unique ports of the Service, each with its target where `target` names the field.
fn ports(endpoints: &[&Attributes], target: &str) -> Value {
    let number = |text: &String| text.parse::<u16>().expect("a port");
    let mut unique: BTreeMap<(u16, &String), Value> = BTreeMap::new();
    for endpoint in endpoints {
        let mut port = json!({
            "name": endpoint["SERVICE_PORT_NAME"], "protocol": endpoint["SERVICE_PROTOCOL"],
            "port": number(&endpoint["SERVICE_PORT"]),
        });
        if !target.is_empty() {
            port[target] = number(&endpoint["AWS_INSTANCE_PORT"]).into();
        }
        unique.insert((number(&endpoint["SERVICE_PORT"]), &endpoint["SERVICE_PROTOCOL"]), port);
    }
    unique.into_values().collect::<Vec<_>>().into()
}

fn derived_name(namespace: &str, name: &str, cluster: &str) -> String {
    let digits = digest(format!("{namespace}{name}{cluster}").as_bytes());
    format!("imported-{}", &digits[..10])
}
