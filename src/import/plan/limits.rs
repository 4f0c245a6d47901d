//! What must not leave an import: by `POLICY`, and by the guard against mass deletion.
//!
//! What the policy keeps is put into the input of the plan, as if its cluster still exported it: so all objects of the
//! import agree. A filter over finished changes could leave a port in the derived Service and take it out of the slices.
//!
//! | object | `upsert-only` | `create-only` |
//! |---|---|---|
//! | ServiceImport | create, change | create, first IPs |
//! | derived Service | create, change, ports out | create, create again |
//! | slices | all while their cluster exports | a new slice, or a patch that adds |
//! | export that ended; ClusterSetIP that becomes Headless | stays | stays |
//! | status | all | all |
//!
//! The changes that a plan without a policy has besides are one line of the import.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::basis::{Basis, Exported, NamespaceState, Read, Sources};
use super::change::{Change, Content, Kind, Stage, Write};
use super::derived_service::Derived;
use super::held_back::Reason;
use super::present::{DerivedService, ServiceImport, Slice, SliceEndpoint};
use super::{Intent, Plan, as_it_is, endpoint_slices, with_additions};
use crate::guard::{
    Circumstances, Extent, Guard, GuardStatus, Loss, LossSubject, Measure, Sighting,
};
use crate::model::{
    ClusterArn, ClusterId, ClustersetService, Family, ImportType, Policy, ServiceRef, Timestamp,
};

/// The exports of a name, with all that the policy keeps in the import.
pub(super) struct Allowed {
    merged: Option<ClustersetService>,
    sources: Sources,
}

impl Allowed {
    /// `None` if the policy limits nothing.
    pub fn of(basis: &Basis<'_>) -> Option<Self> {
        if basis.policy == Policy::Sync {
            return None;
        }
        let mut sources = basis.sources.clone();
        // Without an exporter an import that no cluster is known to be in would end.
        sources.is_complete &= basis.merged.is_some();
        for cluster in basis.holders() {
            if basis.sources.is_unread(&cluster) {
                continue;
            }
            let exported = basis.sources.exported(&cluster);
            let exports = basis.merged.is_some_and(|merged| merged.clusters.contains(&cluster));
            let kept = match basis.policy {
                Policy::CreateOnly => Read::Held(without_present(basis, &cluster, &exported)),
                _ if exports => continue,
                _ => Read::Held(exported),
            };
            sources.by_cluster.insert(cluster, kept);
        }
        let merged = basis.merged.and_then(|merged| of_present_type(basis, merged));
        Some(Self { merged: merged.or_else(|| basis.merged.cloned()), sources })
    }

    pub fn basis<'a>(&'a self, basis: &Basis<'a>) -> Basis<'a> {
        Basis { merged: self.merged.as_ref(), sources: &self.sources, ..*basis }
    }
}

/// The endpoints of a cluster that are in no slice yet. All others stay as they are there.
fn without_present(basis: &Basis<'_>, cluster: &ClusterId, exported: &Exported) -> Exported {
    let slices = basis.slices().filter(|slice| slice.source().as_ref() == Some(cluster));
    let present: BTreeSet<IpAddr> = slices.flat_map(Slice::addresses).collect();
    let new = exported.endpoints.iter().filter(|it| !present.contains(&it.address));
    Exported { endpoints: Arc::new(new.cloned().collect()), ..exported.clone() }
}

/// The service of an import that keeps its spec, or its type; `None` if it may have that of the exports.
fn of_present_type(basis: &Basis<'_>, merged: &ClustersetService) -> Option<ClustersetService> {
    let kept = as_it_is(basis)?;
    match basis.policy {
        Policy::CreateOnly => Some(ClustersetService { clusters: merged.clusters.clone(), ..kept }),
        _ if (kept.kind, merged.kind) == (ImportType::ClusterSetIp, ImportType::Headless) => {
            Some(with_additions(basis, kept, Some(merged), BTreeSet::new()))
        }
        _ => None,
    }
}

/// The plan that the policy allows, with a line about all that it does not.
pub(super) fn plan(basis: &Basis<'_>, decide: impl Fn(&Basis<'_>) -> Plan) -> Plan {
    let wanted = decide(basis);
    let mut plan = match Allowed::of(basis) {
        Some(allowed) => decide(&allowed.basis(basis)),
        None => wanted.clone(),
    };
    plan.changes.retain_mut(|change| allows(basis, change));
    let is_refused =
        |change: &&Change| change.stage != Stage::Status && !plan.changes.contains(change);
    let changes: Vec<String> = wanted.changes.iter().filter(is_refused).map(named).collect();
    if !changes.is_empty() {
        plan.held_back.push(Reason::Policy { policy: basis.policy, changes });
    }
    plan
}

/// Whether the policy allows a change of an import, of which it leaves the first IPs alone.
fn allows(basis: &Basis<'_>, change: &mut Change) -> bool {
    let is_slice = change.object.kind == Kind::EndpointSlice;
    match (basis.policy, change.write) {
        (Policy::Sync, _)
        | (Policy::UpsertOnly, Write::Patch)
        | (_, Write::Create | Write::PatchStatus) => true,
        (Policy::UpsertOnly, Write::Delete) => is_slice,
        (Policy::CreateOnly, Write::Delete) => false,
        (Policy::CreateOnly, Write::Patch) if is_slice => change.stage == Stage::AddEndpoints,
        (Policy::CreateOnly, Write::Patch) => {
            // An import that is made in this run is made whole.
            let Some(import) = basis.import() else { return true };
            let ips = change.content.ips.take();
            let is_allowed = awaits_ips(basis, import, ips.as_deref());
            change.content = Content { ips, ..Content::default() };
            is_allowed
        }
    }
}

/// Whether an import has none of these IPs, and its derived Service has them or is made in this run.
fn awaits_ips(basis: &Basis<'_>, import: &ServiceImport, ips: Option<&[Family]>) -> bool {
    let has_all = |derived: &DerivedService| {
        let families = &derived.spec.families;
        import.ips.is_empty() && ips.is_some_and(|ips| ips.iter().all(|it| families.contains(it)))
    };
    ips.is_some() && basis.present.derived.as_ref().is_none_or(has_all)
}

fn named(change: &Change) -> String {
    let verb = match change.write {
        Write::Create => "create",
        Write::Patch | Write::PatchStatus => "change",
        Write::Delete => "delete",
    };
    format!("{verb} {}", change.object)
}

// The guard over the imports of a cluster. The plans of all of them are counted before the first change: if they would
// lose most of the ready endpoints that come from other clusters, those of the losing imports stay, and additions go on.
// The limits, the memory and the verdict are those of [`crate::guard`].
//
// A loss of a cluster whose exports this invocation published, and of which the guard let a loss pass there, is not
// judged again.

/// The ready endpoints of one import, before and after its plan: what the guard counts, and the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The weight of the import now: the ready endpoints of other clusters, and 1 for an import without any. 0 if there
    /// is no import of ours.
    pub present: usize,
    /// The part of the weight that would be lost, clusters that are let pass aside, and the ready endpoints of other
    /// clusters after the plan.
    pub loss: Loss,
    /// The part of the weight in clusters that could not be read.
    pub unread: usize,
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
        let own = basis.importer;
        let others = |ready: &Ready| count(ready, |cluster| cluster != own);
        let counted = |ready: &Ready| count(ready, |it| it != own && !passed.contains(it));
        let mut lost = counted(&before).saturating_sub(counted(ready));
        if ends && others(&before) == 0 {
            let is_judged = basis.holders().iter().any(|it| passed.contains(it));
            lost = usize::from(!is_judged);
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
            loss: Loss { lost, left: others(ready), was_read, was_held: false },
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

/// The ready endpoints in the slices. Those of a slice without a cluster count for none.
fn before(basis: &Basis<'_>) -> Ready {
    let mut ready: BTreeMap<ClusterId, BTreeSet<IpAddr>> = BTreeMap::new();
    for slice in basis.slices().filter(|slice| !slice.metadata.is_terminating) {
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
    /// The Services of which the first look of the run holds a loss.
    pub held: BTreeSet<ServiceRef>,
    pub now: Timestamp,
    /// Whether the cluster has a record in Cloud Map, on which a sighting can be stored.
    pub remembers: bool,
}

/// The verdict of the guard on the imports of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    pub status: Option<GuardStatus>,
    /// Whether a part was not read, so that the loss is not completely known.
    is_partial: bool,
}

/// What becomes of the sighting on the cluster's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    Write(Sighting),
    Remove,
}

impl GuardedRun<'_> {
    /// Judges the plans of all imports that the run covers.
    pub fn judge(
        &self,
        tallies: &BTreeMap<ServiceRef, Tally>,
        sighting: Option<&Sighting>,
    ) -> Judgement {
        let losses = tallies.iter().filter(|(_, tally)| tally.loss.lost > 0);
        let losses = losses.map(|(name, tally)| {
            (name.clone(), Loss { was_held: self.held.contains(name), ..tally.loss })
        });
        let sum = |count: fn(&Tally) -> usize| tallies.values().map(count).sum();
        let unread = sum(|tally| tally.unread);
        // Those that could not be read are among the present ones; the limits count them apart.
        let instances = sum(|tally| tally.present.saturating_sub(tally.unread));
        let measure = Measure { extent: self.extent, instances, unread, may_be_noted: false };
        let (guard, now, cluster) = (self.guard, self.now, self.cluster.clone());
        let run = Circumstances { guard, now, cluster, subject: LossSubject::Endpoints };
        let verdict = measure.judge(&run, &losses.collect(), sighting);
        let mut status = verdict.map(|verdict| verdict.status(run));
        // A cluster without a record cannot remember a loss, so only a person lets it pass.
        for status in status.iter_mut().filter(|it| !self.remembers && it.verdict.state.holds()) {
            (status.verdict.first_seen, status.later_look) = (None, true);
        }
        Judgement { status, is_partial: unread > 0 }
    }
}

impl Judgement {
    /// The number of endpoints that an import keeps; `None` if it is not held.
    pub fn held(&self, name: &ServiceRef) -> Option<usize> {
        self.status.as_ref()?.verdict.held.get(name).map(|loss| loss.lost)
    }

    /// What becomes of the sighting, when the imports were changed. It stays while a loss that passes is not carried out
    /// completely, so that the next run lets the rest pass.
    pub fn note(
        &self,
        run: &GuardedRun<'_>,
        sighting: Option<&Sighting>,
        is_complete: bool,
    ) -> Option<Note> {
        if !run.remembers || !run.extent.is_whole() {
            return None;
        }
        match self.status.as_ref().map(|status| &status.verdict) {
            Some(verdict) if verdict.state.holds() => {
                let new = verdict.is_new.then(|| Sighting::of(&verdict.held, run.now));
                new.map(Note::Write)
            }
            Some(verdict) if !is_complete => {
                let ripe = run.now.saturating_sub(run.guard.wait).unwrap_or(run.now);
                let passed = Sighting::of(&verdict.passed, ripe);
                sighting.is_none().then_some(Note::Write(passed))
            }
            None if self.is_partial => None,
            _ => sighting.map(|_| Note::Remove),
        }
    }
}
