//! The parts of a cluster that are synced separately: the Services that a run covers ([`affected_by`]), whether other
//! claims matter to a plan for some of them ([`holds_names_exclusively`]), the groups of Services whose changes are
//! made together ([`in_groups`]), and the data to read again before the changes of a group are decided
//! ([`RereadScope`]).

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Change, ChangesByService, Stage};
use super::claims::Holders;
use super::namespaces::keys_to_choose_from;
use super::observation::{Observation, PlanPhase};
use crate::guard::Extent;
use crate::model::{Desired, Registry, Selection, ServiceKey, ServiceRef};

/// The data to read again before the changes of a group are decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RereadScope {
    /// The Cloud Map services of the changes, and of the names that the Services hold. Names that they only claim are
    /// left out: a thousand Services, each in its own group, may claim a name that another Service holds.
    pub keys: BTreeSet<ServiceKey>,
    /// The Services of the group, and those in the marks of instances to remove, with their endpoints.
    pub services: BTreeSet<ServiceRef>,
    /// Whether the settings of these Cloud Map services must also have been listed in this run.
    pub with_entries: bool,
}

impl RereadScope {
    /// The data that the changes of a group of `services` depend on.
    ///
    /// The Cloud Map services of the changes are not enough. Once a renamed web is registered under its new name, only
    /// removals under its old name remain. They depend on the instances under the new name, so all names that web holds
    /// are read.
    pub fn of<'s, 'a>(
        holders: &Holders,
        services: impl IntoIterator<Item = &'s ServiceRef>,
        changes: impl Iterator<Item = &'a Change> + Clone,
    ) -> Self {
        let marked = changes.clone().filter_map(Change::losing_service);
        let services: BTreeSet<ServiceRef> =
            services.into_iter().cloned().chain(marked.cloned()).collect();
        let changed = changes.map(|change| change.place().key.clone());
        let held = services.iter().flat_map(|service| {
            let claims = holders.claims(service).into_iter().flatten();
            claims.filter(|key| holders.holds(key, service))
        });
        let keys = changed.chain(held.cloned()).collect();
        Self { keys, services, with_entries: false }
    }

    /// The data that these changes of a group depend on. In a targeted sync it includes each Service with instances
    /// under a name where the group registers, since a registration may displace such an instance.
    pub fn of_group<'a>(
        observation: &Observation,
        services: &BTreeSet<ServiceRef>,
        changes: impl Iterator<Item = &'a Change> + Clone,
    ) -> Self {
        let mut services = services.clone();
        if observation.extent == Extent::Part {
            let registered = changes.clone().filter(|change| change.stage() == Stage::Register);
            let registered: BTreeSet<&ServiceKey> =
                registered.map(|change| &change.place().key).collect();
            services
                .extend(registered.into_iter().flat_map(|key| observation.marked_services(key)));
        }
        Self::of(&observation.holders, &services, changes)
    }

    /// Decides the holders again, on an observation in which this scope was read again.
    pub fn decide(&self, mut observation: Observation) -> Observation {
        observation.decide_holders();
        observation.affected.clone_from(&self.services);
        observation
    }

    /// The part of an observation with these keys and Services, and with every claimant of the keys.
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
        // An unclear Service keeps the names under which a read finds its instances.
        let claimants = claimants.chain(holders.unclear());
        let concerned = observation.desired.only(claimants.chain(&self.services));
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
        let owner = observation.owner.clone();
        let rules = observation.rules.clone();
        let narrow = Observation::new(owner, rules, observation.now, registry);
        Observation { extent: observation.extent, phase: PlanPhase::Group, desired, ..narrow }
    }
}

/// Returns the Services whose endpoints and changes a run over `selection` needs: the selected Services, including
/// deleted ones that still have instances, and the holder of each name that a selected Service claims or has instances
/// under without holding it.
pub fn affected_by(observation: &Observation, selection: &Selection) -> BTreeSet<ServiceRef> {
    let holders = &observation.holders;
    let existing = observation.desired.services.keys().cloned();
    let selected: Vec<ServiceRef> =
        existing.filter(|service| selection.contains(service)).collect();
    let claimed = selected.iter().flat_map(|service| {
        let claims = holders.claims(service).into_iter().flatten();
        claims.map(move |key| (key, service.clone()))
    });
    let marked = observation.all_marked_services();
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

/// Returns the additions that are needed according to earlier reads of Cloud Map by this process, of any age. It
/// excludes each Service with an addition that a new read may show to be wrong:
///
/// - The namespace is one of several with its name. Instances under other names decide which namespace is meant.
/// - The Cloud Map service is in `seen`, but not listed. An earlier run may have created it.
pub fn additions_from_memory(
    observation: &Observation,
    seen: &BTreeSet<ServiceKey>,
) -> ChangesByService {
    let undecided = keys_to_choose_from(observation, |_| true);
    let is_certain = |change: &Change| {
        let key = &change.place().key;
        let is_known = observation.registry.services.contains_key(key) || !seen.contains(key);
        is_known && !undecided.contains(key)
    };
    let mut additions = super::plan(observation).take_additions();
    additions.retain(|_, changes| changes.iter().all(is_certain));
    additions
}

/// Whether each of these Services certainly holds all names that it claims: every key has instances of ours, and all of
/// them have the marks of the Service. Otherwise other claims to the name, or instances under former names, matter to
/// the plan and must be read.
///
/// The run for a message about shop/web has read only shop/web. If shop/web claims `api`, and an older shop/cart claims
/// it too, a plan without the second claim would register shop/web under `api`. The next full sync would then treat
/// shop/web as the holder.
pub fn holds_names_exclusively(observation: &Observation, services: &BTreeSet<ServiceRef>) -> bool {
    let holders = &observation.holders;
    services.iter().all(|service| {
        let Some(keys) = holders.claims(service) else { return false };
        let is_clear = !holders.is_unclear(service) && holders.denied(service).next().is_none();
        let is_alone = |key| observation.marked_services(key).all(|marked| marked == *service);
        is_clear && keys.iter().all(|key| observation.has_ours(key) && is_alone(key))
    })
}

// The groups of changes that are made together. Each Kubernetes Service is a group of its own, so that it does not wait
// for any other Service. Two Services are in one group only if a removal of one depends on registrations of the other.

/// Splits the changes of a plan into groups, in the order of the first Service of each.
pub fn in_groups(changes: ChangesByService) -> Vec<ChangesByService> {
    let groups = number_groups(&changes);
    let count = groups.iter().max().map_or(0, |last| last + 1);
    let mut grouped = vec![ChangesByService::new(); count];
    for ((service, changes), group) in changes.into_iter().zip(groups) {
        grouped[group].insert(service, changes);
    }
    grouped
}

/// Returns the group number of each Service that has changes, in the order of the Services. A chain of waits between
/// two Services puts them in one group.
///
/// Groups are synced concurrently. Say shop/web leaves `old` for `new`, and shop/cart takes over `old`. In a group of
/// its own, shop/cart could read `new` before the group of shop/web has registered there, and the instances that
/// shop/web left under `old` would stay until the next run.
fn number_groups(changes: &ChangesByService) -> Vec<usize> {
    // Some of the awaited Services may have no changes.
    let mut joined: BTreeMap<&ServiceRef, Vec<&ServiceRef>> = BTreeMap::new();
    for (service, changes) in changes {
        for awaited in changes.iter().flat_map(Change::awaited_services) {
            joined.entry(service).or_default().push(awaited);
            joined.entry(awaited).or_default().push(service);
        }
    }
    let mut groups = BTreeMap::new();
    let mut next = 0;
    for service in changes.keys() {
        if groups.contains_key(service) {
            continue;
        }
        let mut reached = vec![service];
        while let Some(service) = reached.pop() {
            if groups.insert(service, next).is_none() {
                reached.extend(joined.get(service).into_iter().flatten());
            }
        }
        next += 1;
    }
    changes.keys().map(|service| groups[service]).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::model::Place;
    use crate::publish::plan::{DeregisterReason, WaitsFor};

    fn numbered(number: usize) -> ServiceRef {
        ServiceRef::new("shop", format!("web-{number:05}"))
    }

    /// A removal under the name of each Service, with the Service that it waits for.
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
    fn ten_thousand_services_are_grouped_however_they_wait() {
        const COUNT: usize = 10_000;
        type Other = fn(usize) -> Option<usize>;
        let waits_for: [(&str, Other, usize); 4] = [
            ("each alone", |_| None, COUNT),
            ("each for the next", |number| Some(number + 1), 1),
            ("all for one without changes", |_| Some(COUNT), 1),
            ("in pairs", |number| Some(number ^ 1), COUNT / 2),
        ];
        for (case, waits_for, groups) in waits_for {
            let changes = removals((0..COUNT).map(|number| (number, waits_for(number))));
            assert_eq!(in_groups(changes).len(), groups, "{case}");
        }
    }

    proptest! {
        #[test]
        fn services_are_one_group_if_a_way_of_waiting_leads_from_one_to_the_other(
            waits_for in vec(prop::option::of(0..9_usize), 7),
        ) {
            let changes = removals(waits_for.iter().copied().enumerate());
            let mut groups: Vec<BTreeSet<ServiceRef>> = (0..9).map(|it| [numbered(it)].into()).collect();
            for (number, other) in waits_for.iter().enumerate() {
                let pair = [Some(numbered(number)), other.map(numbered)];
                let pair: BTreeSet<ServiceRef> = pair.into_iter().flatten().collect();
                let meet = |group: &mut BTreeSet<ServiceRef>| !group.is_disjoint(&pair);
                let joined = groups.extract_if(.., meet).flatten().collect();
                groups.push(joined);
            }
            for group in &mut groups {
                group.retain(|service| changes.contains_key(service));
            }
            groups.retain(|group| !group.is_empty());
            groups.sort();
            let found = in_groups(changes).into_iter();
            let found: Vec<BTreeSet<ServiceRef>> = found.map(|group| group.into_keys().collect()).collect();
            prop_assert_eq!(found, groups);
        }
    }
}
