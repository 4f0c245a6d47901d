//! The rights that Cloud Map uses in Route 53 in the caller's name: the call is accepted, and its operation fails with
//! `ACCESS_DENIED`.

use super::play::{Case, denied, one_less, one_more};
use crate::worlds::faults::situation::Situation;
use testbed::cloud_map::FaultKind;

pub const RIGHTS: [&str; 7] = [
    "route53:ChangeResourceRecordSets",
    "route53:GetHostedZone",
    "route53:ListHostedZonesByName",
    "route53:CreateHealthCheck",
    "route53:GetHealthCheck",
    "route53:UpdateHealthCheck",
    "route53:DeleteHealthCheck",
];

fn situations() -> [(&'static str, Situation, &'static str); 3] {
    [
        ("RegisterInstance", one_more(), "10-0-1-3"),
        ("DeregisterInstance", one_less(), "10-0-1-2"),
        ("UpdateService", Situation::ttl(), "prod.local/pay"),
    ]
}

#[test]
fn right_in_route_53_that_is_denied_when_the_operation_is_carried_out() {
    // Which right an operation needs is Cloud Map's affair: each is refused to one operation, and several to each.
    let cases = RIGHTS.into_iter().enumerate().map(|(index, right)| {
        let at = index % situations().len();
        let (operation, situation, thing) = situations().into_iter().nth(at).expect("one of them");
        let kind = FaultKind::OperationDenied(right);
        Case::of_fault(right.to_owned(), operation, kind, situation, thing)
    });
    denied(&cases.collect::<Vec<_>>());
}

/// Cloud Map's text names the right as far as is known. If it does not, the line has the way to mend it all the same.
#[test]
fn refusal_of_route_53_names_the_setting_that_gives_the_rights() {
    let cases = situations().map(|(operation, situation, thing)| {
        let kind = FaultKind::OperationFails("ACCESS_DENIED");
        Case::of_fault("HostedZoneIds".to_owned(), operation, kind, situation, thing)
    });
    denied(&cases);
}
