//! Several Services that share a name. What more than one of them asks for, since they select the same
//! pods, is one instance; what is one for all of them, the oldest decides.

use std::collections::BTreeMap;

use super::identity::Identity;
use super::maximum::SetBy;
use super::present::Present;
use super::wanted::Wanted;
use crate::model::{Claims, ServiceKey, ServiceKind, ServiceRef};
use crate::plan::service::new_service;
use crate::plan::{Observation, Reason, Setting};

/// Leaves each of `all`, who are in the order of age, what it may have registered, and says which of ours
/// are beyond its maximum.
pub fn apportion(all: &mut [Wanted], present: &Present) -> Vec<BTreeMap<String, SetBy>> {
    let holders: Vec<ServiceRef> = all.iter().map(|wanted| wanted.holder.clone()).collect();
    let beyond = all.iter_mut().map(|wanted| present.beyond_maximum(wanted, &holders));
    let beyond = beyond.collect();
    share_out(all, present);
    beyond
}

/// Leaves every instance to one of those that ask for it: to the one it is marked for, else to the
/// oldest.
fn share_out(all: &mut [Wanted], present: &Present) {
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
        for index in asking.into_iter().filter(|index| *index != keeps) {
            let wanted = &mut all[index];
            wanted.instances.retain(|_, (wanted, _)| *wanted != identity);
            wanted.ceded.insert(identity.clone());
        }
    }
}

/// What `oldest` decides otherwise than `service`, which shares the name with it, asks for.
pub fn outvoted(
    observation: &Observation,
    key: &ServiceKey,
    service: &ServiceRef,
    oldest: &ServiceRef,
) -> Option<Reason> {
    let (decided, asked) = match observation.registry.services.get(key) {
        Some(existing) if existing.kind == ServiceKind::Http => return None,
        Some(_) => {
            let ttl = |service: &ServiceRef| claims(observation, service)?.ttl;
            let asked = format!("a TTL of {} s", ttl(service)?);
            let decided = ttl(oldest).map(|ttl| format!("a TTL of {ttl} s"));
            (decided.unwrap_or_else(|| "the TTL that the service has".to_owned()), asked)
        }
        None => {
            let new = |service| new_service(observation, key, service).map(|new| new.to_string());
            (new(oldest)?, new(service)?)
        }
    };
    let oldest = oldest.clone();
    (decided != asked).then_some(Setting::SharedName { oldest, decided, asked }.into())
}

fn claims<'a>(observation: &'a Observation, service: &ServiceRef) -> Option<&'a Claims> {
    observation.desired.services.get(service)?.claims.as_ref().ok()
}
