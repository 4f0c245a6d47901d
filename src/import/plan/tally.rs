//! The ready endpoints of one import, before and after its plan: what the guard against mass deletion counts, and the
//! metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::basis::Basis;
use super::derived_service::Derived;
use super::intent::{self, Intent};
use super::policy::Allowed;
use super::present::SliceEndpoint;
use super::{NamespaceState, endpoint_slices, plan};
use crate::model::clusterset::ClusterId;

/// The ready endpoints of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The weight of the import now: the ready endpoints of other clusters, and 1 for an import without any. 0 if there
    /// is no import of ours.
    pub present: usize,
    /// The part of the weight that would be lost, clusters that are let pass aside.
    pub lost: usize,
    /// The ready endpoints of other clusters after the plan.
    pub left: usize,
    /// The part of the weight in clusters that could not be read.
    pub unread: usize,
    /// Whether the import would go.
    pub ends: bool,
    /// Whether every cluster with a loss was read itself.
    pub is_read_there: bool,
    /// All ready endpoints after the plan, those of the importing cluster among them.
    pub endpoints: usize,
}

/// The number of ready endpoints by exporting cluster.
type Ready = BTreeMap<ClusterId, usize>;

impl Tally {
    /// Counts an import. A loss of the clusters in `passed` was judged already, in Cloud Map, and does not count.
    pub fn of(basis: &Basis<'_>, passed: &BTreeSet<ClusterId>) -> Self {
        let allowed = Allowed::of(basis);
        let basis = &allowed.as_ref().map_or(*basis, |allowed| allowed.basis(basis));
        let before = before(basis);
        let after = after(basis, &before);
        let ends = after.is_none() && basis.import().is_some();
        let ready = &after.unwrap_or_default();
        let own = &basis.importer.cluster;
        let others = |ready: &Ready| count(ready, |cluster| cluster != own);
        let counted = |ready: &Ready| count(ready, |it| it != own && !passed.contains(it));
        let mut lost = counted(&before).saturating_sub(counted(ready));
        if ends && others(&before) == 0 {
            let is_judged = intent::holders(basis).iter().any(|it| passed.contains(it));
            lost = usize::from(!is_judged);
        }
        Self {
            present: basis.import().map_or(0, |_| others(&before).max(1)),
            lost,
            left: others(ready),
            unread: count(&before, |it| it != own && basis.sources.is_unread(it)),
            ends,
            is_read_there: before.iter().all(|(cluster, count)| {
                ready.get(cluster).is_some_and(|left| left >= count)
                    || cluster == own
                    || basis.sources.is_read_there(cluster)
            }),
            endpoints: count(ready, |_| true),
        }
    }
}

/// The ready endpoints after the plan; `None` if the import ends.
fn after(basis: &Basis<'_>, before: &Ready) -> Option<Ready> {
    let is_excluded = basis.namespace == NamespaceState::Excluded;
    match Intent::of(basis) {
        Intent::Unchanged(_) => Some(before.clone()),
        _ if is_excluded && plan(basis).changes.is_empty() => Some(before.clone()),
        Intent::End => None,
        Intent::Import(service) => {
            let derived = Derived::of(basis, &service);
            let wanted = endpoint_slices::wanted(basis, &service, derived.as_ref());
            let mut ready = before.clone();
            ready.retain(|cluster, _| basis.sources.is_unread(cluster));
            for ((cluster, _), with_ports) in wanted {
                let endpoints = with_ports.values().flat_map(BTreeMap::values);
                // An address belongs to one family.
                *ready.entry(cluster).or_default() += distinct(endpoints.filter_map(address));
            }
            Some(ready)
        }
    }
}

/// The ready endpoints in the slices. Those of a slice without a cluster count for none.
fn before(basis: &Basis<'_>) -> Ready {
    let mut ready: BTreeMap<ClusterId, Vec<IpAddr>> = BTreeMap::new();
    for slice in basis.slices().filter(|slice| !slice.metadata.is_terminating) {
        if let Some(cluster) = slice.source() {
            let addresses = slice.endpoints.iter().filter_map(address);
            ready.entry(cluster).or_default().extend(addresses);
        }
    }
    ready.into_iter().map(|(cluster, all)| (cluster, distinct(all.into_iter()))).collect()
}

fn distinct(addresses: impl Iterator<Item = IpAddr>) -> usize {
    let mut addresses: Vec<IpAddr> = addresses.collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.len()
}

/// The address of an endpoint that is ready.
fn address(endpoint: &SliceEndpoint) -> Option<IpAddr> {
    endpoint.address().filter(|_| endpoint.ready != Some(false))
}

fn count(ready: &Ready, belongs: impl Fn(&ClusterId) -> bool) -> usize {
    ready.iter().filter(|(cluster, _)| belongs(cluster)).map(|(_, count)| count).sum()
}
