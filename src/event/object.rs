//! From a Kubernetes object, or a reference to one, to the scope that its change affects. Only its kind, its names and,
//! for an EndpointSlice, its Service are read.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::kind::Followed;
use super::{Scope, Unusable, name};
use crate::model::clusterset::{is_derived_service, is_imported_slice};

const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";
/// The label of the objects of imports.
const OWNER_LABEL: &str = "cloud-map-sync/owner";

/// Kubernetes appends 5 random characters to a slice's name, after cutting the Service's part to 58 characters.
const SUFFIX_LENGTH: usize = 5;
const LONGEST_GENERATED_NAME: usize = 63;

/// The part of an object's metadata that gives its scope.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<Owner>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner {
    #[serde(default)]
    api_version: String,
    kind: String,
    name: String,
}

impl Metadata {
    /// Reads an object's `metadata`, or a reference, which has the same fields at its top level.
    pub(super) fn read(fields: &Map<String, Value>) -> Result<Self, Unusable> {
        Self::deserialize(fields).map_err(|_| Unusable::UnknownShape)
    }

    /// The metadata of a reference that has no more than names.
    pub(super) fn of_reference(name: Option<String>, namespace: Option<String>) -> Self {
        Self { name, namespace, labels: None, owner_references: None }
    }

    fn name(&self) -> Result<&str, Unusable> {
        let name = self.name.as_deref().filter(|name| !name.is_empty());
        name.ok_or(Unusable::IncompleteScope { missing: "name" })
    }

    fn namespace(&self) -> Result<String, Unusable> {
        let namespace = self.namespace.as_deref().filter(|name| !name.is_empty());
        name::namespace(namespace.ok_or(Unusable::IncompleteScope { missing: "namespace" })?)
    }

    /// Whether the object belongs to an import: this function wrote it, and it changes no export.
    fn is_imported(&self, kind: Followed) -> bool {
        let name = self.name.as_deref().unwrap_or_default();
        let labels = self.labels.iter().flatten();
        let has_owner = labels.clone().any(|(key, _)| key == OWNER_LABEL);
        let of_derived = |(key, value): (&String, &String)| {
            key == SERVICE_NAME_LABEL && is_derived_service(value)
        };
        match kind {
            Followed::Service | Followed::Endpoints => has_owner || is_derived_service(name),
            Followed::EndpointSlice => {
                has_owner || is_imported_slice(name) || labels.into_iter().any(of_derived)
            }
            Followed::Pod | Followed::Namespace | Followed::ServiceExport => false,
        }
    }

    /// The Service of an EndpointSlice, by its label, owner or name; absent if none of them shows it, so that the whole
    /// namespace is synced.
    fn service_of_slice(&self) -> Result<Option<&str>, Unusable> {
        let labels = self.labels.as_ref();
        if let Some(service) = labels.and_then(|labels| labels.get(SERVICE_NAME_LABEL)) {
            return Ok(Some(service));
        }
        let owners = self.owner_references.iter().flatten();
        let is_service = |owner: &&Owner| {
            owner.kind == "Service" && matches!(owner.api_version.as_str(), "" | "v1")
        };
        match owners.into_iter().find(is_service) {
            Some(owner) => Ok(Some(&owner.name)),
            None => Ok(without_suffix(self.name()?)),
        }
    }
}

/// The scope that a change of this object affects. `kind` may also be the resource's plural name.
pub(super) fn scope(
    kind: &str,
    api_version: Option<&str>,
    metadata: &Metadata,
) -> Result<Scope, Unusable> {
    let inside = |service: Option<&str>| {
        let service = service.map(name::service).transpose()?;
        Ok(Scope::inside(metadata.namespace()?, service))
    };
    let followed = Followed::find(kind, api_version)?;
    if metadata.is_imported(followed) {
        return Err(Unusable::Imported);
    }
    match followed {
        Followed::Service | Followed::Endpoints | Followed::ServiceExport => {
            inside(Some(metadata.name()?))
        }
        Followed::EndpointSlice => inside(metadata.service_of_slice()?),
        // Any Service of the namespace may select the pod.
        Followed::Pod => inside(None),
        Followed::Namespace => Ok(Scope::inside(name::namespace(metadata.name()?)?, None)),
    }
}

/// `web-x7k2p` -> `web`. `None` for a name without a generated suffix, and for a name so long that the Service's part
/// may have been cut.
fn without_suffix(slice: &str) -> Option<&str> {
    let (service, suffix) = slice.rsplit_once('-')?;
    let generated = suffix.len() == SUFFIX_LENGTH
        && suffix.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    (generated && slice.len() < LONGEST_GENERATED_NAME).then_some(service)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(kind: &str, api_version: Option<&str>, metadata: &Value) -> Result<String, Unusable> {
        let metadata = Metadata::read(metadata.as_object().expect("an object"))?;
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
}
