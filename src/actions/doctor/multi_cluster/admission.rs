//! The admission policy by which the API server keeps the function to its own objects. The function cannot read policies,
//! so it asks for the creation of objects that the policy refuses: as a dry run, which stores nothing.

use serde_json::{Value, json};

use crate::actions::doctor::Check;
use crate::error::chain;
use crate::import::plan::{EXCLUDED, OWNER_LABEL};
use crate::kubernetes::objects::{Named, Resource};
use crate::kubernetes::{Error, Kubernetes};

const NAME: &str = "admission";
const FIX: &str = "kubectl apply -k deploy/multi-cluster (Kubernetes 1.30 or newer), and name its group cloud-map-sync in the access entry";
const NAMESPACE: &str = "default";
const PROBE: &str = "cloud-map-sync-doctor";
/// The words of the policy's rule for EndpointSlices. The first policy had no such rule.
const SLICE_RULE: &str = "of a derived Service or none";

/// Checks whether the policy is in force for the identity of the function, and of this release.
pub(super) async fn check(kubernetes: &Kubernetes) -> Check {
    let unlabelled = json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1",
        "kind": "ServiceImport",
        "metadata": { "namespace": NAMESPACE, "name": PROBE },
        "spec": { "type": "ClusterSetIP", "ports": [{ "port": 80, "protocol": "TCP" }] },
    });
    match is_refused(kubernetes, Resource::ServiceImports, &unlabelled, OWNER_LABEL).await {
        Ok(true) => {}
        Ok(false) => {
            let detail = "the API server lets the function write Services, EndpointSlices and ServiceImports of others: the policy of deploy/multi-cluster is not in force for it";
            return Check::note(NAME, detail, FIX);
        }
        Err(error) => return Check::note(NAME, format!("not tested: {}", chain(&error)), FIX),
    }
    // Only the Service is not ours.
    let of_another_service = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": NAMESPACE,
            "name": "imported-0000000000-00000000-1",
            "labels": {
                OWNER_LABEL: PROBE,
                "endpointslice.kubernetes.io/managed-by": "cloud-map-sync",
                "kubernetes.io/service-name": PROBE,
            },
        },
        "addressType": "IPv4",
        "endpoints": [],
        "ports": [],
    });
    match is_refused(kubernetes, Resource::EndpointSlices, &of_another_service, SLICE_RULE).await {
        Ok(true) => Check::ok(NAME, "the API server keeps the function to its own objects"),
        Ok(false) => {
            let detail = "the API server lets the function add endpoints to any Service, by an EndpointSlice with the label cloud-map-sync/owner: its policy is that of an earlier release";
            Check::failed(NAME, detail, FIX)
        }
        Err(error) => Check::note(NAME, format!("not tested: {}", chain(&error)), FIX),
    }
}

/// Whether the policy refuses to create an object by the rule with these words. If it excludes the namespace, that is the
/// refusal.
async fn is_refused(
    kubernetes: &Kubernetes,
    resource: Resource,
    body: &Value,
    rule: &str,
) -> Result<bool, Error> {
    let name = body["metadata"]["name"].as_str().unwrap_or_default();
    let object = Named { resource, namespace: NAMESPACE, name };
    match kubernetes.try_creation(object, body).await {
        Ok(()) => Ok(false),
        Err(error) if error.is_denied(rule) || error.is_denied(EXCLUDED) => Ok(true),
        Err(error) => Err(error),
    }
}
