//! Plans and applies the imports of a run. Exports of clusters that the function serves are read from those clusters. Exports
//! of all other members are read from Cloud Map, once per clusterset. If Cloud Map cannot be read, served clusters still import
//! from each other, and endpoints imported from other members stay unchanged.

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};

use super::{ClustersetKey, Clustersets, ExportResults, Offered};
use crate::clusterset::departures::{Parts, StandingParts};
use crate::clusterset::members::{ReadClusterset, Served};
use crate::import::Imported;
use crate::import::plan::Present;
use crate::import::sources::{Members, MergedName};
use crate::model::{ClusterId, ClustersetId, Owner, Selection, ServiceRef};
use crate::publish::exports::{Offer, Refused};
use crate::publish::observe::SharedRegistry;
use crate::publish::shuffle;
use crate::reconcile::{CONCURRENT_CLUSTERS, Invocation, Joined};
use crate::report::Mode;

/// The imports of a run.
#[derive(Default)]
pub(super) struct Imports {
    pub(super) sets: BTreeMap<ClustersetKey, Clusterset>,
    /// By the cluster's index in the settings.
    pub(super) imported: BTreeMap<usize, Imported>,
}

/// A clusterset in one run.
#[derive(Default)]
pub(super) struct Clusterset {
    /// What this run has read of the clusterset in Cloud Map.
    pub(super) in_cloud_map: ReadClusterset,
    served: Served,
    /// Clusters that a sync may make members, with the owner of their future record. A plan counts them as members.
    future_members: BTreeMap<ClusterId, Owner>,
    /// The endpoints that the imports of its clusters have now, by name and exporter.
    parts: Parts,
    /// The union of the names that its clusters import in this run; `None` before the first cluster is added.
    selection: Option<Selection>,
}

impl Clustersets<'_> {
    /// Imports the exports of all members into all clusters that take part.
    pub(super) async fn import_all(
        &self,
        mut offered: Offered,
        published: &ExportResults,
    ) -> Imports {
        let Self { invocation, registries, selections, .. } = *self;
        let may_not_import = |index| {
            let refused = published.get(&index).and_then(|published| published.as_ref().err());
            matches!(offered.get(&index), Some(Offer::LeftAlone))
                || refused.is_some_and(Refused::leaves_the_cluster)
        };
        let mut importers: Vec<(usize, &Joined<'_>)> =
            self.joined().filter(|(index, _)| !may_not_import(*index)).collect();
        // Of two clusters that state one id the holder comes last, so that its exports count.
        importers.sort_by_key(|(_, joined)| {
            self.registry(joined).is_holder(&joined.member, &joined.owner_of_records())
        });
        let mut sets: BTreeMap<ClustersetKey, Clusterset> = BTreeMap::new();
        for (index, joined) in &importers {
            let set = sets.entry(self.key(joined)).or_insert_with(|| self.clusterset(joined));
            if let Some(Offer::Exports(exports)) = offered.remove(index) {
                set.served.read.insert(joined.member.cluster.clone(), *exports);
            }
            set.add(joined, invocation.mode);
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
                // A cluster without a record in Cloud Map is not a member, so nothing is imported into it. Otherwise its next
                // run would find imports in the cluster but no record, and would take this for the wrong Cloud Map.
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

    /// A clusterset of which nothing is read yet.
    fn clusterset(&self, joined: &Joined<'_>) -> Clusterset {
        let owner_id = self.invocation.settings.owner_id.clone();
        let exporters = self.invocation.exporters(joined.cluster);
        let clusters = self.invocation.settings.clusters.iter().enumerate();
        let silent = clusters.filter(|(index, cluster)| {
            let has_answered = self.members.get(index).is_some_and(|joined| {
                joined.as_ref().map_or_else(|obstacle| !obstacle.is_open(), |_| true)
            });
            exporters.contains(&cluster.arn) && !has_answered
        });
        let silent = silent.map(|(_, cluster)| cluster.arn.clone()).collect();
        let served = Served { owner_id, exporters, silent, ..Served::default() };
        Clusterset { served, ..Clusterset::default() }
    }

    /// The exports of one name as they are now, for an importer. `None` if Cloud Map cannot be read.
    async fn read_again(
        &self,
        set: &Clusterset,
        importer: &Joined<'_>,
        name: ServiceRef,
        present: Present,
    ) -> Option<MergedName> {
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
        };
        let mut parts = Parts::new();
        present.add_parts(&name, &served, &mut parts);
        let standing = StandingParts { clusterset, served: &served, parts };
        let read = self.registry(importer).read_clusterset(selection.names(), standing).await;
        if let Some(problem) = read.problem {
            tracing::warn!("{name} not read again: {problem}");
            return None;
        }
        let stale_before = self.invocation.stale_before();
        let members = Members::new(&read, clusterset, &served, stale_before);
        Some(importer.merged_name(&members, &name, &present.holders()))
    }
}

impl Clusterset {
    /// Adds a cluster that takes part.
    fn add(&mut self, joined: &Joined<'_>, mode: Mode) {
        self.served.members.insert(joined.member.cluster.clone(), joined.arn().clone());
        if mode != Mode::Sync && joined.may_become_a_member() {
            self.future_members.insert(joined.member.cluster.clone(), joined.owner_of_records());
        }
        let all = self.selection.take().into_iter().chain([joined.selection.clone()]);
        self.selection = all.reduce(Selection::union);
    }

    /// Adds the endpoints that the cluster's imports have now. Call it after `add` was called for every participating cluster.
    fn add_parts(&mut self, joined: &Joined<'_>) {
        if let Some(objects) = &joined.objects {
            for (part, endpoints) in objects.parts(&joined.owner, &self.served) {
                self.parts.entry(part).or_default().extend(endpoints);
            }
        }
    }

    /// Reads the part of Cloud Map that the imports of the clusterset are built from. Call it after `add_parts`: the read asks
    /// Cloud Map by id for exports and endpoints that are in an import.
    async fn read(&mut self, registry: &SharedRegistry, clusterset: &ClustersetId) {
        let names = self.selection.as_ref().and_then(Selection::names);
        let parts = std::mem::take(&mut self.parts);
        let standing = StandingParts { clusterset, served: &self.served, parts };
        self.in_cloud_map = registry.read_clusterset(names, standing).await;
        for (id, owner) in &self.future_members {
            if !self.in_cloud_map.holders.contains_key(id) {
                self.in_cloud_map.holders.insert(id.clone(), owner.clone());
                self.in_cloud_map.written_or_planned.insert(id.clone());
            }
        }
    }

    /// The members of the clusterset, from Cloud Map and from the served clusters.
    pub(super) fn members<'s>(
        &'s self,
        clusterset: &'s ClustersetId,
        invocation: &Invocation<'_>,
    ) -> Members<'s> {
        Members::new(&self.in_cloud_map, clusterset, &self.served, invocation.stale_before())
    }
}
