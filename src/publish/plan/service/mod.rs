//! Changes to the Cloud Map service itself: created with its first instance and, if needed, its namespace; the TTL of
//! its records kept as annotated; deleted when no Service needs it. Only a service with our tag is changed, and tags
//! are read only for the services that [`tags_needed`] returns.

mod create;
mod delete;
mod namespace;
mod shared;
mod ttl;
mod update;

use std::collections::{BTreeMap, BTreeSet};

use super::{Basis, Holders, Observation, Reason};
use crate::model::{CloudMapService, Records, ServiceKey, ServiceKind, Tags};

pub use create::{fits, new_service};
pub use delete::{Claimed, Leaving, Verdict, deletable, verdict};
pub use shared::overridden_settings;
pub use update::{remarks, update};

/// The Cloud Map services of which a plan needs the tags: those that get our first instance and may be managed by ECS
/// Service Connect, which uses HTTP services only, those with differences that an update could change, and those that may
/// have to be created anew.
pub fn tags_needed(basis: Basis<'_>) -> BTreeSet<ServiceKey> {
    let Basis { observation, holders, affected } = basis;
    let held = holders.held().filter(|(_, holder)| affected.contains(*holder));
    let needed = held.filter(|(key, holder)| {
        let Some(service) = observation.registry.services.get(key) else { return false };
        let claims = observation.desired.claims(holder);
        let first = service.kind == ServiceKind::Http && !has_ours(observation, key);
        let decides = holders.holder(key) == Some(*holder);
        let owner = &observation.owner;
        let differs = |claims| update::depends_on_tags(service, claims, owner);
        let misfits = || service.held() == 0 && create::may_misfit(observation, service, holder);
        first || decides && claims.is_some_and(differs) || misfits()
    });
    needed.map(|(key, _)| key.clone()).collect()
}

/// The TTL that the cluster requests under every name it holds; no entry if it requests none.
pub fn ttls_asked(
    observation: &Observation,
    holders: &Holders,
) -> BTreeMap<ServiceKey, Option<u32>> {
    let asked = holders.keys().filter_map(|key| {
        Some((key.clone(), observation.desired.claims(holders.holder(key)?)?.ttl))
    });
    asked.collect()
}

/// Whether the claims of every Service are known.
pub fn is_clear(observation: &Observation) -> bool {
    observation.desired.services.values().all(|service| service.claims.is_ok())
}

/// Whether an instance of ours is registered under the key.
pub fn has_ours(observation: &Observation, key: &ServiceKey) -> bool {
    observation.ours(key).next().is_some()
}

/// Whether instances of ours may be registered in an existing service.
///
/// # Errors
/// Returns the reason if no instance can be registered there.
pub fn may_register_in(
    service: &CloudMapService,
    key: &ServiceKey,
    observation: &Observation,
) -> Result<(), Reason> {
    if let Some(problem) = &service.unreadable {
        return Err(Reason::Unreadable(problem.clone()));
    }
    if service.instances.is_none() {
        return Err(Reason::Unreadable("they were not requested".to_owned()));
    }
    if matches!(service.kind, ServiceKind::Dns(Records { cname: true, .. })) {
        return Err(Reason::CnameService);
    }
    match &service.tags {
        _ if service.kind != ServiceKind::Http || has_ours(observation, key) => Ok(()),
        Tags::Read { managed_by_ecs: true, .. } => Err(Reason::ServiceConnect),
        // It is unknown whether ECS manages the service.
        Tags::Unreadable(problem) => Err(Reason::Unreadable(problem.clone())),
        Tags::Read { .. } | Tags::Unread => Ok(()),
    }
}

/// The reason why every registration in a service of this kind would fail; `None` if registrations can succeed.
pub fn refusal(observation: &Observation, kind: ServiceKind) -> Option<Reason> {
    let has_records = matches!(kind, ServiceKind::Dns(_));
    (has_records && observation.rules.lacks_dns_rights).then_some(Reason::DnsNotAllowed)
}
