//! The memory of a process about one Cloud Map from one invocation to the next: its `mirror`, the places where each
//! Kubernetes Service has or had instances, the members of clustersets, and what Cloud Map has refused. It saves reads
//! of lists, which are scarce (2 calls a second for services, one in 2 seconds for namespaces). No change rests on
//! memory alone: instances are always read, and an entry that would be changed or is unknown is looked up again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::mirror::Mirror;
use crate::clusterset::record::ClusterRecord;
use crate::model::{
    Attributes, Owner, Selection, ServiceKey, ServiceRef, SignedDuration, Tags, Timestamp,
};
use crate::publish::plan::Refusals;

/// The members of a clusterset and their own records are not read again for this time by a sync of single Services.
pub(super) const MEMBERS_STAND: SignedDuration = SignedDuration::from_mins(1);
/// The same for the record of a member that only imports.
const IMPORTERS_STAND: SignedDuration = SignedDuration::from_mins(5);

/// After a full sync with nothing to hold, no hold by another process is expected for this time: nothing is held before
/// the next full sync.
const QUIET_STANDS: SignedDuration = SignedDuration::from_mins(1);

/// The memory about one Cloud Map.
#[derive(Debug, Default)]
pub struct Memory {
    mirror: Mutex<Mirror>,
    known: Mutex<Known>,
    refusals: Mutex<Refusals>,
}

#[derive(Debug, Default)]
pub(super) struct Known {
    /// The record of each member about itself, by the Cloud Map service that it is in.
    cluster_records: BTreeMap<ServiceKey, (Timestamp, Attributes)>,
    places: BTreeMap<Owner, BTreeMap<ServiceRef, BTreeSet<ServiceKey>>>,
    /// The ARNs of services that were seen with our marks or our tag, or that this process registered in.
    pub(super) ours: BTreeSet<String>,
    /// The tags of services that may not be read, and that are not ours by them, by ARN.
    pub(super) others: BTreeMap<String, Tags>,
    /// The last time at which a full sync of a cluster, by this process, had nothing to hold and saw nothing held.
    quiet: BTreeMap<Owner, Timestamp>,
}

impl Memory {
    /// What was last read of it.
    pub(super) fn mirror(&self) -> MutexGuard<'_, Mirror> {
        self.mirror.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The changes that Cloud Map has refused.
    pub(super) fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The record of a member about itself, if it was read recently.
    pub(super) fn cluster_record(&self, key: &ServiceKey, now: Timestamp) -> Option<Attributes> {
        let known = self.known();
        let (read, attributes) = known.cluster_records.get(key)?;
        let stands = if ClusterRecord::says_only_imports(attributes) {
            IMPORTERS_STAND
        } else {
            MEMBERS_STAND
        };
        (now.duration_since(*read) < stands).then(|| attributes.clone())
    }

    /// Remembers whether a member has a record about itself.
    pub(super) fn keep_cluster_record(
        &self,
        key: &ServiceKey,
        record: Option<&Attributes>,
        now: Timestamp,
    ) {
        let mut known = self.known();
        match record {
            Some(it) => _ = known.cluster_records.insert(key.clone(), (now, it.clone())),
            None => _ = known.cluster_records.remove(key),
        }
    }

    /// The places where the selected Services of a cluster have instances, as far as this process has seen; `None` if
    /// it has never seen all of the cluster's.
    pub(super) fn places(
        &self,
        owner: &Owner,
        selected: &Selection,
    ) -> Option<BTreeSet<ServiceKey>> {
        let known = self.known();
        let places = known.places.get(owner)?.iter();
        let places = places.filter(|(service, _)| selected.contains(service));
        Some(places.flat_map(|(_, keys)| keys).cloned().collect())
    }

    /// Replaces the memory of a cluster, except for its entries under the `unread` keys. Without these it adds to it, if
    /// that is complete.
    pub(super) fn keep_places(
        &self,
        owner: &Owner,
        places: impl Iterator<Item = (ServiceRef, ServiceKey)>,
        unread: Option<&BTreeSet<ServiceKey>>,
    ) {
        let mut known = self.known();
        if let Some(unread) = unread {
            known.places.entry(owner.clone()).or_default().retain(|_, keys| {
                keys.retain(|key| unread.contains(key));
                !keys.is_empty()
            });
        }
        let Some(all) = known.places.get_mut(owner) else { return };
        places.for_each(|(service, key)| _ = all.entry(service).or_default().insert(key));
    }

    /// Calls a function with every place of every cluster that this process has seen.
    pub(super) fn for_each_place(&self, mut see: impl FnMut(&Owner, &ServiceRef, &ServiceKey)) {
        for (owner, services) in &self.known().places {
            for (service, keys) in services {
                for key in keys {
                    see(owner, service, key);
                }
            }
        }
    }

    /// The ids of the namespaces in which any cluster has or had instances, as far as this process has seen.
    pub(super) fn namespaces_of_places(&self) -> BTreeSet<String> {
        let known = self.known();
        let keys = known.places.values().flat_map(BTreeMap::values).flatten();
        keys.map(|key| key.namespace.clone()).collect()
    }

    /// Whether a full sync found a moment ago that no removal is held in a cluster.
    pub(super) fn is_quiet(&self, owner: &Owner, now: Timestamp) -> bool {
        let known = self.known();
        known.quiet.get(owner).is_some_and(|at| now.duration_since(*at) < QUIET_STANDS)
    }

    pub(super) fn keep_quiet(&self, owner: &Owner, quiet: Option<Timestamp>) {
        let mut known = self.known();
        match quiet {
            Some(now) => _ = known.quiet.insert(owner.clone(), now),
            None => _ = known.quiet.remove(owner),
        }
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
