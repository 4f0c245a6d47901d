//! The owner of a Kubernetes object: an object is ours if its label `cloud-map-sync/owner` has exactly our value.
//! Neither its name, its owner references nor its managed fields make it ours. Objects are removed here.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::Plan;
use super::change::{Change, Content, Kind, ObjectRef, Stage};
use super::held_back::Reason;
use super::present::{AWS_DERIVED, Metadata, Present, ServiceImport, Texts};
use super::service_import::OWN_ANNOTATIONS;
use crate::model::{ServiceRef, is_label_word};

/// The label that every object of ours has.
pub const OWNER_LABEL: &str = "cloud-map-sync/owner";

/// The value of the label for one installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerLabel(String);

impl OwnerLabel {
    /// `OWNER_ID` itself, or the first 16 hexadecimal digits of its SHA-256 if a label cannot have it as its value.
    pub fn new(owner_id: &str) -> Self {
        let hash = Sha256::digest(owner_id);
        let digits = hash.iter().take(8).map(|byte| format!("{byte:02x}"));
        Self(if is_label_word(owner_id) { owner_id.to_owned() } else { digits.collect() })
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn owns(&self, object: &Metadata) -> bool {
        object.labels.get(OWNER_LABEL) == Some(&self.0)
    }

    /// The selector of the objects that carry it.
    pub fn selector(&self) -> String {
        format!("{OWNER_LABEL}={}", self.0)
    }

    /// The label, to be added to others.
    pub(super) fn label(&self) -> Texts {
        Texts::from([(OWNER_LABEL.to_owned(), self.0.clone())])
    }
}

// The removal of one import from a cluster whose objects are purged. AWS's controller may have come back: then its own
// Services hang on the ServiceImport, which is handed over instead of deleted.

/// All that the removal of an import depends on.
#[derive(Clone, Debug)]
pub struct Removal<'a> {
    pub owner: &'a OwnerLabel,
    pub service: &'a ServiceRef,
    pub present: &'a Present,
    /// The Services of AWS's controller that hang on it, by exporting cluster.
    pub of_aws: BTreeMap<String, String>,
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
                let namespace = self.service.namespace.clone();
                let services = self.of_aws.values().cloned().collect();
                let reason = Reason::ServicesOfAws { namespace, services };
                return Plan::held_back([reason]);
            }
            Some(import) if self.of_aws.is_empty() || self.leads_to_ours(import) => {
                return Plan::held_back([Reason::NotTakenBack]);
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
        ips.any(|ip| import.ips.contains(ip))
    }

    /// The import as AWS's controller makes it. The label goes last and alone: the API server lets us change what
    /// carries it, and take it off what carries that controller's annotation.
    fn hand_over(&self, import: &Metadata) -> Vec<Change> {
        let own = OWN_ANNOTATIONS.into_iter().filter(|key| import.annotations.contains_key(*key));
        let mut annotations: Map<String, Value> =
            own.map(|key| (key.to_owned(), Value::Null)).collect();
        if !import.annotations.contains_key(AWS_DERIVED) {
            let list = self.of_aws.iter();
            let list = list.map(|(cluster, it)| json!({"cluster": cluster, "derived-service": it}));
            let list = list.collect::<Value>().to_string();
            annotations.insert(AWS_DERIVED.to_owned(), json!(list));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_is_the_owner_id_or_its_hash() {
        let longest = "a".repeat(63);
        for id in ["cloud-map-sync", "a", "Team_A.1", &longest] {
            assert_eq!(OwnerLabel::new(id).as_str(), id);
        }
        let too_long = "a".repeat(64);
        for id in ["", "-a", "a-", "team a", "team/a", "ä", &too_long] {
            let label = OwnerLabel::new(id);
            assert!(is_label_word(label.as_str()) && label.as_str().len() == 16, "{label:?}");
        }
        // Made with sha256sum.
        assert_eq!(OwnerLabel::new("team/a").as_str(), "65f838a2fbff37d8");
    }

    #[test]
    fn object_is_ours_only_if_the_label_matches_exactly() {
        let owner = OwnerLabel::new("cloud-map-sync");
        let labelled = |key: &str, value: &str| Metadata {
            labels: Texts::from([(key.to_owned(), value.to_owned())]),
            manager: Some("cloud-map-sync".to_owned()),
            ..Metadata::default()
        };
        assert!(owner.owns(&labelled(OWNER_LABEL, "cloud-map-sync")));
        for (key, value) in [
            (OWNER_LABEL, "cloud-map-sync2"),
            (OWNER_LABEL, "Cloud-Map-Sync"),
            (OWNER_LABEL, ""),
            ("endpointslice.kubernetes.io/managed-by", "cloud-map-sync"),
        ] {
            assert!(!owner.owns(&labelled(key, value)), "{key}={value}");
        }
    }
}
