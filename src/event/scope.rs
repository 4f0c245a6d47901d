//! The scope of an event: a cluster, in it a Kubernetes namespace, in it a Service. Names are checked here;
//! whether they exist is checked when the cluster is read.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Unusable, object};

/// The cluster of a scope, as an event names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, thiserror::Error)]
#[serde(into = "String")]
pub enum ClusterName {
    /// Every configured cluster: a `sync` or `plan` without a scope.
    #[error("every cluster")]
    Every,
    /// The only configured cluster: the event has a namespace and no cluster. If several clusters are configured, such
    /// a scope is rejected.
    #[error("the only cluster")]
    Only,
    /// An EKS cluster's name or ARN, as the sender is configured.
    #[error("{0}")]
    Named(String),
}

impl ClusterName {
    /// Reads the cluster's name that a sender is configured with.
    ///
    /// # Errors
    /// Returns an error if a message must not contain this name.
    pub fn parse(text: &str) -> Result<Self, Unusable> {
        object::check_cluster(text).map(Self::Named)
    }
}

impl From<ClusterName> for String {
    fn from(cluster: ClusterName) -> Self {
        cluster.to_string()
    }
}

/// The part of the clusters to sync. A Service always has its namespace, and `Every` has neither.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Scope {
    /// The cluster.
    pub cluster: ClusterName,
    /// The Kubernetes namespace; absent: all of the cluster.
    pub namespace: Option<String>,
    /// The Kubernetes Service; absent: all of the namespace.
    pub service: Option<String>,
    /// Whether the Service is only imported: another invocation has synced its exports.
    #[serde(skip)]
    pub import_only: bool,
}

impl Scope {
    /// Every Service of every configured cluster.
    pub fn every() -> Self {
        let (namespace, service) = (None, None);
        Self { cluster: ClusterName::Every, namespace, service, import_only: false }
    }

    /// Reads the fields `cluster`, `namespace` and `service`. An empty name is an error and does not count as absent,
    /// since that would widen the scope.
    pub(super) fn from_fields(object: &Map<String, Value>) -> Result<Self, Unusable> {
        let cluster = object::read_text(object, "cluster", object::check_cluster)?;
        let namespace = object::read_text(object, "namespace", object::check_namespace)?;
        let service = object::read_text(object, "service", object::check_service)?;
        match (namespace, service) {
            (Some(namespace), service) => Ok(Self::inside(namespace, service).in_cluster(cluster)),
            (None, None) => Ok(Self::every().in_cluster(cluster)),
            (None, Some(_)) => Err(Unusable::IncompleteScope { missing: "namespace" }),
        }
    }

    /// Reads those fields, and `import`, of a message that the function sent to itself for another cluster. It names one
    /// Service.
    pub(super) fn of_import(self, object: &Map<String, Value>) -> Result<Self, Unusable> {
        match object.get("import") {
            None | Some(Value::Null | Value::Bool(false)) => Ok(self),
            Some(Value::Bool(true)) if self.service.is_some() => {
                Ok(Self { import_only: true, ..self })
            }
            Some(Value::Bool(true)) => Err(Unusable::IncompleteScope { missing: "service" }),
            Some(_) => Err(Unusable::InvalidName { field: "import", expected: "true or false" }),
        }
    }

    /// A namespace, or one Service of it, without the cluster's name.
    pub(super) fn inside(namespace: String, service: Option<String>) -> Self {
        let namespace = Some(namespace);
        Self { cluster: ClusterName::Only, namespace, service, ..Self::every() }
    }

    /// Sets the cluster, unless the scope already has one.
    pub(super) fn in_cluster(mut self, name: Option<String>) -> Self {
        if let (ClusterName::Every | ClusterName::Only, Some(name)) = (&self.cluster, name) {
            self.cluster = ClusterName::Named(name);
        }
        self
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cluster.fmt(f)?;
        for name in [&self.namespace, &self.service].into_iter().flatten() {
            write!(f, "/{name}")?;
        }
        f.write_str(if self.import_only { " (import)" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> Result<Scope, Unusable> {
        Scope::from_fields(value.as_object().expect("an object"))
    }

    #[test]
    fn named_fields_print_as_a_path() {
        let rows = [
            (json!({}), "every cluster"),
            (json!({"cluster": "blue"}), "blue"),
            (json!({"cluster": "blue", "namespace": "shop"}), "blue/shop"),
            (json!({"cluster": "blue", "namespace": "shop", "service": "web"}), "blue/shop/web"),
            (json!({"namespace": "shop"}), "the only cluster/shop"),
            (json!({"namespace": "shop", "service": "web"}), "the only cluster/shop/web"),
            (
                json!({"cluster": null, "namespace": "shop", "service": null}),
                "the only cluster/shop",
            ),
        ];
        for (fields, printed) in rows {
            assert_eq!(read(&fields).map(|s| s.to_string()), Ok(printed.to_owned()));
        }
    }

    #[test]
    fn a_service_without_its_namespace_is_incomplete() {
        assert_eq!(
            read(&json!({"cluster": "blue", "service": "web"})),
            Err(Unusable::IncompleteScope { missing: "namespace" })
        );
    }

    #[test]
    fn an_empty_or_foreign_typed_name_never_widens_the_scope() {
        for field in ["cluster", "namespace", "service"] {
            for bad in [json!(""), json!(7), json!(["web"]), json!({}), json!("a\nb")] {
                let mut fields = json!({"cluster": "blue", "namespace": "shop", "service": "web"});
                fields[field] = bad;
                let reading = read(&fields);
                assert!(
                    matches!(reading, Err(Unusable::InvalidName { field: named, .. }) if named == field),
                    "{fields}: {reading:?}"
                );
            }
        }
    }

    #[test]
    fn a_cluster_named_inside_wins_over_one_named_outside() {
        let outside = Some("green".to_owned());
        let named = read(&json!({"cluster": "blue", "namespace": "shop"})).expect("a scope");
        assert_eq!(named.in_cluster(outside.clone()).to_string(), "blue/shop");
        let unnamed = read(&json!({"namespace": "shop"})).expect("a scope");
        assert_eq!(unnamed.in_cluster(outside).to_string(), "green/shop");
    }

    #[test]
    fn scopes_serialise_without_absent_names() {
        let scope = read(&json!({"cluster": "blue", "namespace": "shop"})).expect("a scope");
        assert_eq!(
            serde_json::to_value(scope).expect("JSON"),
            json!({"cluster": "blue", "namespace": "shop"})
        );
        assert_eq!(
            serde_json::to_value(Scope::every()).expect("JSON"),
            json!({"cluster": "every cluster"})
        );
    }
}
