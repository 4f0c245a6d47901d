//! Checks the rights in Cloud Map and Route 53. The client records the last outcome of each kind of call during the
//! plan, and each kind gets one check. Reads that only some runs need are made once here, on an existing service or
//! with an id that does not exist: either shows whether IAM allows the call. Writes are not tested, since a test would
//! change something. Instead a check prints commands that simulate the writes in IAM. The commands contain the resource
//! and the context of the request, without which IAM denies every action of a role with conditional permissions.
//!
//! A plan holds back Services that request DNS records without rights in Route 53, and a check names these Services
//! before the first sync. The rights for Route 53 health checks come from a separate stack, and no setting shows
//! whether it is deployed.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Check, passed};
use crate::cloud_map::{Call, CloudMap, OWNER_TAG as TAG, ReadOutcomes};
use crate::model::{
    CloudMapService, FirstNames, NamespaceKind, Place, Registry, ServiceKey, join, join_first,
};
use crate::publish::observe::SharedRegistry;
use crate::publish::plan::{Plan, Reason};
use crate::settings::Settings;

pub(super) const NAME: &str = "cloud map";
/// An id that no instance and no operation has.
const ABSENT_ID: &str = "cloud-map-sync-doctor";
/// The timeout for `GetOperation`.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Reads Cloud Map. Returns `None` if its namespaces and services could not be listed.
pub(super) async fn read(registry: &SharedRegistry, checks: &mut Vec<Check>) -> Option<Registry> {
    let fix = "the function's role, or registryRoleArn, needs servicediscovery:ListNamespaces and ListServices in the registry's Region";
    let read = passed(registry.read().await, NAME, fix, checks)?;
    let namespaces = read.namespaces.len();
    let listed = format!("lists {namespaces} namespaces and {} services", read.services.len());
    checks.push(match namespaces {
        0 => Check::note(NAME, listed, "check Region, account and CLOUD_MAP_NAMESPACES"),
        _ => Check::ok(NAME, listed),
    });
    Some(read)
}

/// Adds a check for each Cloud Map service that a full sync could not read.
pub(super) fn check_unread(plan: &Plan, checks: &mut Vec<Check>) {
    let claimed = plan.held_back.iter().filter_map(|held_back| match &held_back.reason {
        Reason::Unreadable(problem) => Some((held_back.place.as_ref()?, problem)),
        _ => None,
    });
    let others = plan
        .unchanged
        .iter()
        .filter_map(|(place, unchanged)| Some((place, unchanged.unreadable.as_ref()?)));
    let failed: BTreeSet<(&Place, &String)> = claimed.chain(others).collect();
    for (place, problem) in failed {
        let fix = "the function's role, or registryRoleArn, needs servicediscovery:ListInstances for it; until then each full sync is incomplete";
        checks.push(Check::failed(NAME, format!("{place}: {problem}"), fix));
    }
    for (place, unchanged) in &plan.unchanged {
        if let Some(problem) = &unchanged.left_unread {
            let fix = "if it may contain instances of this installation, allow the role to list them; otherwise remove its namespace from CLOUD_MAP_NAMESPACES";
            checks.push(Check::note(NAME, format!("{place}: {problem}"), fix));
        }
    }
}

/// The service to test reads on: preferably one with instances, otherwise one that could be read. A service that could
/// not be read may belong to another owner.
fn service_to_read(read: &Registry) -> Option<(&ServiceKey, &CloudMapService)> {
    read.services.iter().max_by_key(|(_, service)| {
        let has_instances =
            service.instances.as_ref().is_some_and(|instances| !instances.is_empty());
        (has_instances, service.unreadable.is_none())
    })
}

/// Makes each kind of read that has no recorded outcome yet.
pub(super) async fn make_remaining_reads(cloud_map: &CloudMap, read: &Registry, dry_run: bool) {
    let answers = cloud_map.outcomes();
    let has_no_outcome = |call: Call| !answers.contains_key(&call);
    if let Some((key, service)) = service_to_read(read) {
        if has_no_outcome(Call::ListInstances) {
            _ = cloud_map.instances(&service.arn, &service.name).await;
        }
        if has_no_outcome(Call::ListTagsForResource) {
            _ = cloud_map.tags(&service.arn).await;
        }
        if has_no_outcome(Call::GetService) {
            _ = cloud_map.namespace_of(service).await;
        }
        if has_no_outcome(Call::GetInstance) {
            let present = service.instances.iter().flat_map(|instances| instances.keys()).next();
            let id = present.map_or(ABSENT_ID, String::as_str);
            cloud_map
                .read_instances_by_id(&mut service.clone(), &BTreeSet::from([id.to_owned()]))
                .await;
        }
        if let Some(namespace) = read.namespaces.get(&key.namespace)
            && has_no_outcome(Call::DiscoverInstances)
        {
            _ = cloud_map.discover(namespace, &service.name).await;
        }
    }
    if !dry_run {
        let until = tokio::time::Instant::now() + TIMEOUT;
        let kind = (Call::RegisterInstance, NamespaceKind::Http);
        _ = cloud_map.wait(ABSENT_ID, kind, None, until).await;
    }
}

/// Adds a check for each kind of call that was made, and one for the writes.
pub(super) fn check_calls(
    answers: ReadOutcomes,
    read: &Registry,
    settings: &Settings,
    checks: &mut Vec<Check>,
) {
    let found = service_to_read(read);
    if found.is_none() {
        let detail = "no service exists yet, so the reads of services are not tested";
        checks.push(Check::note(NAME, detail, "run doctor again after the first sync"));
    }
    add_answers(answers, checks);
    checks.push(if settings.dry_run {
        Check::ok(NAME, "DRY_RUN is true: no write permissions are needed")
    } else {
        let actions = [&ON_INSTANCES[..], &ON_SERVICES].concat().join(", ");
        let detail = format!("not tested, since a test would change something: {actions}");
        Check::note(NAME, detail, simulations(read, found, settings))
    });
}

/// Adds a check for each outcome. An error that an earlier check reports is not repeated.
fn add_answers(answers: ReadOutcomes, checks: &mut Vec<Check>) {
    for (call, answer) in answers {
        match answer {
            // `read` has already added the check of the lists.
            Ok(()) if matches!(call, Call::ListNamespaces | Call::ListServices) => {}
            Ok(()) => checks.push(Check::ok(NAME, format!("{call} is allowed"))),
            Err(problem) if checks.iter().any(|check| check.detail.contains(&problem)) => {}
            Err(problem) => checks.push(check_failed_call(call, problem)),
        }
    }
}

/// The check of a call that failed: failed if a sync needs the call, otherwise a note.
fn check_failed_call(call: Call, problem: String) -> Check {
    let needed_by = match call {
        Call::GetService => "it only shortens runs with many namespaces",
        Call::DiscoverInstances => "only the action explain needs this",
        // IAM checks the operation's namespace. The tested operation has none, which alone may cause the denial.
        Call::GetOperation => "it matters if registrations are also denied",
        _ => {
            let fix =
                format!("the function's role, or registryRoleArn, needs servicediscovery:{call}");
            return Check::failed(NAME, problem, fix);
        }
    };
    Check::note(NAME, problem, format!("{needed_by}: allow the role servicediscovery:{call}"))
}

/// The maximum number of Services that the check names.
const NAMED: usize = 10;

/// A note that names the Cloud Map services of the plan with Route 53 health checks, if any.
pub(super) fn note_health_checks(plan: &Plan, registry: &Registry) -> Option<Check> {
    let is_checked = |place: &&Place| {
        registry.services.get(&place.key).is_some_and(|service| service.health_check.is_some())
    };
    let checked: Vec<&Place> = plan.unchanged.keys().filter(is_checked).collect();
    let names = FirstNames::of(&checked)?;
    let detail = format!(
        "{names}: Cloud Map makes a Route 53 health check for each instance, in the function's name"
    );
    let fix = "if it has no stack of deploy/health-checks.yaml yet, deploy one";
    Some(Check::note(NAME, detail, fix))
}

/// A failed check that names the Services without rights to write their DNS records, if any.
pub(super) fn check_dns_rights(plan: &Plan) -> Option<Check> {
    let without_rights = plan.held_back.iter().filter(|line| line.reason == Reason::DnsNotAllowed);
    let without_rights = without_rights.map(|line| {
        let place = line.place.as_ref().map(Place::to_string).unwrap_or_default();
        format!("{} {place}", line.service)
    });
    let without_rights = join_first(without_rights, NAMED);
    let detail = format!("{without_rights}: no rights to write DNS records (DNS_NAMESPACES)");
    let fix = "deploy with their hosted zones in HostedZoneIds, or use an HTTP namespace";
    (!without_rights.is_empty()).then(|| Check::failed(NAME, detail, fix))
}

/// Actions on the instances of a service. A role may require the service's tag.
const ON_INSTANCES: [&str; 2] = ["RegisterInstance", "DeregisterInstance"];
/// Actions that create a service with its tag. IAM also evaluates its namespace.
const ON_SERVICES: [&str; 2] = ["CreateService", "TagResource"];

/// Returns the commands for an existing service and its namespace, or for all services of the registry if none exists.
fn simulations(
    registry: &Registry,
    found: Option<(&ServiceKey, &CloudMapService)>,
    settings: &Settings,
) -> String {
    let owner_id = &settings.owner_id;
    let in_use = found.and_then(|(key, _)| registry.namespaces.get(&key.namespace));
    let namespace = in_use.or_else(|| registry.namespaces.values().next());
    let namespace =
        namespace.and_then(|namespace| namespace.arn.as_deref()).unwrap_or("NAMESPACE_ARN");
    let service = found.map(|(_, service)| service.arn.clone());
    let service = service.unwrap_or_else(|| match namespace.split_once(":namespace/") {
        Some((registry, _)) => format!("{registry}:service/*"),
        None => "SERVICE_ARN".to_owned(),
    });
    let entry = |key: &str, kind: &str, value: &str| {
        format!("ContextKeyName={key},ContextKeyType={kind},ContextKeyValues={value}")
    };
    let present = entry(&format!("aws:ResourceTag/{TAG}"), "string", owner_id);
    let custom = settings.create_tags.keys().map(String::as_str);
    let keys = join([TAG].into_iter().chain(custom), ",");
    let created = [
        entry(&format!("aws:RequestTag/{TAG}"), "string", owner_id),
        entry("aws:TagKeys", "stringList", &keys),
        entry("aws:RequestedRegion", "string", namespace.split(':').nth(3).unwrap_or("REGION")),
        entry("servicediscovery:NamespaceArn", "string", namespace),
    ];
    let on_instances = command(&ON_INSTANCES, &service, &present);
    let resources = format!("{namespace} {service}");
    format!("{on_instances} && {}", command(&ON_SERVICES, &resources, &created.join(" ")))
}

fn command(actions: &[&str], resources: &str, context: &str) -> String {
    let actions = join(actions.iter().map(|action| format!("servicediscovery:{action}")), " ");
    format!(
        "aws iam simulate-principal-policy --policy-source-arn ROLE_ARN --action-names {actions} --resource-arns {resources} --context-entries {context}"
    )
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
