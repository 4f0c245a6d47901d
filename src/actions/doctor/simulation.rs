//! The commands that simulate the write permissions in IAM. IAM evaluates the resource and the request's context, so
//! the commands contain both: without them it denies every action of a role with conditional permissions.

use crate::cloud_map::OWNER_TAG as TAG;
use crate::model::{CloudMapService, Registry, ServiceKey};
use crate::settings::Settings;

/// Actions on the instances of a service. A role may require the service's tag.
const ON_INSTANCES: [&str; 3] =
    ["RegisterInstance", "DeregisterInstance", "UpdateInstanceCustomHealthStatus"];
/// Actions that create a service with its tag. IAM also evaluates its namespace.
const ON_SERVICES: [&str; 2] = ["CreateService", "TagResource"];

/// The actions with which a sync writes.
pub(super) fn actions() -> String {
    [&ON_INSTANCES[..], &ON_SERVICES].concat().join(", ")
}

/// The commands for an existing service and its namespace, or for all services of the registry if there is none.
pub(super) fn commands(
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
    let keys = [TAG].into_iter().chain(custom).collect::<Vec<_>>().join(",");
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
    let actions: Vec<String> =
        actions.iter().map(|action| format!("servicediscovery:{action}")).collect();
    let actions = actions.join(" ");
    format!(
        "aws iam simulate-principal-policy --policy-source-arn ROLE_ARN --action-names {actions} --resource-arns {resources} --context-entries {context}"
    )
}
