//! The imports of a run: what the clusters of each clusterset import rests on the exports that this invocation read
//! (`exports`), and on Cloud Map for all other members, which is read once for a clusterset. If that fails, the served
//! clusters go on to follow each other, and the parts of all others stay as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::{StreamExt, stream};

use super::{CONCURRENT_CLUSTERS, ClustersetKey, Clustersets, JoinedMembers, Offered};
use crate::cloud_map;
use crate::clusterset::members;
use crate::error::chain;
use crate::import::observe::StandingParts;
use crate::import::{Imported, OwnRecord, sources};
use crate::model::{ClusterId, ClustersetId, Overlay, Selection, ServiceRef};
use crate::publish::exports::Offer;
use crate::publish::observe::{ReadClusterset, ReadLimit, Served, SharedRegistry};
use crate::publish::shuffle;
use crate::reconcile::{Invocation, Joined};

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
    /// The parts of its imports.
    standing: StandingParts,
    /// The exports that take part only if nothing could be read.
    unregistered: Vec<(ClusterId, Overlay)>,
    /// The number of clusters that state an id, exports or not.
    stated: BTreeMap<ClusterId, usize>,
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
            let offer = offered.remove(&index);
            if matches!(offer, Some(Offer::Nothing)) {
                continue;
            }
            let own_record = sets.entry(self.key(joined)).or_default().add(joined, offer);
            importers.push((index, joined, own_record));
        }
        let reads = sets.iter_mut();
        let reads = reads.map(|((registry, id), set)| set.read(&registries[registry], id));
        let reads: Vec<_> = reads.collect();
        stream::iter(reads).buffer_unordered(CONCURRENT_CLUSTERS).collect::<()>().await;
        let known: BTreeMap<&ClustersetKey, _> =
            sets.iter().map(|(key, set)| (key, set.members(&key.1, invocation))).collect();
        let imports = importers.into_iter().map(|(index, joined, own_record)| {
            let known = &known[&self.key(joined)];
            let is_member = own_record != OwnRecord::Unknown || !joined.is_new(known);
            let run = (selections.of(index).is_some(), own_record);
            async move {
                if !is_member || joined.other_holder(known).is_some() {
                    return None;
                }
                Some((index, joined.import(known, run).await?))
            }
        });
        let imports = shuffle(invocation.now, imports.collect());
        let imports = stream::iter(imports).buffer_unordered(CONCURRENT_CLUSTERS);
        let imported = imports.filter_map(|it| async { it }).collect().await;
        Imports { sets, imported }
    }
}

impl Clusterset {
    /// Returns the record of the cluster, as far as it wrote one in this invocation.
    fn add(&mut self, joined: &Joined, offer: Option<Offer>) -> OwnRecord {
        let cluster = joined.member.cluster.clone();
        *self.stated.entry(cluster.clone()).or_default() += 1;
        if let Some(objects) = &joined.objects {
            for (part, addresses) in objects.standing(&joined.owner) {
                self.standing.entry(part).or_default().extend(addresses);
            }
            self.served.members.insert(cluster.clone(), joined.arn().clone());
        }
        let all = self.selection.take().into_iter().chain([joined.selection.clone()]);
        self.selection = all.reduce(Selection::union);
        match offer {
            Some(Offer::Exports(overlay)) => {
                self.served.overlays.insert(cluster, overlay);
                OwnRecord::Stands
            }
            Some(Offer::Unregistered(overlay)) => {
                self.unregistered.push((cluster, overlay));
                OwnRecord::Unknown
            }
            Some(Offer::Unrecorded) => OwnRecord::Refused,
            Some(Offer::Nothing) | None => OwnRecord::Unknown,
        }
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
            Err(error) => {
                self.problem = Some(chain(&error));
                // Of two clusters that state the same id only Cloud Map shows which of them holds it.
                self.unregistered.retain(|(cluster, _)| self.stated[cluster] == 1);
                self.served.overlays.extend(self.unregistered.drain(..));
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
        let overlay = |(name, cluster): &(ServiceRef, ClusterId)| {
            self.served.overlays.get(cluster).filter(|overlay| overlay.covers(name))
        };
        let is_shown = |part: &(ServiceRef, ClusterId), addresses| match overlay(part) {
            Some(overlay) => overlay.exports(&part.0),
            None => members::shows(&read.registry, clusterset, (&part.0, &part.1), addresses),
        };
        let (shown, lacking): (Vec<_>, Vec<_>) =
            self.standing.iter().partition(|(part, addresses)| is_shown(part, addresses));
        let exported: BTreeSet<&ServiceRef> =
            shown.into_iter().map(|((name, _), _)| name).collect();
        let lacking = lacking.into_iter().map(|(part, _)| part);
        let lacking = lacking.filter(|it| overlay(it).is_none() || !exported.contains(&it.0));
        lacking.cloned().collect()
    }

    /// The exports of a cluster that stand in place of what Cloud Map says of it: not those of another one that states the
    /// same id.
    pub(super) fn overlay_of(&self, joined: &Joined) -> Option<&Overlay> {
        let overlay = self.served.overlays.get(&joined.member.cluster);
        overlay.filter(|overlay| overlay.arn == *joined.arn())
    }

    /// Everything that is known about it.
    pub(super) fn members<'s>(
        &'s self,
        clusterset: &'s ClustersetId,
        invocation: &Invocation<'_>,
    ) -> sources::Members<'s> {
        let ReadClusterset { registry, has_all_members, .. } = &self.read;
        let read = (registry, *has_all_members);
        let overlay = &self.served.overlays;
        let mut members =
            sources::Members::new(read, clusterset, overlay, invocation.stale_before());
        members.is_unread = self.problem.is_some();
        members
    }
}

// A second look at imports in which an object has changed since it was read: by an overlapping run, or a person. The API
// server refused the change (409), so the objects are read once more, then the exports that they rest on, and the import
// is decided and written again. If that is refused, too, the next run goes on.

/// With more imports of a cluster that have changed, the others wait for the next run: each needs three reads.
const MOST: usize = 40;

impl Clustersets<'_> {
    /// Looks at the outdated imports again, and takes them over into the outcome of the first look.
    pub(super) async fn look_again(&self, imports: &mut Imports) {
        let outdated = imports.imported.iter();
        let outdated: BTreeMap<usize, Selection> =
            outdated.filter_map(|(index, it)| Some((*index, it.outdated(MOST)?))).collect();
        if outdated.is_empty() || !self.invocation.deadline.is_open() {
            return;
        }
        let members = self.join_again(&outdated).await;
        let clusters = members.values().flatten().map(|joined| joined.cluster);
        let limit = ReadLimit::of_person(self.invocation.deadline);
        let registries = self.function.registries_of(clusters, limit).await;
        let looking = Clustersets { registries: &registries, members: &members, ..*self };
        let offered = looking.offered_again(imports, &outdated).await;
        let count = outdated.len();
        tracing::info!(clusters = count, "imports that changed meanwhile are read again");
        let mut again = looking.import_all(offered).await.imported;
        for (index, selection) in &outdated {
            let first = imports.imported.get_mut(index).zip(again.remove(index));
            if let Some((first, second)) = first {
                first.looked_again(selection, second);
            }
        }
    }

    /// The members with their outdated imports as they are now; without any, if none is outdated.
    async fn join_again(&self, outdated: &BTreeMap<usize, Selection>) -> JoinedMembers<'_> {
        let mut members = JoinedMembers::new();
        for (index, joined) in self.joined() {
            let selection = outdated.get(&index).cloned().unwrap_or_else(Selection::nothing);
            match joined.again(selection).await {
                Ok(again) => _ = members.insert(index, Ok(again)),
                Err(error) => tracing::warn!("imports not read again: {}", chain(&error)),
            }
        }
        members
    }

    /// The exports of the clusters that stood in place of Cloud Map before, read after the objects of the imports.
    async fn offered_again(
        &self,
        first: &Imports,
        outdated: &BTreeMap<usize, Selection>,
    ) -> Offered {
        let mut offered = Offered::new();
        let Some(names) = outdated.values().cloned().reduce(Selection::union) else {
            return offered;
        };
        for (index, joined) in self.joined() {
            let set = first.sets.get(&self.key(joined));
            let Some(overlay) = set.and_then(|set| set.overlay_of(joined)) else { continue };
            let covers = names.only(|name| overlay.covers(name));
            if let Some(exports) = joined.exports_in_cluster(self.registry(joined), &covers).await {
                let held = overlay.held.clone();
                let let_pass = overlay.let_pass;
                let overlay = Overlay { held, let_pass, ..exports };
                offered.insert(index, Offer::Exports(overlay));
            }
        }
        offered
    }
}
