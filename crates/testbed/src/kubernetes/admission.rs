//! The ValidatingAdmissionPolicy of the deployment: whoever is no administrator creates, changes and deletes only
//! Services, EndpointSlices and ServiceImports with our label, before and after, and of Services and slices only those that
//! an import consists of. A ServiceImport of AWS's controller may be taken over and handed back, but not deleted without
//! the label. In the excluded namespaces nothing is created or changed.

use serde_json::Value;

use super::resource::{ENDPOINT_SLICES, Resource, SERVICE_IMPORTS, SERVICES};
use super::status::Failure;

const LABEL: &str = "cloud-map-sync/owner";
const ANNOTATION: &str = "multicluster.k8s.aws/derived-service";

/// The policy of a cluster.
#[derive(Clone, Debug)]
pub struct Policy {
    /// As earlier releases had it: whatever has the label passes, in any namespace.
    pub judges_label_alone: bool,
    /// The excluded namespaces.
    pub excluded: Vec<String>,
}

impl Default for Policy {
    fn default() -> Self {
        Self { judges_label_alone: false, excluded: vec!["kube-system".to_owned()] }
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
        let is_excluded = self.excluded.iter().any(|it| it == namespace);
        if is_excluded && after.is_some() && !self.judges_label_alone {
            return refused(
                "NamespaceExcluded: cloud-map-sync creates and changes nothing in this namespace",
            );
        }
        let is_handed_over = match (before, after) {
            (Some(before), Some(after)) => {
                is_adoptable(resource, before) && (is_ours(before) || is_ours(after))
            }
            _ => false,
        };
        if !is_handed_over && !before.into_iter().chain(after).all(is_ours) {
            return refused(&format!(
                "the object does not carry the label {LABEL} before and after"
            ));
        }
        let Some(after) = after.filter(|_| !self.judges_label_alone) else { return Ok(()) };
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

fn is_adoptable(resource: &Resource, object: &Value) -> bool {
    *resource == SERVICE_IMPORTS && object["metadata"]["annotations"].get(ANNOTATION).is_some()
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
    let is_hex = |it: u8| it.is_ascii_digit() || (b'a'..=b'f').contains(&it);
    is_hash(hash)
        && source.len() == 8
        && source.bytes().all(is_hex)
        && !number.is_empty()
        && number.bytes().all(|it| it.is_ascii_digit())
}

fn is_hash(text: &str) -> bool {
    let is_digit = |it: u8| it.is_ascii_digit() || (b'a'..=b'v').contains(&it);
    text.len() == 10 && text.bytes().all(is_digit)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::resource::{ENDPOINTS, SERVICE_EXPORTS};
    use super::*;

    const DERIVED: &str = "derived-isrlchlhrq";
    const IMPORTED: &str = "imported-isrlchlhrq-ac321fb1-1";

    fn check(
        resource: &Resource,
        name: &str,
        before: Option<&Value>,
        after: Option<&Value>,
    ) -> Result<(), Failure> {
        Policy::default().check(resource, ("shop", name), before, after)
    }

    #[test]
    fn only_labelled_objects_and_imports_to_adopt_pass() {
        let spec = json!({"type": "ClusterIP"});
        let ours = json!({"metadata": {"labels": {LABEL: "me"}}, "spec": spec});
        let foreign = json!({"metadata": {"labels": {"app": "web"}}, "spec": spec});
        let of_aws = json!({"metadata": {"annotations": {ANNOTATION: "[]"}}, "spec": spec});
        let mut both = of_aws.clone();
        both["metadata"]["labels"] = json!({LABEL: "me"});
        let cases = [
            (None, Some(&ours), [true, true]),
            (None, Some(&foreign), [false, false]),
            (None, Some(&of_aws), [false, false]),
            (Some(&ours), Some(&ours), [true, true]),
            (Some(&foreign), Some(&ours), [false, false]),
            (Some(&ours), Some(&foreign), [false, false]),
            (Some(&of_aws), Some(&ours), [false, true]),
            (Some(&both), Some(&of_aws), [false, true]),
            (Some(&ours), Some(&of_aws), [false, false]),
            (Some(&of_aws), Some(&of_aws), [false, false]),
            (Some(&ours), None, [true, true]),
            (Some(&foreign), None, [false, false]),
            (Some(&of_aws), None, [false, false]),
        ];
        for (before, after, expected) in cases {
            let passes = [&SERVICES, &SERVICE_IMPORTS]
                .map(|resource| check(resource, DERIVED, before, after).is_ok());
            assert_eq!(passes, expected, "{before:?} -> {after:?}");
            for other in [&ENDPOINTS, &SERVICE_EXPORTS] {
                assert!(check(other, DERIVED, before, after).is_ok());
            }
        }
    }

    #[test]
    fn services_and_slices_are_those_of_an_import() {
        let service = |spec: Value| json!({"metadata": {"labels": {LABEL: "me"}}, "spec": spec});
        let services = [
            (DERIVED, json!({"type": "ClusterIP", "clusterIP": "10.96.0.9"}), true),
            ("payments", json!({"type": "ClusterIP"}), false),
            ("derived-payments", json!({"type": "ClusterIP"}), false),
            (DERIVED, json!({"type": "LoadBalancer"}), false),
            (DERIVED, json!({"type": "ClusterIP", "selector": {"app": "web"}}), false),
            (DERIVED, json!({"type": "ClusterIP", "externalIPs": ["10.0.0.1"]}), false),
        ];
        for (name, spec, expected) in services {
            let after = service(spec);
            assert_eq!(check(&SERVICES, name, None, Some(&after)).is_ok(), expected, "{after}");
        }
        let slice = |kind: &str, manager: &str, service: Value| {
            let mut labels =
                json!({LABEL: "me", "endpointslice.kubernetes.io/managed-by": manager});
            if !service.is_null() {
                labels["kubernetes.io/service-name"] = service;
            }
            json!({"metadata": {"labels": labels}, "addressType": kind})
        };
        let slices = [
            (IMPORTED, slice("IPv4", "cloud-map-sync", json!(DERIVED)), true),
            (IMPORTED, slice("IPv6", "cloud-map-sync", Value::Null), true),
            (IMPORTED, slice("IPv4", "cloud-map-sync", json!("payments")), false),
            (IMPORTED, slice("FQDN", "cloud-map-sync", json!(DERIVED)), false),
            (IMPORTED, slice("IPv4", "endpointslice-controller.k8s.io", json!(DERIVED)), false),
            ("imported-web", slice("IPv4", "cloud-map-sync", json!(DERIVED)), false),
        ];
        for (name, after, expected) in slices {
            let admitted = check(&ENDPOINT_SLICES, name, None, Some(&after)).is_ok();
            assert_eq!(admitted, expected, "{name}: {after}");
            let former = Policy { judges_label_alone: true, ..Policy::default() };
            let place = ("kube-system", name);
            assert!(former.check(&ENDPOINT_SLICES, place, None, Some(&after)).is_ok());
        }
    }

    #[test]
    fn in_an_excluded_namespace_only_deletions_pass() {
        let ours = json!({"metadata": {"labels": {LABEL: "me"}}});
        let cases = [
            (None, Some(&ours), false),
            (Some(&ours), Some(&ours), false),
            (Some(&ours), None, true),
        ];
        for (before, after, expected) in cases {
            let place = ("kube-system", "web");
            let admitted = Policy::default().check(&SERVICE_IMPORTS, place, before, after);
            assert_eq!(admitted.is_ok(), expected, "{before:?} -> {after:?}");
        }
    }

    #[test]
    fn a_denial_has_the_words_and_the_code_of_the_server() {
        let denied = check(&SERVICES, "web", None, Some(&json!({"metadata": {}}))).unwrap_err();
        let status = denied.status();
        assert_eq!((&status["code"], &status["reason"]), (&json!(422), &json!("Invalid")));
        assert_eq!(
            status["message"],
            "services \"web\" is forbidden: ValidatingAdmissionPolicy 'cloud-map-sync' with binding \
             'cloud-map-sync' denied request: the object does not carry the label \
             cloud-map-sync/owner before and after"
        );
    }
}
