//! Differences between an existing service and its holder's annotations. The TTL of its records is repaired if the
//! service has our tag, and reported otherwise. All other settings are fixed when a service is created, and are only
//! reported.

use super::ttl::Ttl;
use crate::model::{
    Claims, CloudMapService, NamespaceKind, Owner, ServiceKind, ServiceUpdate, Tags, seconds,
};
use crate::publish::plan::{Note, Setting};

/// Whether an update of a service, or a remark on it, depends on its tags.
pub fn depends_on_tags(service: &CloudMapService, claims: &Claims, owner: &Owner) -> bool {
    let ttl = Ttl::of(service, claims, owner);
    ttl.is_some_and(|ttl| ttl.differs_from_own() || ttl.change().is_some())
}

/// The update that a service needs, and remarks on it.
///
/// # Errors
/// Returns the reason if the service must stay as it is.
pub fn update(
    service: &CloudMapService,
    claims: &Claims,
    owner: &Owner,
) -> Result<(Option<ServiceUpdate>, Option<Note>), Setting> {
    let ttl = Ttl::of(service, claims, owner);
    let ttl = ttl.filter(|ttl| ttl.differs_from_own() || ttl.change().is_some());
    let (ServiceKind::Dns(records), Some(ttl)) = (service.kind, ttl) else {
        return Ok((None, None));
    };
    let present = service.ttls.clone();
    match (&service.tags, claims.ttl) {
        (Tags::Unreadable(problem), _) => return Err(Setting::TagsUnreadable(problem.clone())),
        (_, Some(wanted)) if !service.is_tagged(&owner.id) => {
            return Err(Setting::TtlNotOurs { present: seconds(&present), wanted });
        }
        _ if !service.is_tagged(&owner.id) => return Ok((None, None)),
        _ => {}
    }
    let change = ttl.change();
    if change.is_some() && service.holds_instances_of_other_accounts() {
        let holds = "it holds instances that other accounts registered";
        return Err(Setting::UpdateRefused(holds.to_owned()));
    }
    let note = ttl.note(change);
    let update = change.map(|ttl| ServiceUpdate {
        description: service.description.clone(),
        records,
        ttl,
        health_check: service.health_check.clone(),
        present,
    });
    Ok((update, note))
}

/// The settings of a service that are fixed and differ from the annotations of its holder.
pub fn remarks(
    service: &CloudMapService,
    namespace: NamespaceKind,
    claims: &Claims,
) -> Vec<Setting> {
    let mut remarks = Vec::new();
    if (namespace, service.kind) == (NamespaceKind::Dns, ServiceKind::Http) {
        remarks.push(Setting::NotInDns);
    }
    if let (Some(present), Some(wanted)) = (service.routing_policy, claims.routing_policy)
        && present != wanted
    {
        remarks.push(Setting::RoutingPolicyFixed { present, wanted });
    }
    remarks
}
