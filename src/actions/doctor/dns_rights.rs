//! The Services that request DNS records without the function's right to write them. The plan holds them back; this
//! check names them before the first sync.

use super::Check;
use crate::model::Place;
use crate::publish::plan::{Plan, Reason};

/// The number of Services that the check names.
const NAMED: usize = 10;

/// A failed check that names the Services, if any.
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
    let detail =
        format!("{}{more}: no rights to write DNS records (DNS_NAMESPACES)", first.join(", "));
    let fix = "deploy with their hosted zones in HostedZoneIds, or use an HTTP namespace";
    (!refused.is_empty()).then(|| Check::failed("cloud map", detail, fix))
}
