//! The reads between the passes of a turn, and the plans made on them.

use std::collections::{BTreeMap, BTreeSet};

use super::turn::Turn;
use crate::model::{Desired, InstanceKey, ServiceKey, ServiceRef};
use crate::publish::plan::{Change, HeldBack, Observation, Plan, Reason, RereadScope, Stage};

/// The number of plans of a turn: to add, to remove, and once more for changes that waited for those.
const PASSES: usize = 3;
/// The limit if changes of others conflict with those of the turn.
const CONTESTED_PASSES: usize = 10;
/// The limit if a renamed Service moves in a full namespace, a part of its instances at a time.
const RENAMING_PASSES: usize = 64;

impl Turn<'_> {
    /// The scope of the read before the next pass; `None` if no pass follows.
    pub(super) fn next_read(&mut self) -> Option<RereadScope> {
        let may_go_on = self.may_go_on();
        let is_refused = self.contested.is_empty() && !self.refused.is_empty();
        if !may_go_on && !is_refused {
            return None;
        }
        self.observation.decide_holders();
        if is_refused {
            self.plan_refused(may_go_on);
        }
        (may_go_on && self.has_more_to_do()).then(|| self.reread())
    }

    fn may_go_on(&self) -> bool {
        if !self.contested.is_empty() {
            return !self.rechecked && self.pass < CONTESTED_PASSES;
        }
        let renames = !self.observation.registry.capacity.is_empty();
        let passes = if renames { RENAMING_PASSES } else { PASSES };
        !self.rechecked && self.pass < passes && (self.pass == 1 || self.progress)
    }

    /// Plans the refused registrations again on the known observation, which gives the reasons for their refusal.
    /// Another read is made only if there is more to do.
    fn plan_refused(&mut self, may_go_on: bool) {
        self.observation.affected = self.reread().services;
        let mut plan = self.task.plan(&self.observation);
        self.adopt_lines(&mut plan);
        if may_go_on {
            self.adopt_changes(plan);
        }
    }

    fn has_more_to_do(&self) -> bool {
        let may_be_due = |change: &Change| change.waits_for().is_none();
        let first = self.pass == 1 && self.refused.is_empty();
        !self.contested.is_empty()
            || self.progress && self.observation.registry.capacity.has_freed()
            || self.open.iter().any(|change| first || self.progress || may_be_due(change))
    }

    /// The scope that the open changes rest on.
    fn reread(&self) -> RereadScope {
        let others = [&self.contested, &self.refused].into_iter().flatten();
        let open = self.open.iter().chain(others);
        self.observation.scope_of_turn(&self.services, open, self.is_part)
    }

    /// Begins the next pass, on the result of a [`Step::Read`](super::Step::Read).
    pub fn observed(&mut self, read: Observation) {
        let plan = self.task.plan(&read);
        self.observation = read;
        self.note_found();
        let open: Vec<Change> = self.take_open();
        // A plan between the passes may not judge again, and says nothing of the guard's notes then.
        let is_note = |change: &&Change| matches!(change, Change::Note { .. });
        let notes: Vec<Change> = open.iter().filter(is_note).cloned().collect();
        self.fail_unreadable(open);
        self.adopt_plan(plan);
        let (planned, record) = (&self.open, &self.record);
        let left = notes.into_iter().filter(|it| !planned.contains(it) && !record.is_settled(it));
        let left: Vec<Change> = left.collect();
        self.open.extend(left);
        self.pass += 1;
        self.progress = false;
    }

    /// Plans the present pass again, on a read that was made before its first change.
    pub fn refreshed(&mut self, read: Observation) {
        let pass = self.pass;
        self.observed(read);
        self.pass = pass;
    }

    /// The scope to read again if the plan is old and registrations are still to be made, `changes` among them. A Cloud
    /// Map service that did not exist when the plan was made is not read: CreateService reports it.
    pub fn refresh(&mut self, changes: Vec<Change>) -> RereadScope {
        self.open.extend(changes);
        self.observation.decide_holders();
        let mut scope = self.reread();
        let services = &self.observation.registry.services;
        scope.keys.retain(|key| services.contains_key(key) && !self.created.contains(key));
        scope
    }

    /// The registrations that are wanted on endpoints that were read since; `None` if these are as they were.
    pub fn registrations_on(&self, read: Desired) -> Option<BTreeMap<InstanceKey, Change>> {
        let known = &self.observation.desired.services;
        if read.services.iter().all(|(service, now)| known.get(service) == Some(now)) {
            return None;
        }
        let mut observation = self.observation.clone();
        observation.desired.services.extend(read.services);
        observation.decide_holders();
        observation.affected.clone_from(&self.services);
        let plan = self.task.plan(&observation);
        let registrations = plan.changes.into_values().flatten().filter(Change::is_registration);
        Some(registrations.filter_map(|change| Some((change.instance_key()?, change))).collect())
    }

    /// Registers the wanted instances again, on the result of a [`Step::ReadEndpoints`](super::Step::ReadEndpoints).
    pub fn endpoints_read(&mut self, read: Desired) {
        self.observation.desired.services.extend(read.services);
        self.rechecked = true;
        self.observation.decide_holders();
        self.observation.affected.clone_from(&self.services);
        let plan = self.task.plan(&self.observation);
        let left = self.take_open();
        self.adopt_plan(plan);
        let returns = |change: &Change| {
            matches!(change, Change::Register { .. })
                || matches!(change, Change::Rewrite { exchange: None, .. })
        };
        self.open.retain(returns);
        self.open.extend(left);
        self.pass = 1;
    }

    fn adopt_plan(&mut self, mut plan: Plan) {
        self.adopt_lines(&mut plan);
        self.adopt_changes(plan);
    }

    /// Takes over the lines that a later plan holds back.
    fn adopt_lines(&mut self, plan: &mut Plan) {
        let is_own = |it: &HeldBack| {
            let was_read = it.place.as_ref().is_none_or(|place| self.was_read(&place.key));
            was_read && self.services.contains(&it.service)
                || matches!(it.reason, Reason::Guard { .. })
        };
        // The numbers of a full service are those of the first plan; the last one knows the refusals of Cloud Map.
        plan.held_back.retain(|it| is_own(it) && !matches!(it.reason, Reason::ServiceFull { .. }));
        let results = &mut self.record.results;
        results.held_back.retain(|it| !it.reason.is_about_capacity());
        results.held_back.append(&mut plan.held_back);
        results.guard = plan
            .guard
            .take()
            .filter(|status| status.verdict.state.holds())
            .or(results.guard.take());
    }

    /// Takes over the changes of a later plan, as far as this turn may make them.
    fn adopt_changes(&mut self, mut plan: Plan) {
        // A turn of all Services also makes the change of the guard's note, which may be on an instance that is marked
        // for another Service than the holder that removes it.
        let has_all = self.keys.is_none();
        plan.changes.retain(|service, _| has_all || self.services.contains(service));
        let mut changes = self.record.remember(plan.changes);
        changes.retain(|change| self.may_make(change) && !self.record.is_settled(change));
        let registers: BTreeSet<_> = changes
            .iter()
            .filter(|change| change.stage() == Stage::Register)
            .map(|change| change.place().clone())
            .collect();
        changes.retain(|it| it.stage() != Stage::Create || registers.contains(it.place()));
        self.open = changes;
    }

    /// Whether a change of a later plan belongs to this turn: it concerns data that was read for the first plan, and it
    /// removes nothing that this plan did not announce.
    ///
    /// A later plan knows the Services of its turn alone. An instance that it finds without an endpoint may be wanted by
    /// a Service that it does not know, as the first plan does, which saw all of them.
    fn may_make(&self, change: &Change) -> bool {
        let was_read = self.was_read(&change.place().key);
        match change {
            Change::Deregister { .. } | Change::Rewrite { adopted: Some(_), .. } => {
                self.record.is_announced(change)
            }
            Change::Rewrite { exchange: Some(exchange), .. } => {
                self.record.is_announced(change)
                    || self.is_part && was_read && !self.observation.is_held(&exchange.marked)
            }
            _ => was_read,
        }
    }

    fn was_read(&self, key: &ServiceKey) -> bool {
        self.keys.as_ref().is_none_or(|keys| keys.contains(key))
    }

    /// The Services of which an endpoint may have come back while its instance was deregistered, and the next claimants of
    /// names that became empty so.
    pub(super) fn take_rechecked(&mut self) -> Option<BTreeSet<ServiceRef>> {
        if self.rechecked || self.removed.is_empty() {
            return None;
        }
        self.rechecked = true;
        self.observation.decide_holders();
        let emptied = self.removed.iter().filter(|(_, key)| !self.observation.has_ours(key));
        let next = emptied.filter_map(|(_, key)| self.observation.holders.holder(key));
        let left = self.removed.iter().map(|(service, _)| service);
        let services: BTreeSet<ServiceRef> = next.chain(left).cloned().collect();
        self.services.extend(services.iter().cloned());
        Some(services)
    }
}

impl Observation {
    /// The data that these changes of a turn rest on. In a targeted sync it includes the Services with instances under the
    /// names that it registers, since one of these may be displaced.
    pub(super) fn scope_of_turn<'a>(
        &self,
        services: &BTreeSet<ServiceRef>,
        changes: impl Iterator<Item = &'a Change> + Clone,
        is_part: bool,
    ) -> RereadScope {
        let registered = changes.clone().filter(|it| is_part && it.stage() == Stage::Register);
        let displaced = registered.flat_map(|change| self.marked_services(&change.place().key));
        let services: BTreeSet<ServiceRef> = services.iter().cloned().chain(displaced).collect();
        RereadScope::of(&self.holders, &services, changes)
    }
}
