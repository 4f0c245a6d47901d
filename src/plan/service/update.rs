//! What an existing service says otherwise than its holder's annotations. The TTL of its records is
//! repaired where the service carries our tag, and told where it does not; the rest is fixed when a
//! service is created, and only told.

use std::collections::BTreeSet;
use std::fmt;

use crate::model::{
    Claims, CloudMapService, HealthCheck, NamespaceKind, Owner, Records, ServiceKind, Tags,
};
use crate::plan::Setting;

/// A new TTL for the records of a service, with all that would be deleted if it were not said again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUpdate {
    /// The service's description.
    pub description: Option<String>,
    /// Its records.
    pub records: Records,
    /// Their new TTL in seconds.
    pub ttl: u32,
    /// Its Route 53 health check.
    pub health_check: Option<HealthCheck>,
    /// The TTLs that its records have.
    pub present: BTreeSet<u32>,
}

impl fmt::Display for ServiceUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ttl {} -> {}", seconds(&self.present), self.ttl)
    }
}

/// Whether an update would change something. Without the annotation there is no difference.
pub fn differs(service: &CloudMapService, claims: &Claims) -> bool {
    let known = matches!(service.kind, ServiceKind::Dns(_)) && !service.ttls.is_empty();
    known && claims.ttl.is_some_and(|ttl| service.ttls != BTreeSet::from([ttl]))
}

/// The update that a service needs.
///
/// # Errors
/// The reason for which it is left as it is.
pub fn update(
    service: &CloudMapService,
    claims: &Claims,
    owner: &Owner,
) -> Result<Option<ServiceUpdate>, Setting> {
    let (ServiceKind::Dns(records), Some(ttl)) = (service.kind, claims.ttl) else {
        return Ok(None);
    };
    if !differs(service, claims) {
        return Ok(None);
    }
    let present = service.ttls.clone();
    match &service.tags {
        Tags::Unreadable(problem) => Err(Setting::TagsUnreadable(problem.clone())),
        _ if !service.is_tagged(&owner.id) => {
            Err(Setting::TtlNotOurs { present: seconds(&present), wanted: ttl })
        }
        _ if service.registered_by.len() > 1 => {
            let holds = "it holds instances that other accounts registered";
            Err(Setting::UpdateRefused(holds.to_owned()))
        }
        _ => Ok(Some(ServiceUpdate {
            description: service.description.clone(),
            records,
            ttl,
            health_check: service.health_check.clone(),
            present,
        })),
    }
}

/// What of a service cannot be changed any more and is not what its holder seems to expect.
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

fn seconds(ttls: &BTreeSet<u32>) -> String {
    let texts: Vec<String> = ttls.iter().map(u32::to_string).collect();
    texts.join(" and ")
}
