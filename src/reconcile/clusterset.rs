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
    /// The clusters that a sync would make members, with the owner of their future record. A plan counts them as
    /// members.
    future_members: BTreeMap<ClusterId, Owner>,
    /// The endpoints that the imports of its clusters have now, by name and exporter.
    parts: Parts,
    /// The union of the names that its clusters import in this run. `None` before the first cluster is added.
    selection: Option<Selection>,
}

impl Invocation<'_> {
    /// Returns the clusterset of a cluster, before the run reads anything of it. `silent` has the clusters that did not
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
    /// the exports of the id's owner count.
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

    /// Adds the endpoints that the cluster's imports have now. Call this after `add` was called for every participating
    /// cluster.
    pub fn add_parts(&mut self, joined: &JoinedCluster<'_>) {
        if let Some(objects) = &joined.objects {
            for (part, endpoints) in objects.parts(&joined.owner, &self.served) {
                self.parts.entry(part).or_default().extend(endpoints);
            }
        }
    }

    /// Reads the part of Cloud Map that the imports of the clusterset are built from. Call this after `add_parts`,
    /// since exports and endpoints that an import already has are looked up by their id.
    pub async fn read(&mut self, registry: &SharedRegistry, clusterset: &ClustersetId) {
        let names = self.selection.as_ref().and_then(Selection::names);
        let parts = std::mem::take(&mut self.parts);
        let imported = ImportedParts { clusterset, served: &self.served, parts };
        self.in_cloud_map = registry.read_clusterset(names, imported).await;
        for (id, owner) in &self.future_members {
            if !self.in_cloud_map.id_owners.contains_key(id) {
                self.in_cloud_map.id_owners.insert(id.clone(), owner.clone());
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
