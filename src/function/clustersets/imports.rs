//! Plans and applies the imports of a run. Exports of clusters that the function serves are read from those clusters.
//! Exports of all other members are read from Cloud Map, once per clusterset. If Cloud Map cannot be read, served
//! clusters still import from each other, and endpoints imported from other members stay unchanged.

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};

use super::{ClustersetKey, Clustersets, ExportResults, Offered};
use crate::clusterset::departures::{ImportedParts, Parts};
use crate::clusterset::members::Served;
use crate::import::Imported;
use crate::import::plan::Present;
use crate::import::sources::{ExportsForImporter, Members};
use crate::model::{GuardState, Selection, ServiceRef};
use crate::publish::exports::{Obstacle, Offer};
use crate::publish::shuffle;
use crate::reconcile::{CONCURRENT_CLUSTERS, Clusterset, JoinedCluster};

/// The imports of a run.
#[derive(Default)]
pub(super) struct Imports {
    pub(super) sets: BTreeMap<ClustersetKey, Clusterset>,
    /// The imports of each cluster, by its index in the settings.
    pub(super) imported: BTreeMap<usize, Imported>,
}

impl Imports {
    /// Whether the guard holds a loss until a second pass has read more clusters.
    pub(super) fn needs_second_pass(&self) -> bool {
        let may_read_more = self.sets.values().any(|set| set.served.may_read_more);
        let mut guards = self.imported.values().filter_map(|imported| imported.guard.as_ref());
        may_read_more && guards.any(|guard| guard.verdict.state == GuardState::HeldUntilRead)
    }
}

impl Clustersets<'_> {
    /// Imports the exports of all members into all clusters that take part. `may_read_more`: a second pass of the run
    /// may read clusters that this pass has not read.
    pub(super) async fn import_all(
        &self,
        mut offered: Offered,
        published: &ExportResults,
        may_read_more: bool,
    ) -> Imports {
        let Self { invocation, registries, selections, .. } = *self;
        let may_not_import = |index| {
            let obstacle = published.get(&index).and_then(|published| published.as_ref().err());
            matches!(offered.get(&index), Some(Offer::ImportsForbidden))
                || obstacle.is_some_and(Obstacle::forbids_imports)
        };
        let importers: Vec<(usize, &JoinedCluster<'_>)> =
            self.joined().filter(|(index, _)| !may_not_import(*index)).collect();
        let mut sets: BTreeMap<ClustersetKey, Clusterset> = BTreeMap::new();
        for (index, joined) in &importers {
            let set = sets.entry(self.key(joined)).or_insert_with(|| self.clusterset(joined));
            set.served.may_read_more = may_read_more;
            let exports = match offered.remove(index) {
                Some(Offer::Exports(exports)) => Some(*exports),
                _ => None,
            };
            set.add(joined, self.registry(joined), exports);
        }
        for (_, joined) in &importers {
            let Some(set) = sets.get_mut(&self.key(joined)) else { continue };
            set.add_parts(joined);
        }
        let reads = sets.iter_mut();
        let reads = reads.map(|((registry, id), set)| set.read(&registries[registry], id));
        let reads: Vec<_> = reads.collect();
        stream::iter(reads).buffer_unordered(CONCURRENT_CLUSTERS).collect::<()>().await;
        let members_by_set: BTreeMap<&ClustersetKey, _> =
            sets.iter().map(|(key, set)| (key, set.members(&key.1, invocation))).collect();
        let imports = importers.into_iter().map(|(index, joined)| {
            let key = self.key(joined);
            let members = &members_by_set[&key];
            let set = &sets[&key];
            async move {
                // A cluster without a record in Cloud Map is not a member, so nothing is imported into it. Otherwise
                // its next run would find imports in the cluster but no record, and would take this for the wrong Cloud
                // Map.
                if !joined.is_member(members) {
                    let lacks_own_record = joined.is_unfamiliar(members);
                    let imported = Imported { lacks_own_record, ..Imported::default() };
                    return lacks_own_record.then_some((index, imported));
                }
                let read_again =
                    |name, present| Box::pin(self.read_again(set, joined, name, present)) as _;
                let is_selected = selections.of(index).is_some();
                Some((index, joined.import(members, is_selected, &read_again).await?))
            }
        });
        let imports = shuffle(invocation.now, imports.collect());
        let imports = stream::iter(imports).buffer_unordered(CONCURRENT_CLUSTERS);
        let imported = imports.filter_map(|imported| async { imported }).collect().await;
        Imports { sets, imported }
    }

    /// Returns the clusterset of a joined cluster, before anything of it is read.
    fn clusterset(&self, joined: &JoinedCluster<'_>) -> Clusterset {
        let clusters = self.invocation.settings.clusters.iter().enumerate();
        let silent = clusters.filter(|(index, _)| match self.members.get(index) {
            Some(Ok(_)) => false,
            Some(Err(obstacle)) => obstacle.is_unfinished(),
            None => true,
        });
        let silent = silent.map(|(_, cluster)| cluster.arn.clone());
        self.invocation.clusterset(joined.cluster, silent)
    }

    /// Reads the exports of one name again for an importer. Returns `None` if Cloud Map cannot be read.
    async fn read_again(
        &self,
        set: &Clusterset,
        importer: &JoinedCluster<'_>,
        name: ServiceRef,
        present: Present,
    ) -> Option<ExportsForImporter> {
        let served = &set.served;
        let selection = &Selection::service(name.clone());
        let clusterset = &importer.member.clusterset;
        let exporters = self.joined().filter(|(_, joined)| {
            let read = served.read.get(&joined.member.cluster);
            joined.member.clusterset == *clusterset
                && read.is_some_and(|read| read.arn == *joined.arn())
        });
        let reads = exporters.map(async |(_, joined)| {
            let read = joined.exports_in_cluster(self.registry(joined), selection).await?;
            Some((joined.member.cluster.clone(), read))
        });
        let reads = stream::iter(reads).buffer_unordered(CONCURRENT_CLUSTERS);
        let served = Served {
            read: reads.filter_map(async |read| read).collect().await,
            owner_id: served.owner_id.clone(),
            exporters: served.exporters.clone(),
            silent: served.silent.clone(),
            members: served.members.clone(),
            bypasses_cache: false,
            may_read_more: served.may_read_more,
        };
        let mut parts = Parts::new();
        present.add_parts(&name, &served, &mut parts);
        let imported = ImportedParts { clusterset, served: &served, parts };
        let read = self.registry(importer).read_clusterset(selection.names(), imported).await;
        if let Some(problem) = read.problem {
            tracing::warn!("{name} not read again: {problem}");
            return None;
        }
        let stale_before = self.invocation.stale_before();
        let members = Members::new(&read, clusterset, &served, stale_before);
        Some(importer.exports_to_import(&members, &name, &present.clusters()))
    }
}
