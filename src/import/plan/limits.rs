//! The guard over the imports of a cluster. The plans of all of them are counted before the first change: if they would
//! lose most of the ready endpoints that come from other clusters, those of the losing imports stay, and additions go on.
//! The limits, the memory and the verdict are those of [`crate::guard`].
//!
//! It judges apart from the guard of exports, which counts instances in Cloud Map.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::basis::{Basis, NamespaceState, Read, Sources};
use super::derived_service::Derived;
use super::ownership::OwnerLabel;
use super::present::{Present, Slice, SliceEndpoint};
use super::{Intent, endpoint_slices};
use crate::guard::{
    Circumstances, Extent, Guard, GuardStatus, Loss, LossSubject, Losses, Measure, SightingNote,
};
use crate::model::{ClusterArn, ClusterId, ServiceRef, Timestamp};

/// The ready endpoints of one import, before and after its plan: what the guard counts, and the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The weight of the import now: the ready endpoints of other clusters, and 1 for an import without any. 0 if there
    /// is no import of ours.
    pub present: usize,
    /// The part of the weight that would be lost, and the ready endpoints of other clusters after the plan.
    pub loss: Loss,
    /// The part of the weight in clusters that could not be read.
    pub unread: usize,
    /// All ready endpoints after the plan, those of the importing cluster among them.
    pub endpoints: usize,
}

/// The number of ready endpoints by exporting cluster.
type Ready = BTreeMap<ClusterId, usize>;

impl Tally {
    /// Counts an import.
    pub fn of(basis: &Basis<'_>) -> Self {
        let before = ready_by_cluster(basis.slices());
        let after = after(basis, &before);
        let ends = after.is_none() && basis.import().is_some();
        let ready = &after.unwrap_or_default();
        let own = basis.importer;
        let others = |ready: &Ready| count(ready, |cluster| cluster != own);
        let mut lost = others(&before).saturating_sub(others(ready));
        if ends && others(&before) == 0 {
            lost = 1;
        }
        // An import that stays is still exported, so its export was scaled down, if that was seen in the exporters:
        // Cloud Map may be another one, or not show all.
        let was_read = !ends
            && before.iter().all(|(cluster, count)| {
                ready.get(cluster).is_some_and(|left| left >= count)
                    || cluster == own
                    || basis.sources.is_read_there(cluster)
            });
        Self {
            present: basis.import().map_or(0, |_| others(&before).max(1)),
            loss: Loss { lost, left: others(ready), was_read, has_room: true },
            unread: count(&before, |it| it != own && basis.sources.is_unread(it)),
            endpoints: count(ready, |_| true),
        }
    }
}

/// The ready endpoints after the plan; `None` if the import ends.
fn after(basis: &Basis<'_>, before: &Ready) -> Option<Ready> {
    let is_excluded = basis.namespace == NamespaceState::Excluded;
    match Intent::of(basis) {
        Intent::Unchanged(_) => Some(before.clone()),
        _ if is_excluded && super::plan(basis).changes.is_empty() => Some(before.clone()),
        Intent::End => None,
        Intent::Import(service) => {
            let derived = Derived::of(basis, &service);
            let wanted = endpoint_slices::wanted(basis, &service, derived.as_ref());
            let mut ready = before.clone();
            ready.retain(|cluster, _| basis.sources.is_unread(cluster));
            for ((cluster, _), with_ports) in wanted {
                let endpoints = with_ports.values().flat_map(BTreeMap::values);
                // An address belongs to one family.
                let addresses = endpoints.filter_map(SliceEndpoint::ready_address);
                *ready.entry(cluster).or_default() += addresses.collect::<BTreeSet<_>>().len();
            }
            Some(ready)
        }
    }
}

/// The number of ready endpoints in the slices of an import that are ours.
pub fn ready_endpoints(owner: &OwnerLabel, present: &Present) -> usize {
    let slices = present.slices.iter().map(AsRef::as_ref);
    let ready = ready_by_cluster(slices.filter(|slice: &&Slice| owner.owns(&slice.metadata)));
    ready.values().sum()
}

/// The ready endpoints in the slices. Those of a slice without a cluster count for none.
fn ready_by_cluster<'a>(slices: impl Iterator<Item = &'a Slice>) -> Ready {
    let mut ready: BTreeMap<ClusterId, BTreeSet<IpAddr>> = BTreeMap::new();
    for slice in slices.filter(|slice| !slice.metadata.is_terminating) {
        if let Some(cluster) = slice.source() {
            let addresses = slice.endpoints.iter().filter_map(SliceEndpoint::ready_address);
            ready.entry(cluster).or_default().extend(addresses);
        }
    }
    ready.into_iter().map(|(cluster, all)| (cluster, all.len())).collect()
}

fn count(ready: &Ready, belongs: impl Fn(&ClusterId) -> bool) -> usize {
    ready.iter().filter(|(cluster, _)| belongs(cluster)).map(|(_, count)| count).sum()
}

/// The sources of an import that the guard holds: nothing of another cluster leaves it. If no cluster exports the
/// name, the part of this one stays, too.
pub fn hold(basis: &Basis<'_>) -> Sources {
    let mut sources = basis.sources.clone();
    let leaves = |cluster: &ClusterId| basis.merged.is_some() && cluster == basis.importer;
    let stay = |it: &ClusterId| !basis.sources.stays(it) && !leaves(it);
    for cluster in basis.holders().into_iter().filter(stay) {
        let exported = sources.exported(&cluster);
        sources.by_cluster.insert(cluster, Read::Held(exported));
    }
    sources
}

/// A run over the imports of a cluster.
#[derive(Clone, Debug)]
pub struct GuardedRun<'a> {
    pub cluster: &'a ClusterArn,
    pub guard: Guard,
    pub extent: Extent,
    pub now: Timestamp,
    /// Whether the cluster has a record in Cloud Map, on which a loss can be noted.
    pub remembers: bool,
}

/// The verdict of the guard on the imports of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    pub status: Option<GuardStatus>,
    /// Whether a part was not read, so that the loss is not completely known.
    is_partial: bool,
}

/// What becomes of the note on the cluster's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    Write(SightingNote),
    Remove,
}

impl GuardedRun<'_> {
    /// Judges the plans of all imports that the run covers.
    pub fn judge(
        &self,
        tallies: &BTreeMap<ServiceRef, Tally>,
        noted: Option<&SightingNote>,
    ) -> Judgement {
        let losses = tallies.iter().filter(|(_, tally)| tally.loss.lost > 0);
        let losses = losses.map(|(name, tally)| (name.clone(), tally.loss));
        let sum = |count: fn(&Tally) -> usize| tallies.values().map(count).sum();
        let unread = sum(|tally| tally.unread);
        // Those that could not be read are among the present ones; the limits count them apart.
        let instances = sum(|tally| tally.present.saturating_sub(tally.unread));
        let measure = Measure { extent: self.extent, instances, unread, is_old: false };
        let guard = self.guard;
        let now = self.now;
        let cluster = self.cluster.clone();
        let run = Circumstances { guard, now, cluster, subject: LossSubject::Endpoints };
        let losses: Losses = losses.collect();
        let sightings = noted.map(|note| note.sightings(losses.keys())).unwrap_or_default();
        let verdict = measure.judge(&run, &losses, &sightings);
        let mut status = verdict.map(|verdict| verdict.status(run));
        // A cluster without a record cannot remember a loss, so only a person lets it pass.
        for status in status.iter_mut().filter(|it| !self.remembers && it.verdict.state.holds()) {
            status.without_note = status.verdict.held.keys().cloned().collect();
        }
        Judgement { status, is_partial: unread > 0 }
    }
}

impl Judgement {
    /// The number of endpoints that an import keeps; `None` if it is not held.
    pub fn held(&self, name: &ServiceRef) -> Option<usize> {
        self.status.as_ref()?.verdict.held.get(name).map(|loss| loss.lost)
    }

    /// What becomes of the note, when the imports were changed. It stays while a loss that passes is not carried out
    /// completely, so that the next run lets the rest pass.
    pub fn note(
        &self,
        run: &GuardedRun<'_>,
        noted: Option<&SightingNote>,
        is_complete: bool,
    ) -> Option<Note> {
        if !run.remembers || !run.extent.is_whole() {
            return None;
        }
        match self.status.as_ref().map(|status| &status.verdict) {
            Some(verdict) if verdict.state.holds() => {
                let is_new = !verdict.new.is_empty();
                is_new.then(|| Note::Write(SightingNote::of(&verdict.held, run.now)))
            }
            Some(verdict) if !is_complete => {
                let ripe = run.now.saturating_sub(run.guard.wait).unwrap_or(run.now);
                let passed = SightingNote::of(&verdict.passed, ripe);
                noted.is_none().then_some(Note::Write(passed))
            }
            None if self.is_partial => None,
            _ => noted.map(|_| Note::Remove),
        }
    }
}
