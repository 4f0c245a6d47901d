//! What a sync reads of Cloud Map: each action is tried, on what there is or on something that is not there,
//! which tells as much. Writes are not tried, since they would change something.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::Check;
use super::simulation;
use crate::cloud_map::{self, Call, CloudMap};
use crate::error::chain;
use crate::model::{
    CloudMapService, KnownHealth, NamespaceKind, Place, Registry, ServiceKey, Tags,
};
use crate::publish::observe::SharedRegistry;
use crate::publish::plan::{Note, Plan, Reason};
use crate::settings::Settings;

/// What no instance and no operation is called.
const NOBODY: &str = "cloud-map-sync-doctor";
/// How long an answer about an operation may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Each action. Returns whether namespaces and services could be listed.
pub(super) async fn check(
    registry: &SharedRegistry,
    settings: &Settings,
    checks: &mut Vec<Check>,
) -> bool {
    let read = match registry.read().await {
        Ok(read) => read,
        Err(error) => {
            let fix = "the function's role, or registryRoleArn, needs servicediscovery:ListNamespaces and ListServices in the registry's Region";
            checks.push(Check::failed("cloud map", chain(&*error), fix));
            return false;
        }
    };
    let (namespaces, services) = (read.namespaces.len(), read.services.len());
    let said = format!("lists {namespaces} namespaces and {services} services");
    checks.push(match namespaces {
        0 => Check::note("cloud map", said, "are Region, account and CLOUD_MAP_NAMESPACES right?"),
        _ => Check::ok("cloud map", said),
    });
    let found = most_telling(&read);
    match found {
        Some((key, service)) => {
            check_service(registry.cloud_map(), &read, key, service, checks).await;
        }
        None => checks.push(Check::note(
            "cloud map",
            "there is no service yet, so the reads of services are not tried",
            "ask again after the first sync",
        )),
    }
    let simulation = simulation::commands(&read, found, &settings.owner_id);
    checks.extend(check_writes(registry.cloud_map(), settings.dry_run, simulation).await);
    true
}

/// The service of which most can be read: one that could not be, or has instances, if there is any. One that the
/// function may not read may be another party's, which the plan can tell.
fn most_telling(read: &Registry) -> Option<(&ServiceKey, &CloudMapService)> {
    let has_instances = |service: &CloudMapService| {
        service.instances.as_ref().is_some_and(|instances| !instances.is_empty())
    };
    read.services.iter().max_by_key(|(_, service)| {
        let is_broken = service.unreadable.is_some() && !service.is_denied;
        (is_broken, has_instances(service), service.custom_health)
    })
}

/// The services that a full sync could not read, but for the one that was tried before.
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
            let fix = "the function's role, or registryRoleArn, needs servicediscovery:ListInstances there; each full sync is incomplete until it is read";
            checks.push(Check::failed("cloud map", format!("{place}: {problem}"), fix));
        }
    }
    for (place, unchanged) in &plan.unchanged {
        let notes = unchanged.notes.iter().filter(|note| matches!(note, Note::Unread(_)));
        checks.extend(notes.map(|note| {
            let fix = "if instances of this installation may be in it, let the role list them; else leave its namespace out of CLOUD_MAP_NAMESPACES";
            Check::note("cloud map", format!("{place}: {note}"), fix)
        }));
    }
}

/// Each read of one service.
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
    cloud_map.read_health(&mut again, &keys).await;
    let Some(found) = again.services.get(key) else { return };
    checks.push(of_call("ListInstances", found.unreadable.clone()));
    let instances = found.instances.iter().flatten();
    let id = instances.map(|(id, _)| id.as_str()).next().unwrap_or(NOBODY);
    let place = Place::of(key, read);
    let permit = cloud_map.permit(Call::GetInstance).await;
    let got = cloud_map.instance(&permit, &service.arn, &place, id).await;
    drop(permit);
    checks.push(of_call("GetInstance", got.err().map(|error| chain(&error))));
    checks.push(of_call(
        "ListTagsForResource",
        match &found.tags {
            Tags::Unreadable(problem) => Some(problem.clone()),
            _ => None,
        },
    ));
    checks.push(of_call(
        "GetInstancesHealthStatus",
        match &found.health {
            // Only a service with a custom check need tell it; of others a refusal says enough.
            KnownHealth::Unreadable(problem)
                if service.custom_health || problem.contains("AccessDenied") =>
            {
                Some(problem.clone())
            }
            _ => None,
        },
    ));
    if let Some(namespace) = read.namespaces.get(&key.namespace) {
        checks.push(match cloud_map.discover(namespace, &place.name).await {
            Ok(_) => Check::ok("cloud map", "DiscoverInstances is allowed"),
            Err(error) => {
                let fix = "for the action explain alone the role needs servicediscovery:DiscoverInstances";
                Check::note("cloud map", chain(&error), fix)
            }
        });
    }
}

/// What a sync that writes needs besides.
async fn check_writes(cloud_map: &CloudMap, dry_run: bool, simulation: String) -> Vec<Check> {
    if dry_run {
        let said = "DRY_RUN is true: no right to change anything is needed";
        return vec![Check::ok("cloud map", said)];
    }
    let until = Instant::now() + PATIENCE;
    let kind = (cloud_map::Call::RegisterInstance, NamespaceKind::Http);
    let followed = match cloud_map.wait(NOBODY, kind, None, until).await {
        // IAM is asked about the operation's namespace, and this one has none: a refusal may mean that alone.
        Err(error) if error.class != cloud_map::Class::NotFound => {
            let fix =
                "if registrations are refused, too, the role needs servicediscovery:GetOperation";
            Check::note("cloud map", chain(&error), fix)
        }
        Err(_) => Check::ok("cloud map", "GetOperation is allowed"),
        Ok(_) => Check::note("cloud map", "GetOperation has no answer in time", "try again"),
    };
    let said = format!("not tried, since they would change something: {}", simulation::actions());
    vec![followed, Check::note("cloud map", said, simulation)]
}

fn of_call(action: &'static str, problem: Option<String>) -> Check {
    match problem {
        None => Check::ok("cloud map", format!("{action} is allowed")),
        Some(problem) => {
            let fix =
                format!("the function's role, or registryRoleArn, needs servicediscovery:{action}");
            Check::failed("cloud map", problem, fix)
        }
    }
}
