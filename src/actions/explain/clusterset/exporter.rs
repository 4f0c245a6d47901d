//! One exporter of a name: who runs it, its age, and the properties of the import that it decides.

use serde::{Deserialize, Serialize};

use super::Facts;
use crate::actions::age::age;
use crate::clusterset::merge::{Decision, decisions};
use crate::import::plan::Read;
use crate::model::clusterset::{ClusterId, Export};

/// One exporter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExporterLine {
    /// Its cluster id.
    pub member: String,
    /// `OWNER_ID` of the installation that runs it; absent if AWS's controller does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The creation of its ServiceExport.
    pub created: String,
    /// The age of its ServiceExport.
    pub age: String,
    /// The properties of the import that it decides.
    pub decides: Vec<String>,
}

/// All exporters, in precedence.
pub(super) fn exporters(facts: &Facts<'_>, own: &str) -> Vec<ExporterLine> {
    let mut exports: Vec<&Export> = facts.known.exports.iter().collect();
    exports.sort_by_key(|export| (export.created, &export.cluster));
    let merged = facts.known.merged.as_deref();
    let decided: Vec<Decision> =
        merged.map(|merged| decisions(&merged.service, &facts.known.exports)).unwrap_or_default();
    let line = |export: &&Export| {
        let decides = decided.iter().filter(|it| it.by == export.cluster);
        ExporterLine {
            member: export.cluster.to_string(),
            owner: owner(facts, &export.cluster, own),
            created: export.created.to_string(),
            age: age(export.created, facts.now),
            decides: decides.map(|it| it.property.clone()).collect(),
        }
    };
    exports.iter().map(line).collect()
}

/// The members of which nothing is known about the name.
pub(super) fn unread<'a>(facts: &'a Facts<'_>) -> impl Iterator<Item = &'a ClusterId> {
    let members = facts.known.sources.by_cluster.iter();
    members.filter(|(_, read)| **read == Read::Unread).map(|(cluster, _)| cluster)
}

fn owner(facts: &Facts<'_>, cluster: &ClusterId, own: &str) -> Option<String> {
    if facts.members.is_read_there(cluster, facts.name) {
        return Some(own.to_owned());
    }
    facts.members.owner_of(cluster, facts.name).map(|owner| owner.id.clone())
}
