//! The imports of a run: what the clusters of each clusterset import rests on the exports that this run has read in the
//! clusters that the function serves, and on Cloud Map for all other members, which is read once for a clusterset. If that
//! fails, the served clusters go on to follow each other, and the parts of all others stay as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::{StreamExt, stream};

use super::{CONCURRENT_CLUSTERS, ClustersetKey, Clustersets, Offered};
use crate::cloud_map;
use crate::clusterset::members::{self, Served};
use crate::error::chain;
use crate::import::Imported;
use crate::import::observe::StandingParts;
use crate::import::sources::{Members, MergedName};
use crate::model::{ClusterId, ClustersetId, Member, Owner, Selection, ServiceRef};
use crate::publish::exports::Offer;
use crate::publish::observe::{ReadClusterset, SharedRegistry};
use crate::publish::shuffle;
use crate::reconcile::{Invocation, Joined};
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
    /// What was read of it: nothing if there is a problem.
    read: ReadClusterset,
    /// The reason why nothing could be read.
    pub(super) problem: Option<String>,
    served: Served,
    /// The last known holder of each id.
    holders: BTreeMap<ClusterId, Owner>,
    /// The members of which this run has written the record, or would write it.
    written: BTreeSet<ClusterId>,
    /// The clusters of a plan that a sync may make members.
    planned: BTreeMap<ClusterId, Owner>,
    /// The parts of its imports.
    standing: StandingParts,
    /// What any of its clusters imports.
    selection: Option<Selection>,
}

impl Clustersets<'_> {
    /// Imports the exports of all members into all clusters that take part.
    pub(super) async fn import_all(&self, mut offered: Offered) -> Imports {
        let Self { invocation, registries, selections, .. } = *self;
        let mut sets: BTreeMap<ClustersetKey, Clusterset> = BTreeMap::new();
        let mut importers = Vec::new();
        for (index, joined) in self.joined() {
            let exports = offered.remove(&index);
            let key = self.key(joined);
            let set = sets.entry(key).or_insert_with(|| self.clusterset(joined));
            match exports {
                Some(Offer::LeftAlone) => continue,
                Some(Offer::Exports(exports)) => {
                    set.served.read.insert(joined.member.cluster.clone(), *exports);
                }
                None => {}
            }
            set.add(joined);
            if invocation.mode != Mode::Sync && joined.may_become_a_member() {
                set.planned.insert(joined.member.cluster.clone(), joined.owner_of_records());
            }
            importers.push((index, joined));
        }
        let reads = sets.iter_mut();
        let reads = reads.map(|((registry, id), set)| set.read(&registries[registry], id));
        let reads: Vec<_> = reads.collect();
        stream::iter(reads).buffer_unordered(CONCURRENT_CLUSTERS).collect::<()>().await;
        let known: BTreeMap<&ClustersetKey, _> =
            sets.iter().map(|(key, set)| (key, set.members(&key.1, invocation))).collect();
        let imports = importers.into_iter().map(|(index, joined)| {
            let key = self.key(joined);
            let known = &known[&key];
            let set = &sets[&key];
            async move {
                // Without a record it is no member, and its next run would find imports in a Cloud Map that does not know it.
                if !joined.is_member(known) {
                    let is_unfamiliar = joined.is_unfamiliar(known);
                    let imported = Imported { is_unfamiliar, ..Imported::default() };
                    return is_unfamiliar.then_some((index, imported));
                }
                let read_again =
                    |name, holders| Box::pin(self.read_again(set, joined, name, holders)) as _;
                let is_selected = selections.of(index).is_some();
                Some((index, joined.import(known, is_selected, &read_again).await?))
            }
        });
        let imports = shuffle(invocation.now, imports.collect());
        let imports = stream::iter(imports).buffer_unordered(CONCURRENT_CLUSTERS);
        let imported = imports.filter_map(|it| async { it }).collect().await;
        Imports { sets, imported }
    }

    /// A clusterset of which nothing is read yet.
    fn clusterset(&self, joined: &Joined<'_>) -> Clusterset {
        let owner_id = self.invocation.settings.owner_id.clone();
        let exporters = self.invocation.exporters(joined.cluster);
        let failed = self.members.iter().filter_map(|(index, joined)| {
            let is_silent = joined.as_ref().is_err_and(|obstacle| obstacle.is_open());
            is_silent.then(|| self.invocation.settings.clusters[*index].arn.clone())
        });
        let silent = failed.filter(|arn| exporters.contains(arn)).collect();
        let served = Served { owner_id, exporters, silent, ..Served::default() };
        Clusterset { served, ..Clusterset::default() }
    }

    /// The exports of one name as they are now, for an importer. `None` if Cloud Map cannot be read.
    async fn read_again(
        &self,
        set: &Clusterset,
        importer: &Joined<'_>,
        name: ServiceRef,
        holders: BTreeSet<ClusterId>,
    ) -> Option<MergedName> {
        let Clusterset { served, holders: known, written, .. } = set;
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
            is_fresh: false,
        };
        let registry = self.registry(importer);
        let read = registry.read_clusterset(clusterset, selection.names(), &served).await;
        let read =
            read.inspect_err(|error| tracing::warn!("{name} not read again: {}", chain(error)));
        let read = read.ok()?;
        let stale_before = self.invocation.stale_before();
        let mut members = Members::new(&read.registry, clusterset, &served, stale_before);
        members.is_complete = read.has_all_members;
        members.holders.clone_from(known);
        members.written.clone_from(written);
        Some(importer.known(&members, &name, &holders))
    }
}

impl Clusterset {
    fn add(&mut self, joined: &Joined) {
        if let Some(objects) = &joined.objects {
            for (part, addresses) in objects.standing(&joined.owner) {
                self.standing.entry(part).or_default().extend(addresses);
            }
        }
        self.served.members.insert(joined.member.cluster.clone(), joined.arn().clone());
        let all = self.selection.take().into_iter().chain([joined.selection.clone()]);
        self.selection = all.reduce(Selection::union);
    }

    /// Reads, after the objects of the imports, what they rest on in Cloud Map.
    async fn read(&mut self, registry: &SharedRegistry, clusterset: &ClustersetId) {
        let names = self.selection.as_ref().and_then(Selection::names);
        let read = async {
            let mut read = registry.read_clusterset(clusterset, names, &self.served).await?;
            let lacking = self.lacking(&read, clusterset);
            if !lacking.is_empty() {
                let served = (&self.served, &lacking);
                registry.read_parts_again(&mut read, clusterset, served).await?;
            }
            Ok::<_, Arc<cloud_map::Error>>(read)
        };
        match read.await {
            Ok(read) => self.read = read,
            Err(error) => self.problem = Some(chain(&error)),
        }
        // The run may have written some since.
        self.holders = registry.holders(clusterset);
        let ids = self.served.members.keys();
        let is_written = |id: &&ClusterId| {
            let cluster = ClusterId::clone(id);
            registry.has_written(&Member { cluster, clusterset: clusterset.clone() })
        };
        self.written = ids.filter(is_written).cloned().collect();
        for (id, owner) in &self.planned {
            if !self.holders.contains_key(id) {
                self.holders.insert(id.clone(), owner.clone());
                self.written.insert(id.clone());
            }
        }
    }

    /// The parts of imports that Cloud Map, as it was read, does not show. Those that were read in their clusters are none,
    /// unless an import would end with them: another cluster may export its name in a service that counts no instance yet.
    fn lacking(
        &self,
        read: &ReadClusterset,
        clusterset: &ClustersetId,
    ) -> BTreeSet<(ServiceRef, ClusterId)> {
        let read_there = |(name, cluster): &(ServiceRef, ClusterId)| {
            self.served.read.get(cluster).filter(|read| read.covers(name))
        };
        let is_shown = |part: &(ServiceRef, ClusterId), addresses| match read_there(part) {
            Some(read) => read.exports(&part.0),
            None if self.served.exports(&part.1) => true,
            None => members::shows(&read.registry, clusterset, (&part.0, &part.1), addresses),
        };
        let (shown, lacking): (Vec<_>, Vec<_>) =
            self.standing.iter().partition(|(part, addresses)| is_shown(part, addresses));
        let exported: BTreeSet<&ServiceRef> =
            shown.into_iter().map(|((name, _), _)| name).collect();
        let lacking = lacking.into_iter().map(|(part, _)| part);
        let lacking =
            lacking.filter(|part| read_there(part).is_none() || !exported.contains(&part.0));
        lacking.cloned().collect()
    }

    /// Everything that is known about it.
    pub(super) fn members<'s>(
        &'s self,
        clusterset: &'s ClustersetId,
        invocation: &Invocation<'_>,
    ) -> Members<'s> {
        let ReadClusterset { registry, has_all_members, .. } = &self.read;
        let stale_before = invocation.stale_before();
        let mut members = Members::new(registry, clusterset, &self.served, stale_before);
        members.is_complete = *has_all_members;
        members.is_unread = self.problem.is_some();
        members.holders.clone_from(&self.holders);
        members.written.clone_from(&self.written);
        members
    }
}
