//! The longest sentences of reasons, and phrases that several sentences share. They are separate from the reasons, so
//! that the list of those stays easy to read.

use crate::error::shorten;
use crate::model::{FirstNames, ServiceKind, without_leading_zeros};

pub(super) const DNS_NOT_ALLOWED: &str = "the function's role may not write DNS records (DNS_NAMESPACES is false), so it registers nothing in a Cloud Map service that has them; deploy with its hosted zone in HostedZoneIds";

pub(super) const ENDPOINTS_TRUNCATED: &str = "the cluster lists only a part of the endpoints (endpoints.kubernetes.io/over-capacity: truncated): those are registered, and none is deregistered";

/// The reason why a name that some Services would share is not shared.
pub(super) fn not_shared(alone: Option<&FirstNames>) -> String {
    alone.map_or_else(String::new, |alone| {
        format!(
            "; it would be shared if every Service that claims it had claim: shared; without it: {alone}"
        )
    })
}

/// An address that is not written as one, and the form that would be right.
pub(super) fn malformed_address(text: &str) -> String {
    let right = match without_leading_zeros(text) {
        Some(meant) => format!("leading zeros have several meanings; write it as {meant}"),
        None => "write an address such as 10.1.0.5 or fd00::5".to_owned(),
    };
    format!("{:?} is not published: it is not written as an IP address: {right}", shorten(text))
}

/// The records that an empty service of ours has and should have, and the way to them.
pub(super) fn records_misfit(fitting: ServiceKind, delete: Option<&str>) -> String {
    let deleted = match delete {
        Some(command) => format!("it is empty, so delete it: {command}"),
        None => {
            "a full sync of all clusters deletes it, unless another one claims the name".to_owned()
        }
    };
    format!(
        "this Cloud Map service, which the function created, has A+AAAA records, and no endpoint has addresses of both \
         families: {deleted}; the next sync then creates it with {fitting} records"
    )
}

/// The time of the next attempt for a registration without capacity, and the instance that stays until then.
pub(super) fn until_next(old: Option<&String>) -> String {
    match old {
        Some(old) => format!(
            "the instance under the former name {old} stays until one is registered under this name, which every run tries again"
        ),
        None => "the next run tries again".to_owned(),
    }
}

/// The number of instances that stay, as a phrase.
pub(super) fn stay(instances: usize) -> String {
    if instances == 1 {
        "1 instance stays".to_owned()
    } else {
        format!("{instances} instances stay")
    }
}
