//! Which changes are made together. Each Kubernetes Service takes a turn of its own, so that nobody
//! waits for anybody else; only where a removal of one rests on registrations of another, or one
//! registers in a service that another creates, do both take one turn.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::ServiceRef;
use crate::plan::{Change, Place, Stage};

/// The changes of the Services that take a turn together.
pub type InTurn = BTreeMap<ServiceRef, Vec<Change>>;

/// The changes of a plan in turns, by the first Service of each.
pub fn in_turns(changes: BTreeMap<ServiceRef, Vec<Change>>) -> Vec<InTurn> {
    let mut groups: Vec<BTreeSet<ServiceRef>> = Vec::new();
    let (creators, crowds) = (creators(&changes), crowds(&changes));
    for (service, changes) in &changes {
        let created = changes.iter().filter_map(|change| creators.get(change.place()).copied());
        let crowd = changes.iter().filter_map(|change| crowds.get(change.place()).copied());
        let beside = created.chain(crowd).chain([service]);
        let rests_on = waits_for(changes).chain(beside).cloned().collect();
        let (joined, apart): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|group| !group.is_disjoint(&rests_on));
        groups = apart;
        groups.push(joined.into_iter().flatten().chain(rests_on).collect());
    }
    groups.sort();
    let mut changes = changes;
    let mut of = |group: BTreeSet<ServiceRef>| -> InTurn {
        group.iter().filter_map(|service| changes.remove_entry(service)).collect()
    };
    groups.into_iter().map(&mut of).collect()
}

/// Who creates each Cloud Map service that is missing.
fn creators(changes: &BTreeMap<ServiceRef, Vec<Change>>) -> BTreeMap<&Place, &ServiceRef> {
    let all =
        changes.iter().flat_map(|(service, changes)| changes.iter().map(move |it| (it, service)));
    let created = all.filter(|(change, _)| change.stage() == Stage::Create);
    created.map(|(change, service)| (change.place(), service)).collect()
}

/// One who waits for room, for each Cloud Map service in which somebody does.
fn crowds(changes: &BTreeMap<ServiceRef, Vec<Change>>) -> BTreeMap<&Place, &ServiceRef> {
    let all =
        changes.iter().flat_map(|(service, changes)| changes.iter().map(move |it| (it, service)));
    let waiting = all.filter(|(change, _)| change.waits_for_room());
    waiting.map(|(change, service)| (change.place(), service)).collect()
}

/// The Services whose registrations must come before some of the changes.
fn waits_for(changes: &[Change]) -> impl Iterator<Item = &ServiceRef> {
    let waiting = changes.iter().filter_map(|change| match change {
        Change::Deregister { waits_for, .. } => waits_for.as_ref(),
        _ => None,
    });
    waiting.flat_map(|waits_for| waits_for.services())
}
