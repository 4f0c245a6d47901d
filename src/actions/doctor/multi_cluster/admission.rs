//! The admission policy by which the API server keeps the function to its own objects. The function cannot read policies,
//! so it asks for the creation of a ServiceImport without its label: as a dry run, which stores nothing.

use serde_json::json;

use crate::actions::doctor::Check;
use crate::error::chain;
use crate::import::plan::OWNER_LABEL;
use crate::kubernetes::Kubernetes;
use crate::kubernetes::objects::{Named, Resource};

const NAME: &str = "admission";
const FIX: &str = "kubectl apply -k deploy/multi-cluster (Kubernetes 1.30 or newer), and name its group cloud-map-sync in the access entry (KubernetesAccess=group)";

/// Checks whether the policy is in force for the identity of the function.
pub(super) async fn check(kubernetes: &Kubernetes) -> Check {
    let (namespace, name) = ("default", "cloud-map-sync-doctor");
    let object = Named { resource: Resource::ServiceImports, namespace, name };
    let body = json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1",
        "kind": "ServiceImport",
        "metadata": { "namespace": namespace, "name": name },
        "spec": { "type": "ClusterSetIP", "ports": [{ "port": 80, "protocol": "TCP" }] },
    });
    match kubernetes.try_creation(object, &body).await {
        Ok(()) => {
            let detail = "the API server lets the function write Services, EndpointSlices and ServiceImports of others: the policy of deploy/multi-cluster is not in force for it";
            Check::note(NAME, detail, FIX)
        }
        Err(error) if error.is_denied(OWNER_LABEL) => {
            Check::ok(NAME, "the API server keeps the function to its own objects")
        }
        Err(error) => Check::note(NAME, format!("not tested: {}", chain(&error)), FIX),
    }
}
