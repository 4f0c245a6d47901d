//! Several Services that share a name. An instance that more than one of them asks for, since they select the same
//! pods, is registered for one of them.

use std::collections::BTreeMap;

use super::identity::Identity;
use super::present::Present;
use super::wanted::Wanted;
use crate::model::ServiceRef;

/// Leaves each of `all`, who are in the order of age, the instances that it may have registered.
pub fn assign_shared(all: &mut [Wanted], present: &Present) {
    let holders: Vec<ServiceRef> = all.iter().map(|wanted| wanted.holder.clone()).collect();
    for wanted in &mut *all {
        leave_out_beyond_maximum(wanted, present, &holders);
    }
    assign_each(all, present);
}

/// Takes out of `wanted` what is beyond its maximum. What is kept for it comes first, unless that is marked for
/// another one of the holders.
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

/// Leaves every instance to one of those that ask for it: to the one it is marked for, else to the oldest. It is healthy
/// if one of them says so.
fn assign_each(all: &mut [Wanted], present: &Present) {
    let mut asking: BTreeMap<Identity, Vec<usize>> = BTreeMap::new();
    for (index, wanted) in all.iter().enumerate() {
        for (identity, _) in wanted.instances.values() {
            asking.entry(identity.clone()).or_default().push(index);
        }
    }
    for (identity, asking) in asking {
        let has = |index: &&usize| {
            let found = present.found(&identity);
            found.is_some_and(|id| present.is_marked(id, &all[**index].holder))
        };
        let keeps = *asking.iter().find(has).unwrap_or(&asking[0]);
        if asking.len() > 1 {
            let stated = asking.iter().flat_map(|index| all[*index].health_of(&identity));
            if let Some(best) = stated.min() {
                all[keeps].set_health(&identity, best);
            }
        }
        for index in asking.into_iter().filter(|index| *index != keeps) {
            let wanted = &mut all[index];
            wanted.instances.retain(|_, (wanted, _)| *wanted != identity);
            wanted.owned_by_sharer.insert(identity.clone());
        }
    }
}
