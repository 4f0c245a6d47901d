//! The rounds of a group: when it reads again, which changes it takes from the plan that is made on the read, and the
//! outcomes of the changes that are left when it ends.

use std::collections::BTreeSet;

use super::{GroupSync, PlannedChange, State, Target};
use crate::model::{Desired, Outcome, ServiceRef};
use crate::publish::plan::{Change, HeldBack, Observation, Plan, Reason, RereadScope, Stage};

/// The number of consecutive rounds in which another writer may prevent all progress. After them the group ends, and
/// the next run continues.
const MAX_ROUNDS_WITHOUT_PROGRESS: usize = 3;

impl GroupSync<'_> {
    /// Whether the removals of this plan may be made: the group has read again after additions, and has tried the
    /// additions of this plan.
    pub(super) fn may_remove(&self) -> bool {
        let is_undecided = !self.contested.is_empty() || !self.outdated.is_empty();
        let reads_needed = if self.has_added { 2 } else { 1 };
        // From the third read on, additions that are still contested or outdated no longer delay removals.
        self.read_count >= reads_needed && (self.read_count > 2 || !is_undecided)
    }

    /// Whether the group reads and plans again.
    pub(super) fn reads_again(&mut self) -> bool {
        if self.state == State::Restoring {
            return false;
        }
        let has_removal = self.open.iter().any(|planned| planned.change.is_removal());
        let is_before_second_look = self.read_count == 0 || self.state == State::Adding;
        let has_freed = self.has_progress && self.observation.registry.capacity.has_freed();
        let is_contested = !self.contested.is_empty();
        let is_needed = is_contested
            || has_freed
            || has_removal && (is_before_second_look || self.has_progress);
        if self.has_progress {
            self.rounds_without_progress = 0;
        } else if is_contested {
            self.rounds_without_progress += 1;
        }
        // Outdated registrations are planned again until the run ends. Each of these rounds waits until its additions
        // are admitted, so it does not repeat at once.
        !self.outdated.is_empty()
            || is_needed && self.rounds_without_progress <= MAX_ROUNDS_WITHOUT_PROGRESS
    }

    /// Plans again, without a read, after Cloud Map had no capacity for registrations. The plan gives the reasons, and
    /// the instances to remove to make room. Returns `false` if a plan has given the reasons for all of them.
    pub(super) fn explain_over_capacity(&mut self) -> bool {
        if self.over_capacity.len() <= self.explained_count || self.state == State::Restoring {
            return false;
        }
        self.explained_count = self.over_capacity.len();
        self.observation.decide_holders();
        self.observation.affected = self.scope().services;
        let plan = self.task.plan(&self.observation);
        self.open.clear();
        self.adopt_plan(plan);
        // The plan of records gives no reasons, and plans the same records again.
        let without_capacity: BTreeSet<Target> =
            self.over_capacity.iter().map(|planned| planned.change.target()).collect();
        self.open.retain(|planned| !without_capacity.contains(&planned.change.target()));
        true
    }

    /// Returns the scope to read for the next plan. Before that, drops each Cloud Map service that another writer
    /// changes or may have replaced, so that its settings are read again.
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

    /// Returns the scope that the unsettled changes rest on.
    fn scope(&self) -> RereadScope {
        let left = [&self.open, &self.contested, &self.outdated, &self.over_capacity];
        let left = left.into_iter().flatten().map(|planned| &planned.change);
        RereadScope::of_group(&self.observation, &self.services, left)
    }

    /// Returns the scope to read if the plan became too old before its next changes were made. Puts `changes` back into
    /// the plan. `is_listed`: the plan is based on a list of this run. A Cloud Map service that the list lacks is then
    /// not looked up, since CreateService reports whether it exists. Otherwise the plan is based on the lists of an
    /// earlier run, and the settings of services are read, too.
    pub fn refresh(&mut self, changes: Vec<PlannedChange>, is_listed: bool) -> RereadScope {
        self.add_planned(changes);
        self.observation.decide_holders();
        let mut scope = self.scope();
        scope.with_entries = !is_listed;
        let services = &self.observation.registry.services;
        scope.keys.retain(|key| {
            !self.created.contains(key) && (!is_listed || services.contains_key(key))
        });
        scope
    }

    /// Plans the next round on the result of a [`Step::Read`](super::Step::Read), or of a read of the scope of
    /// [`Self::refresh`].
    pub fn observed(&mut self, read: Observation) {
        let plan = self.task.plan(&read);
        self.observation = read;
        self.record_found();
        // The plan of a group never has a note, so a contested note is kept, and made on the instance as it is then.
        let is_note = |planned: &mut PlannedChange| planned.change.is_note();
        self.notes.extend(self.contested.extract_if(.., is_note));
        let left = self.take_open();
        self.fail_unreadable(left);
        self.explained_count = 0;
        self.adopt_plan(plan);
        self.read_count += 1;
        self.has_added = false;
        self.has_progress = false;
        self.state = State::Adding;
    }

    /// Records the Cloud Map services that another writer created first, as they were read since.
    fn record_found(&mut self) {
        for planned in &self.contested {
            let key = &planned.change.place().key;
            if planned.change.stage() == Stage::Create
                && let Some(service) = self.observation.registry.services.get(key)
            {
                self.results.created.insert(key.clone(), service.clone());
            }
        }
    }

    /// Fails the changes whose Cloud Map service could not be read again.
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
        self.planned_capacity.clone_from(&self.observation.registry.capacity);
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

    /// Whether a line is about a Service and a Cloud Map service that the group has read. Lines about a full service
    /// come from the comparison, which has the numbers of all groups.
    fn is_own(&self, line: &HeldBack) -> bool {
        let was_read = line.place.as_ref().is_none_or(|place| self.keys.contains(&place.key));
        was_read
            && self.services.contains(&line.service)
            && !matches!(line.reason, Reason::ServiceFull { .. })
    }

    /// Returns the Services whose endpoints may have become ready again while their instances were deregistered, and
    /// the next holders of names that became empty. In later rounds, returns the Services with an outdated
    /// registration. Returns `None` if there are none.
    pub(super) fn services_to_restore(&mut self) -> Option<BTreeSet<ServiceRef>> {
        if self.state == State::Restoring {
            let outdated = self.outdated.iter().map(|planned| planned.service.clone());
            let outdated: BTreeSet<ServiceRef> = outdated.collect();
            return (!outdated.is_empty()).then_some(outdated);
        }
        if self.removed.is_empty() {
            return None;
        }
        self.state = State::Restoring;
        self.observation.decide_holders();
        let emptied = self.removed.iter().filter(|(_, key)| !self.observation.has_ours(key));
        let next = emptied.filter_map(|(_, key)| self.observation.holders.holder(key));
        let left = self.removed.iter().map(|(service, _)| service);
        let services: BTreeSet<ServiceRef> = next.chain(left).cloned().collect();
        self.services.extend(services.iter().cloned());
        Some(services)
    }

    /// Plans the registrations of endpoints that are ready again, on the result of a
    /// [`Step::ReadEndpoints`](super::Step::ReadEndpoints).
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
        open.append(&mut self.over_capacity);
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
                self.settle_over_capacity();
            }
        }
        // After a group that only adds, the comparison plans these registrations again: a removal may free capacity.
        if self.permits.is_none() {
            self.over_capacity.clear();
        }
        let notes = std::mem::take(&mut self.notes);
        for planned in self.take_open().into_iter().chain(notes) {
            let outcome = if has_time {
                outcome_of_unmade(&planned.change)
            } else {
                Ok(Outcome::out_of_time())
            };
            self.settle(planned, outcome);
        }
    }

    /// Settles the registrations over capacity for which the last plan has no reason. The plan of records never has
    /// one.
    fn settle_over_capacity(&mut self) {
        for planned in std::mem::take(&mut self.over_capacity) {
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

/// The outcome of a change that the last round has not made, although there was time for another round.
fn outcome_of_unmade(change: &Change) -> Result<Outcome, Reason> {
    if let (Some(instance), Some(wait)) = (change.instance(), change.waits_for()) {
        let instance = instance.to_owned();
        return Err(Reason::Waiting { instance, waits_for: wait.to_string() });
    }
    match change {
        Change::UpdateService { update, .. } => Err(Reason::ttl_without_instance(update)),
        _ => Ok(Outcome::not_attempted("an earlier change was not made")),
    }
}
