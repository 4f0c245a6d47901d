//! The rounds of a group: when it reads again, what it takes over of the plan that is made on the read, and the outcomes of
//! what is left when it ends.

use std::collections::BTreeSet;

use super::{GroupSync, PlannedChange, State, Target};
use crate::model::{Desired, Outcome, ServiceRef};
use crate::publish::plan::{Change, HeldBack, Observation, Plan, Reason, RereadScope, Stage};

/// The number of rounds in a row in which another writer may undo everything. Then the next run goes on.
const FRUITLESS: usize = 3;

impl GroupSync<'_> {
    /// Whether the plan is a second look, so that its removals may be made: the group has read after additions, and those of
    /// this plan were tried.
    pub(super) fn may_remove(&self) -> bool {
        let is_undecided = !self.contested.is_empty() || !self.outdated.is_empty();
        let looks_needed = if self.has_added { 2 } else { 1 };
        // Additions beyond the time of a plan keep no removal from its turn.
        self.looks >= looks_needed && (self.looks > 2 || !is_undecided)
    }

    /// Whether another plan may have something to do.
    pub(super) fn reads_again(&mut self) -> bool {
        if self.state == State::PuttingBack {
            return false;
        }
        let has_removal = self.open.iter().any(|planned| planned.change.is_removal());
        let is_first_look = self.looks == 0 || self.state == State::Adding;
        let has_freed = self.has_progress && self.observation.registry.capacity.has_freed();
        let is_contested = !self.contested.is_empty();
        let is_needed =
            is_contested || has_freed || has_removal && (is_first_look || self.has_progress);
        if self.has_progress {
            self.fruitless = 0;
        } else if is_contested {
            self.fruitless += 1;
        }
        // An outdated registration is planned again until the run ends. The group waits for its turn at the rates before each
        // of these rounds.
        !self.outdated.is_empty() || is_needed && self.fruitless <= FRUITLESS
    }

    /// Plans again for refused registrations, on what is known: that gives the reasons for their refusal, and the instances
    /// that make room. Returns whether there are any without a reason.
    pub(super) fn explain_refused(&mut self) -> bool {
        if self.refused.len() <= self.explained || self.state == State::PuttingBack {
            return false;
        }
        self.explained = self.refused.len();
        self.observation.decide_holders();
        self.observation.affected = self.scope().services;
        let plan = self.task.plan(&self.observation);
        self.open.clear();
        self.adopt_plan(plan);
        // Records have no lines of their own, and are planned again.
        let refused: BTreeSet<Target> =
            self.refused.iter().map(|planned| planned.change.target()).collect();
        self.open.retain(|planned| !refused.contains(&planned.change.target()));
        true
    }

    /// The scope to read for the next plan, and before it what the read is not to take for granted: a Cloud Map service that
    /// another writer changes or has replaced is read as if it were new.
    pub(super) fn begin_round(&mut self) -> RereadScope {
        for planned in &self.contested {
            let key = &planned.change.place().key;
            if planned.change.stage() == Stage::Update || self.doubted.contains(key) {
                self.observation.registry.services.remove(key);
            }
        }
        self.observation.decide_holders();
        self.scope()
    }

    /// The scope that the open changes rest on.
    fn scope(&self) -> RereadScope {
        let left = [&self.open, &self.contested, &self.outdated, &self.refused];
        let left = left.into_iter().flatten().map(|planned| &planned.change);
        RereadScope::of_group(&self.observation, &self.services, left)
    }

    /// The scope to read if the plan is old before its first change is made, `changes` among them. A Cloud Map service that
    /// no list of this run has shown is not read: CreateService reports it. `is_listed`: the plan rests on such a list, and
    /// else on the entries of an earlier run.
    pub fn refresh(&mut self, changes: Vec<PlannedChange>, is_listed: bool) -> RereadScope {
        self.keep_for_later(changes);
        self.observation.decide_holders();
        let mut scope = self.scope();
        scope.with_entries = !is_listed;
        let services = &self.observation.registry.services;
        scope.keys.retain(|key| {
            !self.created.contains(key) && (!is_listed || services.contains_key(key))
        });
        scope
    }

    /// Plans the next round, on the result of a [`Step::Read`](super::Step::Read) or of a read of [`Self::refresh`].
    pub fn observed(&mut self, read: Observation) {
        let plan = self.task.plan(&read);
        self.observation = read;
        self.note_found();
        // The plan of a group never has a note, so a contested note is kept, and made on the instance as it is then.
        let is_note = |planned: &mut PlannedChange| planned.change.is_note();
        self.notes.extend(self.contested.extract_if(.., is_note));
        let left = self.take_open();
        self.fail_unreadable(left);
        self.explained = 0;
        self.adopt_plan(plan);
        self.looks += 1;
        self.has_added = false;
        self.has_progress = false;
        self.state = State::Adding;
    }

    /// The services that another writer had created first, as they were read since.
    fn note_found(&mut self) {
        for planned in &self.contested {
            let key = &planned.change.place().key;
            if planned.change.stage() == Stage::Create
                && let Some(service) = self.observation.registry.services.get(key)
            {
                self.results.created.insert(key.clone(), service.clone());
            }
        }
    }

    /// Fails the changes in a service that cannot be read again.
    fn fail_unreadable(&mut self, left: Vec<PlannedChange>) {
        for planned in left {
            let service = self.observation.registry.services.get(&planned.change.place().key);
            if let Some(problem) = service.and_then(|service| service.unreadable.clone()) {
                self.settle(planned, Ok(Outcome::failed(problem)));
            }
        }
    }

    fn adopt_plan(&mut self, mut plan: Plan) {
        plan.held_back.retain(|line| self.is_own(line));
        self.results.held_back = plan.held_back;
        self.planned_for.clone_from(&self.observation.registry.capacity);
        plan.changes.retain(|service, _| self.services.contains(service));
        for (service, changes) in plan.changes {
            for change in changes {
                if self.keys.contains(&change.place().key) && self.may_try(&change) {
                    self.open.push(PlannedChange { service: service.clone(), change });
                }
            }
        }
        self.drop_needless_creations();
    }

    /// Whether a line is about what the group has read. The numbers of a full service are those of the comparison.
    fn is_own(&self, line: &HeldBack) -> bool {
        let was_read = line.place.as_ref().is_none_or(|place| self.keys.contains(&place.key));
        was_read
            && self.services.contains(&line.service)
            && !matches!(line.reason, Reason::ServiceFull { .. })
    }

    /// The Services of which an endpoint may have come back while its instance was deregistered, and the next claimants of
    /// names that became empty so. In later rounds, the Services with an outdated registration.
    pub(super) fn services_to_put_back(&mut self) -> Option<BTreeSet<ServiceRef>> {
        if self.state == State::PuttingBack {
            let outdated = self.outdated.iter().map(|planned| planned.service.clone());
            let outdated: BTreeSet<ServiceRef> = outdated.collect();
            return (!outdated.is_empty()).then_some(outdated);
        }
        if self.removed.is_empty() {
            return None;
        }
        self.state = State::PuttingBack;
        self.observation.decide_holders();
        let emptied = self.removed.iter().filter(|(_, key)| !self.observation.has_ours(key));
        let next = emptied.filter_map(|(_, key)| self.observation.holders.holder(key));
        let left = self.removed.iter().map(|(service, _)| service);
        let services: BTreeSet<ServiceRef> = next.chain(left).cloned().collect();
        self.services.extend(services.iter().cloned());
        Some(services)
    }

    /// Registers the wanted instances again, on the result of a [`Step::ReadEndpoints`](super::Step::ReadEndpoints).
    pub fn endpoints_read(&mut self, read: Desired) {
        self.observation.desired.services.extend(read.services);
        self.observation.decide_holders();
        self.observation.affected.clone_from(&self.services);
        let plan = self.task.plan(&self.observation);
        let left = std::mem::take(&mut self.open);
        self.outdated.clear();
        self.adopt_plan(plan);
        let returns = |change: &Change| {
            matches!(change, Change::Register { .. })
                || matches!(change, Change::Rewrite { exchange: None, .. })
        };
        self.open.retain(|planned| returns(&planned.change));
        self.open.extend(left);
    }

    pub(super) fn take_open(&mut self) -> Vec<PlannedChange> {
        let mut open = std::mem::take(&mut self.open);
        open.append(&mut self.contested);
        open.append(&mut self.outdated);
        open.append(&mut self.refused);
        open
    }

    /// Ends the group: the changes that are left are not made.
    pub(super) fn close(&mut self, has_time: bool) {
        if has_time {
            for planned in std::mem::take(&mut self.contested) {
                let change = &planned.change;
                let text = format!("cannot {change}: another writer keeps changing it");
                self.settle(planned, Ok(Outcome::failed(text)));
            }
            if self.permits.is_some() {
                self.settle_refused();
            }
        }
        // What only adds is still compared: a removal may make room for these.
        if self.permits.is_none() {
            self.refused.clear();
        }
        let notes = std::mem::take(&mut self.notes);
        for planned in self.take_open().into_iter().chain(notes) {
            let outcome =
                if has_time { why_it_is_left(&planned.change) } else { Ok(Outcome::out_of_time()) };
            self.settle(planned, outcome);
        }
    }

    /// The lines of the last plan give the reasons why these are not registered. Records have no such lines.
    fn settle_refused(&mut self) {
        for planned in std::mem::take(&mut self.refused) {
            let place = planned.change.place();
            let is_reported = self.results.held_back.iter().any(|line| {
                line.service == planned.service
                    && line.place.as_ref() == Some(place)
                    && line.reason.is_about_capacity()
            });
            let refusal = self.observation.registry.capacity.refusal(&place.key);
            if let Some(message) = refusal.filter(|_| !is_reported) {
                let reason = Reason::QuotaExceeded(message.to_owned());
                self.settle(planned, Err(reason));
            }
        }
    }
}

/// The outcome of a change that the last round left, although there was time for another.
fn why_it_is_left(change: &Change) -> Result<Outcome, Reason> {
    if let (Some(instance), Some(wait)) = (change.instance(), change.waits_for()) {
        let instance = instance.to_owned();
        return Err(Reason::Waiting { instance, waits_for: wait.to_string() });
    }
    match change {
        Change::UpdateService { update, .. } => Err(Reason::ttl_without_instance(update)),
        _ => Ok(Outcome::undone("an earlier change was not made")),
    }
}
