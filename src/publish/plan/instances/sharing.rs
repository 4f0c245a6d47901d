//! Services that share a name. If several of them select the same pod, its instance is registered for one of them.

use std::collections::BTreeMap;

use super::identity::Identity;
use super::present::Present;
use super::wanted::Wanted;
use crate::model::ServiceRef;

/// Assigns each instance to one of the holders, which are ordered by age.
pub fn assign_shared(all: &mut [Wanted], present: &Present) {
    let holders: Vec<ServiceRef> = all.iter().map(|wanted| wanted.holder.clone()).collect();
    for wanted in &mut *all {
        leave_out_beyond_maximum(wanted, present, &holders);
    }
    assign_each(all, present);
}

/// Removes the instances beyond the maximum from `wanted`. Registered instances have priority, unless they are marked for
/// another holder.
fn leave_out_beyond_maximum(wanted: &mut Wanted, present: &Present, holders: &[ServiceRef]) {
    let Some(maximum) = wanted.maximum else { return };
    let kept = present.kept_for([&*wanted]).into_iter();
    let kept: BTreeMap<String, &String> = kept.map(|(new_id, id)| (new_id.clone(), id)).collect();
    let mut others = holders.to_vec();
    others.retain(|holder| *holder != wanted.holder);
    let is_own = |new_id: &String| {
        let id = kept.get(new_id);
        id.is_some_and(|id| !others.iter().any(|other| present.is_marked(id, other)))
    };
    let beyond = wanted.keep_within_maximum(is_own);
    let beyond = beyond.iter().filter_map(|new_id| kept.get(new_id));
    wanted.beyond_maximum = beyond.map(|id| ((*id).clone(), maximum.set_by)).collect();
}

/// Assigns every instance to the holder it is marked for, or to the oldest that requests it. It is healthy if one of
/// them reports it healthy.
fn assign_each(all: &mut [Wanted], present: &Present) {
    let mut requesting: BTreeMap<Identity, Vec<usize>> = BTreeMap::new();
    for (index, wanted) in all.iter().enumerate() {
        for (identity, _) in wanted.instances.values() {
            requesting.entry(identity.clone()).or_default().push(index);
        }
    }
    for (identity, requesting) in requesting {
        let has = |index: &&usize| {
            let found = present.found(&identity);
            found.is_some_and(|id| present.is_marked(id, &all[**index].holder))
        };
        let keeps = *requesting.iter().find(has).unwrap_or(&requesting[0]);
        if requesting.len() > 1 {
            let stated = requesting.iter().flat_map(|index| all[*index].health_of(&identity));
            if let Some(best) = stated.min() {
                all[keeps].set_health(&identity, best);
            }
        }
        for index in requesting.into_iter().filter(|index| *index != keeps) {
            let wanted = &mut all[index];
            wanted.instances.retain(|_, (wanted, _)| *wanted != identity);
            wanted.owned_by_sharer.insert(identity.clone());
        }
    }
}
