//! The sync of one group of Services, as a pure state machine: effects in, next step out. `steps` makes the changes and
//! does the reads of a [`Step`]; the property tests do the same on a Cloud Map in memory.
//!
//! ```text
//! loop { read; plan; additions; once these were tried (at the latest after two rounds), the removals with a permit }
//! after removals: read the endpoints; register those that are back again
//! ```
//!
//! The plan of a group is made on a read of this group alone. A removal needs a permit, which the comparison of all
//! that the run is about gives. It also needs a plan of the group that was made on a read after its additions ended,
//! has the same removal, and lets it wait for nothing.
//!
//! Why a second look: if web's only pod is replaced, the comparison registers 10.0.0.2 and deregisters 10.0.0.1. If
//! both were made at once and the registration failed, web would have no instance. The second plan is made on a read
//! that shows 10.0.0.2; if it does not, the removal waits. Why removals do not wait until there is nothing to add:
//! while 900 pods roll for ten minutes, there is always one to add, and no removal would ever be made.

mod order;
mod round;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::plan::{
    Baseline, Change, ChangesByService, DeregisterReason, HeldBack, Observation, Permits, Reason,
    RereadScope, Stage, Task, removes_note,
};
use crate::guard::Extent;
use crate::model::{Capacity, CloudMapService, Desired, Outcome, Place, ServiceKey, ServiceRef};

pub use order::shuffle;

/// A change, with the Service that it is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedChange {
    pub service: ServiceRef,
    pub change: Change,
}

/// A change that has an outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledChange {
    /// The Service that it was made for.
    pub service: ServiceRef,
    pub change: Change,
    /// Its outcome, or the reason why it is held back.
    pub outcome: Result<Outcome, Reason>,
}

impl SettledChange {
    /// Whether the change has created a Cloud Map service.
    pub fn is_creation(&self) -> bool {
        self.change.stage() == Stage::Create && self.outcome == Ok(Outcome::Applied)
    }
}

/// The outcome of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The change has this outcome.
    Settled(Outcome),
    /// The change is not made, and a retry would not help.
    HeldBack(Reason),
    /// The Cloud Map service was created with this ARN.
    Created(String),
    /// Another group of the invocation has created the Cloud Map service, with this ARN.
    Exists(String),
    /// The change conflicts with another writer: its Cloud Map service is read again, and the change planned again.
    Contested,
    /// The read that the change rests on became too old before the rate limit allowed the call: the change is planned
    /// again.
    Outdated,
    /// Cloud Map accepts no more instances in the namespace. Contains its error message.
    Full(String),
}

impl Effect {
    /// The answer of Cloud Map, if it has refused the change and would refuse it again.
    pub fn permanent_refusal(&self) -> Option<Reason> {
        match self {
            Self::Full(message) => Some(Reason::QuotaExceeded(message.clone())),
            Self::HeldBack(reason) => Some(reason.clone()),
            _ => None,
        }
    }
}

/// The outcomes of the changes of one group, or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Results {
    pub settled: Vec<SettledChange>,
    /// The requests that the plans of the groups hold back.
    pub held_back: Vec<HeldBack>,
    /// The Cloud Map services that were created. A service that another writer created first is here as it was read
    /// since: the writer may be this process, by a call whose answer was lost.
    pub created: BTreeMap<ServiceKey, CloudMapService>,
    /// The full namespaces, by id, with the message of Cloud Map.
    pub full: BTreeMap<String, String>,
    /// The Services that have an instance, by the last read of their group and the changes after it. `settled` does not
    /// suffice: an instance may have been registered by a call whose answer was lost.
    pub with_instances: BTreeSet<ServiceRef>,
}

/// The next step of a group.
#[derive(Debug)]
pub enum Step {
    /// Make these changes, side by side, and report the effect of each.
    Make(Vec<PlannedChange>),
    /// Read this scope again: its Cloud Map services, then its Services with their endpoints.
    Read(RereadScope),
    /// Read the endpoints of these Services again.
    ReadEndpoints(Desired),
    Done,
}

/// The kind of changes that the group makes now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Adding,
    Removing,
    /// Registers endpoints again that became ready while their instances were deregistered.
    Restoring,
}

/// The stage and the object of a change. A target that was tried is not tried again in the same run.
pub type Target = (Stage, ServiceKey, Option<String>);

/// The changes of a group that early groups of the run have made or tried.
#[derive(Default)]
pub struct EarlyWork {
    pub tried: BTreeSet<Target>,
    /// The Cloud Map services that early groups have created. The lists may not show these yet.
    pub created: BTreeMap<ServiceKey, CloudMapService>,
}

/// The state of the sync of one group.
#[derive(Clone, Debug)]
pub struct GroupSync<'a> {
    task: Task<'a>,
    services: BTreeSet<ServiceRef>,
    /// The Cloud Map services that the group may change.
    keys: BTreeSet<ServiceKey>,
    /// The permits for removals; `None` if the group only adds, before the comparison of the run gives any.
    permits: Option<&'a Permits>,
    /// The last observation, with the changes made since.
    pub observation: Observation,
    state: State,
    /// The changes that are planned and not made yet.
    open: Vec<PlannedChange>,
    /// The notes of the guard, which judges the comparison alone: no other plan has notes.
    notes: Vec<PlannedChange>,
    tried: BTreeSet<Target>,
    /// The Cloud Map services that the group or an early one has created.
    created: BTreeSet<ServiceKey>,
    /// The targets that the run tried before without success.
    failed_targets: &'a BTreeSet<Target>,
    /// The changes that conflicted with another writer.
    contested: Vec<PlannedChange>,
    /// The changes that got no token before their plan was too old.
    outdated: Vec<PlannedChange>,
    /// Registrations for which Cloud Map had no capacity.
    over_capacity: Vec<PlannedChange>,
    /// The number of registrations in `over_capacity` for which a plan has given the reasons.
    explained_count: usize,
    /// The full namespaces that the last plan knew of.
    planned_capacity: Capacity,
    /// The Cloud Map services whose settings may differ from those that this process remembers.
    doubted: BTreeSet<ServiceKey>,
    /// The number of reads of the group.
    read_count: usize,
    /// Whether an addition was tried since the last read.
    has_added: bool,
    /// Whether a change was carried out since the last read.
    has_progress: bool,
    /// The number of consecutive rounds in which another writer prevented all progress.
    rounds_without_progress: usize,
    /// The Services with a deregistered endpoint that might be back, each with the key of the Cloud Map service.
    removed: BTreeSet<(ServiceRef, ServiceKey)>,
    results: Results,
}

impl<'a> GroupSync<'a> {
    /// The sync of the Services that have `changes` in a comparison, with the part of the comparison that they need. It
    /// is created when it begins, since the parts of all groups would take as much memory as the comparison.
    pub fn new(
        task: Task<'a>,
        comparison: &Observation,
        changes: ChangesByService,
        permits: Option<&'a Permits>,
        failed_targets: &'a BTreeSet<Target>,
    ) -> Self {
        let services: BTreeSet<ServiceRef> = changes.keys().cloned().collect();
        let scope = RereadScope::of_group(comparison, &services, changes.values().flatten());
        let mut group = Self {
            task,
            services,
            observation: scope.narrow(comparison),
            keys: scope.keys,
            permits,
            state: State::Adding,
            open: Vec::new(),
            notes: Vec::new(),
            tried: BTreeSet::new(),
            created: BTreeSet::new(),
            failed_targets,
            contested: Vec::new(),
            outdated: Vec::new(),
            over_capacity: Vec::new(),
            explained_count: 0,
            planned_capacity: comparison.registry.capacity.clone(),
            doubted: BTreeSet::new(),
            read_count: 0,
            has_added: false,
            has_progress: false,
            rounds_without_progress: 0,
            removed: BTreeSet::new(),
            results: Results::default(),
        };
        for (service, changes) in changes {
            let planned = |change| PlannedChange { service: service.clone(), change };
            group.add_planned(changes.into_iter().map(planned));
        }
        group.drop_changes_not_allowed();
        group
    }

    /// Adds planned changes. The guard's notes are kept apart, since only the comparison plans them.
    pub(super) fn add_planned(&mut self, changes: impl IntoIterator<Item = PlannedChange>) {
        for planned in changes {
            let to = if planned.change.is_note() { &mut self.notes } else { &mut self.open };
            to.push(planned);
        }
    }

    /// Returns the sync without the changes that early groups of the run have tried.
    #[must_use]
    pub fn after(mut self, work: EarlyWork) -> Self {
        self.tried = work.tried;
        for (key, service) in work.created {
            self.created.insert(key.clone());
            self.observation.registry.services.entry(key).or_insert(service);
        }
        self.drop_changes_not_allowed();
        self.drop_needless_creations();
        self
    }

    fn drop_changes_not_allowed(&mut self) {
        let mut open = std::mem::take(&mut self.open);
        open.retain(|planned| self.may_try(&planned.change));
        self.open = open;
    }

    /// Whether the group has the permit for a change, and the run has not tried it.
    pub(super) fn may_try(&self, change: &Change) -> bool {
        let is_permitted = match self.permits {
            Some(permits) => permits.allow(change),
            None => !change.needs_permit(),
        };
        let target = change.target();
        is_permitted && !self.tried.contains(&target) && !self.failed_targets.contains(&target)
    }

    /// Drops the creations of services in which nothing is registered.
    pub(super) fn drop_needless_creations(&mut self) {
        let registers = |planned: &&PlannedChange| planned.change.stage() == Stage::Register;
        let registered = self.open.iter().filter(registers);
        let registered: BTreeSet<Place> =
            registered.map(|planned| planned.change.place().clone()).collect();
        self.open.retain(|PlannedChange { change, .. }| {
            change.stage() != Stage::Create || registered.contains(change.place())
        });
    }

    /// Returns the next step. `has_time`: whether new work may begin.
    pub fn next(&mut self, has_time: bool) -> Step {
        if !has_time {
            self.close(false);
            return Step::Done;
        }
        loop {
            if let Some(changes) = self.take_due() {
                return Step::Make(changes);
            }
            if self.state == State::Adding && self.may_remove() {
                self.state = State::Removing;
                continue;
            }
            if self.explain_over_capacity() {
                continue;
            }
            if self.reads_again() {
                return Step::Read(self.begin_round());
            }
            if let Some(services) = self.services_to_restore() {
                return Step::ReadEndpoints(self.observation.desired.only(services.iter()));
            }
            self.close(true);
            return Step::Done;
        }
    }

    /// Removes and returns the changes that are made next: those of the first stage that has any.
    fn take_due(&mut self) -> Option<Vec<PlannedChange>> {
        if self.contested.iter().any(|planned| planned.change.stage() == Stage::Create) {
            // The registrations in these services are planned again, on the instances that exist now.
            return None;
        }
        // An instance with the guard's note is removed after all others. A note whose instance stays is removed after
        // the other instances of its Service. If one of these instances is not removed, the note stays, too.
        let order = |planned: &PlannedChange| {
            let removes_note = removes_note(&self.observation, &planned.change);
            self.is_due(&planned.change).then(|| (planned.change.stage(), removes_note))
        };
        let due: Vec<Option<(Stage, bool)>> =
            self.open.iter().chain(&self.notes).map(order).collect();
        let first = due.iter().flatten().min().copied()?;
        let mut due = due.into_iter().map(|order| order == Some(first));
        let mut is_first = |_: &mut PlannedChange| due.next() == Some(true);
        let mut changes: Vec<_> = self.open.extract_if(.., &mut is_first).collect();
        changes.extend(self.notes.extract_if(.., is_first));
        self.has_added |= first.0 < Stage::Note && self.state == State::Adding;
        Some(changes)
    }

    fn is_due(&self, change: &Change) -> bool {
        let registers = |other: &PlannedChange| {
            other.change.stage() == Stage::Register && other.change.place() == change.place()
        };
        match change {
            Change::Note { service, text: None, .. } => {
                let is_removal = |planned: &PlannedChange| planned.change.is_removal();
                let is_last = self.state == State::Removing || !self.open.iter().any(is_removal);
                is_last && !self.keeps_instances_to_remove(service)
            }
            _ if change.is_removal() => {
                self.state == State::Removing
                    && change.waits_for().is_none()
                    && !(self.has_failed_removal() && removes_note(&self.observation, change))
            }
            _ if self.state == State::Removing => false,
            Change::CreateService { .. } => self.open.iter().any(registers),
            // A cluster without an instance in the service must not set the TTL. Another cluster would not know of this
            // cluster, and would set its own TTL again in every run.
            Change::UpdateService { .. } => self.observation.has_ours(&change.place().key),
            _ => true,
        }
    }

    /// Whether a removal is settled but was not made.
    fn has_failed_removal(&self) -> bool {
        let mut settled = self.results.settled.iter();
        settled.any(|settled| {
            settled.change.deregisters_instance_of().is_some()
                && settled.outcome.as_ref().is_ok_and(|outcome| !outcome.is_made())
        })
    }

    /// Whether an instance of the Service that should be removed may still be registered.
    fn keeps_instances_to_remove(&self, service: &ServiceRef) -> bool {
        let is_left = |planned: &PlannedChange| {
            planned.change.deregisters_instance_of() == Some(service)
                && planned.change.waits_for().is_none()
        };
        self.has_failed_removal() || self.open.iter().chain(&self.contested).any(is_left)
    }

    /// Adds the service of a creation to the observation, without instances.
    fn record_created(&mut self, creation: &Change, arn: String) {
        let Change::CreateService { place, service } = creation else { return };
        let created = CloudMapService::created(arn, service.name.as_str(), service.kind);
        self.results.created.insert(place.key.clone(), created.clone());
        self.observation.registry.services.insert(place.key.clone(), created);
    }

    /// Returns whether the Cloud Map service of a refused registration has to be read again, and marks it as doubted in
    /// this case. A sync of single Services uses remembered settings. A service that was created again under its name
    /// has its old id, but may have other records.
    fn mark_doubted(&mut self, change: &Change, reason: &Reason) -> bool {
        let may_be_old =
            matches!(reason, Reason::InvalidInput(_) | Reason::RecordTypeMismatch { .. });
        // After a read of the group, the settings are those of this run.
        let is_remembered = self.observation.extent == Extent::Part && self.read_count == 0;
        if !may_be_old || !is_remembered || !change.is_registration() {
            return false;
        }
        self.doubted.insert(change.place().key.clone());
        true
    }

    /// Records a change that is not sent, since Cloud Map has refused it before, with its earlier answer.
    pub fn record_earlier_refusal(&mut self, planned: PlannedChange, answer: Reason) {
        match answer {
            Reason::QuotaExceeded(message) if planned.change.is_registration() => {
                self.record(planned, Effect::Full(message));
            }
            reason => self.settle(planned, Err(reason)),
        }
    }

    /// Records the effect of a change.
    pub fn record(&mut self, planned: PlannedChange, effect: Effect) {
        let change = &planned.change;
        match effect {
            Effect::HeldBack(reason) if self.mark_doubted(change, &reason) => {
                self.contested.push(planned);
            }
            Effect::HeldBack(reason) => self.settle(planned, Err(reason)),
            Effect::Settled(outcome) => self.settle(planned, Ok(outcome)),
            Effect::Contested => self.contested.push(planned),
            Effect::Outdated => self.outdated.push(planned),
            Effect::Created(arn) => {
                self.record_created(change, arn);
                self.created.insert(change.place().key.clone());
                self.settle(planned, Ok(Outcome::Applied));
            }
            // Another group created the service and registers there, so this group reads the service again.
            Effect::Exists(arn) => self.record_created(change, arn),
            // Cloud Map has refused a change that needs no further capacity, so the capacity cannot show the reason.
            Effect::Full(message) if !matches!(change, Change::Register { .. }) => {
                self.settle(planned, Err(Reason::QuotaExceeded(message)));
            }
            Effect::Full(message) => {
                let key = &change.place().key;
                let capacity = &mut self.observation.registry.capacity;
                // The registrations of one plan are in flight together, so their refusals count once. If the plan
                // already knew that the namespace is full, the registration was to replace a deregistered instance, and
                // its refusal counts too.
                if capacity.refusal(key).is_none() || self.planned_capacity.refusal(key).is_some() {
                    capacity.record_full(&key.namespace, &message);
                }
                self.results.full.insert(key.namespace.clone(), message);
                self.over_capacity.push(planned);
            }
        }
    }

    /// Returns the effect of a change in a Cloud Map service that does not exist.
    pub fn without_service(&self, key: &ServiceKey) -> Effect {
        let made = self.results.settled.iter().filter(|made| made.change.place().key == *key);
        let missing =
            || Effect::Settled(Outcome::not_attempted("its Cloud Map service does not exist"));
        let mut reasons = made.filter_map(|made| made.outcome.as_ref().err());
        reasons.next().map_or_else(missing, |reason| Effect::HeldBack(reason.clone()))
    }

    /// Gives up the open changes, since the read that they rest on failed.
    pub fn fail(&mut self, outcome: &Outcome) {
        let notes = std::mem::take(&mut self.notes);
        for planned in self.take_open().into_iter().chain(notes) {
            self.settle(planned, Ok(outcome.clone()));
        }
        self.state = State::Restoring;
    }

    fn settle(&mut self, planned: PlannedChange, outcome: Result<Outcome, Reason>) {
        let PlannedChange { service, change } = planned;
        if outcome == Ok(Outcome::Applied) {
            self.has_progress = true;
            let key = change.place().key.clone();
            if change.because() == Some(&DeregisterReason::NoReadyEndpoint) {
                self.removed.insert((service.clone(), key));
            }
            self.observation.record_change(&service, &change);
        }
        self.tried.insert(change.target());
        self.results.settled.push(SettledChange { service, change, outcome });
    }

    /// Returns the results of the group after its end.
    pub fn into_results(self) -> Results {
        let with_instances = self.observation.all_marked_services().map(|(_, service)| service);
        // The instances of other Services may be changed in their own groups.
        let with_instances =
            with_instances.filter(|service| self.services.contains(service)).collect();
        let mut results = Results { with_instances, ..self.results };
        if self.permits.is_none() {
            // The report takes these lines from the comparison.
            results.held_back.clear();
        }
        results
    }
}

impl Change {
    /// Returns the stage and the object of the change.
    pub fn target(&self) -> Target {
        (self.stage(), self.place().key.clone(), self.instance().map(str::to_owned))
    }
}

impl Results {
    /// The Services of which a note of the guard was not written.
    pub fn without_note(&self) -> impl Iterator<Item = ServiceRef> {
        self.settled.iter().filter_map(|made| match &made.change {
            Change::Note { service, text: Some(_), .. } if made.outcome != Ok(Outcome::Applied) => {
                Some(service.clone())
            }
            _ => None,
        })
    }

    /// The changes that were carried out.
    pub fn made(&self) -> impl Iterator<Item = &Change> {
        self.settled_as_made().map(|made| &made.change)
    }

    fn settled_as_made(&self) -> impl Iterator<Item = &SettledChange> {
        self.settled.iter().filter(|settled| settled.outcome == Ok(Outcome::Applied))
    }

    /// The targets of the changes that were tried without success.
    pub fn failed_targets(&self) -> impl Iterator<Item = Target> {
        let settled = self.settled.iter().filter(|made| made.outcome != Ok(Outcome::Applied));
        settled.map(|made| made.change.target())
    }

    /// Adds these results to an observation, which may already show some of them. Its baseline, against which the loss
    /// is measured, leaves out the instances that these results registered.
    pub fn enter(&self, observation: &mut Observation) {
        let registered = self.made().filter(|change| matches!(change, Change::Register { .. }));
        let registered = registered.filter_map(Change::instance_key).collect();
        if observation.baseline.is_none() {
            observation.baseline = Some(Arc::new(Baseline::of(observation, &registered)));
        }
        for (key, service) in &self.created {
            let services = &mut observation.registry.services;
            services.entry(key.clone()).or_insert_with(|| service.clone());
        }
        for (namespace, message) in &self.full {
            observation.registry.capacity.record_full(namespace, message);
        }
        for SettledChange { service, change, .. } in self.settled_as_made() {
            observation.record_change(service, change);
        }
    }

    /// Adds the results of another group.
    pub fn extend(&mut self, other: Self) {
        self.settled.extend(other.settled);
        self.held_back.extend(other.held_back);
        self.created.extend(other.created);
        self.full.extend(other.full);
        self.with_instances.extend(other.with_instances);
    }
}
