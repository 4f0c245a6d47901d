//! The EndpointSlices of an import: for each exporting cluster, family and set of ports as many as its endpoints need.
//! `endpoint` makes the endpoints, `packing` finds a slice for each, and `slice` writes its changes from one `state` to
//! the next.

mod endpoint;
mod packing;
mod slice;
mod state;

use std::collections::{BTreeMap, BTreeSet};

use super::basis::Basis;
use super::change::Change;
use super::derived_service::Derived;
use super::present::Slice;
use crate::clusterset::id;
use crate::model::Family;
use crate::model::clusterset::{ClusterId, ClustersetService, ImportType};
use slice::Shape;

/// The slices of a cluster and family. A slice without the label of a cluster belongs to none.
type Groups<'a> = BTreeMap<(Option<ClusterId>, Family), Vec<&'a Slice>>;

/// The changes of all slices.
pub(super) fn changes(
    basis: &Basis<'_>,
    service: &ClustersetService,
    derived: Option<&Derived<'_>>,
) -> Vec<Change> {
    let mut wanted = wanted(basis, service, derived);
    let everywhere = endpoint::addresses(&wanted);
    let mut groups = groups(basis);
    for (cluster, family) in wanted.keys() {
        groups.entry((Some(cluster.clone()), *family)).or_default();
    }
    let mut names = Names::new(basis);
    let mut changes = Vec::new();
    for ((cluster, family), present) in groups {
        let shape = Shape { basis, derived, cluster: cluster.as_ref(), family };
        if is_unread(basis, cluster.as_ref()) {
            changes.extend(present.into_iter().flat_map(|slice| shape.keep(slice)));
            continue;
        }
        let wanted = cluster.clone().and_then(|cluster| wanted.remove(&(cluster, family)));
        for packed in packing::pack(&present, wanted.unwrap_or_default(), &everywhere) {
            changes.extend(match (packed.present, &cluster) {
                (Some(slice), _) => shape.update(slice, &packed),
                (None, Some(cluster)) => shape.create(names.next_free(cluster, family), &packed),
                (None, None) => Vec::new(),
            });
        }
    }
    changes
}

/// The endpoints that the slices shall have.
pub(super) fn wanted(
    basis: &Basis<'_>,
    service: &ClustersetService,
    derived: Option<&Derived<'_>>,
) -> endpoint::ByCluster {
    let families = match service.kind {
        ImportType::ClusterSetIp => derived.map(Derived::served_families).unwrap_or_default(),
        ImportType::Headless => &service.families,
    };
    endpoint::wanted(basis, service, families)
}

/// The deletion of all slices of an import that does not exist any more.
pub(super) fn deletions(basis: &Basis<'_>) -> Vec<Change> {
    let slices = basis.slices().filter(|slice| !slice.metadata.is_terminating);
    slices.map(|slice| slice::deletion(basis, slice)).collect()
}

fn is_unread(basis: &Basis<'_>, cluster: Option<&ClusterId>) -> bool {
    cluster.map_or(!basis.sources.is_complete, |cluster| basis.sources.is_unread(cluster))
}

/// The slices of ours, in the order of their numbers. One that is being deleted takes its endpoints along, so they go to
/// another one.
fn groups<'a>(basis: &Basis<'a>) -> Groups<'a> {
    let mut groups = Groups::new();
    for slice in basis.slices().filter(|slice| !slice.metadata.is_terminating) {
        groups.entry((slice.source(), slice.family)).or_default().push(slice);
    }
    for slices in groups.values_mut() {
        slices.sort_by_key(|slice| (slice.metadata.name.len(), &slice.metadata.name));
    }
    groups
}

/// The names in use, also of slices that are not ours or that will go.
struct Names<'a> {
    basis: &'a Basis<'a>,
    used: BTreeSet<String>,
}

impl<'a> Names<'a> {
    fn new(basis: &'a Basis<'a>) -> Self {
        let used = basis.present.slices.iter().map(|slice| slice.metadata.name.clone()).collect();
        Self { basis, used }
    }

    /// The name with the smallest free number.
    fn next_free(&mut self, cluster: &ClusterId, family: Family) -> String {
        let mut number = 1;
        loop {
            let name = id::slice(self.basis.service, cluster, family, number);
            if self.used.insert(name.clone()) {
                return name;
            }
            number += 1;
        }
    }
}
