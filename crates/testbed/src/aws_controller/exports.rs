//! Exports: finalizer, registrations, then the deregistration of everything under its cluster id that it does not want.

use serde_json::{Value, json};

use super::super::cloud_map::{NamespaceKind, ServiceKind};
use super::{Attributes, AwsController, FINALIZER};

impl AwsController {
    /// One round over all ServiceExports.
    pub fn export(&self) {
        for export in self.kubernetes.objects("serviceexports", "") {
            let text = |key: &str| export["metadata"][key].as_str().unwrap_or_default().to_owned();
            let (namespace, name) = (text("namespace"), text("name"));
            let Some(service) = self.kubernetes.service_object(&namespace, &name) else { continue };
            self.add_finalizer(export.clone());
            let registry = self.registry_service(&namespace, &name);
            let wanted = self.wanted(&export, &service);
            let present = self.endpoints(&registry);
            for (id, attributes) in &wanted {
                let as_it_is = present.iter().any(|it| (&it.0, &it.1) == (id, attributes));
                if !as_it_is {
                    let pairs: Vec<(&str, &str)> =
                        attributes.iter().map(|(key, it)| (key.as_str(), it.as_str())).collect();
                    self.cloud_map.instance(&registry, id, &pairs);
                }
            }
            let is_own = |attributes: &Attributes| attributes["CLUSTER_ID"] == self.cluster;
            let is_wanted = |id: &String| wanted.iter().any(|(wanted, _)| wanted == id);
            for (id, _) in present.iter().filter(|(id, it)| is_own(it) && !is_wanted(id)) {
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

    fn registry_service(&self, namespace: &str, name: &str) -> String {
        let found = self.cloud_map.find_namespace(namespace);
        let namespace_id =
            found.unwrap_or_else(|| self.cloud_map.namespace(namespace, NamespaceKind::Http));
        let found = self.cloud_map.find_service(namespace, name);
        found.unwrap_or_else(|| self.cloud_map.service(&namespace_id, name, ServiceKind::Http))
    }

    /// An instance for each address and port of an endpoint, ready or not. Its id has neither the cluster nor the port
    /// of the Service, so of two with one target the last remains.
    fn wanted(&self, export: &Value, service: &Value) -> Vec<(String, Attributes)> {
        let (namespace, name) = (&service["metadata"]["namespace"], &service["metadata"]["name"]);
        let created = export["metadata"]["creationTimestamp"].as_str().expect("a time");
        let created: k8s_openapi::jiff::Timestamp = created.parse().expect("a time");
        let kind = if service["spec"]["clusterIP"] == "None" { "Headless" } else { "ClusterSetIP" };
        let slices = self.kubernetes.objects("endpointslices", namespace.as_str().unwrap_or(""));
        let of_service = slices
            .iter()
            .filter(|it| it["metadata"]["labels"]["kubernetes.io/service-name"] == *name);
        let mut wanted: Vec<(String, Attributes)> = Vec::new();
        for slice in of_service {
            for port in slice["ports"].as_array().into_iter().flatten() {
                let ports = service["spec"]["ports"].as_array().into_iter().flatten();
                let of = ports.clone().find(|it| it["name"] == port["name"]);
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
}
