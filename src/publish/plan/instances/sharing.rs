//! Services that share a name. If several of them select the same pod, its instance is registered for one of them.

use std::collections::{BTreeMap, BTreeSet};

use super::health;
use super::identity::Identity;
use super::present::Present;
use super::wanted::Wanted;
use crate::model::ServiceRef;

/// Assigns each instance to one of the holders, which are ordered by age.
pub fn assign_shared(all: &mut [Wanted], present: &Present) {
    let holders: BTreeSet<ServiceRef> = all.iter().map(|wanted| wanted.holder.clone()).collect();
    for wanted in &mut *all {
        leave_out_beyond_maximum(wanted, present, &holders);
    }
    assign_each(all, present);
}

/// Removes the instances beyond the maximum from `wanted`. Registered instances have priority, unless they are marked for
/// another holder.
fn leave_out_beyond_maximum(
    wanted: &mut Wanted,
    present: &Present,
    holders: &BTreeSet<ServiceRef>,
) {
    let Some(maximum) = wanted.maximum else { return };
    let kept = present.kept_for([&*wanted]).into_iter();
    let kept: BTreeMap<String, &String> = kept.map(|(new_id, id)| (new_id.clone(), id)).collect();
    let holder = wanted.holder.clone();
    let is_own = |new_id: &String| {
        kept.get(new_id).is_some_and(|id| {
            present.marked(id).is_none_or(|it| it == holder || !holders.contains(&it))
        })
    };
    let beyond = wanted.keep_within_maximum(is_own);
    let beyond = beyond.iter().filter_map(|new_id| kept.get(new_id));
    wanted.beyond_maximum = beyond.map(|id| ((*id).clone(), maximum.set_by)).collect();
}

/// Assigns every instance to the holder it is marked for, or to the oldest that requests it. It is healthy if one of
/// them reports it healthy.
fn assign_each(all: &mut [Wanted], present: &Present) {
    // Each holder by its place, with the id under which it requests the instance.
    let mut requesting: BTreeMap<Identity, Vec<(usize, String)>> = BTreeMap::new();
    for (index, wanted) in all.iter().enumerate() {
        for (id, (identity, _)) in &wanted.instances {
            requesting.entry(identity.clone()).or_default().push((index, id.clone()));
        }
    }
    requesting.retain(|_, requesting| requesting.len() > 1);
    for (identity, requesting) in requesting {
        let has = |(index, _): &(usize, String)| {
            let found = present.found(&identity);
            found.is_some_and(|id| present.is_marked(id, &all[*index].holder))
        };
        let keeps = requesting.iter().position(has).unwrap_or(0);
        let stated = requesting.iter().filter_map(|(index, id)| all[*index].instances.get(id));
        let best = stated.map(|(_, attributes)| health::initial(attributes)).min();
        for (place, (index, id)) in requesting.into_iter().enumerate() {
            let wanted = &mut all[index];
            if place != keeps {
                wanted.instances.remove(&id);
                wanted.owned_by_sharer.insert(identity.clone());
            } else if let (Some(best), Some((_, attributes))) =
                (best, wanted.instances.get_mut(&id))
            {
                health::set_initial(attributes, best);
            }
        }
    }
}
