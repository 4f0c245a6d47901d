//! Groups the changes that are made together. Each Kubernetes Service takes a turn of its own, so that none waits for
//! another. Two Services take one turn only if a removal of one depends on registrations of the other, also on those for
//! endpoints that both share under its new name, if one registers in a service that the other creates, or if they share
//! a name with many.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Change, Stage};
use super::claims::Holders;
use super::removals::WaitsFor;
use crate::model::{Place, ServiceKey, ServiceRef};

/// If more Services share a name, they take one turn: each turn has a copy of all of them, and reads them again.
const MOST_SHARERS: usize = 16;

/// The changes of the Services that take a turn together.
pub type InTurn = BTreeMap<ServiceRef, Vec<Change>>;

/// The changes of a plan in turns, by the first Service of each.
pub fn in_turns(changes: BTreeMap<ServiceRef, Vec<Change>>, holders: &Holders) -> Vec<InTurn> {
    let turns = number_turns(&changes, holders);
    let count = turns.iter().max().map_or(0, |last| last + 1);
    let mut in_turns = vec![InTurn::new(); count];
    for ((service, changes), turn) in changes.into_iter().zip(turns) {
        in_turns[turn].insert(service, changes);
    }
    in_turns
}

/// The number of the turn of each Service that has changes, in their order: a Service takes the turn of all that it
/// leads to, step by step.
fn number_turns(changes: &BTreeMap<ServiceRef, Vec<Change>>, holders: &Holders) -> Vec<usize> {
    let mut joined: BTreeMap<&ServiceRef, Vec<&ServiceRef>> = BTreeMap::new();
    for (one, other) in pairs(changes, holders) {
        joined.entry(one).or_default().push(other);
        joined.entry(other).or_default().push(one);
    }
    let (mut turns, mut next) = (BTreeMap::new(), 0);
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

/// The pairs of Services that take a turn together. One of the two may have no changes.
///
/// Turns are taken side by side. Say shop/web leaves `old` for `new`, and shop/cart takes `old` over: in a turn of its own,
/// shop/cart could read `new` again before the turn of shop/web has registered there, and what shop/web left under `old`
/// would stay until the next run.
fn pairs<'a>(
    changes: &'a BTreeMap<ServiceRef, Vec<Change>>,
    holders: &'a Holders,
) -> Vec<(&'a ServiceRef, &'a ServiceRef)> {
    let (creators, crowds) = (creators(changes), crowds(changes));
    let new_names = new_names(changes, holders);
    let renamed: BTreeMap<_, _> = new_names.iter().map(|(service, key)| (*key, *service)).collect();
    let mut pairs: Vec<_> =
        new_names.iter().map(|(service, key)| (*service, renamed[key])).collect();
    for (service, changes) in changes {
        let places = changes.iter().map(Change::place);
        let beside = places.flat_map(|place| [creators.get(place), crowds.get(place)]);
        let registered = changes.iter().filter(|it| it.stage() == Stage::Register);
        let shared = registered.map(|change| renamed.get(&change.place().key));
        let crowded = oldest_of_crowds(service, holders);
        let others =
            waits_for(changes).chain(crowded).chain(beside.chain(shared).flatten().copied());
        pairs.extend(others.map(|other| (service, other)));
    }
    pairs
}

/// The oldest Service of each name that a Service shares with many.
fn oldest_of_crowds<'a>(
    service: &'a ServiceRef,
    holders: &'a Holders,
) -> impl Iterator<Item = &'a ServiceRef> {
    let held = holders.claims(service).into_iter().flatten();
    let held = held.filter(|key| holders.holds(key, service)).map(|key| holders.holders(key));
    held.filter(|all| all.len() > MOST_SHARERS).filter_map(|all| all.first())
}

fn creators(changes: &BTreeMap<ServiceRef, Vec<Change>>) -> BTreeMap<&Place, &ServiceRef> {
    let all =
        changes.iter().flat_map(|(service, changes)| changes.iter().map(move |it| (it, service)));
    let created = all.filter(|(change, _)| change.stage() == Stage::Create);
    created.map(|(change, service)| (change.place(), service)).collect()
}

/// For each Cloud Map service with removals, a Service that registers an instance there: the new instance may displace
/// one of those to remove.
fn crowds(changes: &BTreeMap<ServiceRef, Vec<Change>>) -> BTreeMap<&Place, &ServiceRef> {
    let all = || {
        changes.iter().flat_map(|(service, changes)| changes.iter().map(move |it| (it, service)))
    };
    let of = |stage| all().filter(move |(change, _)| change.stage() == stage);
    let removes: BTreeSet<&Place> = of(Stage::Deregister).map(|(it, _)| it.place()).collect();
    let registers = of(Stage::Register).filter(|(change, _)| removes.contains(change.place()));
    registers.map(|(change, service)| (change.place(), service)).collect()
}

/// The renamed Services whose old instances wait, each with its new names. If it shares one, the others register
/// endpoints for it there.
fn new_names<'a>(
    changes: &'a BTreeMap<ServiceRef, Vec<Change>>,
    holders: &'a Holders,
) -> BTreeSet<(&'a ServiceRef, &'a ServiceKey)> {
    let waits = changes.values().flatten().filter_map(Change::waits_for);
    let renamed: BTreeSet<&ServiceRef> = waits.filter_map(WaitsFor::renamed).collect();
    let claims = |service| holders.claims(service).into_iter().flatten();
    renamed.into_iter().flat_map(|it| claims(it).map(move |key| (it, key))).collect()
}

/// The Services with registrations that must come before some of the changes.
fn waits_for(changes: &[Change]) -> impl Iterator<Item = &ServiceRef> {
    let waiting = changes.iter().filter_map(|change| match change {
        Change::Deregister { waits_for, .. } => waits_for.as_deref(),
        _ => None,
    });
    waiting.flat_map(|waits_for| waits_for.services())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
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
            assert_eq!(in_turns(changes, &Holders::default()).len(), turns, "{case}");
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
            let found = in_turns(changes, &Holders::default()).into_iter();
            let found: Vec<BTreeSet<ServiceRef>> = found.map(|turn| turn.into_keys().collect()).collect();
            prop_assert_eq!(found, turns);
        }
    }
}
