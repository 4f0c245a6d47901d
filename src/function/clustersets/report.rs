//! The part of each cluster in its clusterset, in the report: the state in which it joined, its exports with their
//! conditions, and its imports. The lines and claims of exports are added to those of annotated Services.

use std::collections::{BTreeMap, BTreeSet};

use super::Clustersets;
use super::exports::Exports;
use super::imports::Imports;
use crate::function::log;
use crate::function::run::Runs;
use crate::model::Selection;
use crate::publish::exports::{Exported, Refused};
use crate::reconcile::Joined;
use crate::report::{ClusterReport, Counts, MultiClusterReport, Obstacle, StaleCluster};

/// By the cluster's index in the settings.
type Reports = BTreeMap<usize, MultiClusterReport>;

impl Clustersets<'_> {
    /// Adds exports and imports to the reports of the clusters.
    pub(super) async fn report(&self, exports: &Exports, imports: Imports, runs: &mut Runs) {
        let mut reports = self.joined();
        self.report_exports(exports, &mut reports, runs);
        self.forget_claims(exports, runs);
        let left = imports.left.clone();
        let noted = self.report_imports(exports, (imports, &mut reports)).await;
        for (index, noted) in noted {
            add_lines(runs, index, noted);
        }
        for (index, mut report) in reports {
            self.mark_frozen(index, &mut report).await;
            let joined = self.members.get(&index).and_then(|it| it.as_ref().ok());
            let label = self.function.settings.clusters[index].label();
            let cluster = joined.map_or(label, |joined| joined.arn().as_str());
            let is_whole = joined.is_some_and(|it| it.selection == Selection::Everything);
            let mode = self.invocation.mode;
            self.function.log_multi_cluster(cluster, &report, (mode, is_whole));
            let warnings = joined.filter(|_| !left.contains(&index)).map(Joined::warnings);
            add_report(runs, index, cluster, (report, warnings.unwrap_or_default()));
        }
    }

    /// The clusters as they joined.
    fn joined(&self) -> Reports {
        let reports = self.members.iter().map(|(index, joined)| {
            let refused = |obstacle: &Obstacle| {
                let obstacles = vec![obstacle.clone()];
                MultiClusterReport { obstacles, ..MultiClusterReport::default() }
            };
            (*index, joined.as_ref().map_or_else(refused, Joined::report))
        });
        reports.collect()
    }

    fn report_exports(&self, exports: &Exports, reports: &mut Reports, runs: &mut Runs) {
        for (index, exported) in &exports.published {
            let report = reports.entry(*index).or_default();
            report.exports = exported.exports().len();
            report.add_exports(exported);
            let is_whole = self.selections.of(*index) == Some(&Selection::Everything);
            let (lines, mode) = (&exported.report, self.invocation.mode);
            self.function.log_lines("exports", lines, (mode, is_whole));
            add_to_run(runs, *index, exported);
        }
        for (index, obstacle) in &exports.refused {
            reports.entry(*index).or_default().obstacles.push(obstacle.clone());
        }
    }

    /// A cluster with exports that could not be read has claims that are unknown, so that no empty service is deleted.
    fn forget_claims(&self, exports: &Exports, runs: &mut Runs) {
        let joined =
            self.members.iter().filter_map(|(index, it)| Some((index, it.as_ref().err()?)));
        for (index, _) in joined.chain(&exports.refused).filter(|(_, obstacle)| obstacle.failed) {
            runs.entry(*index).and_modify(|(_, claimed)| *claimed = None);
        }
    }

    /// Writes the conditions of the exports and the notes of the guard, and adds them and the imports to the reports.
    /// Returns the lines of the notes.
    async fn report_imports(
        &self,
        Exports { published, refused }: &Exports,
        (imports, reports): (Imports, &mut Reports),
    ) -> BTreeMap<usize, ClusterReport> {
        let Self { function, invocation, registries, members, .. } = *self;
        let (mut noted, mut reported) = (BTreeMap::<usize, ClusterReport>::new(), BTreeSet::new());
        let Imports { sets, mut imported, .. } = imports;
        for (index, joined) in members {
            let Ok(joined) = joined else { continue };
            let report = reports.entry(*index).or_default();
            let key = function.clusterset(*index, joined);
            let (Some(set), Some(registry)) = (sets.get(&key), registries.get(&key.0)) else {
                continue;
            };
            let Some(known) = set.members(invocation) else { continue };
            report.obstacles.extend(set.problem.clone().map(|detail| {
                let reason = "Unreadable".into();
                Obstacle { reason, detail, failed: true }
            }));
            // Else it was refused with its exports, or its own record.
            let is_refused = joined.exports() || refused.contains_key(index);
            let holder = joined.other_holder(&known).filter(|_| !is_refused);
            let taken = holder.map(|it| Refused::taken(&joined.member.cluster, Some(it)));
            report.obstacles.extend(taken.map(Obstacle::from));
            let imported = imported.remove(index);
            if let Some(published) = published.get(index) {
                let merged = (&known, imported.as_ref());
                invocation.write_conditions(joined, published, merged, report).await;
            }
            let is_whole = joined.selection == Selection::Everything;
            report.stale =
                known.stale().iter().filter(|_| is_whole).map(StaleCluster::from).collect();
            let cluster = &function.settings.clusters[*index];
            match invocation.note(cluster, (joined, imported.as_ref()), registry).await {
                Ok(None) => {}
                Ok(Some(lines)) => {
                    log::lines(&lines, invocation.mode, None);
                    noted.insert(*index, lines);
                }
                Err(obstacle) => report.obstacles.push(obstacle),
            }
            if is_whole && reported.insert(key) {
                let warnings = &mut noted.entry(*index).or_default().warnings;
                warnings.extend(known.strangers().iter().map(|place| stranger(place)));
            }
            if let Some(imported) = imported {
                report.add_imports(imported);
            }
        }
        noted
    }
}

fn stranger(place: &str) -> String {
    format!(
        "{place} is among the records of clusters, and its name is no cluster id: it counts for no member"
    )
}

/// Adds the lines and claims of the exports to those of the cluster.
fn add_to_run(runs: &mut Runs, index: usize, exported: &Exported) {
    let Some((report, claimed)) = runs.remove(&index) else { return };
    let report = report.with(exported.report.clone());
    let claimed = claimed.map(|claimed| claimed.and(exported.claimed.clone()));
    runs.insert(index, (report, claimed));
}

/// Adds lines to those of the cluster.
fn add_lines(runs: &mut Runs, index: usize, lines: ClusterReport) {
    if let Some((report, claimed)) = runs.remove(&index) {
        runs.insert(index, (report.with(lines), claimed));
    }
}

/// Adds the part of a cluster in its clusterset to its report. A cluster that the run is not about is reported if it was
/// changed, or not read.
fn add_report(
    runs: &mut Runs,
    index: usize,
    cluster: &str,
    (report, warnings): (MultiClusterReport, Vec<String>),
) {
    if let Some((run, _)) = runs.get_mut(&index) {
        run.counts.imported = report.made();
        run.counts.held_back += usize::from(report.frozen);
        run.multi_cluster = Some(report);
        run.warnings.extend(warnings);
    } else if !report.is_quiet() {
        let cluster = cluster.to_owned();
        let unreadable = usize::from(report.cluster_id.is_none() && report.has_failed());
        let counts = Counts { imported: report.made(), unreadable, ..Counts::default() };
        let multi_cluster = Some(report);
        let run = ClusterReport { cluster, counts, multi_cluster, ..ClusterReport::default() };
        runs.insert(index, (run, None));
    }
}
