//! The discovery plane: DiscoverInstances and its revision. It finds services by HttpName and service name, has no
//! pages, returns 100 instances by default, in random order, and may show changes later than the control plane.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::id;
use super::input::Input;
use super::resource::{Instance, Service};
use super::state::State;
use super::wire::{ApiError, Checked};

impl State {
    pub fn discover_instances(&mut self, input: Input<'_>) -> Checked<Value> {
        let limit = input
            .integer("MaxResults", 1..=1000)?
            .and_then(|limit| usize::try_from(limit).ok())
            .unwrap_or(100);
        let query = input.map("QueryParameters")?.unwrap_or_default();
        let optional = input.map("OptionalParameters")?.unwrap_or_default();
        let health = input
            .choice("HealthStatus", &["HEALTHY", "UNHEALTHY", "ALL", "HEALTHY_OR_ELSE_ALL"])?;
        let (http_name, service) = self.asked_for(input)?;
        let mut found: Vec<_> = service
            .discovered(self.now)
            .filter(|(_, instance)| has_all(instance, &query))
            .collect();
        if found.iter().any(|(_, instance)| has_all(instance, &optional)) {
            found.retain(|(_, instance)| has_all(instance, &optional));
        }
        service.keep_by_health(&mut found, health.unwrap_or(self.behaviour.default_health_filter));
        let turn = self.calls.len() as u64;
        found.sort_by_key(|(id, _)| id::mix(id::hash(id) ^ turn));
        let show = |(id, instance): &(&String, &Arc<Instance>)| {
            json!({
                "InstanceId": id,
                "NamespaceName": http_name,
                "ServiceName": service.name,
                "HealthStatus": service.health_of(id),
                "Attributes": instance.attributes,
            })
        };
        let shown: Vec<Value> = found.iter().take(limit).map(show).collect();
        Ok(json!({ "Instances": shown, "InstancesRevision": service.revision(self.now) }))
    }

    pub fn discover_instances_revision(&mut self, input: Input<'_>) -> Checked<Value> {
        let (_, service) = self.asked_for(input)?;
        Ok(json!({ "InstancesRevision": service.revision(self.now) }))
    }

    fn asked_for<'a>(&'a self, input: Input<'a>) -> Checked<(&'a str, &'a Service)> {
        let http_name = input.text("NamespaceName", 1024)?;
        let name = input.text("ServiceName", 127)?;
        let owner = input.optional_text("OwnerAccount", 12)?.unwrap_or(&self.account);
        let mut all = self.namespaces.iter().filter(|(_, namespace)| namespace.owner == owner);
        let namespace = all.find(|(_, namespace)| namespace.http_name == http_name);
        let unknown = || ApiError::new(400, "NamespaceNotFound", "Namespace not found");
        let (id, _) = namespace.ok_or_else(unknown)?;
        // Assumed (case_of_names_in_discovery): a name in other letters is not found.
        self.named(id, name)
            .map(|(_, service)| (http_name, service))
            .ok_or_else(|| ApiError::missing("ServiceNotFound", name))
    }
}

fn has_all(instance: &Instance, wanted: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(key, value)| instance.attributes.get(key) == Some(value))
}

impl Service {
    /// Keeps what the filter wants; without a health check there is nothing to filter by.
    fn keep_by_health(&self, found: &mut Vec<(&String, &Arc<Instance>)>, filter: &str) {
        let any_healthy = found.iter().any(|(id, _)| self.health_of(id) == "HEALTHY");
        let wanted = match filter {
            "HEALTHY_OR_ELSE_ALL" if any_healthy => "HEALTHY",
            "HEALTHY" | "UNHEALTHY" => filter,
            _ => return,
        };
        if self.has_health_check() {
            found.retain(|(id, _)| self.health_of(id) == wanted);
        }
    }

    fn revision(&self, now: Instant) -> i64 {
        self.revisions
            .iter()
            .rev()
            .find(|(from, _)| *from <= now)
            .map_or(0, |(_, revision)| *revision)
    }

    /// Raises the revision as the discovery plane will see it from then on.
    pub fn raise_revision(&mut self, from: Instant) {
        let last = self.revisions.last().map_or(0, |(_, revision)| *revision);
        self.revisions.push((from, last + 1));
    }
}
