//! The sync of one group of Services, as a pure state machine: effects in, next step out. `steps` makes the changes and does
//! the reads of a [`Step`]; the property tests do the same on a Cloud Map in memory.
//!
//! ```text
//! loop { read; plan; additions; once these were tried (at the latest after two rounds), the removals with a permit }
//! after removals: read the endpoints; those that are back are registered again
//! ```
//!
//! A plan is made on a read of the group alone. A removal has two conditions: a permit, of the comparison of all that the run
//! is about, and a plan of the group on a read after its additions have ended, which wants the same and has it wait for
//! nothing.
//!
//! Why a second look: if web's only pod is replaced, the comparison registers 10.0.0.2 and deregisters 10.0.0.1. If both were
//! made at once and the registration failed, web would have no instance. The second plan is made on a read that shows
//! 10.0.0.2, and else has the removal wait. Why not only once there is nothing to add: of 900 pods that roll for ten minutes
//! there is always one to add, and no removal would have its turn.

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
    Is(Outcome),
    /// It is not made, and a retry would not help.
    HeldBack(Reason),
    /// The Cloud Map service was created with this ARN.
    Created(String),
    /// Another group of the invocation has created the Cloud Map service, with this ARN.
    Exists(String),
    /// The change conflicts with another writer: its Cloud Map service is read again, and the change planned again.
    Contested,
    /// The read that the change rests on had become old before the rates allowed the call: it is planned again.
    Outdated,
    /// Cloud Map accepts no more instances in the namespace; with its error message.
    Full(String),
}

impl Effect {
    /// The answer of Cloud Map, if it has refused the change and would do so again.
    pub fn refused(&self) -> Option<Reason> {
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
    /// The lines that the plans of the groups hold back.
    pub held_back: Vec<HeldBack>,
    /// The Cloud Map services that were created, as they are then. Those that another writer had created first are as they
    /// were found: it may be this process, by a call whose answer was lost.
    pub created: BTreeMap<ServiceKey, CloudMapService>,
    /// The full namespaces, by id, with the message of Cloud Map.
    pub full: BTreeMap<String, String>,
    /// The Services with an instance by the last read of their groups and the changes after it. It may have been registered
    /// by a call whose answer was lost, so that no change counts.
    pub standing: BTreeSet<ServiceRef>,
}

/// The next step of a group.
#[derive(Debug)]
pub enum Step {
    /// Make these changes, side by side, and report the effect of each.
    Make(Vec<PlannedChange>),
    /// Read this again: the named Cloud Map services, then the Services with their endpoints.
    Read(RereadScope),
    /// Read the endpoints of these Services again.
    ReadEndpoints(Desired),
    Done,
}

/// The changes that the group makes now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Adding,
    Removing,
    /// Endpoints that were back after their instances were removed are registered again.
    PuttingBack,
}

/// What a change is about. A change of a thing that was tried is not tried again in the same run.
pub type Target = (Stage, ServiceKey, Option<String>);

/// The changes of a group that early groups of the run have made or tried.
#[derive(Default)]
pub struct EarlyWork {
    pub tried: BTreeSet<Target>,
    /// The Cloud Map services that early groups have created. The lists may not show these yet.
    pub created: BTreeMap<ServiceKey, CloudMapService>,
}

/// One group on its way.
#[derive(Clone, Debug)]
pub struct GroupSync<'a> {
    task: Task<'a>,
    services: BTreeSet<ServiceRef>,
    /// The Cloud Map services that the group may change.
    keys: BTreeSet<ServiceKey>,
    /// `None` if the group only adds, while the comparison of the run is still to come.
    permits: Option<&'a Permits>,
    /// The last observation, with the changes made since.
    pub observation: Observation,
    state: State,
    /// The changes that are planned and not made yet.
    open: Vec<PlannedChange>,
    /// The notes of the guard, which judges the comparison alone.
    notes: Vec<PlannedChange>,
    tried: BTreeSet<Target>,
    /// The Cloud Map services that the group or an early one has created.
    created: BTreeSet<ServiceKey>,
    /// What the run has tried before in vain.
    in_vain: &'a BTreeSet<Target>,
    /// The changes that conflicted with another writer.
    contested: Vec<PlannedChange>,
    /// The changes that had no token in the time of their plan.
    outdated: Vec<PlannedChange>,
    /// Registrations for which Cloud Map had no capacity.
    refused: Vec<PlannedChange>,
    /// The number of these for which the plan has a reason.
    explained: usize,
    /// The full namespaces that the plan knew of.
    planned_for: Capacity,
    /// The Cloud Map services that may have other settings than this process remembers.
    doubted: BTreeSet<ServiceKey>,
    /// The number of reads of the group.
    looks: usize,
    /// Whether an addition was tried since the last read.
    has_added: bool,
    /// Whether a change was carried out since the last read.
    has_progress: bool,
    /// The number of rounds in a row that changed nothing, since another writer was at it.
    fruitless: usize,
    /// Services of which an endpoint was deregistered and might be back, with the name that it was under.
    removed: BTreeSet<(ServiceRef, ServiceKey)>,
    results: Results,
}

impl<'a> GroupSync<'a> {
    /// The sync of the Services that have `changes` in a comparison, with the part of it that they need. It is made when it
    /// begins, since the parts of all groups would take as much memory as the comparison.
    pub fn new(
        task: Task<'a>,
        comparison: &Observation,
        changes: ChangesByService,
        permits: Option<&'a Permits>,
        in_vain: &'a BTreeSet<Target>,
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
            in_vain,
            contested: Vec::new(),
            outdated: Vec::new(),
            refused: Vec::new(),
            explained: 0,
            planned_for: comparison.registry.capacity.clone(),
            doubted: BTreeSet::new(),
            looks: 0,
            has_added: false,
            has_progress: false,
            fruitless: 0,
            removed: BTreeSet::new(),
            results: Results::default(),
        };
        for (service, changes) in changes {
            let planned = |change| PlannedChange { service: service.clone(), change };
            group.keep_for_later(changes.into_iter().map(planned));
        }
        group.leave_out_what_may_not_be_tried();
        group
    }

    /// Adds changes that are to be made. Only the comparison plans notes, so each plan of the group leaves those alone.
    pub(super) fn keep_for_later(&mut self, changes: impl IntoIterator<Item = PlannedChange>) {
        for planned in changes {
            let to = if planned.change.is_note() { &mut self.notes } else { &mut self.open };
            to.push(planned);
        }
    }

    /// The same after early groups of the run have tried some of its changes.
    #[must_use]
    pub fn after(mut self, work: EarlyWork) -> Self {
        self.tried = work.tried;
        for (key, service) in work.created {
            self.created.insert(key.clone());
            self.observation.registry.services.entry(key).or_insert(service);
        }
        self.leave_out_what_may_not_be_tried();
        self.drop_needless_creations();
        self
    }

    fn leave_out_what_may_not_be_tried(&mut self) {
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
        is_permitted && !self.tried.contains(&target) && !self.in_vain.contains(&target)
    }

    /// A service is created for a registration alone.
    pub(super) fn drop_needless_creations(&mut self) {
        let registers = |planned: &&PlannedChange| planned.change.stage() == Stage::Register;
        let registered = self.open.iter().filter(registers);
        let registered: BTreeSet<Place> =
            registered.map(|planned| planned.change.place().clone()).collect();
        self.open.retain(|PlannedChange { change, .. }| {
            change.stage() != Stage::Create || registered.contains(change.place())
        });
    }

    /// The next step; `has_time` is whether something new may begin.
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
            if self.explain_refused() {
                continue;
            }
            if self.reads_again() {
                return Step::Read(self.begin_round());
            }
            if let Some(services) = self.services_to_put_back() {
                return Step::ReadEndpoints(self.observation.desired.only(services.iter()));
            }
            self.close(true);
            return Step::Done;
        }
    }

    /// Removes and returns the changes that are made next: those of the first stage that has any.
    fn take_due(&mut self) -> Option<Vec<PlannedChange>> {
        if self.contested.iter().any(|planned| planned.change.stage() == Stage::Create) {
            // The registrations there are planned again, on the instances that exist now.
            return None;
        }
        // An instance with the guard's note is removed after all others, and a note that does not go with its instance after
        // those of its Service: if one of them is left, so is the note.
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
            // A cluster whose only registration was refused must not set the TTL: another one, which does not see it there,
            // would set its own again at every run.
            Change::UpdateService { .. } => self.observation.has_ours(&change.place().key),
            _ => true,
        }
    }

    /// Whether a removal was tried or due, and is not done.
    fn has_failed_removal(&self) -> bool {
        let mut settled = self.results.settled.iter();
        settled.any(|settled| {
            settled.change.marked().is_some()
                && settled.outcome.as_ref().is_ok_and(|outcome| !outcome.is_made())
        })
    }

    /// Whether an instance of a Service that is to go is still there.
    fn keeps_instances_to_remove(&self, service: &ServiceRef) -> bool {
        let is_left = |planned: &PlannedChange| {
            planned.change.marked() == Some(service) && planned.change.waits_for().is_none()
        };
        self.has_failed_removal() || self.open.iter().chain(&self.contested).any(is_left)
    }

    /// From now on the service of a creation exists, without an instance.
    fn note_created(&mut self, creation: &Change, arn: String) {
        let Change::CreateService { place, service } = creation else { return };
        let created = CloudMapService::created(arn, service.name.as_str(), service.kind);
        self.results.created.insert(place.key.clone(), created.clone());
        self.observation.registry.services.insert(place.key.clone(), created);
    }

    /// Whether the service of a refused registration has to be read anew. A sync of single Services remembers its
    /// settings, and one that is created again under its name comes back with its id: its records may be others.
    fn doubts(&mut self, change: &Change, reason: &Reason) -> bool {
        let may_be_old =
            matches!(reason, Reason::InvalidInput(_) | Reason::RecordTypeMismatch { .. });
        // Each read of a group has the settings as this run has read them.
        let is_remembered = self.observation.extent == Extent::Part && self.looks == 0;
        if !may_be_old || !is_remembered || !change.is_registration() {
            return false;
        }
        self.doubted.insert(change.place().key.clone());
        true
    }

    /// Leaves out a change that was refused before, with the answer that it had then.
    pub fn leave(&mut self, planned: PlannedChange, answer: Reason) {
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
            Effect::HeldBack(reason) if self.doubts(change, &reason) => {
                self.contested.push(planned);
            }
            Effect::HeldBack(reason) => self.settle(planned, Err(reason)),
            Effect::Is(outcome) => self.settle(planned, Ok(outcome)),
            Effect::Contested => self.contested.push(planned),
            Effect::Outdated => self.outdated.push(planned),
            Effect::Created(arn) => {
                self.note_created(change, arn);
                self.created.insert(change.place().key.clone());
                self.settle(planned, Ok(Outcome::Applied));
            }
            // It is no change of this group. Others register there, so it is read again like every other service.
            Effect::Exists(arn) => self.note_created(change, arn),
            // Cloud Map says so of an instance that needs no further place, so the capacity cannot show the reason.
            Effect::Full(message) if !matches!(change, Change::Register { .. }) => {
                self.settle(planned, Err(Reason::QuotaExceeded(message)));
            }
            Effect::Full(message) => {
                let key = &change.place().key;
                let capacity = &mut self.observation.registry.capacity;
                // The registrations of one plan are under way together: only that of a later plan took a freed place.
                if capacity.refusal(key).is_none() || self.planned_for.refusal(key).is_some() {
                    capacity.refuse(&key.namespace, &message);
                }
                self.results.full.insert(key.namespace.clone(), message);
                self.refused.push(planned);
            }
        }
    }

    /// The outcome of a change in a Cloud Map service that does not exist.
    pub fn without_service(&self, key: &ServiceKey) -> Effect {
        let made = self.results.settled.iter().filter(|made| made.change.place().key == *key);
        let missing = || Effect::Is(Outcome::undone("its Cloud Map service does not exist"));
        let mut reasons = made.filter_map(|made| made.outcome.as_ref().err());
        reasons.next().map_or_else(missing, |reason| Effect::HeldBack(reason.clone()))
    }

    /// Gives up the open changes, since the read that they rest on failed.
    pub fn fail(&mut self, outcome: &Outcome) {
        let notes = std::mem::take(&mut self.notes);
        for planned in self.take_open().into_iter().chain(notes) {
            self.settle(planned, Ok(outcome.clone()));
        }
        self.state = State::PuttingBack;
    }

    fn settle(&mut self, planned: PlannedChange, outcome: Result<Outcome, Reason>) {
        let PlannedChange { service, change } = planned;
        if outcome == Ok(Outcome::Applied) {
            self.has_progress = true;
            let key = change.place().key.clone();
            if change.because() == Some(&DeregisterReason::NoReadyEndpoint) {
                self.removed.insert((service.clone(), key));
            }
            self.observation.note(&service, &change);
        }
        self.tried.insert(change.target());
        self.results.settled.push(SettledChange { service, change, outcome });
    }

    /// The outcomes of the group, once it is over.
    pub fn into_results(self) -> Results {
        let standing = self.observation.all_marked_services().map(|(_, service)| service);
        // What stands for others may be changed in their own groups.
        let standing = standing.filter(|service| self.services.contains(service)).collect();
        let mut results = Results { standing, ..self.results };
        if self.permits.is_none() {
            // The comparison has these lines, too.
            results.held_back.clear();
        }
        results
    }
}

impl Change {
    /// The thing that it changes, and how.
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

    /// The changes that were tried in vain.
    pub fn in_vain(&self) -> impl Iterator<Item = Target> {
        let settled = self.settled.iter().filter(|made| made.outcome != Ok(Outcome::Applied));
        settled.map(|made| made.change.target())
    }

    /// Enters the additions into an observation, which may show some of them. Its loss is measured on what it had before.
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
            observation.registry.capacity.refuse(namespace, message);
        }
        for SettledChange { service, change, .. } in self.settled_as_made() {
            observation.note(service, change);
        }
    }

    /// Adds the results of another group.
    pub fn extend(&mut self, other: Self) {
        self.settled.extend(other.settled);
        self.held_back.extend(other.held_back);
        self.created.extend(other.created);
        self.full.extend(other.full);
        self.standing.extend(other.standing);
    }
}
