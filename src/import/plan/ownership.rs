//! The owner of a Kubernetes object: an object is ours if its label `cloud-map-sync/owner` has exactly our value. Its
//! name, owner references and managed fields do not matter. This module also plans the removal of a purged cluster's
//! objects.

use sha2::{Digest, Sha256};

use super::Plan;
use super::change::{Change, Kind, ObjectRef};
use super::present_objects::{Metadata, Present, Texts};
use crate::model::{ServiceRef, is_label_word};

/// The label that every object of ours has.
pub const OWNER_LABEL: &str = "cloud-map-sync/owner";

/// The value of the label for one installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerLabel(String);

impl OwnerLabel {
    /// `OWNER_ID` itself, or the first 16 hexadecimal digits of its SHA-256 if `OWNER_ID` is not a valid label value.
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

    /// The selector of the objects with the label.
    pub fn selector(&self) -> String {
        format!("{OWNER_LABEL}={}", self.0)
    }

    /// The label, to be added to others.
    pub(super) fn label(&self) -> Texts {
        Texts::from([(OWNER_LABEL.to_owned(), self.0.clone())])
    }
}

/// Plans the removal of an import from a purged cluster. If there is a ServiceImport that is not being deleted, garbage
/// collection deletes its Service and slices with it. Otherwise they are deleted directly.
pub fn removal(owner: &OwnerLabel, service: &ServiceRef, present: &Present) -> Plan {
    let is_removable = |metadata: &Metadata| owner.owns(metadata) && !metadata.is_terminating;
    let import = present.import.as_ref().filter(|import| is_removable(&import.metadata));
    let mut plan = Plan::default();
    for (kind, metadata) in present.objects() {
        let is_meant = (kind == Kind::ServiceImport) == import.is_some();
        if is_meant && is_removable(metadata) {
            let object = ObjectRef::of(service, kind, &metadata.name);
            plan.changes.push(Change::deletion(object, "its cluster is purged"));
        }
    }
    plan
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
