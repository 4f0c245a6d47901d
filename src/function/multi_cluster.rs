//! The clustersets of a run: every cluster that takes part in one joins first, since the objects of its imports are read
//! before the exports. After all clusters were reconciled, the exports of the selected ones are published. As soon as
//! they are read, those of all members are imported into every served cluster of the clusterset (`imports`); if the guard
//! may hold a loss among them, only after they were published.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};
use tokio::sync::oneshot;

use super::imports::{Imports, Overlays, Told};
use super::run::Runs;
use super::scope::Selections;
use super::{Function, log};
use crate::clients::RegistryKey;
use crate::model::Selection;
use crate::model::clusterset::ClustersetId;
use crate::publish::exports::Early;
use crate::publish::observe::SharedRegistry;
use crate::reconcile::{Invocation, Joined, NotPublished, Published};
use crate::report::{ClusterReport, Counts, MultiClusterReport, Obstacle, StaleCluster};

/// The number of clusters that are read or written at once.
pub(super) const CONCURRENT_CLUSTERS: usize = 8;

/// The clusters that take part in a clusterset, by their index in the settings.
pub(super) type Members = BTreeMap<usize, Result<Joined, Obstacle>>;

/// A clusterset in one Cloud Map.
pub(super) type ClustersetKey = (RegistryKey, ClustersetId);

impl Function {
    /// Joins the clusters that import in this invocation.
    pub(super) async fn join(
        &self,
        invocation: &Invocation<'_>,
        selections: &Selections,
    ) -> Members {
        let importers = self.importers(selections, invocation.adoption.is_some()).into_iter();
        let joins = importers.map(|(index, selection)| async move {
            let cluster = &self.settings.clusters[index];
            Some((index, invocation.join(cluster, &selection).await?))
        });
        let joins = stream::iter(joins).buffer_unordered(CONCURRENT_CLUSTERS);
        joins.filter_map(|it| async { it }).collect().await
    }

    /// Publishes the exports of the selected clusters, imports into all members, and adds both to the reports.
    pub(super) async fn run_clustersets(
        &self,
        invocation: &Invocation<'_>,
        registries: &BTreeMap<RegistryKey, SharedRegistry>,
        selections: &Selections,
        (members, runs): (&Members, &mut Runs),
    ) {
        let mut reports: BTreeMap<usize, MultiClusterReport> = BTreeMap::new();
        for (index, joined) in members {
            reports.insert(
                *index,
                match joined {
                    Ok(joined) => joined.report(),
                    Err(obstacle) => {
                        let obstacles = vec![obstacle.clone()];
                        MultiClusterReport { obstacles, ..MultiClusterReport::default() }
                    }
                },
            );
        }
        let (early, told) = Told::by(selections, members);
        let exports = self.export_all(invocation, registries, selections, (members, early));
        // Endpoints of served clusters do not wait for Cloud Map's operations.
        let imports = async {
            let overlays =
                told.overlays(members).await.filter(|_| invocation.adoption.is_none())?;
            Some(self.import_all(invocation, registries, (members, selections), overlays).await)
        };
        let (exports, imports) = tokio::join!(Box::pin(exports), Box::pin(imports));
        let mut published = BTreeMap::new();
        let mut left = BTreeSet::new();
        for (index, exported) in exports {
            let report = reports.entry(index).or_default();
            match exported {
                Ok(Some(exported)) => {
                    report.exports = exported.exported.desired.exports.len();
                    report.add_exports(&exported.exported);
                    log::lines(&exported.exported.report, invocation.mode);
                    add_to_run(runs, index, &exported);
                    // Imports are taken over after all exports were.
                    if invocation.adoption.is_some() && !exported.is_complete() {
                        left.insert(index);
                    }
                    published.insert(index, exported);
                }
                Ok(None) => {}
                Err(NotPublished { obstacle, leaves_the_cluster }) => {
                    report.obstacles.push(obstacle);
                    if leaves_the_cluster {
                        left.insert(index);
                    }
                }
            }
        }
        self.hand_imports_on(invocation, selections, (members, &published)).await;
        let imports = if let Some(imports) = imports {
            imports
        } else {
            let overlays = Overlays::of(members, &published, &left);
            self.import_all(invocation, registries, (members, selections), overlays).await
        };
        let world = (members, &published);
        let noted =
            self.report_imports(invocation, registries, world, (imports, &mut reports)).await;
        for (index, noted) in noted {
            add_lines(runs, index, noted);
        }
        for (index, report) in reports {
            let joined = members.get(&index).and_then(|it| it.as_ref().ok());
            let label = self.settings.clusters[index].label();
            let cluster = joined.map_or(label, |joined| joined.arn().as_str());
            log::multi_cluster(cluster, &report, invocation.mode);
            let warnings = joined.filter(|_| !left.contains(&index)).map(Joined::warnings);
            add_report(runs, index, cluster, (report, warnings.unwrap_or_default()));
        }
    }

    /// Publishes the exports of the selected clusters.
    async fn export_all(
        &self,
        invocation: &Invocation<'_>,
        registries: &BTreeMap<RegistryKey, SharedRegistry>,
        selections: &Selections,
        (members, mut early): (&Members, BTreeMap<usize, oneshot::Sender<Early>>),
    ) -> Vec<(usize, Result<Option<Published>, NotPublished>)> {
        let exports = selections.iter().filter_map(|(index, selection)| {
            let joined = members.get(&index)?.as_ref().ok()?;
            let cluster = (&self.settings.clusters[index], joined);
            let registry = &registries[&self.clients.registry_of(cluster.0)];
            let early = early.remove(&index)?;
            Some(async move {
                let export = invocation.export(cluster, registry, selection, early);
                (index, Box::pin(export).await)
            })
        });
        let exports: Vec<_> = exports.collect();
        stream::iter(exports).buffer_unordered(CONCURRENT_CLUSTERS).collect().await
    }

    /// Writes the conditions of the exports and the notes of the guard, and adds them and the imports to the reports.
    /// Returns the lines of the notes.
    async fn report_imports(
        &self,
        invocation: &Invocation<'_>,
        registries: &BTreeMap<RegistryKey, SharedRegistry>,
        (members, published): (&Members, &BTreeMap<usize, Published>),
        (imports, reports): (Imports, &mut BTreeMap<usize, MultiClusterReport>),
    ) -> BTreeMap<usize, ClusterReport> {
        let mut noted = BTreeMap::new();
        let Imports { sets, mut imported } = imports;
        for (index, joined) in members {
            let Ok(joined) = joined else { continue };
            let report = reports.entry(*index).or_default();
            let key = self.clusterset(*index, joined);
            let (Some(set), Some(registry)) = (sets.get(&key), registries.get(&key.0)) else {
                continue;
            };
            let known = match set.members(invocation) {
                Some(Ok(known)) => known,
                Some(Err(detail)) => {
                    let reason = "Unreadable".into();
                    let detail = detail.clone();
                    report.obstacles.push(Obstacle { reason, detail, failed: true });
                    continue;
                }
                None => continue,
            };
            let imported = imported.remove(index);
            if let Some(published) = published.get(index) {
                let merged = (&known, imported.as_ref());
                (report.conflicts, report.held_back) =
                    invocation.write_conditions(joined, published, merged).await;
            }
            let is_whole = joined.selection == Selection::Everything;
            report.stale =
                known.stale().iter().filter(|_| is_whole).map(StaleCluster::from).collect();
            let cluster = &self.settings.clusters[*index];
            match invocation.note(cluster, (joined, imported.as_ref()), registry).await {
                Ok(None) => {}
                Ok(Some(lines)) => {
                    log::lines(&lines, invocation.mode);
                    noted.insert(*index, lines);
                }
                Err(obstacle) => report.obstacles.push(obstacle),
            }
            if let Some(imported) = imported {
                report.add_imports(imported);
            }
        }
        noted
    }

    pub(super) fn clusterset(&self, index: usize, joined: &Joined) -> ClustersetKey {
        let registry = self.clients.registry_of(&self.settings.clusters[index]);
        (registry, joined.member.clusterset.clone())
    }
}

/// Adds the lines and claims of the exports to those of the cluster.
fn add_to_run(runs: &mut Runs, index: usize, published: &Published) {
    let Some((report, claimed)) = runs.remove(&index) else { return };
    let report = report.with(published.exported.report.clone());
    let claimed = claimed.map(|claimed| claimed.and(published.exported.claimed.clone()));
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
        run.multi_cluster = Some(report);
        run.warnings.extend(warnings);
    } else if !report.is_quiet() {
        let cluster = cluster.to_owned();
        let counts = Counts { imported: report.made(), ..Counts::default() };
        let multi_cluster = Some(report);
        let run = ClusterReport { cluster, counts, multi_cluster, ..ClusterReport::default() };
        runs.insert(index, (run, None));
    }
}
