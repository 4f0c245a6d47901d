//! Adds each cluster's part in its clusterset to the report: how it joined, its exports with their conditions, and its
//! imports. The lines about the exports' instances are added to those of annotated Services.

use std::collections::BTreeSet;

use futures_util::{StreamExt, stream};

use super::imports::Imports;
use super::{Clustersets, Synced};
use crate::clusterset::members;
use crate::function::run;
use crate::import::{Imported, plan, sources};
use crate::kubernetes::Kubernetes;
use crate::model::{Kind, Line, Outcome, Selection};
use crate::publish::exports::{Obstacle, PublishedExports};
use crate::reconcile::JoinedCluster;
use crate::report::{ClusterReport, Counts, Mode, MultiClusterReport};

impl Clustersets<'_> {
    /// Adds exports and imports to the reports of the clusters.
    pub(in crate::function) async fn report(
        &self,
        synced: Synced,
        reports: &mut run::ReportsByIndex,
    ) {
        let Self { function, invocation, selections, members, .. } = *self;
        let Synced { mut exports, imports: Imports { sets, mut imported }, .. } = synced;
        let mode = invocation.mode;
        let mut reported = BTreeSet::new();
        for (index, joined) in members {
            let mut report = joined.as_ref().map(JoinedCluster::report).unwrap_or_default();
            let obstacle =
                joined.as_ref().map_or_else(Some, |joined| joined.unread_imports.as_ref());
            report.lines.extend(obstacle.map(|obstacle| (**obstacle).clone()));
            let exported = exports.remove(index);
            // Imports may have the same obstacle.
            let unexported = exported.as_ref().and_then(|exported| exported.as_ref().err());
            let unexported = unexported.map(Line::from).filter(|line| !report.lines.contains(line));
            report.lines.extend(unexported);
            self.write_obstacle(*index, exported.as_ref(), &mut report).await;
            if let Some(Ok(exported)) = &exported {
                report.add_exports(exported);
                let is_whole = selections.of(*index) == Some(&Selection::Everything);
                function.log_new_lines("exports", &exported.report, (mode, is_whole));
                add_lines(reports, *index, exported.report.clone());
            }
            let joined = joined.as_ref().ok();
            let is_whole = joined.is_some_and(|joined| joined.selection == Selection::Everything);
            if let Some(joined) = joined
                && let Some((key, set)) = sets.get_key_value(&self.key(joined))
            {
                let clusterset_members = set.members(&key.1, invocation);
                report.lines.extend(set.in_cloud_map.problem.clone().map(Line::unreadable));
                let imported = imported.remove(index);
                self.report_imports((joined, &clusterset_members), exported, imported, &mut report)
                    .await;
                if is_whole && reported.insert(key) {
                    let unparsable = clusterset_members.unparsable_services.iter();
                    let lines =
                        unparsable.map(|service| unparsable_service_warning(service)).collect();
                    add_lines(reports, *index, ClusterReport { lines, ..ClusterReport::default() });
                }
            }
            self.mark_frozen(*index, &mut report).await;
            let cluster = function.settings.clusters[*index].arn.as_str();
            function.log_multi_cluster(cluster, &report, (mode, is_whole));
            add_report(reports, *index, cluster, report);
        }
    }

    /// Writes to each export of a cluster the reason why the whole cluster is held back, if the reason concerns
    /// exports. Only a full sync writes it: a targeted sync may see a different reason.
    async fn write_obstacle(
        &self,
        index: usize,
        exported: Option<&Result<PublishedExports, Obstacle>>,
        report: &mut MultiClusterReport,
    ) {
        let Self { function, invocation, selections, members, .. } = *self;
        let cluster = &function.settings.clusters[index];
        let exports = function.settings.multi_cluster_of(cluster).exports();
        let is_whole = selections.of(index) == Some(&Selection::Everything);
        if !exports || !is_whole || invocation.mode != Mode::Sync {
            return;
        }
        let obstacle = match (&members[&index], exported) {
            (Err(obstacle), _) if !obstacle.is_unfinished() => Line::clone(obstacle),
            (Ok(_), Some(Err(obstacle))) if obstacle.concerns_exports() => obstacle.into(),
            _ => return,
        };
        invocation.write_obstacle(cluster, &obstacle, report).await;
    }

    /// Writes the conditions of the exports, and adds them and the imports to the report.
    async fn report_imports(
        &self,
        (joined, members): (&JoinedCluster<'_>, &sources::Members<'_>),
        exported: Option<Result<PublishedExports, Obstacle>>,
        imported: Option<Imported>,
        report: &mut MultiClusterReport,
    ) {
        // A cluster that exports, or whose record was refused, already has a line about the other owner of its id.
        let is_reported = joined.is_exporting() || matches!(exported, Some(Err(_)));
        let owner = joined.other_id_owner(members).filter(|_| !is_reported);
        let taken = owner.map(|owner| Obstacle::taken(&joined.member.cluster, Some(owner)));
        report.lines.extend(taken.map(|taken| *Box::<Line>::from(taken)));
        if let Some(Ok(exported)) = &exported {
            joined.write_conditions(exported, (members, imported.as_ref()), report).await;
        }
        if joined.selection == Selection::Everything {
            report.lines.extend(members.stale.iter().map(Line::from));
        }
        if let Some(imported) = imported {
            joined.add_imports(members, imported, report);
        }
    }
}

fn unparsable_service_warning(service: &str) -> Line {
    Line::warning(format!(
        "{service} is in a namespace for cluster records, but its name is not a valid cluster id, so it is ignored"
    ))
}

/// Adds lines to those of the cluster.
fn add_lines(reports: &mut run::ReportsByIndex, index: usize, lines: ClusterReport) {
    if let Some(report) = reports.remove(&index) {
        reports.insert(index, report.with(lines));
    }
}

/// Adds a cluster's part in its clusterset to its report. A cluster that the run is not about has a report only if
/// something in it was changed, held back or not read.
fn add_report(
    reports: &mut run::ReportsByIndex,
    index: usize,
    cluster: &str,
    report: MultiClusterReport,
) {
    if let Some(cluster_report) = reports.get_mut(&index) {
        cluster_report.counts.add_multi_cluster(&report);
        cluster_report.counts.held_back += usize::from(report.is_frozen());
        cluster_report.multi_cluster = Some(report);
    } else if !report.is_quiet() {
        let cluster = cluster.to_owned();
        let unreadable = usize::from(report.cluster_id.is_none() && report.has_failed());
        let mut counts = Counts { unreadable, ..Counts::default() };
        counts.add_multi_cluster(&report);
        let multi_cluster = Some(report);
        let cluster_report =
            ClusterReport { cluster, counts, multi_cluster, ..ClusterReport::default() };
        reports.insert(index, cluster_report);
    }
}

// Frozen members. A member is frozen if it has exports or imports, and an obstacle that only a person can remove keeps
// them unchanged, so that they become outdated. A cluster that is not a member yet, or was purged, may have the same
// obstacles, but has nothing to lose, so it is not reported as frozen.

const FROZEN: &str = "it is or was a member, so its exports and imports stay as they are and become outdated until this \
                      is fixed";

impl Clustersets<'_> {
    /// Marks a cluster in its report if it is frozen. Only its full sync does this, which has read the registries.
    pub(super) async fn mark_frozen(&self, index: usize, report: &mut MultiClusterReport) {
        let is_whole = self.selections.of(index) == Some(&Selection::Everything);
        let mut lines = report.lines.iter_mut();
        // Two obstacles that no later run removes do not freeze a cluster: objects of another installation block only
        // single imports, and the policy keeps imports unchanged on purpose.
        let affects_some_imports_only =
            |line: &Line| ["OtherOwner", "Policy"].contains(&&*line.code);
        let freezes_member = |line: &&mut Line| {
            line.is_obstacle() && !line.is_unfinished() && !affects_some_imports_only(line)
        };
        let obstacle = lines.find(freezes_member).filter(|_| is_whole);
        let Some(obstacle) = obstacle else { return };
        if self.was_member(index).await {
            let text = format!("{}; {FROZEN}", obstacle.text);
            *obstacle = Line::new('!', obstacle.code.clone(), text, Outcome::KeptOut);
        }
    }

    /// Whether the cluster has a record or an object of an import, and so is or was a member. A failed read counts as
    /// having none.
    async fn was_member(&self, index: usize) -> bool {
        let cluster = &self.function.settings.clusters[index];
        let Ok(connection) = self.invocation.connect(cluster).await else { return false };
        let arn = &connection.cluster.arn;
        let read = stream::iter(self.registries.values())
            .filter_map(async |registry| registry.whole_registry().await);
        let has_record = read.any(async |registry| members::has_record(&registry, arn));
        let owner = plan::OwnerLabel::new(&self.function.settings.owner_id);
        Box::pin(has_record).await || has_objects(&connection.kubernetes, &owner).await
    }
}

async fn has_objects(kubernetes: &Kubernetes, owner: &plan::OwnerLabel) -> bool {
    let selector = owner.selector();
    let kinds = [Kind::ServiceImport, Kind::Service, Kind::EndpointSlice];
    let has = async |kind| kubernetes.has_objects(kind, &selector).await.unwrap_or_default();
    stream::iter(kinds).any(has).await
}
