//! The rights in Route 53. A plan holds back the Services that request DNS records without them, and this check names
//! the Services before the first sync. Rights for health checks are given apart, and no setting has them.

use super::Check;
use crate::model::{FirstNames, Place, Registry};
use crate::publish::plan::{Plan, Reason};

/// The number of Services that the check names.
const NAMED: usize = 10;

/// A note that names the services of the plan with Route 53 health checks, if any.
pub(super) fn note_health_checks(plan: &Plan, registry: &Registry) -> Option<Check> {
    let is_checked = |place: &&Place| {
        registry.services.get(&place.key).is_some_and(|it| it.health_check.is_some())
    };
    let checked: Vec<&Place> = plan.unchanged.keys().filter(is_checked).collect();
    let names = FirstNames::of(&checked)?;
    let detail = format!(
        "{names}: Cloud Map makes a Route 53 health check for each instance, in the function's name"
    );
    let fix = "if it has no stack of deploy/health-checks.yaml yet, deploy one";
    Some(Check::note("cloud map", detail, fix))
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CloudMapService, HealthCheck, ServiceKey, ServiceKind};

    #[test]
    fn services_of_the_plan_with_health_checks_are_named() {
        let key = |name: &str| ServiceKey { namespace: "ns-1".to_owned(), name: name.to_owned() };
        let mut registry = Registry::default();
        let mut plan = Plan::default();
        for (name, is_checked, is_planned) in
            [("web", true, true), ("cart", false, true), ("of-others", true, false)]
        {
            let check = HealthCheck { kind: "TCP".into(), path: None, threshold: None };
            let service = CloudMapService {
                health_check: is_checked.then_some(check),
                ..CloudMapService::created("arn".to_owned(), name, ServiceKind::Http)
            };
            registry.services.insert(key(name), service);
            if is_planned {
                plan.unchanged.entry(Place::of(&key(name), &registry)).or_default();
            }
        }
        let note = note_health_checks(&plan, &registry).expect("a note").to_string();
        assert!(note.contains(" ns-1/web: ") && !note.contains("cart"), "{note}");
        assert!(note.contains("deploy/health-checks.yaml"), "{note}");
        assert_eq!(note_health_checks(&Plan::default(), &registry), None);
    }
}
