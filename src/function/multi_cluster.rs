//! The clustersets of a run: every cluster that takes part in one joins first, since the objects of its imports are read
//! before the exports. After all clusters were reconciled, the exports of the selected ones are published, and then those
//! of all members are imported into every served cluster of the clusterset.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};

use super::run::Runs;
use super::scope::Selections;
use super::{Function, log};
use crate::clients::RegistryKey;
use crate::error::chain;
use crate::import::sources::{Allows, Members as ClustersetMembers, Overlay};
use crate::model::Selection;
use crate::model::clusterset::{ClusterId, ClustersetId};
use crate::publish::observe::SharedRegistry;
use crate::reconcile::{Invocation, Joined, MemberRun, NotPublished, Published};
use crate::report::{ClusterReport, Counts, MultiClusterReport, Obstacle, StaleCluster};

/// The number of clusters that are read or written at once.
const CONCURRENT_CLUSTERS: usize = 8;

/// The clusters that take part in a clusterset, by their index in the settings.
pub(super) type Members = BTreeMap<usize, Result<Joined, Obstacle>>;

/// A clusterset in one Cloud Map.
type ClustersetKey = (RegistryKey, ClustersetId);

impl Function {
    /// Joins the selected clusters, and all others that may import from them. With `FAN_OUT` each full sync is for its
    /// own cluster, and takes the others from Cloud Map, as does an adoption.
    pub(super) async fn join(
        &self,
        invocation: &Invocation<'_>,
        selections: &Selections,
    ) -> Members {
        let Some(all) = selections.all() else { return Members::new() };
        let is_own = self.settings.fan_out.is_some() && all.names().is_none()
            || invocation.adoption.is_some();
        let selected: BTreeSet<usize> = selections.iter().map(|(index, _)| index).collect();
        let clusters = self.settings.clusters.iter().enumerate();
        let clusters = clusters.filter(|(index, _)| !is_own || selected.contains(index));
        let joins = clusters.map(|(index, cluster)| {
            let all = &all;
            async move { Some((index, invocation.join(cluster, all).await?)) }
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
        let exports = selections.iter().filter_map(|(index, selection)| {
            let joined = members.get(&index)?.as_ref().ok()?;
            let cluster = &self.settings.clusters[index];
            let registry = &registries[&self.clients.registry_of(cluster)];
            Some(async move {
                (index, Box::pin(invocation.export(cluster, joined, registry, selection)).await)
            })
        });
        let exports: Vec<_> =
            stream::iter(exports).buffer_unordered(CONCURRENT_CLUSTERS).collect().await;
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
        let importers = members.iter().filter(|(index, _)| !left.contains(*index));
        let importers =
            importers.filter_map(|(index, joined)| Some((*index, joined.as_ref().ok()?)));
        let world = (&importers.collect(), &published);
        let noted = self.import_all(invocation, registries, selections, world, &mut reports).await;
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

    async fn import_all(
        &self,
        invocation: &Invocation<'_>,
        registries: &BTreeMap<RegistryKey, SharedRegistry>,
        selections: &Selections,
        (members, published): (&BTreeMap<usize, &Joined>, &BTreeMap<usize, Published>),
        reports: &mut BTreeMap<usize, MultiClusterReport>,
    ) -> BTreeMap<usize, ClusterReport> {
        let mut noted = BTreeMap::new();
        let Some(all) = selections.all() else { return noted };
        let mut overlays: BTreeMap<ClustersetKey, BTreeMap<ClusterId, Overlay>> = BTreeMap::new();
        let mut read: BTreeMap<ClustersetKey, BTreeSet<ClusterId>> = BTreeMap::new();
        for (index, published) in published {
            let Some(joined) = members.get(index) else { continue };
            let key = self.clusterset(*index, joined);
            read.entry(key.clone()).or_default().insert(joined.member.cluster.clone());
            // While the guard holds a loss of exports, the imports follow Cloud Map, where they still stand.
            if !published.is_held() {
                overlays.entry(key).or_default().extend([joined.overlay(published)]);
            }
        }
        let none = BTreeMap::new();
        let selected: BTreeSet<usize> = selections.iter().map(|(index, _)| index).collect();
        let imports = members.iter().map(|(index, joined)| {
            let (index, joined) = (*index, *joined);
            let key = self.clusterset(index, joined);
            let overlay = overlays.get(&key).unwrap_or(&none);
            let registry = registries.get(&key.0);
            let (selection, published) = ((&all, selected.contains(&index)), published.get(&index));
            let lifetimes = invocation.lifetimes(read.get(&key).cloned().unwrap_or_default());
            async move {
                let known = registry?.read_clusterset(&key.1, selection.0.names()).await;
                let known = match known {
                    Ok(known) => known,
                    Err(error) => return Some((index, Err(chain(&error)))),
                };
                let allows = |namespace: &str, it| invocation.allows(joined, namespace, it);
                let rules = (&lifetimes, &allows as Allows<'_>);
                let members = ClustersetMembers::new(&known, &key.1, overlay, rules);
                if !selection.1 && joined.is_new(&members) {
                    return None;
                }
                let imported = invocation.import(joined, &members, selection).await;
                let cluster = &self.settings.clusters[index];
                let noted = invocation.note(cluster, (joined, imported.as_ref()), registry?).await;
                let lines = match published {
                    Some(published) => {
                        let merged = (&members, imported.as_ref());
                        invocation.write_conditions(joined, published, merged).await
                    }
                    None => Default::default(),
                };
                let is_whole = *selection.0 == Selection::Everything;
                let stale = members.stale().iter().filter(|_| is_whole);
                let stale = stale.map(StaleCluster::from).collect();
                Some((index, Ok(MemberRun { imported, noted, lines, stale })))
            }
        });
        let imports = stream::iter(imports).buffer_unordered(CONCURRENT_CLUSTERS);
        let imports: Vec<_> = imports.filter_map(|it| async { it }).collect().await;
        for (index, imported) in imports {
            let report = reports.entry(index).or_default();
            match imported {
                Ok(run) => {
                    (report.conflicts, report.held_back) = run.lines;
                    report.stale = run.stale;
                    if let Some(imported) = run.imported {
                        report.add_imports(imported);
                    }
                    match run.noted {
                        Ok(None) => {}
                        Ok(Some(lines)) => {
                            log::lines(&lines, invocation.mode);
                            noted.insert(index, lines);
                        }
                        Err(obstacle) => report.obstacles.push(obstacle),
                    }
                }
                Err(detail) => {
                    let reason = "Unreadable".into();
                    report.obstacles.push(Obstacle { reason, detail, failed: true });
                }
            }
        }
        noted
    }

    fn clusterset(&self, index: usize, joined: &Joined) -> ClustersetKey {
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
