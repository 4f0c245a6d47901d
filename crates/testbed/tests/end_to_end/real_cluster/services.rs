//! What a user does to Services, and what Events tell that user.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{NAMESPACE, RealCluster};

/// What makes a Service headless, with addresses of one family.
pub fn headless() -> Value {
    json!({"clusterIP": "None"})
}

/// The annotations that claim a name.
pub fn claim(namespace: &str, hostname: &str) -> Value {
    json!({"cloudmap.controller/hostname": hostname, "cloudmap.controller/namespace": namespace})
}

impl RealCluster {
    /// Adds a Service that selects the pods of its name, with port `http` 8080 and these annotations;
    /// `spec` adds to it.
    pub async fn service(&self, name: &str, annotations: &Value, spec: &Value) {
        let mut service = json!({
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 8080}]},
        });
        for (field, value) in spec.as_object().into_iter().flatten() {
            service["spec"][field] = value.clone();
        }
        self.create::<Service>(&service).await;
    }

    /// Sets annotations of a Service; null takes one away.
    pub async fn annotate(&self, service: &str, annotations: &Value) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let patched = self.api::<Service>().patch(service, &PatchParams::default(), &patch).await;
        patched.unwrap_or_else(|error| panic!("annotating {service}: {error}"));
    }

    /// Deletes a Service.
    pub async fn delete_service(&self, name: &str) {
        self.delete::<Service>(name).await;
    }

    /// The Events about a Service, as its owner sees them: reason and note.
    pub async fn events(&self, service: &str) -> Vec<(String, String)> {
        let api: Api<Event> = Api::namespaced(self.control_plane.admin(), NAMESPACE);
        let events = api.list(&ListParams::default()).await.expect("Events");
        let about = events.into_iter().filter(|event| {
            let regarding = event.regarding.as_ref();
            regarding.is_some_and(|regarding| regarding.name.as_deref() == Some(service))
        });
        about
            .map(|event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default()))
            .collect()
    }

    /// Adds an `EndpointSlice` for a Service, as a controller would where none runs.
    pub async fn slice(&self, service: &str, addresses: &[&str]) {
        let slice = json!({
            "metadata": {
                "name": format!("{service}-abcde"),
                "labels": {"kubernetes.io/service-name": service},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": addresses, "conditions": {"ready": true}}],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        });
        self.create::<EndpointSlice>(&slice).await;
    }

    /// Makes an existing Service headless or not, and says what the API server says to that.
    pub async fn set_cluster_ip(&self, service: &str, cluster_ip: &str) -> String {
        let patch = Patch::Merge(json!({"spec": {"clusterIP": cluster_ip}}));
        let refused = self.api::<Service>().patch(service, &PatchParams::default(), &patch).await;
        refused.expect_err("a Service keeps its cluster IP").to_string()
    }

    /// Waits until what is created next is younger than a Service: the cluster's clock has only seconds.
    pub async fn wait_to_be_younger_than(&self, service: &str) {
        let created = self.api::<Service>().get(service).await.expect("the Service");
        let created = created.metadata.creation_timestamp.expect("the server sets it");
        let younger = async || self.now().await > created;
        self.control_plane.wait_until("for the next second", younger).await;
    }

    /// What time it is for the API server: it dates also what it only pretends to create.
    async fn now(&self) -> Time {
        let pretend = PostParams { dry_run: true, ..PostParams::default() };
        let ports = json!([{"port": 80}]);
        let service = json!({"metadata": {"name": "no-service"}, "spec": {"ports": ports}});
        let service = serde_json::from_value(service).expect("a Service");
        let answer = self.api::<Service>().create(&pretend, &service).await;
        answer.expect("it may be created").metadata.creation_timestamp.expect("the server sets it")
    }
}
