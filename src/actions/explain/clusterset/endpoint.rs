//! The fate of one endpoint of a clusterset in the import of this cluster.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::Facts;
use crate::import::plan::{Absent, Present, Read, SliceEndpoint};
use crate::import::sources::Candidate;
use crate::model::Family;
use crate::model::clusterset::ClusterId;

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportedLine {
    /// The cluster that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    pub address: String,
    /// The ports that it listens at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    pub fate: ImportFate,
    /// The fate in a sentence.
    pub detail: String,
}

/// The fate of an endpoint in an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportFate {
    /// It is in the import.
    Imported,
    /// It stays in the import, since its cluster was not read.
    Kept,
    /// The next sync adds it.
    ToAdd,
    /// The next sync removes it.
    ToRemove,
    /// It is meant to stay out: its pod is not ready, or is terminating.
    NotReady,
    /// It stays out of the import although it takes traffic.
    LeftOut,
}

/// The endpoints that a cluster's import has, by source cluster.
type Slices = BTreeSet<(Option<ClusterId>, IpAddr)>;

/// Every endpoint of the name, and those that the import still has.
pub(super) fn endpoints(
    facts: &Facts<'_>,
    present: &Present,
    can_import: bool,
) -> Vec<ImportedLine> {
    let owner = &facts.joined.owner;
    let own = present.slices.iter().filter(|slice| owner.owns(&slice.metadata));
    let in_slices = own.flat_map(|slice| {
        let addresses = slice.endpoints.iter().filter_map(SliceEndpoint::address);
        addresses.map(|address| (slice.source(), address))
    });
    let mut in_import: Slices = in_slices.collect();
    let families = families(facts, present);
    let candidates = facts.members.candidates(facts.name, &facts.known.sources, &families);
    let mut lines: Vec<ImportedLine> = Vec::new();
    for candidate in candidates {
        let address = candidate.address.parse::<IpAddr>().ok();
        let key = address.map(|address| (candidate.cluster.clone(), address));
        let is_in = key.is_some_and(|key| in_import.remove(&key));
        let (fate, detail) = fate(facts, &candidate, is_in, can_import);
        lines.push(ImportedLine {
            member: candidate.cluster.map(|it| it.to_string()),
            address: candidate.address,
            ports: candidate.ports,
            pod: candidate.pod,
            fate,
            detail,
        });
    }
    let gone = in_import.into_iter().map(|(cluster, address)| {
        let (fate, detail) = if is_unread(facts, cluster.as_ref()) { KEPT } else { GONE };
        ImportedLine {
            member: cluster.map(|it| it.to_string()),
            address: address.to_string(),
            ports: Vec::new(),
            pod: None,
            fate,
            detail: detail.to_owned(),
        }
    });
    lines.extend(gone);
    lines
}

const KEPT: (ImportFate, &str) =
    (ImportFate::Kept, "stays in the import: the exports of its cluster could not be read");
const GONE: (ImportFate, &str) =
    (ImportFate::ToRemove, "in the import, and a sync would remove it: its cluster has it no more");

/// The families of the import as it is; of a new one those of the exports.
fn families(facts: &Facts<'_>, present: &Present) -> Vec<Family> {
    let import = present.import.as_ref().map(|import| import.spec.families.clone());
    let import = import.filter(|families| !families.is_empty());
    let merged = facts.known.merged.as_ref().map(|merged| merged.service.families.clone());
    import.or(merged).unwrap_or_default()
}

fn is_unread(facts: &Facts<'_>, cluster: Option<&ClusterId>) -> bool {
    let sources = &facts.known.sources;
    match cluster.and_then(|cluster| sources.by_cluster.get(cluster)) {
        Some(read) => *read == Read::Unread,
        None => !sources.is_complete,
    }
}

fn fate(
    facts: &Facts<'_>,
    candidate: &Candidate,
    is_in: bool,
    can_import: bool,
) -> (ImportFate, String) {
    if is_unread(facts, candidate.cluster.as_ref()) {
        let (fate, detail) = if is_in { KEPT } else { UNREAD };
        return (fate, detail.to_owned());
    }
    match (candidate.absent, is_in) {
        (None, true) if candidate.ready => (ImportFate::Imported, "in the import".to_owned()),
        (None, true) => (ImportFate::Imported, "in the import, not ready".to_owned()),
        (None, false) if can_import => {
            (ImportFate::ToAdd, "a sync would add it to the import".to_owned())
        }
        (None, false) => (ImportFate::LeftOut, "not in the import: see the lines above".to_owned()),
        (Some(absent), true) => {
            let detail = format!("in the import, and a sync would remove it: {absent}");
            (ImportFate::ToRemove, detail)
        }
        (Some(absent), false) => (left_out(absent), format!("not in the import: {absent}")),
    }
}

const UNREAD: (ImportFate, &str) =
    (ImportFate::LeftOut, "not in the import: the exports of its cluster could not be read");

fn left_out(absent: Absent) -> ImportFate {
    if absent.is_expected() { ImportFate::NotReady } else { ImportFate::LeftOut }
}
