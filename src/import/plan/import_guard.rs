//! The guard over the imports of a cluster. It counts the plans of all imports before the first change. If the imports
//! would lose most of the ready endpoints of all other clusters, or of one other cluster, these endpoints stay, and
//! additions continue. The limits and the verdict are those of [`crate::guard`]. This guard judges independently of the
//! guard of exports, which counts instances in Cloud Map.
//!
//! The part of each exporter is also measured on its own. If one of ten equal exporters answers with an empty list, its
//! importers would lose only a tenth of all their endpoints, which the limits for all endpoints let pass.
//!
//! A held loss is noted on its ServiceImport ([`ImportNote`]). A full sync that sees the same loss after
//! `GUARD_WAIT` lets it pass. The note is removed after the loss was carried out, or with the import.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::sync::Arc;

use super::derived_service::Derived;
use super::input::{NamespaceState, PlanInput, Read, Sources};
use super::ownership::OwnerLabel;
use super::present_objects::{Present, Slice, SliceEndpoint};
use super::{Intent, endpoint_slices};
use crate::guard::{
    Circumstances, Extent, Guard, GuardStatus, Loss, LossBase, LossSubject, Losses, Sighting,
};
use crate::model::{ClusterArn, ClusterId, ServiceRef, Timestamp};

/// The ready endpoints of one import before and after its plan, for the guard and the metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The present weight of the import: the number of ready endpoints of other clusters, at least 1. 0 if there is no
    /// import of ours.
    pub present: usize,
    /// The part of the weight that would be lost, and the ready endpoints of other clusters after the plan.
    pub loss: Loss,
    /// The part of the weight in clusters that could not be read.
    pub unread: usize,
    /// All ready endpoints after the plan, those of the importing cluster among them.
    pub endpoints: usize,
    /// The parts of the other clusters.
    pub parts: BTreeMap<ClusterId, Part>,
}

/// The ready endpoints of one exporter in an import, before and after its plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    pub present: usize,
    pub left: usize,
    pub is_unread: bool,
}

/// The number of ready endpoints by exporting cluster.
type Ready = BTreeMap<ClusterId, usize>;

impl Tally {
    /// Counts the ready endpoints of an import.
    pub fn of(input: &PlanInput<'_>) -> Self {
        let before = ready_by_cluster(input.slices());
        let after = after(input, &before);
        let ends = after.is_none() && input.import().is_some();
        let ready = &after.unwrap_or_default();
        let own = input.importer;
        let others = |ready: &Ready| count(ready, |cluster| cluster != own);
        let mut lost = others(&before).saturating_sub(others(ready));
        if ends && others(&before) == 0 {
            lost = 1;
        }
        // In an excluded namespace no note can be written on the ServiceImport.
        let has_room = input.import().is_some() && input.namespace == NamespaceState::Active;
        let parts = before.keys().chain(ready.keys()).filter(|cluster| *cluster != own);
        let parts = parts.map(|cluster| {
            let count = |ready: &Ready| ready.get(cluster).copied().unwrap_or_default();
            let is_unread = input.sources.is_unread(cluster);
            let part = Part { present: count(&before), left: count(ready), is_unread };
            (cluster.clone(), part)
        });
        Self {
            parts: parts.collect(),
            present: input.import().map_or(0, |_| others(&before).max(1)),
            // If the import stays, the loss was read: the exporting cluster has fewer endpoints, or Cloud Map answered
            // for each missing instance that it does not exist. If the import ends, the loss is only inferred.
            loss: Loss { lost, left: others(ready), was_read: !ends, has_room },
            unread: count(&before, |cluster| cluster != own && input.sources.is_unread(cluster)),
            endpoints: count(ready, |_| true),
        }
    }
}

/// The ready endpoints after the plan; `None` if the import ends.
fn after(input: &PlanInput<'_>, before: &Ready) -> Option<Ready> {
    let is_excluded = input.namespace == NamespaceState::Excluded;
    match Intent::of(input) {
        Intent::Unchanged(_) => Some(before.clone()),
        _ if is_excluded && super::plan(input).changes.is_empty() => Some(before.clone()),
        Intent::End => None,
        Intent::Import(service) => {
            let derived = Derived::of(input, &service);
            let wanted = endpoint_slices::wanted(input, &service, derived.as_ref());
            let mut ready = before.clone();
            ready.retain(|cluster, _| input.sources.is_unread(cluster));
            for ((cluster, _), with_ports) in wanted {
                let endpoints = with_ports.values().flat_map(BTreeMap::values);
                // Each address has one family, so none is counted twice.
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

/// Counts the ready endpoints in the slices by exporting cluster. A slice without a cluster is not counted.
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

/// Marks the parts of an import that the guard holds, so that the plan removes none of their endpoints. The part of the
/// importing cluster is held only if no cluster exports the name.
pub fn hold(input: &PlanInput<'_>, held: &HeldParts) -> Sources {
    let mut sources = input.sources.clone();
    let is_own = |cluster: &ClusterId| input.merged.is_some() && cluster == input.importer;
    let is_selected = |cluster: &ClusterId| match held {
        HeldParts::All => true,
        HeldParts::Of(clusters) => clusters.contains(cluster),
    };
    let is_to_hold = |cluster: &ClusterId| {
        is_selected(cluster) && !input.sources.stays(cluster) && !is_own(cluster)
    };
    for cluster in input.clusters().into_iter().filter(is_to_hold) {
        let endpoints = sources.endpoints(&cluster);
        sources.by_cluster.insert(cluster, Read::Held(endpoints));
    }
    sources
}

/// The clusters whose parts of an import the guard holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldParts {
    All,
    Of(BTreeSet<ClusterId>),
}

/// The guard's parameters for a run over the imports of a cluster.
#[derive(Clone, Debug)]
pub struct GuardedRun<'a> {
    pub cluster: &'a ClusterArn,
    pub guard: Guard,
    pub extent: Extent,
    /// Whether a second pass of the run may read clusters that this pass has not read. If so, their endpoints count
    /// towards the loss of this pass, so that both passes are judged together. If not, an unread cluster affects only
    /// the verdict on its own part.
    pub may_read_more: bool,
    pub now: Timestamp,
}

/// The verdicts of the guard on the imports of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// The verdict on all endpoints of other clusters together.
    all: Option<Arc<GuardStatus>>,
    /// The verdict on the endpoints of each exporter.
    by_exporter: BTreeMap<ClusterId, Arc<GuardStatus>>,
}

/// Whether the guard's note on a ServiceImport is kept, written or removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NoteChange {
    #[default]
    Keep,
    Write(ImportNote),
    /// Removed after all other changes. If the run ends early, the note stays, and the next run lets the rest of the
    /// loss pass.
    Remove,
}

impl GuardedRun<'_> {
    /// Judges the plans of all imports that the run covers.
    pub fn judge(
        &self,
        tallies: &BTreeMap<ServiceRef, Tally>,
        notes: &BTreeMap<ServiceRef, ImportNote>,
    ) -> Judgement {
        let sum = |count: fn(&Tally) -> usize| tallies.values().map(count).sum();
        let unread = if self.may_read_more { sum(|tally| tally.unread) } else { 0 };
        // `present` includes unread endpoints. They count separately, and only if a second pass may read them.
        let instances = sum(|tally| tally.present.saturating_sub(tally.unread));
        let losses = tallies.iter().filter(|(_, tally)| tally.loss.lost > 0);
        let losses = losses.map(|(name, tally)| (name.clone(), tally.loss)).collect();
        let all = self.status((instances, unread), &losses, |name| Some(notes.get(name)?.all));
        let exporters: BTreeSet<&ClusterId> =
            tallies.values().flat_map(|tally| tally.parts.keys()).collect();
        let by_exporter = exporters.into_iter().filter_map(|exporter| {
            let parts = tallies
                .iter()
                .filter_map(|(name, tally)| Some((name, tally.loss, tally.parts.get(exporter)?)));
            let mut instances = 0;
            let mut unread = 0;
            let mut losses = Losses::new();
            for (name, loss, part) in parts {
                let count = if part.is_unread { &mut unread } else { &mut instances };
                *count += part.present;
                let Part { present, left, .. } = *part;
                if left < present {
                    losses.insert(name.clone(), Loss { lost: present - left, left, ..loss });
                }
            }
            let noted = |name: &ServiceRef| notes.get(name)?.parts.get(exporter).copied();
            Some((exporter.clone(), self.status((instances, unread), &losses, noted)?))
        });
        Judgement { all, by_exporter: by_exporter.collect() }
    }

    fn status(
        &self,
        (instances, unread): (usize, usize),
        losses: &Losses,
        noted: impl Fn(&ServiceRef) -> Option<Sighting>,
    ) -> Option<Arc<GuardStatus>> {
        let base = LossBase { extent: self.extent, instances, unread, has_earlier_reads: false };
        let cluster = self.cluster.clone();
        let subject = LossSubject::Endpoints;
        let circumstances = Circumstances { guard: self.guard, now: self.now, cluster, subject };
        let sightings = losses.keys().filter_map(|name| Some((name.clone(), noted(name)?)));
        let mut status =
            base.judge(&circumstances, losses, &sightings.collect())?.status(circumstances);
        let held = status.verdict.held.iter().filter(|(_, loss)| !loss.has_room);
        status.without_note = held.map(|(name, _)| name.clone()).collect();
        Some(Arc::new(status))
    }
}

impl Judgement {
    fn statuses(&self) -> impl Iterator<Item = &Arc<GuardStatus>> {
        self.all.iter().chain(self.by_exporter.values())
    }

    /// The verdict for the report: the first one that holds a loss, otherwise the first one.
    pub fn status(&self) -> Option<&Arc<GuardStatus>> {
        let mut statuses = self.statuses();
        let first = self.statuses().next();
        statuses.find(|status| status.verdict.state.holds()).or(first)
    }

    /// Returns the parts of an import that the guard holds, the number of endpoints that they would lose, and the
    /// verdict. `None` if it holds none.
    pub fn held(&self, name: &ServiceRef) -> Option<(HeldParts, usize, &Arc<GuardStatus>)> {
        let lost = |status: &GuardStatus| status.verdict.held.get(name).map(|loss| loss.lost);
        if let Some(status) = &self.all
            && let Some(lost) = lost(status)
        {
            return Some((HeldParts::All, lost, status));
        }
        let held = self
            .by_exporter
            .iter()
            .filter_map(|(exporter, status)| Some((exporter.clone(), lost(status)?, status)));
        let held: Vec<_> = held.collect();
        let (.., status) = held.first()?;
        let endpoints = held.iter().map(|(_, lost, _)| lost).sum();
        let clusters = held.iter().map(|(exporter, ..)| exporter.clone()).collect();
        Some((HeldParts::Of(clusters), endpoints, status))
    }

    /// Whether the guard's note on the ServiceImport of a name is kept, written or removed.
    /// `noted` is the present note.
    pub fn note(
        &self,
        run: &GuardedRun<'_>,
        name: &ServiceRef,
        tally: &Tally,
        noted: Option<&ImportNote>,
    ) -> NoteChange {
        if !run.extent.is_full_sync() {
            return NoteChange::Keep;
        }
        let mut statuses = self.statuses();
        if statuses.any(|status| status.verdict.new.contains(name)) {
            return NoteChange::Write(self.new_note(run.now, name, tally, noted));
        }
        let may_be_lost_later = tally.unread > 0 || self.held(name).is_some();
        if may_be_lost_later { NoteChange::Keep } else { NoteChange::Remove }
    }

    /// Returns the note on an import that has a new loss. A loss that the present note has keeps its sighting, so that
    /// the new loss of one exporter does not prolong the wait of another.
    fn new_note(
        &self,
        now: Timestamp,
        name: &ServiceRef,
        tally: &Tally,
        noted: Option<&ImportNote>,
    ) -> ImportNote {
        let sighting =
            |left: usize, status: Option<&Arc<GuardStatus>>, earlier: Option<Sighting>| {
                let is_new = status.is_some_and(|status| status.verdict.new.contains(name));
                earlier.filter(|_| !is_new).unwrap_or(Sighting { first_seen: now, left })
            };
        let all = sighting(tally.loss.left, self.all.as_ref(), noted.map(|note| note.all));
        let mut parts = BTreeMap::new();
        for (exporter, part) in &tally.parts {
            let earlier = noted.and_then(|note| note.parts.get(exporter).copied());
            if part.left < part.present {
                let status = self.by_exporter.get(exporter);
                parts.insert(exporter.clone(), sighting(part.left, status, earlier));
            } else if part.is_unread
                && let Some(earlier) = earlier
            {
                parts.insert(exporter.clone(), earlier);
            }
        }
        ImportNote { all, parts }
    }
}

/// The losses of an import as a full sync first saw each, as stored in an annotation of the ServiceImport: the number
/// of endpoints of other clusters that would have been left, with the time, and both for each cluster with a loss.
///
/// ```text
/// 8@2026-11-21T10:51:00Z blue=8@2026-11-21T10:51:00Z green=0@2026-11-21T10:56:00Z
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportNote {
    all: Sighting,
    parts: BTreeMap<ClusterId, Sighting>,
}

impl ImportNote {
    /// Reads the text of a note; `None` if it is not valid.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let all = parse_sighting(words.next()?)?;
        let parts = words.map(|word| {
            let (cluster, sighting) = word.split_once('=')?;
            Some((ClusterId::parse(cluster)?, parse_sighting(sighting)?))
        });
        Some(Self { all, parts: parts.collect::<Option<_>>()? })
    }
}

fn parse_sighting(text: &str) -> Option<Sighting> {
    let (left, first_seen) = text.split_once('@')?;
    Some(Sighting { first_seen: first_seen.parse().ok()?, left: left.parse().ok()? })
}

impl Display for ImportNote {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { all, parts } = self;
        write!(f, "{}@{}", all.left, all.first_seen)?;
        parts.iter().try_for_each(|(cluster, part)| {
            write!(f, " {cluster}={}@{}", part.left, part.first_seen)
        })
    }
}
