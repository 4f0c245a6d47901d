//! The turn of one Kubernetes Service, or of several that wait for each other: its next step, the choice of the open changes
//! that are made next, and the outcomes of each that was made and of those that are left when it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Effect, Results, TurnRecord};
use crate::model::{CloudMapService, Desired, Outcome, ServiceKey, ServiceRef};
use crate::publish::plan::{
    Change, ChangesByService, DeregisterReason, Extent, GuardBaseline, Observation, Reason,
    RereadScope, Stage, Task,
};

/// The next step of a turn.
#[derive(Debug)]
pub enum Step {
    /// Make these changes, side by side, and report the effect of each.
    Make(Vec<Change>),
    /// Read this again: the named Cloud Map services, then the Services with their endpoints.
    Read(RereadScope),
    /// Read the endpoints of these Services again.
    ReadEndpoints(Desired),
    Done,
}

/// The changes of one turn, on their way.
#[derive(Clone, Debug)]
pub struct Turn<'a> {
    pub(super) task: Task<'a>,
    pub(super) services: BTreeSet<ServiceRef>,
    /// The Cloud Map services that were read for the first plan; `None` means all.
    pub(super) keys: Option<BTreeSet<ServiceKey>>,
    /// Whether the run is about a part of the cluster.
    pub(super) is_part: bool,
    /// The last observation, with the changes made since.
    pub observation: Observation,
    /// The changes that are planned and not made yet.
    pub open: Vec<Change>,
    /// The Cloud Map services that this turn created.
    pub(super) created: BTreeSet<ServiceKey>,
    /// The changes that conflicted with another writer, and registrations that were left out since their endpoints have
    /// changed.
    pub(super) contested: Vec<Change>,
    /// Registrations for which Cloud Map had no capacity.
    pub(super) refused: Vec<Change>,
    /// The Cloud Map services that may have other settings than this process remembers, with the pass that found it.
    pub(super) doubted: BTreeMap<ServiceKey, usize>,
    pub(super) pass: usize,
    /// Whether a change was carried out in this pass.
    pub(super) progress: bool,
    /// Services of which an endpoint was deregistered and might be back, with the name that it was under.
    pub(super) removed: BTreeSet<(ServiceRef, ServiceKey)>,
    /// Whether the endpoints were read once more after the removals.
    pub(super) rechecked: bool,
    pub(super) record: TurnRecord,
}

impl<'a> Turn<'a> {
    /// The turn that makes `changes`, with the part of the observation that it needs: all of it if they are `judged`.
    /// A turn is made when it begins, since the parts of all turns would take as much memory as the observation.
    pub fn of(
        task: Task<'a>,
        observation: &Observation,
        changes: ChangesByService,
        judged: Option<&Arc<GuardBaseline>>,
    ) -> Self {
        // The whole sync that follows reads what it doubts.
        let is_part = observation.extent == Extent::Part && !matches!(task, Task::Additions);
        let services: BTreeSet<ServiceRef> = changes.keys().cloned().collect();
        let (keys, observation) = if judged.is_some() {
            let (extent, judged) = (Extent::Remainder, judged.cloned());
            (None, Observation { extent, judged, ..observation.clone() })
        } else {
            let all = changes.values().flatten();
            let scope = observation.scope_of_turn(&services, all, is_part);
            let narrow = scope.narrow(observation);
            (Some(scope.keys), narrow)
        };
        let mut record = TurnRecord::default();
        let open = record.announce(changes);
        Self {
            task,
            services,
            keys,
            is_part,
            created: BTreeSet::new(),
            observation,
            open,
            contested: Vec::new(),
            refused: Vec::new(),
            doubted: BTreeMap::new(),
            pass: 1,
            progress: false,
            removed: BTreeSet::new(),
            rechecked: false,
            record,
        }
    }

    /// The Service that a change of the turn is made for.
    pub fn service(&self, change: &Change) -> &ServiceRef {
        self.record.service(change)
    }

    /// The outcomes of the turn, once it is over.
    pub fn into_results(self) -> Results {
        let standing = self.observation.all_marked_services().map(|(_, service)| service);
        // What stands for others may be changed in their own turns.
        let standing = standing.filter(|it| self.services.contains(it)).collect();
        Results { standing, ..self.record.results }
    }

    /// The next step; `has_time` is whether something new may begin.
    pub fn next(&mut self, has_time: bool) -> Step {
        if !has_time {
            self.close(false);
            return Step::Done;
        }
        if let Some(changes) = self.take_due() {
            return Step::Make(changes);
        }
        if let Some(scope) = self.next_read() {
            // A Cloud Map service that another writer changes or has replaced is read as if it were new.
            for change in &self.contested {
                let key = &change.place().key;
                if change.stage() == Stage::Update || self.doubted.contains_key(key) {
                    self.observation.registry.services.remove(key);
                }
            }
            return Step::Read(scope);
        }
        if let Some(services) = self.take_rechecked() {
            return Step::ReadEndpoints(self.observation.desired_of(services.iter()));
        }
        self.close(true);
        Step::Done
    }

    /// From now on the service of a creation exists, without an instance.
    fn note_created(&mut self, creation: &Change, arn: String) {
        let Change::CreateService { place, service } = creation else { return };
        let created = CloudMapService::created(arn, service.name.as_str(), service.kind);
        self.record.results.created.insert(place.key.clone(), created.clone());
        self.observation.registry.services.insert(place.key.clone(), created);
    }

    /// The services that another writer had created first, as they were read since.
    pub(super) fn note_found(&mut self) {
        let creations = self.contested.iter().filter(|it| it.stage() == Stage::Create);
        for key in creations.map(|creation| &creation.place().key) {
            if let Some(service) = self.observation.registry.services.get(key) {
                self.record.results.created.insert(key.clone(), service.clone());
            }
        }
    }

    /// Whether the service of a refused registration has to be read anew. A sync of single Services remembers its
    /// settings, and one that is created again under its name comes back with its id: its records may be others.
    fn doubts(&mut self, change: &Change, reason: &Reason) -> bool {
        let may_be_old =
            matches!(reason, Reason::InvalidInput(_) | Reason::RecordTypeMismatch { .. });
        if !may_be_old || !self.is_part || !change.is_registration() || self.rechecked {
            return false;
        }
        let first = self.doubted.entry(change.place().key.clone()).or_insert(self.pass);
        *first == self.pass
    }

    /// Leaves out a change that was refused before, with the outcome that it had then.
    pub fn leave(&mut self, change: Change, refused: Reason) {
        match refused {
            Reason::QuotaExceeded(message) if change.is_registration() => {
                self.record(change, Effect::Full(message));
            }
            reason => self.settle(change, Err(reason)),
        }
    }

    /// Records the effect of a change.
    pub fn record(&mut self, change: Change, effect: Effect) {
        match effect {
            Effect::HeldBack(reason) if self.doubts(&change, &reason) => {
                self.contested.push(change);
            }
            Effect::HeldBack(reason) => self.settle(change, Err(reason)),
            Effect::Is(outcome) => self.settle(change, Ok(outcome)),
            Effect::Contested | Effect::Outdated => self.contested.push(change),
            Effect::Created(arn) => {
                self.note_created(&change, arn);
                self.created.insert(change.place().key.clone());
                self.settle(change, Ok(Outcome::Applied));
            }
            // It is no change of this turn. Others register there, so it is read again like every other service.
            Effect::Exists(arn) => self.note_created(&change, arn),
            // Cloud Map says so of an instance that needs no further place, so the capacity cannot show the reason.
            Effect::Full(message) if !matches!(change, Change::Register { .. }) => {
                self.settle(change, Err(Reason::QuotaExceeded(message)));
            }
            Effect::Full(message) => {
                let (key, capacity) =
                    (&change.place().key, &mut self.observation.registry.capacity);
                // The registrations of one pass are under way together: only a later one took a freed place.
                if capacity.refusal(key).is_none() || self.pass > 1 {
                    capacity.refuse(&key.namespace, &message);
                }
                self.refused.push(change);
            }
        }
    }

    /// Removes and returns the changes that are made next: those of the first stage that has any.
    pub(super) fn take_due(&mut self) -> Option<Vec<Change>> {
        if self.contested.iter().any(|change| change.stage() == Stage::Create) {
            // The registrations there are planned again, on the instances that exist now.
            return None;
        }
        let (record, pass) = (&self.record, self.pass);
        let registers = |change: &Change, other: &Change| {
            other.stage() == Stage::Register && other.place() == change.place()
        };
        // A cluster whose only registration was refused must not set the TTL: another one, which does not see it there,
        // would set its own again at every run.
        let has_say = |change: &Change| self.observation.has_ours(&change.place().key);
        let all = &self.open;
        // An instance with the guard's note is removed after all others, and a note that does not go with the instances
        // after those of its Service: if one of them is left, so is the note.
        let removes_note = |change: &Change| self.observation.removes_note(change);
        let has_failed = record.has_failed_removal();
        let is_left = |service: &ServiceRef| {
            let removals = all.iter().filter(|change| change.marked() == Some(service));
            has_failed || removals.into_iter().any(|change| change.waits_for().is_none())
        };
        // Why no removal in the first pass: if web's only pod is replaced, the first plan registers 10.0.0.2 and
        // deregisters 10.0.0.1. If both were made at once and the registration failed, web would have no instance. The
        // second plan is made on a read that shows 10.0.0.2, and else has the removal wait. An exchange removes, too.
        let is_due = |change: &Change| match change {
            _ if record.is_settled(change) => false,
            Change::CreateService { .. } => all.iter().any(|other| registers(change, other)),
            Change::UpdateService { .. } => has_say(change),
            Change::Note { service, text: None, .. } => !is_left(service),
            Change::Deregister { waits_for, .. } => {
                pass > 1 && waits_for.is_none() && !(has_failed && removes_note(change))
            }
            _ => pass > 1 || change.exchange().is_none(),
        };
        let due =
            all.iter().map(|change| is_due(change).then(|| (change.stage(), removes_note(change))));
        let due: Vec<Option<(Stage, bool)>> = due.collect();
        let first = due.iter().flatten().min().copied()?;
        let mut due = due.into_iter();
        Some(self.open.extract_if(.., |_| due.next() == Some(Some(first))).collect())
    }

    /// The outcome of a change in a Cloud Map service that does not exist.
    pub fn without_service(&self, key: &ServiceKey) -> Effect {
        let applied = &self.record.results.applied;
        let made = applied.iter().filter(|made| made.change.place().key == *key);
        let missing = || Effect::Is(Outcome::undone("its Cloud Map service does not exist"));
        let mut reasons = made.filter_map(|made| made.outcome.as_ref().err());
        reasons.next().map_or_else(missing, |reason| Effect::HeldBack(reason.clone()))
    }

    /// Fails the changes in a service that cannot be read again.
    pub(super) fn fail_unreadable(&mut self, open: Vec<Change>) {
        for change in open {
            let service = self.observation.registry.services.get(&change.place().key);
            if let Some(problem) = service.and_then(|service| service.unreadable.clone()) {
                self.settle(change, Ok(Outcome::failed(problem)));
            }
        }
    }

    /// Gives up the open changes, since the read that they rest on failed.
    pub fn fail(&mut self, outcome: &Outcome) {
        for change in self.take_open() {
            self.settle(change, Ok(outcome.clone()));
        }
        self.rechecked = true;
    }

    pub(super) fn take_open(&mut self) -> Vec<Change> {
        let mut open = std::mem::take(&mut self.open);
        open.append(&mut self.contested);
        open.append(&mut self.refused);
        open
    }

    /// Ends the turn: the changes that are left are not made.
    pub(super) fn close(&mut self, has_time: bool) {
        if has_time {
            for change in std::mem::take(&mut self.contested) {
                let text = format!("cannot {change}: another writer keeps changing it");
                self.settle(change, Ok(Outcome::failed(text)));
            }
            self.settle_refused();
        }
        for change in self.take_open() {
            if self.record.is_settled(&change) {
                continue;
            }
            let outcome = match &change {
                Change::Deregister { instance, waits_for: Some(wait), .. } if has_time => {
                    let (instance, waits_for) = (instance.clone(), wait.to_string());
                    Err(Reason::Waiting { instance, waits_for })
                }
                Change::UpdateService { update, .. } if has_time => {
                    Err(Reason::ttl_without_instance(update))
                }
                _ if has_time => Ok(Outcome::undone("an earlier change was not made")),
                _ => Ok(Outcome::out_of_time()),
            };
            self.settle(change, outcome);
        }
    }

    /// The lines of the last plan give the reasons why these are not registered. Records have no such lines.
    fn settle_refused(&mut self) {
        for change in std::mem::take(&mut self.refused) {
            let service = self.record.service(&change);
            let is_reported = self.record.results.held_back.iter().any(|line| {
                let is_here =
                    line.service == *service && line.place.as_ref() == Some(change.place());
                is_here && line.reason.is_about_capacity()
            });
            let refusal = self.observation.registry.capacity.refusal(&change.place().key);
            if let Some(message) = refusal.filter(|_| !is_reported) {
                let reason = Reason::QuotaExceeded(message.to_owned());
                self.settle(change, Err(reason));
            }
        }
    }

    pub(super) fn settle(&mut self, change: Change, outcome: Result<Outcome, Reason>) {
        if outcome == Ok(Outcome::Applied) {
            self.progress = true;
            let service = self.record.service(&change).clone();
            if let Change::Deregister { because: DeregisterReason::NoReadyEndpoint, .. } = &change {
                self.removed.insert((service.clone(), change.place().key.clone()));
            }
            self.observation.note(&service, &change);
        }
        self.record.settle(change, outcome);
    }
}
