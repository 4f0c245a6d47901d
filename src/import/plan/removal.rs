//! The removal of one import from a cluster whose objects are purged. AWS's controller may have come back: then its own
//! Services hang on the ServiceImport, which is handed over instead of deleted.

use serde_json::{Value, json};

use super::change::{Change, Content, Kind, ObjectRef, Stage, Write};
use super::ownership::{OWNER_LABEL, OwnerLabel};
use super::present::{AWS_DERIVED, Metadata, Present, ServiceImport};
use super::service_import::OWN_ANNOTATIONS;
use super::{HeldBack, Plan, Reason};
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
        let owns = |metadata: &Metadata| self.owner.owns(metadata) && !metadata.is_terminating;
        let import = self.present.import.as_ref().filter(|import| owns(&import.metadata));
        let Some(import) = import else { return changes(self.objects()) };
        match (self.is_back, self.of_aws.is_empty()) {
            (false, true) => {
                let object = self.object(Kind::ServiceImport, &self.service.name);
                changes(vec![deletion(Stage::DeleteImport, object)])
            }
            (false, false) => self.held_back(Reason::ServicesOfAws {
                namespace: self.service.namespace.clone(),
                services: self.of_aws.clone(),
            }),
            (true, false) if !self.leads_to_ours(import) => {
                changes(self.hand_over(import).into_iter().chain(self.objects()).collect())
            }
            (true, _) => self.held_back(Reason::NotTakenBack),
        }
    }

    /// Whether the import has an IP of our derived Service.
    fn leads_to_ours(&self, import: &ServiceImport) -> bool {
        let derived = self.present.derived.iter().filter(|it| self.owner.owns(&it.metadata));
        let mut ips = derived.flat_map(|derived| &derived.cluster_ips);
        ips.any(|ip| import.spec.ips.contains(ip))
    }

    /// The import as AWS's controller makes it. The label goes last and alone: the API server lets us change what
    /// carries it, and take it off what carries that controller's annotation.
    fn hand_over(&self, import: &ServiceImport) -> Vec<Change> {
        let own =
            OWN_ANNOTATIONS.iter().filter(|key| import.metadata.annotations.contains_key(**key));
        let mut annotations: serde_json::Map<String, Value> =
            own.map(|key| ((*key).to_owned(), Value::Null)).collect();
        if !import.metadata.annotations.contains_key(AWS_DERIVED) {
            annotations.insert(AWS_DERIVED.to_owned(), json!(self.annotation));
        }
        let object = || self.object(Kind::ServiceImport, &self.service.name);
        let patch = |body: Value, detail: &str| Change {
            stage: Stage::UpdateImport,
            object: object(),
            write: Write::Patch(Content { body, ..Content::default() }),
            detail: detail.to_owned(),
        };
        let annotated = (!annotations.is_empty())
            .then(|| patch(json!({"metadata": {"annotations": annotations}}), "annotations"));
        let unlabelled = json!({"metadata": {"labels": {OWNER_LABEL: null}}});
        let released = patch(unlabelled, "handed over to AWS's controller");
        annotated.into_iter().chain([released]).collect()
    }

    /// The deletion of the derived Service and the slices.
    fn objects(&self) -> Vec<Change> {
        let owns = |metadata: &&Metadata| self.owner.owns(metadata) && !metadata.is_terminating;
        let slices = self.present.slices.iter().map(|slice| &slice.metadata).filter(owns);
        let slices = slices.map(|it| self.object(Kind::EndpointSlice, &it.name));
        let derived = self.present.derived.iter().map(|derived| &derived.metadata).filter(owns);
        let derived = derived.map(|it| self.object(Kind::Service, &it.name));
        let slices = slices.map(|object| deletion(Stage::RemoveEndpoints, object));
        derived.map(|object| deletion(Stage::RemovePorts, object)).chain(slices).collect()
    }

    fn object(&self, kind: Kind, name: &str) -> ObjectRef {
        ObjectRef { kind, namespace: self.service.namespace.clone(), name: name.to_owned() }
    }

    fn held_back(&self, reason: Reason) -> Plan {
        let held_back = vec![HeldBack { service: self.service.clone(), reason }];
        Plan { changes: Vec::new(), held_back }
    }
}

fn changes(changes: Vec<Change>) -> Plan {
    Plan { changes, held_back: Vec::new() }
}

fn deletion(stage: Stage, object: ObjectRef) -> Change {
    Change { stage, object, write: Write::Delete, detail: "its cluster is purged".to_owned() }
}
