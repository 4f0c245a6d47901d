//! The part of an explanation about a clusterset: the export and the import of one name, in one member. It reads what a
//! targeted sync of the name reads, plans both, and writes nothing. The other members are as Cloud Map has them.
//!
//! `clusterset_answer` has it as data.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::clusterset_answer::ClustersetExplanation;
use crate::clusterset::conditions::ExportOutcome;
use crate::import::OwnRecord;
use crate::import::plan::{Absent, Present, Read, SliceEndpoint};
use crate::import::sources::{Candidate, Members, MergedName};
use crate::model::{ClusterId, Family, Selection, ServiceExport, ServiceRef, Timestamp};
use crate::publish::exports::PublishedExports;
use crate::publish::observe::{Served, SharedRegistry};
use crate::publish::plan::{self, Observation, Plan};
use crate::reconcile::{Invocation, Joined, unread};
use crate::report::Obstacle;
use crate::settings::Cluster;

/// The clusterset part of an explanation, and the export in Cloud Map with its plan.
#[derive(Default)]
pub(super) struct Explained {
    pub(super) answer: ClustersetExplanation,
    /// The instances of the export.
    pub(super) instances: Option<(Observation, Plan)>,
}

/// All that is known about the name.
pub(super) struct Facts<'a> {
    pub(super) name: &'a ServiceRef,
    pub(super) joined: &'a Joined<'a>,
    pub(super) export: Option<&'a ServiceExport>,
    pub(super) outcome: Option<&'a ExportOutcome>,
    pub(super) known: &'a MergedName,
    pub(super) members: &'a Members<'a>,
    pub(super) now: Timestamp,
}

impl Invocation<'_> {
    /// Explains a name in its clusterset. `None` if the cluster takes part in none.
    pub(super) async fn explain_clusterset(
        &self,
        cluster: &Cluster,
        registry: &SharedRegistry,
        name: &ServiceRef,
    ) -> Option<Explained> {
        let selection = Selection::service(name.clone());
        let explained = match self.join(cluster, &selection).await? {
            Ok(joined) => self.explain_member(&joined, registry, name).await,
            Err(obstacle) => Err(obstacle),
        };
        Some(explained.unwrap_or_else(|obstacle| Explained {
            answer: ClustersetExplanation::refused(&obstacle),
            instances: None,
        }))
    }

    async fn explain_member(
        &self,
        joined: &Joined<'_>,
        registry: &SharedRegistry,
        name: &ServiceRef,
    ) -> Result<Explained, Obstacle> {
        let (clusterset, selection) = (&joined.member.clusterset, &joined.selection);
        let exported = joined.export(registry, selection, drop).await?;
        let own = exported.iter().map(|it| (joined.member.cluster.clone(), it.overlay.clone()));
        let own_record = |_| (joined.member.cluster.clone(), joined.arn().clone());
        let members = exported.iter().map(own_record).collect();
        let served = Served { overlays: own.collect(), members, is_fresh: true };
        let read = registry.read_clusterset(clusterset, selection.names(), &served).await;
        let read = read.map_err(|error| unread(&*error))?;
        let overlay = served.overlays;
        let lifetimes = self.lifetimes(overlay.keys().cloned().collect());
        let allows = |namespace: &str, it| joined.allows(namespace, it);
        let read = (&read.registry, read.has_all_members);
        let members = Members::new(read, clusterset, &overlay, &lifetimes);
        let known = members.known(name, (joined.arn(), &allows));
        let imported = joined.import(&members, (true, OwnRecord::Unknown)).await;
        let facts = Facts {
            name,
            joined,
            export: exported.as_ref().and_then(|it| it.exports().get(name)),
            outcome: exported.as_ref().and_then(|it| it.outcomes.get(name)),
            known: &known,
            members: &members,
            now: self.now,
        };
        let answer = ClustersetExplanation::new(&facts, &self.settings.owner_id, imported);
        let is_exported = |it: &PublishedExports| it.overlay.desired.services.contains_key(name);
        let instances = match &exported {
            Some(exported) if is_exported(exported) => {
                let observed = joined.exporting(registry).observe(selection).await;
                let observed = observed.map_err(|error| unread(&error))?;
                let plan = plan::plan(&observed);
                Some((observed, plan))
            }
            _ => None,
        };
        Ok(Explained { answer, instances })
    }
}

/// One endpoint.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportedLine {
    /// The cluster that it is in.
    pub member: Option<String>,
    pub address: String,
    /// The ports that it listens at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
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

impl Display for ImportedLine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sign = match self.fate {
            ImportFate::Imported => '=',
            ImportFate::Kept => '~',
            ImportFate::ToAdd => '+',
            ImportFate::ToRemove | ImportFate::NotReady => '-',
            ImportFate::LeftOut => '!',
        };
        let member = self.member.as_deref().unwrap_or("an unknown cluster");
        let ports = if self.ports.is_empty() {
            String::new()
        } else {
            format!(" port {}", self.ports.join(" "))
        };
        let pod = self.pod.as_ref().map(|pod| format!(" ({pod})")).unwrap_or_default();
        write!(f, "{sign} endpoint   {}{ports} of {member}{pod}: {}", self.address, self.detail)
    }
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
    let line = |cluster: Option<ClusterId>, address, (fate, detail)| {
        let member = cluster.map(|it| it.to_string());
        ImportedLine { member, address, ports: Vec::new(), pod: None, fate, detail }
    };
    for candidate in candidates {
        let address = candidate.address.parse::<IpAddr>().ok();
        let key = address.map(|address| (candidate.cluster.clone(), address));
        let is_in = key.is_some_and(|key| in_import.remove(&key));
        let fate = fate(facts, &candidate, is_in, can_import);
        let Candidate { cluster, address, ports, pod, .. } = candidate;
        lines.push(ImportedLine { ports, pod, ..line(cluster, address, fate) });
    }
    lines.extend(in_import.into_iter().map(|(cluster, address)| {
        let (fate, detail) = if is_unread(facts, cluster.as_ref()) { KEPT } else { GONE };
        line(cluster, address.to_string(), (fate, detail.to_owned()))
    }));
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
    match absent {
        Absent::NotReady | Absent::Terminating => ImportFate::NotReady,
        _ => ImportFate::LeftOut,
    }
}
