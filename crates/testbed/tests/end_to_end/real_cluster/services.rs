//! What a user does to Services, and what Events tell that user.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams, Patch, PatchParams};
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
}
