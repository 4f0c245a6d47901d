//! A clusterset in one invocation: the clusters that take part, the exports that were read in them, and the part of
//! Cloud Map that their imports are built from.

use std::collections::BTreeMap;

use super::{Invocation, JoinedCluster};
use crate::clusterset::departures::{ImportedParts, Parts};
use crate::clusterset::members::{ReadClusterset, Served};
use crate::import::sources::Members;
use crate::model::{ClusterArn, ClusterId, ClustersetId, Owner, ReadExports, Selection};
use crate::publish::observe::SharedRegistry;
use crate::report::Mode;
use crate::settings::Cluster;

/// A clusterset in one invocation.
#[derive(Default)]
pub struct Clusterset {
    /// The part of the clusterset that this invocation has read in Cloud Map.
    pub in_cloud_map: ReadClusterset,
    pub served: Served,
    /// Clusters that a sync may make members, with the owner of their future record. A plan counts them as members.
    future_members: BTreeMap<ClusterId, Owner>,
    /// The endpoints that the imports of its clusters have now, by name and exporter.
    parts: Parts,
    /// The union of the names that its clusters import in this run. `None` before the first cluster is added.
    selection: Option<Selection>,
}

impl Invocation<'_> {
    /// Returns the clusterset of a cluster, before anything of it is read. `silent` has the clusters that did not
    /// answer.
    pub fn clusterset(
        &self,
        cluster: &Cluster,
        silent: impl Iterator<Item = ClusterArn>,
    ) -> Clusterset {
        let owner_id = self.settings.owner_id.clone();
        let exporters = self.exporters(cluster);
        let silent = silent.filter(|arn| exporters.contains(arn)).collect();
        let served = Served { owner_id, exporters, silent, ..Served::default() };
        Clusterset { served, ..Clusterset::default() }
    }
}

impl Clusterset {
    /// Adds a cluster that takes part, with the exports that were read in it. If two clusters have the same id, only
    /// the exports of the id's holder count.
    pub fn add(
        &mut self,
        joined: &JoinedCluster<'_>,
        registry: &SharedRegistry,
        exports: Option<ReadExports>,
    ) {
        let all = self.selection.take().into_iter().chain([joined.selection.clone()]);
        self.selection = all.reduce(Selection::union);
        let id = &joined.member.cluster;
        let owner = joined.owner_of_records();
        if self.served.members.contains_key(id) && !registry.owns_id(&joined.member, &owner) {
            return;
        }
        self.served.members.insert(id.clone(), joined.arn().clone());
        self.served.read.remove(id);
        self.served.read.extend(exports.map(|exports| (id.clone(), exports)));
        if joined.invocation.mode != Mode::Sync && joined.may_become_a_member() {
            self.future_members.insert(id.clone(), owner);
        }
    }

    /// Adds the endpoints that the cluster's imports have now. Call it after `add` was called for every participating
    /// cluster.
    pub fn add_parts(&mut self, joined: &JoinedCluster<'_>) {
        if let Some(objects) = &joined.objects {
            for (part, endpoints) in objects.parts(&joined.owner, &self.served) {
                self.parts.entry(part).or_default().extend(endpoints);
            }
        }
    }

    /// Reads the part of Cloud Map that the imports of the clusterset are built from. Call it after `add_parts`:
    /// exports and endpoints that are in an import are read by their id.
    pub async fn read(&mut self, registry: &SharedRegistry, clusterset: &ClustersetId) {
        let names = self.selection.as_ref().and_then(Selection::names);
        let parts = std::mem::take(&mut self.parts);
        let standing = ImportedParts { clusterset, served: &self.served, parts };
        self.in_cloud_map = registry.read_clusterset(names, standing).await;
        for (id, owner) in &self.future_members {
            if !self.in_cloud_map.holders.contains_key(id) {
                self.in_cloud_map.holders.insert(id.clone(), owner.clone());
                self.in_cloud_map.written_or_planned.insert(id.clone());
            }
        }
    }

    /// Returns the members of the clusterset, from Cloud Map and from the served clusters.
    pub fn members<'s>(
        &'s self,
        clusterset: &'s ClustersetId,
        invocation: &Invocation<'_>,
    ) -> Members<'s> {
        Members::new(&self.in_cloud_map, clusterset, &self.served, invocation.stale_before())
    }
}
