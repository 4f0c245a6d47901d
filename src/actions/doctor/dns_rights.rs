//! Whether Services ask for DNS records that the function's role may not write, as the plan holds them back.

use super::Check;
use crate::model::Place;
use crate::publish::plan::{Plan, Reason};

/// How many Services a check names.
const NAMED: usize = 10;

/// A failure that names the Services, if there are any.
pub(super) fn check(plan: &Plan) -> Option<Check> {
    let refused = plan.held_back.iter().filter(|it| it.reason == Reason::DnsNotAllowed);
    let refused: Vec<String> = refused
        .map(|it| {
            let place = it.place.as_ref().map(Place::to_string).unwrap_or_default();
            format!("{} {place}", it.service)
        })
        .collect();
    let (first, more) = refused.split_at(refused.len().min(NAMED));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    let said = format!("{}{more}: no rights to DNS records (DNS_NAMESPACES)", first.join(", "));
    let fix = "deploy with DnsNamespaces=yes, or choose an HTTP namespace";
    (!refused.is_empty()).then(|| Check::failed("cloud map", said, fix))
}
