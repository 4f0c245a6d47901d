//! The Services that AWS's controller derived for its imports: one for each exporting cluster, whose IPs clients may have.
//! They hang on the ServiceImport, and this function never deletes them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::plan::{Metadata, OwnerLabel, SOURCE_CLUSTER};
use crate::kubernetes::objects::Resource;
use crate::kubernetes::{Error, Kubernetes};
use crate::model::ServiceRef;

/// The label of such a Service that names the import. Ours do not have it.
const IMPORT: &str = "multicluster.kubernetes.io/service-name";

/// The Services that AWS's controller derived, by import.
#[derive(Clone, Debug, Default)]
pub struct DerivedOfAws(BTreeMap<ServiceRef, BTreeMap<String, String>>);

impl DerivedOfAws {
    /// # Errors
    /// Returns an error if the Services could not be listed.
    pub async fn read(kubernetes: &Kubernetes, owner: &OwnerLabel) -> Result<Self, Error> {
        let services = kubernetes.objects(Resource::Services, IMPORT).await?;
        Ok(Self::of(&services, owner))
    }

    fn of(services: &[Value], owner: &OwnerLabel) -> Self {
        let mut all: BTreeMap<ServiceRef, BTreeMap<String, String>> = BTreeMap::new();
        for service in services {
            let metadata = Metadata::read(service);
            let label = |key: &str| metadata.labels.get(key).cloned();
            let (Some(import), Some(cluster)) = (label(IMPORT), label(SOURCE_CLUSTER)) else {
                continue;
            };
            if !owner.owns(&metadata) {
                let namespace = service["metadata"]["namespace"].as_str().unwrap_or_default();
                let import = ServiceRef::new(namespace, &import);
                all.entry(import).or_default().insert(cluster, metadata.name);
            }
        }
        Self(all)
    }

    /// The names of those that hang on an import.
    pub fn names(&self, import: &ServiceRef) -> Vec<String> {
        self.0.get(import).into_iter().flat_map(BTreeMap::values).cloned().collect()
    }

    /// The annotation with which that controller lists them on an import.
    pub fn annotation(&self, import: &ServiceRef) -> String {
        let all = self.0.get(import).into_iter().flatten();
        let list = all.map(|(cluster, name)| json!({"cluster": cluster, "derived-service": name}));
        Value::from(list.collect::<Vec<_>>()).to_string()
    }

    /// The commands that delete them, one for each namespace.
    pub fn commands(&self) -> Vec<String> {
        let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (import, services) in &self.0 {
            let all = services.values().map(String::as_str);
            names.entry(&import.namespace).or_default().extend(all);
        }
        let command = |(namespace, names): (&str, BTreeSet<&str>)| {
            let names = names.into_iter().collect::<Vec<_>>().join(" ");
            format!("kubectl delete services --namespace {namespace} {names}")
        };
        names.into_iter().map(command).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_of_awss_controller_are_listed_by_import() {
        let service = |name: &str, labels: Value| json!({"metadata": {"namespace": "shop", "name": name, "labels": labels}});
        let owner = OwnerLabel::new("cloud-map-sync");
        let of_aws = |cluster: &str| json!({IMPORT: "web", SOURCE_CLUSTER: cluster});
        let mut ours = of_aws("blue");
        ours["cloud-map-sync/owner"] = json!("cloud-map-sync");
        let all = [
            service("imported-2", of_aws("green")),
            service("imported-1", of_aws("blue")),
            service("derived-1", ours),
            service("by-hand", json!({IMPORT: "web"})),
        ];
        let derived = DerivedOfAws::of(&all, &owner);
        let web = ServiceRef::new("shop", "web");
        assert_eq!(derived.names(&web), ["imported-1", "imported-2"]);
        let command = "kubectl delete services --namespace shop imported-1 imported-2";
        assert_eq!(derived.commands(), [command]);
        insta::assert_snapshot!(derived.annotation(&web), @r#"[{"cluster":"blue","derived-service":"imported-1"},{"cluster":"green","derived-service":"imported-2"}]"#);
    }
}
