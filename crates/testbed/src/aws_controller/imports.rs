//! Imports: a ServiceImport for each name with endpoints, one derived Service with slices for each cluster, then the IPs.
//! The type is that of the first endpoint and never corrected, and an endpoint in a slice is never changed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::super::signature::digest;
use super::{ANNOTATION, Attributes, AwsController, IMPORT, SOURCE};

impl AwsController {
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
        let (namespace, import_name) = (text("namespace"), text("name"));
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
        let (namespace, name) = (text("namespace"), text("name"));
        let slice_name = format!("{name}-slice");
        let slices = self.kubernetes.objects("endpointslices", &namespace).into_iter();
        let present = slices.into_iter().find(|it| it["metadata"]["name"] == *slice_name);
        let known = present.as_ref().and_then(|it| it["endpoints"].as_array().cloned());
        let known = known.unwrap_or_default();
        let mut addresses: Vec<&str> =
            endpoints.iter().map(|it| it["AWS_INSTANCE_IPV4"].as_str()).collect();
        addresses.dedup();
        let wanted = addresses.iter().map(|address| {
            let found = known.iter().find(|it| it["addresses"][0] == *address).cloned();
            let of = endpoints.iter().find(|it| it["AWS_INSTANCE_IPV4"] == *address);
            let ready = of.is_some_and(|it| it["READY"] == "true");
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
    for it in endpoints {
        let mut port = json!({
            "name": it["SERVICE_PORT_NAME"], "protocol": it["SERVICE_PROTOCOL"],
            "port": number(&it["SERVICE_PORT"]),
        });
        if !target.is_empty() {
            port[target] = number(&it["AWS_INSTANCE_PORT"]).into();
        }
        unique.insert((number(&it["SERVICE_PORT"]), &it["SERVICE_PROTOCOL"]), port);
    }
    unique.into_values().collect::<Vec<_>>().into()
}

fn derived_name(namespace: &str, name: &str, cluster: &str) -> String {
    let digits = digest(format!("{namespace}{name}{cluster}").as_bytes());
    format!("imported-{}", &digits[..10])
}
