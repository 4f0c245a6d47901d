//! The removal of one import from a cluster whose objects are purged. AWS's controller may have come back: then its own
//! Services hang on the ServiceImport, which is handed over instead of deleted.

use serde_json::{Map, Value, json};

use super::change::{Change, Content, Kind, ObjectRef, Stage};
use super::ownership::{OWNER_LABEL, OwnerLabel};
use super::present::{AWS_DERIVED, Metadata, Present, ServiceImport};
use super::service_import::OWN_ANNOTATIONS;
use super::{Plan, Reason};
use crate::model::ServiceRef;

/// All that the removal of an import depends on.
#[derive(Clone, Debug)]
pub struct Removal<'a> {
    pub owner: &'a OwnerLabel,
    pub service: &'a ServiceRef,
    pub present: &'a Present,
    /// The Services of AWS's controller that hang on it.
    pub of_aws: Vec<String>,
    /// The annotation with which that controller lists them.
    pub annotation: String,
    /// Whether that controller serves the cluster again.
    pub is_back: bool,
}

impl Removal<'_> {
    pub fn plan(&self) -> Plan {
        let import = self.present.import.as_ref().filter(|import| self.owns(&import.metadata));
        let changes = match import {
            None => self.deletions(false),
            Some(_) if !self.is_back && self.of_aws.is_empty() => self.deletions(true),
            Some(_) if !self.is_back => {
                let (namespace, services) = (self.service.namespace.clone(), self.of_aws.clone());
                let reason = Reason::ServicesOfAws { namespace, services };
                return Plan::held_back(self.service, Some(reason));
            }
            Some(import) if self.of_aws.is_empty() || self.leads_to_ours(import) => {
                return Plan::held_back(self.service, Some(Reason::NotTakenBack));
            }
            Some(import) => {
                self.hand_over(&import.metadata).into_iter().chain(self.deletions(false)).collect()
            }
        };
        Plan { changes, ..Plan::default() }
    }

    fn owns(&self, metadata: &Metadata) -> bool {
        self.owner.owns(metadata) && !metadata.is_terminating
    }

    /// Whether the import has an IP of our derived Service.
    fn leads_to_ours(&self, import: &ServiceImport) -> bool {
        let derived = self.present.derived.iter().filter(|it| self.owner.owns(&it.metadata));
        let mut ips = derived.flat_map(|derived| &derived.cluster_ips);
        ips.any(|ip| import.spec.ips.contains(ip))
    }

    /// The import as AWS's controller makes it. The label goes last and alone: the API server lets us change what
    /// carries it, and take it off what carries that controller's annotation.
    fn hand_over(&self, import: &Metadata) -> Vec<Change> {
        let own = OWN_ANNOTATIONS.into_iter().filter(|key| import.annotations.contains_key(*key));
        let mut annotations: Map<String, Value> =
            own.map(|key| (key.to_owned(), Value::Null)).collect();
        if !import.annotations.contains_key(AWS_DERIVED) {
            annotations.insert(AWS_DERIVED.to_owned(), json!(self.annotation));
        }
        let steps = [
            (json!({"annotations": annotations}), "annotations"),
            (json!({"labels": {OWNER_LABEL: null}}), "handed over to AWS's controller"),
        ];
        let changes = steps.into_iter().filter_map(|(metadata, detail)| {
            let object = ObjectRef::of(self.service, Kind::ServiceImport, &import.name);
            let content = Content::new(json!({"metadata": metadata}));
            let change = Change::patch(Stage::UpdateImport, object, content)?;
            Some(Change { detail: detail.to_owned(), ..change })
        });
        changes.collect()
    }

    /// The deletion of the ServiceImport, or of the derived Service and the slices.
    fn deletions(&self, of_import: bool) -> Vec<Change> {
        let is_meant = |kind| (kind == Kind::ServiceImport) == of_import;
        let objects = self.present.objects();
        let objects = objects.filter(|(kind, metadata)| is_meant(*kind) && self.owns(metadata));
        let deletions = objects.map(|(kind, metadata)| {
            let object = ObjectRef::of(self.service, kind, &metadata.name);
            Change::deletion(object, "its cluster is purged")
        });
        deletions.collect()
    }
}
