//! The owner of a Kubernetes object: an object is ours if its label `cloud-map-sync/owner` has exactly our value.
//! Neither its name, its owner references nor its managed fields make it ours.

use serde_json::json;
use sha2::{Digest, Sha256};

use super::Plan;
use super::change::{Change, Content, ObjectRef, Stage};
use super::present::{Metadata, Present, Texts};
use crate::model::ServiceRef;
use crate::model::name::is_label_word;

/// The label that every object of ours has.
pub const OWNER_LABEL: &str = "cloud-map-sync/owner";

/// The value of the label for one installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerLabel(String);

impl OwnerLabel {
    /// `OWNER_ID` itself, or the first 16 hexadecimal digits of its SHA-256 if a label cannot have it as its value.
    pub fn new(owner_id: &str) -> Self {
        Self(if is_label_word(owner_id) { owner_id.to_owned() } else { digits(owner_id) })
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

fn digits(text: &str) -> String {
    let hash = Sha256::digest(text);
    let halves = hash.iter().take(8).flat_map(|byte| [byte >> 4, byte & 15]);
    halves.filter_map(|half| char::from_digit(u32::from(half), 16)).collect()
}

// The adoption of the objects of an import from a former `OWNER_ID`: they get our label and stay as they are, so its
// IPs stay, too. The ServiceImport is the last: while it is another owner's, no sync changes the import.

/// Plans the adoption of one import.
pub fn adopt_former(
    (former, owner): (&OwnerLabel, &OwnerLabel),
    service: &ServiceRef,
    present: &Present,
) -> Plan {
    let is_adopted = |it: &Metadata| former.owns(it) && !owner.owns(it) && !it.is_terminating;
    let all = present.objects().filter(|(_, metadata)| is_adopted(metadata));
    let changes = all.filter_map(|(kind, metadata)| {
        let label = Content::new(json!({"metadata": {"labels": owner.label()}}));
        let object = ObjectRef::of(service, kind, &metadata.name);
        let detail = format!("taken over from the owner {}", former.as_str());
        Some(Change { detail, ..Change::patch(Stage::UpdateImport, object, label)? })
    });
    Plan { changes: changes.collect(), ..Plan::default() }
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
