//! The ValidatingAdmissionPolicy of the deployment: whoever is no administrator creates, changes and deletes only
//! Services, EndpointSlices and ServiceImports with our label, before and after, and of Services and slices only those
//! that an import consists of. In the excluded namespaces nothing is created or changed.

use serde_json::Value;

use super::resource::{ENDPOINT_SLICES, Resource, SERVICE_IMPORTS, SERVICES};
use super::status::Failure;

const LABEL: &str = "cloud-map-sync/owner";

/// The policy of a cluster.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The excluded namespaces.
    pub excluded: Vec<String>,
}

impl Default for Policy {
    fn default() -> Self {
        Self { excluded: vec!["kube-system".to_owned()] }
    }
}

impl Policy {
    /// Judges a write, in a namespace and of an object by its name, by the object before it and after it.
    pub fn check(
        &self,
        resource: &Resource,
        (namespace, name): (&str, &str),
        before: Option<&Value>,
        after: Option<&Value>,
    ) -> Result<(), Failure> {
        if ![&SERVICES, &ENDPOINT_SLICES, &SERVICE_IMPORTS].contains(&resource) {
            return Ok(());
        }
        let refused = |text: &str| Err(Failure::denied_by_policy(resource, name, text));
        let is_excluded = self.excluded.iter().any(|excluded| excluded == namespace);
        if is_excluded && after.is_some() {
            return refused(
                "NamespaceExcluded: cloud-map-sync creates and changes nothing in this namespace",
            );
        }
        if !before.into_iter().chain(after).all(is_ours) {
            return refused(&format!(
                "the object does not carry the label {LABEL} before and after"
            ));
        }
        let Some(after) = after else { return Ok(()) };
        if *resource == SERVICES && !is_derived_service(name, after) {
            return refused("cloud-map-sync writes only derived Services");
        }
        if *resource == ENDPOINT_SLICES && !is_imported_slice(name, after) {
            return refused(
                "cloud-map-sync writes only imported EndpointSlices, of a derived Service or none",
            );
        }
        Ok(())
    }
}

fn is_ours(object: &Value) -> bool {
    object["metadata"]["labels"].get(LABEL).is_some_and(|value| !value.is_null())
}

fn is_derived_service(name: &str, service: &Value) -> bool {
    let spec = &service["spec"];
    let has_none = |key: &str| spec.get(key).is_none_or(Value::is_null);
    is_derived(name)
        && spec["type"] == "ClusterIP"
        && has_none("selector")
        && has_none("externalIPs")
}

fn is_imported_slice(name: &str, slice: &Value) -> bool {
    let labels = &slice["metadata"]["labels"];
    let service = labels.get("kubernetes.io/service-name").and_then(Value::as_str);
    is_imported(name)
        && (slice["addressType"] == "IPv4" || slice["addressType"] == "IPv6")
        && labels["endpointslice.kubernetes.io/managed-by"] == "cloud-map-sync"
        && service.is_none_or(is_derived)
}

fn is_derived(name: &str) -> bool {
    name.strip_prefix("derived-").is_some_and(is_hash)
}

fn is_imported(name: &str) -> bool {
    let parts: Vec<&str> = name.split('-').collect();
    let ["imported", hash, source, number] = parts[..] else { return false };
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    is_hash(hash)
        && source.len() == 8
        && source.bytes().all(is_hex)
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_hash(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'v').contains(&byte);
    text.len() == 10 && text.bytes().all(is_digit)
}
