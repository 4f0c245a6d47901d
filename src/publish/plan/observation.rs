//! The input and the output of planning. [`Observation`] is one read of a cluster and of Cloud Map, with the rules of
//! the installation and everything else that a plan is made from. Its methods find our instances by their marks, and
//! record the changes that Cloud Map has carried out. The holders of names are decided once for an observation. Code
//! that changes an observation must decide the holders again.
//!
//! [`Plan`] has the changes, the requests that are held back, and the number of unchanged instances in each Cloud Map
//! service.
//!
//! The rules of a plan are not methods here. Each rule is a function or a type in the file that is named after it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::change::{Change, ChangesByService, Stage};
use super::claims::Holders;
use super::fate::Fates;
use super::group::affected_by;
use super::loss::Baseline;
use super::namespaces;
use super::notes::set_note;
use super::reason::{HeldBack, Reason};
use super::removals::DeregisterReason;
use crate::guard::{Extent, GuardStatus};
use crate::model::{
    Attributes, Desired, Foreign, Owner, Place, Policy, Registry, Rules, Selection, ServiceKey,
    ServiceRef, Timestamp, count_each,
};

/// One read of a cluster and of Cloud Map, with the rules of the installation.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The owner in the marks of our instances.
    pub owner: Owner,
    pub rules: Arc<Rules>,
    /// The start of the run; the same in all observations of a run.
    pub now: Timestamp,
    /// The part of the cluster that the plan covers.
    pub extent: Extent,
    /// The phase of the run that the plan is made for.
    pub phase: PlanPhase,
    /// The instances when the run began; `None` if nothing was changed since.
    pub baseline: Option<Arc<Baseline>>,
    /// The claims and endpoints of the cluster.
    pub desired: Desired,
    /// The contents of Cloud Map.
    pub registry: Registry,
    /// The holder of each claimed name.
    pub holders: Holders,
    /// The Services that a plan may change: the selected ones, and those that they affect.
    pub affected: BTreeSet<ServiceRef>,
    /// The Services of a message that may have instances under names that they do not hold. This process does not know
    /// the names, and a message has no time to find them: the next full sync finds them. The Service name `*` stands for
    /// all such Services of a Kubernetes namespace.
    pub left_to_full_sync: BTreeSet<ServiceRef>,
}

/// The phase of a run that a plan is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanPhase {
    /// The run compares all Services that it covers, and the guard judges the loss.
    Comparison,
    /// The run compares again, after it tried all additions that the verdict depends on.
    AfterAdditions,
    /// The run decides the changes of one group on a fresh read. The guard has already judged the removals.
    Group,
}

/// An instance of ours with the Service in its marks.
#[derive(Clone, Debug)]
pub struct MarkedInstance<'a> {
    pub id: &'a String,
    pub attributes: &'a Attributes,
    /// The Service for which it was registered.
    pub service: ServiceRef,
}

impl Observation {
    /// The instances of ours that were read under a key.
    pub fn our_instances(&self, key: &ServiceKey) -> impl Iterator<Item = (&String, &Attributes)> {
        self.registry.instances(key).filter(|(_, attributes)| self.owner.owns(attributes))
    }

    /// Whether an instance of ours is registered under the key.
    pub fn has_ours(&self, key: &ServiceKey) -> bool {
        self.our_instances(key).next().is_some()
    }

    /// The instances of ours that were read under a key, with the Service in the marks of each.
    pub fn our_instances_with_service(
        &self,
        key: &ServiceKey,
    ) -> impl Iterator<Item = MarkedInstance<'_>> {
        self.registry.instances(key).filter_map(|(id, attributes)| {
            let service = self.owner.service_of(attributes)?;
            Some(MarkedInstance { id, attributes, service })
        })
    }

    /// The number of instances of ours under a key, by the Service in their marks.
    pub fn count_marked(&self, key: &ServiceKey) -> BTreeMap<ServiceRef, usize> {
        let instances = self.registry.instances(key);
        let names = instances.filter_map(|(_, attributes)| self.owner.names_of(attributes));
        let counts = count_each(names).into_iter();
        counts.map(|((namespace, name), count)| (ServiceRef::new(namespace, name), count)).collect()
    }

    /// The Services in the marks of our instances under a key.
    pub fn marked_services(&self, key: &ServiceKey) -> impl Iterator<Item = ServiceRef> {
        self.count_marked(key).into_keys()
    }

    /// The Services in the marks of our instances, with the key of each Cloud Map service in which they have some.
    pub fn all_marked_services(&self) -> impl Iterator<Item = (&ServiceKey, ServiceRef)> {
        let keys = self.registry.services.keys();
        keys.flat_map(move |key| self.marked_services(key).map(move |service| (key, service)))
    }

    /// The number of instances of ours, by the Service in their marks.
    pub fn count_all_marked(&self) -> BTreeMap<ServiceRef, usize> {
        let mut counts = BTreeMap::new();
        for key in self.registry.services.keys() {
            for (service, count) in self.count_marked(key) {
                *counts.entry(service).or_default() += count;
            }
        }
        counts
    }

    /// An observation of a part of a cluster, without claims.
    pub fn new(owner: Owner, rules: Arc<Rules>, now: Timestamp, registry: Registry) -> Self {
        Self {
            owner,
            rules,
            now,
            extent: Extent::Part,
            phase: PlanPhase::Comparison,
            baseline: None,
            desired: Desired::default(),
            registry,
            holders: Holders::default(),
            affected: BTreeSet::new(),
            left_to_full_sync: BTreeSet::new(),
        }
    }

    /// Returns the observation after [`Self::decide`].
    #[must_use]
    pub fn decided(mut self, selection: &Selection) -> Self {
        self.decide(selection);
        self
    }

    /// Decides the namespaces, the holders and the affected Services of a run over `selection`.
    pub fn decide(&mut self, selection: &Selection) {
        self.desired.namespaces = namespaces::choose(self);
        self.decide_holders();
        self.affected = affected_by(self, selection);
    }

    pub fn decide_holders(&mut self) {
        self.holders = Holders::decide(self);
    }

    /// Records a change of a Service that Cloud Map has carried out.
    pub fn record_change(&mut self, service: &ServiceRef, change: &Change) {
        let key = change.place().key.clone();
        if let Some(baseline) = &mut self.baseline {
            Arc::make_mut(baseline).pass_on(&self.registry, &self.owner, change);
        }
        if matches!(change, Change::Register { .. }) {
            self.registry.capacity.take(service, &key);
        }
        // Only a renamed Service uses capacity that it frees in a full namespace: it gives up instances under its old
        // name for new ones. The capacity that any other removal frees is left to later runs.
        if let Some(DeregisterReason::NameChanged(marked)) = change.because() {
            self.registry.capacity.free(marked, &key);
        }
        let present = self.registry.services.get_mut(&key);
        let Some(instances) = present.and_then(|service| service.instances.as_mut()) else {
            return;
        };
        match change {
            Change::Register { instance, attributes, .. }
            | Change::Rewrite { instance, attributes, .. } => {
                instances.insert(instance.clone(), attributes.clone());
            }
            Change::Note { instance, text, .. } => {
                if let Some(attributes) = instances.get_mut(instance) {
                    set_note(attributes, text.as_deref());
                }
            }
            Change::Deregister { instance, .. } => {
                instances.remove(instance);
            }
            Change::CreateNamespace { .. }
            | Change::CreateService { .. }
            | Change::UpdateService { .. } => {}
        }
    }
}

/// The changes to make, and the requests that are held back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The changes of each Kubernetes Service, by Cloud Map service and stage.
    pub changes: ChangesByService,
    /// The requests that are not carried out, each with its reason.
    pub held_back: Vec<HeldBack>,
    /// The instances that stay as they are, by Cloud Map service.
    pub unchanged: BTreeMap<Place, Unchanged>,
    /// The status of the guard, if a loss exceeds its limits, may exceed them, or is held by a full sync.
    pub guard: Option<Arc<GuardStatus>>,
    /// The fates of the endpoints of one Service, if a person asks for them.
    pub fates: Option<Fates>,
}

impl Plan {
    /// Adds the lines that were found while the plan was carried out. Drops the conflict line of a Service that holds
    /// the name by now.
    pub fn add_held_back(&mut self, held_back: Vec<HeldBack>) {
        self.held_back.retain(|line| !held_back.iter().any(|later| has_passed(line, later)));
        self.held_back.extend(held_back);
        self.held_back.sort();
        self.held_back.dedup();
    }

    pub(super) fn hold_back(&mut self, service: &ServiceRef, place: &Place, reason: Reason) {
        let place = Some(place.clone());
        self.held_back.push(HeldBack { service: service.clone(), place, reason });
    }

    pub(super) fn add(&mut self, planned_for: ServiceRef, change: Change) {
        self.changes.entry(planned_for).or_default().push(change);
    }

    /// Takes the changes for which `is_taken` is true out of the plan, each with the Service for which it is planned.
    pub(super) fn take(
        &mut self,
        mut is_taken: impl FnMut(&Change) -> bool,
    ) -> Vec<(ServiceRef, Change)> {
        let take_from = |(planned_for, changes): (&ServiceRef, &mut Vec<Change>)| {
            let taken = changes.extract_if(.., |change| is_taken(change));
            taken.map(|change| (planned_for.clone(), change)).collect::<Vec<_>>()
        };
        self.changes.iter_mut().flat_map(take_from).collect()
    }

    /// Takes out the changes that the policy does not allow, and holds them back. A policy never adds changes.
    pub(super) fn restrict(&mut self, policy: Policy) {
        for (service, change) in self.take(|change| !policy.allows(change)) {
            let reason = Reason::Policy { policy, action: change.to_string() };
            self.record_fate(&change, &reason);
            self.hold_back(&service, change.place(), reason);
        }
    }

    /// Holds back all removals and adoptions: they need a permit, and this run gives none.
    pub fn hold_back_removals_and_adoptions(&mut self) {
        self.postpone(Change::needs_permit, "until a full sync has read every Cloud Map service");
    }

    /// Holds back the removals for which `is_postponed` is true. Each line names the event that the removal waits for.
    pub(super) fn postpone(&mut self, is_postponed: impl FnMut(&Change) -> bool, waits_for: &str) {
        for (service, change) in self.take(is_postponed) {
            let instance = change.instance().unwrap_or_default().to_owned();
            let waits_for = waits_for.to_owned();
            self.hold_back(&service, change.place(), Reason::Waiting { instance, waits_for });
        }
    }

    /// Takes the additions out of the plan. Changes of settings are not additions, since they depend on all instances
    /// in the service. Excludes a Service that needs a missing namespace: the run creates namespaces only after it has
    /// read everything. Drops the creation of a Cloud Map service in which nothing is registered: a caller plans again
    /// after the additions.
    pub fn take_additions(&mut self) -> ChangesByService {
        let is_addition = |change: &Change| {
            matches!(change.stage(), Stage::Create | Stage::Register) && !change.is_removal()
        };
        let mut additions = ChangesByService::new();
        for (service, changes) in &mut self.changes {
            if changes.iter().any(|change| change.missing_namespace().is_some()) {
                continue;
            }
            let taken: Vec<Change> = changes.extract_if(.., |change| is_addition(change)).collect();
            if taken.iter().any(|change| change.stage() == Stage::Register) {
                additions.insert(service.clone(), taken);
            }
        }
        additions
    }

    /// Subtracts the instances that the run has already registered from the counts of unchanged and of present
    /// instances.
    pub fn subtract_made<'a>(&mut self, made: impl Iterator<Item = &'a Change>) {
        for change in made.filter(|change| change.is_registration()) {
            if let Some(unchanged) = self.unchanged.get_mut(change.place()) {
                unchanged.ours = unchanged.ours.saturating_sub(1);
                let is_new = matches!(change, Change::Register { .. });
                unchanged.present = unchanged.present.saturating_sub(usize::from(is_new));
            }
        }
    }

    /// Takes over the changes and the verdict of a plan that was made and judged again after the additions.
    pub fn take_over_verdict(&mut self, again: Self) {
        let is_of_guard = |line: &HeldBack| matches!(line.reason, Reason::Guard { .. });
        self.held_back.retain(|line| !is_of_guard(line));
        self.held_back.extend(again.held_back.into_iter().filter(is_of_guard));
        self.guard = again.guard;
        self.changes = again.changes;
    }

    /// A plan with only the changes for which `is_kept` is true.
    pub(super) fn only(mut self, is_kept: impl Fn(&Change) -> bool) -> Self {
        self.take(|change| !is_kept(change));
        self.changes.retain(|_, changes| !changes.is_empty());
        Self { changes: self.changes, ..Self::default() }
    }

    /// The plan with sorted changes and lines.
    pub(super) fn in_order(mut self) -> Self {
        for changes in self.changes.values_mut() {
            changes.sort_by(|a, b| a.order().cmp(&b.order()));
        }
        self.changes.retain(|_, changes| !changes.is_empty());
        self.add_held_back(Vec::new());
        self
    }

    /// Counts the instances of other owners under each name that an affected Service holds, or under which the plan has
    /// a change.
    pub(super) fn count_foreign(&mut self, observation: &Observation) {
        let Observation { holders, affected, .. } = observation;
        let claimed = holders.with_holders().filter(|(_, holder)| affected.contains(*holder));
        let changed = self.changes.values().flatten().map(|change| &change.place().key);
        let keys = claimed.map(|(key, _)| key).chain(changed);
        let keys: BTreeSet<ServiceKey> = keys.cloned().collect();
        for key in keys {
            let place = Place::of(&key, &observation.registry);
            let unchanged = self.unchanged.entry(place).or_default();
            let instances = observation.registry.instances(&key);
            let foreign = instances.filter(|(_, attributes)| !observation.owner.owns(attributes));
            unchanged.foreign =
                count_each(foreign.map(|(id, attributes)| attributes.likely_owner(id)));
        }
    }

    /// Counts the registered instances in each service with changed or unchanged instances.
    pub(super) fn count_present(&mut self, registry: &Registry) {
        for change in self.changes.values().flatten() {
            self.unchanged.entry(change.place().clone()).or_default();
        }
        for (place, unchanged) in &mut self.unchanged {
            unchanged.present = registry.instances(&place.key).count();
        }
    }
}

/// The unchanged instances of one Cloud Map service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unchanged {
    /// Instances of ours that stay as they are.
    pub ours: usize,
    /// Instances of other owners, by kind of owner.
    pub foreign: BTreeMap<Foreign, usize>,
    /// All instances before the plan.
    pub present: usize,
    /// The cause if the service could not be read, unless a held-back line already has it.
    pub unreadable: Option<String>,
    /// The cause if the function has no right to read the service, and nothing shows that it has instances of ours.
    pub left_unread: Option<String>,
}

/// Whether `line` is about a name that another Service held, and `later` shows that the Service of `line` holds it now.
fn has_passed(line: &HeldBack, later: &HeldBack) -> bool {
    let Reason::DomainConflict { holder } = &later.reason else { return false };
    let is_conflict = matches!(line.reason, Reason::DomainConflict { .. });
    is_conflict && *holder == line.service && later.place == line.place
}
