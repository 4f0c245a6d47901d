//! Derives the scope that a change affects from the changed Kubernetes object or a reference to it. Reads only the
//! object's kind, API version, names, labels and owners.
//!
//! Only kinds that can change a registration are followed. Other kinds, such as Deployment or Node, affect a Service
//! only through its EndpointSlices. Names come from the sender of a message and appear in requests, logs and reports,
//! so only valid names are accepted.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Scope, Unusable};
use crate::model::{Kind, is_derived_service, is_dns_label, is_dns_subdomain, is_imported_slice};

const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";
/// The label of the import objects that this function writes.
const OWNER_LABEL: &str = "cloud-map-sync/owner";

/// The number of random characters that Kubernetes appends to the name of a slice, after cutting the Service's part to
/// 58 characters.
const SUFFIX_LENGTH: usize = 5;
const LONGEST_GENERATED_NAME: usize = 63;

/// The part of an object's metadata that determines its scope.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventMetadata {
    name: Option<String>,
    pub(super) namespace: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<EventOwner>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventOwner {
    #[serde(default)]
    api_version: String,
    kind: String,
    name: String,
}

impl EventMetadata {
    /// Reads an object's `metadata`, or a reference, which has these fields at its top level.
    pub(super) fn read(fields: &Map<String, Value>) -> Result<Self, Unusable> {
        Self::deserialize(fields).map_err(|_| Unusable::UnknownShape)
    }

    fn name(&self) -> Result<&str, Unusable> {
        let name = self.name.as_deref().filter(|name| !name.is_empty());
        name.ok_or(Unusable::IncompleteScope { missing: "name" })
    }

    fn namespace(&self) -> Result<String, Unusable> {
        let namespace = self.namespace.as_deref().filter(|name| !name.is_empty());
        check_namespace(namespace.ok_or(Unusable::IncompleteScope { missing: "namespace" })?)
    }

    /// Whether the object belongs to an import: this function wrote it, and a change of it changes no export.
    fn is_imported(&self, kind: Kind) -> bool {
        let name = self.name.as_deref().unwrap_or_default();
        let labels = self.labels.iter().flatten();
        let has_owner = labels.clone().any(|(key, _)| key == OWNER_LABEL);
        let is_of_derived_service = |(key, value): (&String, &String)| {
            key == SERVICE_NAME_LABEL && is_derived_service(value)
        };
        match kind {
            Kind::Service | Kind::Endpoints => has_owner || is_derived_service(name),
            Kind::EndpointSlice => {
                has_owner
                    || is_imported_slice(name)
                    || labels.into_iter().any(is_of_derived_service)
            }
            _ => false,
        }
    }

    /// Returns the Service of an EndpointSlice, by the slice's label, owner or name, or `None` if none of them shows
    /// it, so that the whole namespace is synced.
    fn service_of_slice(&self) -> Result<Option<&str>, Unusable> {
        let labels = self.labels.as_ref();
        if let Some(service) = labels.and_then(|labels| labels.get(SERVICE_NAME_LABEL)) {
            return Ok(Some(service));
        }
        let owners = self.owner_references.iter().flatten();
        let is_service = |owner: &&EventOwner| {
            owner.kind == "Service" && matches!(owner.api_version.as_str(), "" | "v1")
        };
        match owners.into_iter().find(is_service) {
            Some(owner) => Ok(Some(&owner.name)),
            None => Ok(without_suffix(self.name()?)),
        }
    }
}

/// Returns the scope that a change of this object affects. `kind` may also be the resource's plural name.
pub(super) fn scope(
    kind: &str,
    api_version: Option<&str>,
    metadata: &EventMetadata,
) -> Result<Scope, Unusable> {
    let inside = |service: Option<&str>| {
        let service = service.map(check_service).transpose()?;
        Ok(Scope::inside(metadata.namespace()?, service))
    };
    let kind = followed(kind, api_version)?;
    if metadata.is_imported(kind) {
        return Err(Unusable::Imported);
    }
    match kind {
        Kind::EndpointSlice => inside(metadata.service_of_slice()?),
        // Any Service of the namespace may select the pod.
        Kind::Pod => inside(None),
        Kind::Namespace => Ok(Scope::inside(check_namespace(metadata.name()?)?, None)),
        Kind::Service | Kind::Endpoints | Kind::ServiceExport | Kind::ServiceImport => {
            inside(Some(metadata.name()?))
        }
    }
}

/// Removes a generated suffix: `web-x7k2p` -> `web`. Returns `None` for a name without one, and for a name so long that
/// the Service's part may have been cut.
fn without_suffix(slice: &str) -> Option<&str> {
    let (service, suffix) = slice.rsplit_once('-')?;
    let generated = suffix.len() == SUFFIX_LENGTH
        && suffix.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    (generated && slice.len() < LONGEST_GENERATED_NAME).then_some(service)
}

/// Finds a followed kind by its name, or by its plural resource name, which some senders use. Other API groups have
/// kinds with equal names, such as Knative's Service, so the group must match if it is known.
fn followed(kind: &str, api_version: Option<&str>) -> Result<Kind, Unusable> {
    let group = api_version
        .filter(|version| !version.is_empty())
        .map(|version| version.split_once('/').map_or("", |(group, _)| group));
    let mut kinds = Kind::ALL.into_iter().filter(|candidate| *candidate != Kind::ServiceImport);
    let found = kinds.find(|candidate| candidate.as_str() == kind || candidate.plural() == kind);
    let found = found.filter(|candidate| group.is_none_or(|group| group == candidate.group()));
    found.ok_or_else(|| unknown(kind, group))
}

fn unknown(kind: &str, group: Option<&str>) -> Unusable {
    let kind = match group {
        None | Some("") => check_kind(kind),
        Some(group) => check_kind(&format!("{kind}.{group}")),
    };
    kind.map_or_else(|invalid| invalid, |kind| Unusable::UnknownKind { kind })
}

/// A little more than the longest ARN of an EKS cluster, whose name has up to 100 characters.
const LONGEST_CLUSTER: usize = 160;
// The texts of errors after "expected".
const EXPECTED_NAME: &str = "at most 63 of a-z, 0-9 and -, a letter or digit at both ends";
const EXPECTED_CLUSTER: &str =
    "an EKS cluster's name or ARN, at most 160 printable ASCII characters";
const EXPECTED_KIND: &str = "a Kubernetes kind such as Service";

/// Reads and checks the text of a field. Returns `None` if the field is absent or null.
pub(super) fn read_text(
    object: &Map<String, Value>,
    field: &'static str,
    check: fn(&str) -> Result<String, Unusable>,
) -> Result<Option<String>, Unusable> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => check(text).map(Some),
        Some(_) => Err(Unusable::InvalidName { field, expected: "a string" }),
    }
}

/// Checks the syntax of a cluster's name or ARN. Whether the cluster is configured is checked later.
pub(super) fn check_cluster(text: &str) -> Result<String, Unusable> {
    let printable = text.chars().all(|c| c == ' ' || c.is_ascii_graphic());
    let named = text == text.trim() && !text.is_empty() && text.len() <= LONGEST_CLUSTER;
    check(printable && named, text, "cluster", EXPECTED_CLUSTER)
}

/// Checks the name of a Kubernetes namespace.
pub(super) fn check_namespace(text: &str) -> Result<String, Unusable> {
    check(is_dns_label(text), text, "namespace", EXPECTED_NAME)
}

/// Checks the name of a Kubernetes Service.
pub(super) fn check_service(text: &str) -> Result<String, Unusable> {
    check(is_dns_label(text), text, "service", EXPECTED_NAME)
}

/// Checks a Kubernetes kind, with its API group after a dot if it has one.
pub(super) fn check_kind(text: &str) -> Result<String, Unusable> {
    let (kind, group) = text.split_once('.').unwrap_or((text, "v1"));
    let word = kind.starts_with(|c: char| c.is_ascii_alphabetic())
        && kind.bytes().all(|b| b.is_ascii_alphanumeric())
        && kind.len() <= 63;
    check(word && is_dns_subdomain(group), text, "kind", EXPECTED_KIND)
}

fn check(
    valid: bool,
    text: &str,
    field: &'static str,
    expected: &'static str,
) -> Result<String, Unusable> {
    if valid { Ok(text.to_owned()) } else { Err(Unusable::InvalidName { field, expected }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(kind: &str, api_version: Option<&str>, metadata: &Value) -> Result<String, Unusable> {
        let metadata = EventMetadata::read(metadata.as_object().expect("an object"))?;
        scope(kind, api_version, &metadata).map(|scope| scope.to_string())
    }

    fn in_shop(service: Option<&str>) -> String {
        Scope::inside("shop".to_owned(), service.map(str::to_owned)).to_string()
    }

    #[test]
    fn every_followed_kind_gives_its_scope() {
        let web = json!({"namespace": "shop", "name": "web"});
        let pod = json!({"namespace": "shop", "name": "web-7c9d8b6f5d-abcde"});
        let rows = [
            ("Service", Some("v1"), &web, Some("web")),
            ("services", Some("v1"), &web, Some("web")),
            ("Service", None, &web, Some("web")),
            ("Service", Some(""), &web, Some("web")),
            ("Endpoints", Some("v1"), &web, Some("web")),
            ("Pod", Some("v1"), &pod, None),
            ("Namespace", Some("v1"), &json!({"name": "shop"}), None),
            ("ServiceExport", Some("multicluster.x-k8s.io/v1beta1"), &web, Some("web")),
            ("serviceexports", Some("multicluster.x-k8s.io/v1alpha1"), &web, Some("web")),
        ];
        for (kind, version, metadata, service) in rows {
            assert_eq!(read(kind, version, metadata), Ok(in_shop(service)), "{kind}");
        }
    }

    #[test]
    fn objects_of_imports_wake_nothing() {
        let derived = json!({"namespace": "shop", "name": "derived-isrlchlhrq"});
        let slice = json!({"namespace": "shop", "name": "imported-isrlchlhrq-ac321fb1-12"});
        let labels = json!({SERVICE_NAME_LABEL: "derived-isrlchlhrq"});
        let labelled = json!({"namespace": "shop", "name": "x", "labels": labels});
        let owned = json!({"namespace": "shop", "name": "x", "labels": {OWNER_LABEL: "team"}});
        let imported = [
            ("Service", &derived),
            ("EndpointSlice", &slice),
            ("EndpointSlice", &labelled),
            ("Service", &owned),
            ("EndpointSlice", &owned),
        ];
        for (kind, metadata) in imported {
            assert_eq!(read(kind, None, metadata), Err(Unusable::Imported), "{kind} {metadata}");
        }
        let others = [
            ("Service", "derived-isrlchlhr"),
            ("Service", "derived-isrlchlhrz"),
            ("Service", "derived-isrlchlhrq1"),
            ("ServiceExport", "derived-isrlchlhrq"),
            ("EndpointSlice", "imported-isrlchlhrq-ac321fb1-x"),
            ("EndpointSlice", "imported-isrlchlhrq-ac321fbg-1"),
        ];
        for (kind, name) in others {
            let metadata = json!({"namespace": "shop", "name": name});
            assert!(read(kind, None, &metadata).is_ok(), "{kind} {name}");
        }
    }

    #[test]
    fn a_slice_belongs_to_its_label_else_its_owner_else_its_name() {
        let labels = json!({"kubernetes.io/service-name": "cart"});
        let owner = json!([
            {"apiVersion": "v1", "kind": "ReplicationController", "name": "api"},
            {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "name": "api"},
            {"apiVersion": "v1", "kind": "Service", "name": "checkout"}
        ]);
        let cut = format!("{}-x7k2p", "w".repeat(57));
        let rows = [
            (
                json!({"name": "web-x7k2p", "labels": labels, "ownerReferences": owner}),
                Some("cart"),
            ),
            (
                json!({"name": "web-x7k2p", "labels": {}, "ownerReferences": owner}),
                Some("checkout"),
            ),
            (json!({"name": "web-api-x7k2p", "labels": null}), Some("web-api")),
            (json!({"name": "web"}), None),
            (json!({"name": "web-1"}), None),
            (json!({"name": "web-ABCDE"}), None),
            (json!({"name": cut}), None),
        ];
        for (mut metadata, service) in rows {
            metadata["namespace"] = json!("shop");
            let reading = read("EndpointSlice", Some("discovery.k8s.io/v1"), &metadata);
            assert_eq!(reading, Ok(in_shop(service)), "{metadata}");
        }
    }

    #[test]
    fn an_object_without_name_or_namespace_is_incomplete() {
        let rows = [
            ("Service", json!({"namespace": "shop"}), "name"),
            ("Service", json!({"namespace": "shop", "name": ""}), "name"),
            ("Service", json!({"name": "web"}), "namespace"),
            ("Pod", json!({"namespace": "", "name": "web-0"}), "namespace"),
            ("EndpointSlice", json!({"namespace": "shop"}), "name"),
            ("Namespace", json!({"namespace": "shop"}), "name"),
        ];
        for (kind, metadata, missing) in rows {
            let expected = Err(Unusable::IncompleteScope { missing });
            assert_eq!(read(kind, None, &metadata), expected, "{kind} {metadata}");
        }
    }

    #[test]
    fn hostile_names_in_any_place_are_refused() {
        let bad = "web/../../secrets\r\n";
        let rows = [
            ("Service", json!({"namespace": "shop", "name": bad})),
            ("Service", json!({"namespace": bad, "name": "web"})),
            ("Endpoints", json!({"namespace": "shop", "name": "web.shop"})),
            ("Namespace", json!({"name": bad})),
            ("EndpointSlice", json!({"namespace": "shop", "labels": {SERVICE_NAME_LABEL: bad}})),
            ("EndpointSlice", json!({"namespace": "shop", "name": "../web-abcde"})),
            (bad, json!({"namespace": "shop", "name": "web"})),
        ];
        for (kind, metadata) in rows {
            let reading = read(kind, None, &metadata);
            assert!(matches!(reading, Err(Unusable::InvalidName { .. })), "{kind} {metadata}");
        }
    }

    #[test]
    fn every_followed_kind_is_found_by_kind_and_by_resource() {
        let rows = [
            (Kind::Service, "services", "v1"),
            (Kind::EndpointSlice, "endpointslices", "discovery.k8s.io/v1"),
            (Kind::Endpoints, "endpoints", "v1"),
            (Kind::Pod, "pods", "v1"),
            (Kind::Namespace, "namespaces", "v1"),
            (Kind::ServiceExport, "serviceexports", "multicluster.x-k8s.io/v1"),
        ];
        for (kind, resource, version) in rows {
            for name in [kind.as_str(), resource] {
                assert_eq!(followed(name, None), Ok(kind));
                assert_eq!(followed(name, Some("")), Ok(kind));
                assert_eq!(followed(name, Some(version)), Ok(kind));
            }
        }
    }

    #[test]
    fn other_kinds_and_same_names_of_other_groups_are_not_followed() {
        let rows = [
            ("Deployment", Some("apps/v1"), "Deployment.apps"),
            ("Node", Some("v1"), "Node"),
            ("ConfigMap", None, "ConfigMap"),
            ("Service", Some("serving.knative.dev/v1"), "Service.serving.knative.dev"),
            ("EndpointSlice", Some("v1"), "EndpointSlice"),
            ("deployments", None, "deployments"),
            (
                "ServiceImport",
                Some("multicluster.x-k8s.io/v1beta1"),
                "ServiceImport.multicluster.x-k8s.io",
            ),
        ];
        for (kind, version, named) in rows {
            let kind_named = named.to_owned();
            let expected = Err(Unusable::UnknownKind { kind: kind_named });
            assert_eq!(followed(kind, version), expected);
        }
    }

    #[test]
    fn a_text_that_is_no_kind_is_not_repeated() {
        for (kind, version) in [("Pod\n", None), ("", None), ("Pod", Some("a b/v1"))] {
            let reading = followed(kind, version);
            assert!(matches!(reading, Err(Unusable::InvalidName { field: "kind", .. })));
        }
    }

    #[test]
    fn namespaces_and_services_are_dns_labels_and_nothing_else() {
        let longest = "a".repeat(63);
        for good in ["web", "0-day", "a", longest.as_str()] {
            assert_eq!(check_service(good).as_deref(), Ok(good));
            assert_eq!(check_namespace(good).as_deref(), Ok(good));
        }
        let long = "a".repeat(64);
        let hostile = [
            "",
            "-",
            "web-",
            "-web",
            "Web",
            "web.shop",
            "../web",
            "web/../../nodes",
            "web%2e",
            "web?x=1",
            "web\n",
            "web\0",
            "wéb",
            "\u{202e}bew",
            "web web",
            "{{web}}",
            long.as_str(),
        ];
        for bad in hostile {
            assert!(check_service(bad).is_err(), "{bad:?}");
            assert!(check_namespace(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn clusters_are_names_arns_or_other_short_printable_texts() {
        let longest = "c".repeat(160);
        let name = "c".repeat(100);
        let long_arn = format!("arn:aws-us-gov:eks:us-gov-west-1:111122223333:cluster/{name}");
        let good = [
            "blue",
            "Blue_2",
            "production (eu)",
            "arn:aws:eks:eu-central-1:111122223333:cluster/blue",
            longest.as_str(),
            long_arn.as_str(),
        ];
        for good in good {
            assert_eq!(check_cluster(good).as_deref(), Ok(good));
        }
        let long = "c".repeat(161);
        let bad = ["", " ", " blue", "blue\r\nx", "bl\u{1b}[31mue", "blüe", long.as_str()];
        for bad in bad {
            assert!(check_cluster(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn kinds_are_words_with_an_api_group_at_most() {
        for good in ["Deployment", "Service.serving.knative.dev", "endpointslices"] {
            assert_eq!(check_kind(good).as_deref(), Ok(good));
        }
        let long = "K".repeat(64);
        for bad in
            [long.as_str(), "", "two words", "7up", "Kind.", "Kind.-", "Kind\n", ".v1", "Kind/v1"]
        {
            assert!(check_kind(bad).is_err(), "{bad:?}");
        }
    }
}
