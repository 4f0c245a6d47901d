//! The exports and imports of a run beside its API calls: the rules of the installation for imports, the note of the
//! guard, and their report.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::multi_cluster::unread;
use super::{Invocation, Joined};
use crate::clusterset::conditions::ExportOutcome;
use crate::clusterset::id::{self, EXPORT_RECORD};
use crate::clusterset::record;
use crate::import::Imported;
use crate::import::guard::Note;
use crate::import::plan::HeldBack;
use crate::import::sources::{Lifetimes, Stale};
use crate::model::ServiceRef;
use crate::model::clusterset::ClusterId;
use crate::publish::exports::{self, Exported};
use crate::publish::observe::SharedRegistry;
use crate::report::{
    ClusterReport, ClustersetLine, GuardReport, ImportLine, MultiClusterReport, Obstacle,
    StaleCluster,
};
use crate::settings::Cluster;

/// The number of imports that a line names.
const NAMED: usize = 3;

impl Invocation<'_> {
    /// Writes the guard's sighting of a loss of imports to the cluster's record, or removes it, if it changed.
    ///
    /// # Errors
    /// Returns the reason if the record could not be read.
    pub async fn note(
        &self,
        cluster: &Cluster,
        (joined, imported): (&Joined, Option<&Imported>),
        registry: &SharedRegistry,
    ) -> Result<Option<ClusterReport>, Obstacle> {
        let Some(note) = imported.and_then(|it| it.note.as_ref()) else { return Ok(None) };
        let world = self.exporting(cluster, joined, registry);
        let text = match note {
            Note::Write(sighting) => Some(sighting.to_string()),
            Note::Remove => None,
        };
        let noted = exports::note(&world, &joined.member, text, self.options()).await;
        noted.map(Some).map_err(|error| unread(&error))
    }

    /// The ages at which a member is stale and expires, unless this invocation read it itself.
    pub fn lifetimes(&self, read: BTreeSet<ClusterId>) -> Lifetimes {
        let (stale_after, expire_after) =
            (self.settings.stale_clusters_after, self.settings.expire_clusters_after);
        Lifetimes { now: self.now, stale_after, expire_after, read }
    }

    /// Whether `NAME_POLICY` lets an address into the imports of a Kubernetes namespace of a cluster: only the ranges of
    /// addresses of its rule count.
    pub fn allows(&self, joined: &Joined, namespace: &str, address: IpAddr) -> bool {
        let policy = self.settings.rules.name_policy.as_ref();
        let rule = policy.and_then(|policy| policy.rule(joined.arn(), namespace));
        rule.is_none_or(|rule| rule.allows_address(address))
    }
}

impl MultiClusterReport {
    /// Adds the exports that begin, change or end in a run: their records do.
    pub fn add_exports(&mut self, exported: &Exported) {
        let outcomes = exported.outcomes.iter();
        let failed = outcomes.filter(|(_, it)| {
            matches!(it.of_run(), ExportOutcome::Failed(_) | ExportOutcome::TimeRanOut)
        });
        self.unfinished.extend(failed.map(|(service, _)| service.clone()));
        // The first records are written in the turn of no Service, so the id names it.
        let exports = exported.exports().keys();
        let exports: BTreeMap<String, &ServiceRef> =
            exports.map(|service| (id::export_record(service), service)).collect();
        let services = exported.report.services.iter();
        let services = services.filter(|it| record::is_namespace(&it.namespace));
        for line in services.flat_map(|service| &service.changes) {
            let Some(id) = line.instance.as_ref().filter(|id| id.starts_with(EXPORT_RECORD)) else {
                continue;
            };
            let service = exports.get(id).copied().unwrap_or(&line.service);
            let change = format!("{} export     {service}", line.change.sign());
            self.export_changes.push(ImportLine { change, result: line.result.clone() });
        }
    }

    /// Adds the imports of a run.
    pub fn add_imports(&mut self, imported: Imported) {
        // The reason why the cluster has no record is the better line.
        if imported.is_unfamiliar && self.obstacles.is_empty() {
            self.obstacles.push(Obstacle {
                reason: "UnfamiliarRegistry".into(),
                detail: UNFAMILIAR.to_owned(),
                failed: false,
            });
        }
        self.unfinished.extend(imported.unfinished);
        self.imports = imported.imports;
        self.imported_endpoints = imported.endpoints;
        self.guard = imported.guard.as_deref().map(GuardReport::from);
        let changes = imported.made.into_iter();
        let changes =
            changes.map(|made| ImportLine { change: made.change.line(), result: made.result });
        self.changes.extend(changes);
        let (of_others, held_back): (Vec<_>, Vec<_>) =
            imported.held_back.into_iter().partition(|line| line.reason.other_owner().is_some());
        self.obstacles.extend(other_owners(&of_others));
        let held_back = held_back.into_iter().map(|line| ClustersetLine {
            reason: line.reason.code().into(),
            detail: line.reason.to_string(),
            service: line.service,
        });
        let unreadable = imported.unreadable.into_iter().map(|(service, detail)| ClustersetLine {
            service,
            reason: "Unreadable".into(),
            detail,
        });
        self.held_back.extend(held_back.chain(unreadable));
    }
}

/// One line for each other `OWNER_ID` that imports of the cluster have.
fn other_owners(lines: &[HeldBack]) -> Vec<Obstacle> {
    let mut names: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for line in lines {
        let owner = line.reason.other_owner().unwrap_or_default();
        names.entry(owner).or_default().insert(line.service.to_string());
    }
    let line = |(owner, names): (&str, BTreeSet<String>)| {
        let first: Vec<&str> = names.iter().map(String::as_str).take(NAMED).collect();
        let more = names.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let detail = format!(
            "objects of these imports have the label of the OWNER_ID {owner}, and stay as they are: {}{more}; if that was \
             the OWNER_ID of this installation, {{\"action\":\"adopt\",\"owner\":\"{owner}\"}} takes them over, IPs and all",
            first.join(", ")
        );
        Obstacle { reason: "OtherOwner".into(), detail, failed: false }
    };
    names.into_iter().map(line).collect()
}

impl From<&Stale> for StaleCluster {
    fn from(stale: &Stale) -> Self {
        Self {
            cluster_id: stale.cluster.to_string(),
            cluster: stale.arn.to_string(),
            heartbeat: stale.heartbeat.to_string(),
            expired: stale.is_expired,
        }
    }
}

const UNFAMILIAR: &str = "the cluster has imports, and this Cloud Map has no record of the cluster: it may be of another \
                          account or Region, or CLOUD_MAP_NAMESPACES leaves it out; nothing leaves an import by it";
