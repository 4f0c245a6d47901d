//! The rights in Cloud Map and Route 53. Each Cloud Map action that a sync reads with is called once, on an existing service
//! or with an id that does not exist: both show whether IAM allows it. Writes are not tested, since a test would change
//! something: there are commands that simulate them in IAM. IAM evaluates the resource and the request's context, so the
//! commands contain both: without them it denies every action of a role with conditional permissions.
//!
//! A plan holds back the Services that request DNS records without rights in Route 53, and a check names them before the
//! first sync. Rights for health checks are given apart, and no setting has them.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Check, passed};
use crate::cloud_map::{self, Call, CloudMap, OWNER_TAG as TAG};
use crate::error::chain;
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

/// Checks each action. `None` if namespaces and services could not be listed.
pub(super) async fn check(
    registry: &SharedRegistry,
    settings: &Settings,
    checks: &mut Vec<Check>,
) -> Option<()> {
    let fix = "the function's role, or registryRoleArn, needs servicediscovery:ListNamespaces and ListServices in the registry's Region";
    let read = passed(registry.read().await, NAME, fix, checks)?;
    let (namespaces, services) = (read.namespaces.len(), read.services.len());
    let listed = format!("lists {namespaces} namespaces and {services} services");
    checks.push(match namespaces {
        0 => Check::note(NAME, listed, "check Region, account and CLOUD_MAP_NAMESPACES"),
        _ => Check::ok(NAME, listed),
    });
    let found = service_to_check(&read);
    match found {
        Some((key, service)) => {
            check_service(&registry.cloud_map, &read, key, service, checks).await;
        }
        None => checks.push(Check::note(
            NAME,
            "no service exists yet, so the reads of services are not tested",
            "run doctor again after the first sync",
        )),
    }
    let simulation = simulations(&read, found, settings);
    checks.extend(check_writes(&registry.cloud_map, settings.dry_run, simulation).await);
    Some(())
}

/// The service that tests the most reads: an unreadable one first, then one with instances. A service with access
/// denied comes last, since it may belong to another owner; `check_unread` decides that from the plan.
fn service_to_check(read: &Registry) -> Option<(&ServiceKey, &CloudMapService)> {
    let has_instances = |service: &CloudMapService| {
        service.instances.as_ref().is_some_and(|instances| !instances.is_empty())
    };
    read.services.iter().max_by_key(|(_, service)| {
        let is_broken = service.unreadable.is_some() && !service.is_denied;
        (is_broken, has_instances(service))
    })
}

/// Adds the services that a full sync could not read, except those already reported.
pub(super) fn check_unread(plan: &Plan, checks: &mut Vec<Check>) {
    let claimed = plan.held_back.iter().filter_map(|held_back| match &held_back.reason {
        Reason::Unreadable(problem) => Some((held_back.place.as_ref()?, problem)),
        _ => None,
    });
    let others =
        plan.unchanged.iter().filter_map(|(place, it)| Some((place, it.unreadable.as_ref()?)));
    let failed: BTreeSet<(&Place, &String)> = claimed.chain(others).collect();
    for (place, problem) in failed {
        if checks.iter().all(|check| check.detail != *problem) {
            let fix = "the function's role, or registryRoleArn, needs servicediscovery:ListInstances for it; until then each full sync is incomplete";
            checks.push(Check::failed(NAME, format!("{place}: {problem}"), fix));
        }
    }
    for (place, unchanged) in &plan.unchanged {
        if let Some(problem) = &unchanged.left_unread {
            let fix = "if it may contain instances of this installation, allow the role to list them; otherwise remove its namespace from CLOUD_MAP_NAMESPACES";
            checks.push(Check::note(NAME, format!("{place}: {problem}"), fix));
        }
    }
}

/// Checks each read of one service.
async fn check_service(
    cloud_map: &CloudMap,
    read: &Registry,
    key: &ServiceKey,
    service: &CloudMapService,
    checks: &mut Vec<Check>,
) {
    let (mut again, keys) = (read.clone(), BTreeSet::from([key.clone()]));
    cloud_map.read_instances(&mut again, &keys).await;
    cloud_map.read_tags(&mut again, &keys).await;
    let Some(found) = again.services.get(key) else { return };
    let instances = found.instances.iter().flatten();
    let id = instances.map(|(id, _)| id.as_str()).next().unwrap_or(ABSENT_ID);
    let place = Place::of(key, read);
    let permit = cloud_map.permit(Call::GetInstance).await;
    let got = cloud_map.instance(&permit, &service.arn, &place, id).await;
    drop(permit);
    let problem = |error: cloud_map::Error| chain(&error);
    let listed = cloud_map.namespace_of(service).await.err().map(problem);
    let listing = Some("the time of runs with many namespaces");
    checks.extend([
        check_call("ListInstances", None, found.unreadable.clone()),
        check_call("GetInstance", None, got.err().map(problem)),
        check_call("ListTagsForResource", None, found.tags.problem().cloned()),
        check_call("GetService", listing, listed),
    ]);
    if let Some(namespace) = read.namespaces.get(&key.namespace) {
        let discovered = cloud_map.discover(namespace, &place.name).await;
        let explain = Some("the action explain");
        checks.push(check_call("DiscoverInstances", explain, discovered.err().map(problem)));
    }
}

/// Checks the rights of a sync that writes. Only `GetOperation` can be tested.
async fn check_writes(cloud_map: &CloudMap, dry_run: bool, simulation: String) -> Vec<Check> {
    if dry_run {
        let detail = "DRY_RUN is true: no write permissions are needed";
        return vec![Check::ok(NAME, detail)];
    }
    let until = tokio::time::Instant::now() + TIMEOUT;
    let kind = (cloud_map::Call::RegisterInstance, NamespaceKind::Http);
    let operation = match cloud_map.wait(ABSENT_ID, kind, None, until).await {
        // IAM checks the operation's namespace, and this operation has none: a denied call may have only that cause.
        Err(error) if error.class != cloud_map::Class::NotFound => {
            let fix =
                "if registrations are also denied, the role needs servicediscovery:GetOperation";
            Check::note(NAME, chain(&error), fix)
        }
        Err(_) => Check::ok(NAME, "GetOperation is allowed"),
        Ok(_) => Check::note(NAME, "GetOperation timed out", "try again"),
    };
    let actions = [&ON_INSTANCES[..], &ON_SERVICES].concat().join(", ");
    let detail = format!("not tested, since a test would change something: {actions}");
    vec![operation, Check::note(NAME, detail, simulation)]
}

/// The check of a call. A sync does without one that is needed by something else alone.
fn check_call(action: &'static str, needed_by: Option<&str>, problem: Option<String>) -> Check {
    match (problem, needed_by) {
        (None, _) => Check::ok(NAME, format!("{action} is allowed")),
        (Some(problem), None) => {
            let fix =
                format!("the function's role, or registryRoleArn, needs servicediscovery:{action}");
            Check::failed(NAME, problem, fix)
        }
        (Some(problem), Some(needed_by)) => {
            let fix =
                format!("only {needed_by} needs this: allow the role servicediscovery:{action}");
            Check::note(NAME, problem, fix)
        }
    }
}

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
    Some(Check::note(NAME, detail, fix))
}

/// A failed check that names the Services, if any.
pub(super) fn check_dns_rights(plan: &Plan) -> Option<Check> {
    let refused = plan.held_back.iter().filter(|it| it.reason == Reason::DnsNotAllowed);
    let refused = refused.map(|it| {
        let place = it.place.as_ref().map(Place::to_string).unwrap_or_default();
        format!("{} {place}", it.service)
    });
    let refused = join_first(refused, NAMED);
    let detail = format!("{refused}: no rights to write DNS records (DNS_NAMESPACES)");
    let fix = "deploy with their hosted zones in HostedZoneIds, or use an HTTP namespace";
    (!refused.is_empty()).then(|| Check::failed(NAME, detail, fix))
}

/// Actions on the instances of a service. A role may require the service's tag.
const ON_INSTANCES: [&str; 2] = ["RegisterInstance", "DeregisterInstance"];
/// Actions that create a service with its tag. IAM also evaluates its namespace.
const ON_SERVICES: [&str; 2] = ["CreateService", "TagResource"];

/// The commands for an existing service and its namespace, or for all services of the registry if there is none.
pub(super) fn simulations(
    registry: &Registry,
    found: Option<(&ServiceKey, &CloudMapService)>,
    settings: &Settings,
) -> String {
    let owner_id = &settings.owner_id;
    let in_use = found.and_then(|(key, _)| registry.namespaces.get(&key.namespace));
    let namespace = in_use.or_else(|| registry.namespaces.values().next());
    let namespace = namespace.and_then(|it| it.arn.as_deref()).unwrap_or("NAMESPACE_ARN");
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
