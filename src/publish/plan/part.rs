//! Plans for a part of a cluster: the Services that a run covers ([`Observation::affected_by`]), the data that such a
//! plan depends on ([`Observation::holds_names_exclusively`]), the registrations that a full sync makes first
//! ([`Missing`]), and the data to read again before the changes of one turn are decided ([`RereadScope`]).
//!
//! A run that cannot read all of Cloud Map in its time compares the cluster with older reads, too: these may show that
//! nothing is to be done, and count for the guard, which may only hold more by them. Each change rests on reads of this
//! run: the services that [`Observation::to_read`] returns are read, and the plan is made again, until none is left or
//! there is no time. The changes of which something is still old are left to the next run.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Change, ChangesByService, Stage};
use super::claims::Holders;
use super::observation::{Observation, Plan};
use super::reason::Reason;
use super::removals::WaitsFor;
use crate::guard::Extent;
use crate::model::{Desired, Registry, Selection, ServiceKey, ServiceRef};

/// The additions that seem to be missing, by Service.
#[derive(Debug)]
pub struct Missing(ChangesByService);

impl Missing {
    /// Those that an observation of a part of Cloud Map lacks.
    pub fn of(observation: &Observation) -> Self {
        let mut changes = super::Task::Additions.plan(observation).changes;
        // Instances under other names decide which of several namespaces of one name is meant.
        let open = observation.keys_to_choose_from(|_| true);
        changes.retain(|_, all| !all.iter().any(|it| open.contains(&it.place().key)));
        Self(changes)
    }

    /// The Cloud Map services that they are in.
    pub fn keys(&self) -> BTreeSet<ServiceKey> {
        self.0.values().flatten().map(|change| change.place().key.clone()).collect()
    }

    /// Leaves out the Services of which no more is missing than `is_there`.
    pub fn leave_out(&mut self, is_there: impl Fn(&ServiceKey, &str) -> bool) {
        let is_missing = |change: &Change| {
            change.instance().is_some_and(|id| !is_there(&change.place().key, id))
        };
        self.0.retain(|_, changes| changes.iter().any(is_missing));
    }

    /// The data to read before they are made; `None` if there are none.
    pub fn scope(&self, observation: &Observation) -> Option<RereadScope> {
        let changes = self.0.values().flatten();
        // A Service with a mistake in its annotations keeps the names under which the read finds it.
        let services = self.0.keys().chain(observation.holders.unclear());
        changes.clone().next()?;
        Some(RereadScope::of(&observation.holders, services, changes))
    }
}

impl Plan {
    /// The registrations of new instances, with the Cloud Map services that they need, without all else. A rewrite rests on
    /// the records of its service, which may be others than the process remembers.
    #[must_use]
    pub fn additions_alone(mut self) -> Self {
        self.changes.retain(|_, all| all.iter().all(|it| it.stage() > Stage::CreateNamespace));
        let is_addition =
            |it: &Change| matches!(it, Change::CreateService { .. } | Change::Register { .. });
        let mut additions = self.only(is_addition);
        additions.changes.retain(|_, all| all.iter().any(|it| it.stage() == Stage::Register));
        additions
    }

    /// Leaves out the changes of which something was not read in this run. If a removal is among them, the instance with
    /// the note of its Service stays: the next run goes on by it.
    pub(super) fn leave_out_old(&mut self, observation: &Observation) {
        if observation.registry.is_current() {
            return;
        }
        let turns = in_turns(std::mem::take(&mut self.changes)).into_iter();
        let (left, mut turns): (Vec<_>, Vec<_>) =
            turns.partition(|turn| !observation.old(turn).is_empty());
        let losing: BTreeSet<&ServiceRef> = left
            .iter()
            .flat_map(ChangesByService::values)
            .flatten()
            .filter_map(Change::loses)
            .collect();
        let removes_note = |change: &Change| {
            observation.removes_note(change)
                && change.marked().is_some_and(|service| losing.contains(service))
        };
        turns.retain(|turn| !turn.values().flatten().any(removes_note));
        self.changes = turns.into_iter().flatten().collect();
    }
}

/// The data to read again before the changes of one turn are decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RereadScope {
    /// The Cloud Map services of the changes, and those whose names the Services hold. Of a name that another Service
    /// holds a thousand others may be claimants, each with a turn of its own.
    pub keys: BTreeSet<ServiceKey>,
    /// The Services of the turn, and those in the marks of instances to remove, with their endpoints.
    pub services: BTreeSet<ServiceRef>,
}

impl RereadScope {
    /// The data that the changes of a turn of `services` depend on.
    ///
    /// The Cloud Map services of the changes are not enough. A renamed web that is registered has only removals left, all
    /// under its old name, and whether they may be made depends on its instances under the new one: so all names that it
    /// holds are read.
    pub fn of<'s, 'a>(
        holders: &Holders,
        services: impl IntoIterator<Item = &'s ServiceRef>,
        changes: impl Iterator<Item = &'a Change> + Clone,
    ) -> Self {
        let marked = changes.clone().filter_map(Change::loses);
        let services: BTreeSet<ServiceRef> =
            services.into_iter().cloned().chain(marked.cloned()).collect();
        let changed = changes.map(|change| change.place().key.clone());
        let held = services.iter().flat_map(|service| {
            let claims = holders.claims(service).into_iter().flatten();
            claims.filter(|key| holders.holds(key, service))
        });
        let keys = changed.chain(held.cloned()).collect();
        Self { keys, services }
    }

    /// The part of an observation with these keys and Services, including every claimant.
    pub fn narrow(&self, observation: &Observation) -> Observation {
        let holders = &observation.holders;
        let services = self.keys.iter().filter_map(|key| {
            let service = observation.registry.services.get(key)?;
            Some((key.clone(), service.clone()))
        });
        let registry = Registry {
            namespaces: observation.registry.namespaces.clone(),
            services: services.collect(),
            capacity: observation.registry.capacity.clone(),
            account: observation.registry.account.clone(),
        };
        let claimants = self.keys.iter().flat_map(|key| holders.claimants(key));
        let concerned = observation.desired_of(claimants.chain(&self.services));
        let mut namespaces = BTreeMap::new();
        for service in concerned.services.keys() {
            let chosen = observation.desired.namespaces.get(service);
            namespaces.extend(chosen.map(|chosen| (service.clone(), chosen.clone())));
        }
        let unannotated = self.services.intersection(&observation.desired.unannotated).cloned();
        let claimed = holders.claimed_by(&self.services).filter(|key| !self.keys.contains(*key));
        let held_elsewhere =
            claimed.filter_map(|key| Some((key.clone(), holders.keeper(key)?.clone())));
        let desired = Desired {
            held_elsewhere: held_elsewhere.collect(),
            namespaces,
            unannotated: unannotated.collect(),
            ..concerned
        };
        let (owner, rules) = (observation.owner.clone(), observation.rules.clone());
        let narrow = Observation::new(owner, rules, observation.now, registry);
        Observation { extent: Extent::Remainder, desired, ..narrow }
    }
}

impl Observation {
    /// The same after it was read again for a turn.
    #[must_use]
    pub fn reread(mut self, scope: &RereadScope) -> Self {
        self.decide_holders();
        self.affected.clone_from(&scope.services);
        self
    }

    /// The Services with endpoints and changes that a run over `selection` has to read. They are those selected, even if
    /// only their marks are left, and the holders of each name that one of these claims, or has instances under, without
    /// holding it.
    pub fn affected_by(&self, selection: &Selection) -> BTreeSet<ServiceRef> {
        let holders = &self.holders;
        let existing = self.desired.services.keys().cloned();
        let selected: Vec<ServiceRef> = existing.filter(|it| selection.contains(it)).collect();
        let claimed = selected.iter().flat_map(|service| {
            let claims = holders.claims(service).into_iter().flatten();
            claims.map(move |key| (key, service.clone()))
        });
        let marked = self.all_marked_services();
        let marked = marked.filter(|(_, service)| selection.contains(service));
        let mut affected: BTreeSet<ServiceRef> = selected.iter().cloned().collect();
        let mut held_by_others = BTreeSet::new();
        for (key, service) in claimed.chain(marked) {
            if !holders.holds(key, &service) {
                held_by_others.insert(key);
            }
            affected.insert(service);
        }
        affected.extend(held_by_others.into_iter().filter_map(|key| holders.holder(key)).cloned());
        affected
    }

    /// These Services alone.
    pub fn desired_of<'a>(&self, services: impl Iterator<Item = &'a ServiceRef>) -> Desired {
        let read = &self.desired.services;
        let services = services.filter_map(|it| Some((it.clone(), read.get(it)?.clone())));
        Desired { services: services.collect(), ..Desired::default() }
    }

    /// Whether a claim of the cluster names a namespace that was not found.
    pub fn lacks_namespace(&self) -> bool {
        let mut claims = self.desired.all_claims();
        claims.any(|claims| self.registry.candidates(&claims.namespace).is_empty())
    }

    /// The ids of the namespaces that claims of the cluster may mean.
    pub fn claimed_namespaces(&self) -> BTreeSet<String> {
        let claims = self.desired.all_claims();
        let found = claims.flat_map(|claims| self.registry.candidates(&claims.namespace));
        found.map(|namespace| namespace.id.clone()).collect()
    }

    /// Whether each of the affected Services holds all names that it claims: our instances under every key have its marks,
    /// and no other Service's. Otherwise other claims to the name, or instances left under other names, matter and must be
    /// read.
    ///
    /// A message about shop/web has read shop/web alone. If that asks for `api`, and an older shop/cart does as well, a
    /// plan on the one claim would register shop/web under `api`, and the next full sync would take shop/web for the
    /// holder.
    pub fn holds_names_exclusively(&self, services: &BTreeSet<ServiceRef>) -> bool {
        let holders = &self.holders;
        services.iter().all(|service| {
            let Some(keys) = holders.claims(service) else { return false };
            let clear = !holders.is_unclear(service) && holders.denied(service).next().is_none();
            let is_alone = |key| self.marked_services(key).all(|marked| marked == *service);
            clear && keys.iter().all(|key| self.has_ours(key) && is_alone(key))
        })
    }

    /// The services that a plan rests on, and that were not read in this run: those of changes, and those whose settings,
    /// known by an old entry, are changed or hold something back. One that is made again under its name comes back with its
    /// id.
    pub fn to_read(&self, is_old: impl Fn(&ServiceKey) -> bool) -> BTreeSet<ServiceKey> {
        let services = &self.registry.services;
        if self.registry.is_current() && !services.keys().any(&is_old) {
            return BTreeSet::new();
        }
        let plan = super::plan_on_any_age(self);
        let held_back = plan.held_back.iter().filter(|it| is_about_settings(&it.reason));
        let held_back = held_back.filter_map(|it| Some(it.place.as_ref()?.key.clone()));
        let changes = plan.changes.values().flatten();
        let updated = changes.filter(|change| change.stage() == Stage::Update);
        let updated = updated.map(|change| change.place().key.clone());
        let by_settings: Vec<_> = held_back.chain(updated).filter(is_old).collect();
        let turns = in_turns(plan.changes);
        turns.iter().flat_map(|turn| self.old(turn)).chain(by_settings).collect()
    }

    /// The services that the changes of a turn rest on, and that were not read in this run. A note rests on a read of its
    /// instance, just before it is written.
    fn old(&self, turn: &ChangesByService) -> BTreeSet<ServiceKey> {
        if turn.values().flatten().all(|change| matches!(change, Change::Note { .. })) {
            return BTreeSet::new();
        }
        let scope = RereadScope::of(&self.holders, turn.keys(), turn.values().flatten());
        let is_old = |key: &ServiceKey| {
            let service = self.registry.services.get(key);
            service.is_some_and(|service| !service.is_current())
        };
        scope.keys.into_iter().filter(is_old).collect()
    }
}

/// Whether a reason is the records or the health check of a Cloud Map service.
fn is_about_settings(reason: &Reason) -> bool {
    use Reason::{AddressNotCheckable, PortNeeded, RecordTypeMismatch, RecordsMisfit};
    matches!(
        reason,
        AddressNotCheckable | PortNeeded { .. } | RecordTypeMismatch { .. } | RecordsMisfit { .. }
    )
}

// Groups the changes that are made together. Each Kubernetes Service takes a turn of its own, so that none waits for
// another. Two Services take one turn only if a removal of one depends on registrations of the other.

/// The changes of a plan in turns, by the first Service of each.
pub fn in_turns(changes: ChangesByService) -> Vec<ChangesByService> {
    let turns = number_turns(&changes);
    let count = turns.iter().max().map_or(0, |last| last + 1);
    let mut in_turns = vec![ChangesByService::new(); count];
    for ((service, changes), turn) in changes.into_iter().zip(turns) {
        in_turns[turn].insert(service, changes);
    }
    in_turns
}

/// The number of the turn of each Service that has changes, in their order: a Service takes the turn of all that it
/// leads to, step by step.
///
/// Turns are taken side by side. Say shop/web leaves `old` for `new`, and shop/cart takes `old` over: in a turn of its own,
/// shop/cart could read `new` again before the turn of shop/web has registered there, and the instances that shop/web left
/// under `old` would stay until the next run.
fn number_turns(changes: &ChangesByService) -> Vec<usize> {
    // Some of the awaited Services may have no changes.
    let mut joined: BTreeMap<&ServiceRef, Vec<&ServiceRef>> = BTreeMap::new();
    for (service, changes) in changes {
        let waits = changes.iter().filter_map(Change::waits_for);
        for awaited in waits.flat_map(WaitsFor::services) {
            joined.entry(service).or_default().push(awaited);
            joined.entry(awaited).or_default().push(service);
        }
    }
    let mut turns = BTreeMap::new();
    let mut next = 0;
    for service in changes.keys() {
        if turns.contains_key(service) {
            continue;
        }
        let mut reached = vec![service];
        while let Some(service) = reached.pop() {
            if turns.insert(service, next).is_none() {
                reached.extend(joined.get(service).into_iter().flatten());
            }
        }
        next += 1;
    }
    changes.keys().map(|service| turns[service]).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::model::Place;
    use crate::publish::plan::DeregisterReason;

    fn numbered(number: usize) -> ServiceRef {
        ServiceRef::new("shop", format!("web-{number:05}"))
    }

    /// A removal under the name of each Service, and the Service that it waits for.
    fn removals(
        of: impl Iterator<Item = (usize, Option<usize>)>,
    ) -> BTreeMap<ServiceRef, Vec<Change>> {
        let removal = |(number, waits_for): (usize, Option<usize>)| {
            let marked = numbered(number);
            let name = marked.name.clone();
            let key = ServiceKey { namespace: "ns".into(), name: name.clone() };
            let removal = Change::Deregister {
                place: Place::new("http", name, key),
                instance: "i".into(),
                because: DeregisterReason::ServiceGone(marked.clone()),
                marked: marked.clone(),
                address: "10.0.0.1".into(),
                waits_for: waits_for.map(|other| Box::new(WaitsFor::Holder(numbered(other)))),
            };
            (marked, vec![removal])
        };
        of.map(removal).collect()
    }

    #[test]
    fn ten_thousand_services_take_their_turns_however_they_wait() {
        const COUNT: usize = 10_000;
        type Other = fn(usize) -> Option<usize>;
        let waits_for: [(&str, Other, usize); 4] = [
            ("each alone", |_| None, COUNT),
            ("each for the next", |number| Some(number + 1), 1),
            ("all for one without changes", |_| Some(COUNT), 1),
            ("in pairs", |number| Some(number ^ 1), COUNT / 2),
        ];
        for (case, waits_for, turns) in waits_for {
            let changes = removals((0..COUNT).map(|number| (number, waits_for(number))));
            assert_eq!(in_turns(changes).len(), turns, "{case}");
        }
    }

    proptest! {
        #[test]
        fn services_take_one_turn_if_a_way_of_waiting_leads_from_one_to_the_other(
            waits_for in vec(prop::option::of(0..9_usize), 7),
        ) {
            let changes = removals(waits_for.iter().copied().enumerate());
            let mut turns: Vec<BTreeSet<ServiceRef>> = (0..9).map(|it| [numbered(it)].into()).collect();
            for (number, other) in waits_for.iter().enumerate() {
                let pair = [Some(numbered(number)), other.map(numbered)];
                let pair: BTreeSet<ServiceRef> = pair.into_iter().flatten().collect();
                let meet = |turn: &mut BTreeSet<ServiceRef>| !turn.is_disjoint(&pair);
                let joined = turns.extract_if(.., meet).flatten().collect();
                turns.push(joined);
            }
            for turn in &mut turns {
                turn.retain(|service| changes.contains_key(service));
            }
            turns.retain(|turn| !turn.is_empty());
            turns.sort();
            let found = in_turns(changes).into_iter();
            let found: Vec<BTreeSet<ServiceRef>> = found.map(|turn| turn.into_keys().collect()).collect();
            prop_assert_eq!(found, turns);
        }
    }
}
