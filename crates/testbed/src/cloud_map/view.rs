//! Reads the present content of the registry without HTTP. A wrong name panics, since the test itself is then wrong.

use std::collections::BTreeMap;

use serde_json::Value;

use super::CloudMap;
use super::resource::{DnsConfig, NamespaceKind, Service};
use super::seed::seeded;

/// A namespace as a test sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct NamespaceView {
    /// Its type.
    pub kind: NamespaceKind,
    /// Its description.
    pub description: Option<String>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// A service as a test sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceView {
    /// The service's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: Option<String>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Its DNS settings; none where it is found by the API alone.
    pub dns: Option<DnsConfig>,
    /// Its HealthCheckConfig.
    pub health_check: Option<Value>,
    /// Whether it has HealthCheckCustomConfig.
    pub custom_health: bool,
    /// Its own attributes.
    pub attributes: BTreeMap<String, String>,
}

impl CloudMap {
    /// The attributes of all instances of a service, by instance id, as they are now.
    pub fn instances(&self, service_id: &str) -> BTreeMap<String, BTreeMap<String, String>> {
        let mut state = self.look();
        let service = seeded(&mut state, service_id);
        service.present().map(|(id, instance)| (id.clone(), instance.attributes.clone())).collect()
    }

    /// The services of a namespace, by name.
    pub fn services(&self, namespace_id: &str) -> Vec<ServiceView> {
        let state = self.look();
        let of_namespace =
            state.services.iter().filter(|(_, service)| service.namespace == namespace_id);
        let mut services: Vec<ServiceView> =
            of_namespace.map(|(id, service)| view(id, service)).collect();
        services.sort_by(|one, other| one.name.cmp(&other.name));
        services
    }

    /// The id of a service by its own and its namespace's name.
    pub fn find_service(&self, namespace_name: &str, service_name: &str) -> Option<String> {
        let state = self.look();
        let named =
            state.namespaces.iter().filter(|(_, namespace)| namespace.name == namespace_name);
        let mut found = named.filter_map(|(namespace, _)| state.named(namespace, service_name));
        found.next().map(|(id, _)| id.clone())
    }

    /// A namespace by its name.
    pub fn namespace_view(&self, name: &str) -> NamespaceView {
        let state = self.look();
        let found = state.namespaces.values().find(|namespace| namespace.name == name);
        let found = found.unwrap_or_else(|| panic!("there is no namespace {name}"));
        let (description, tags) = (found.description.clone(), found.tags.clone());
        NamespaceView { kind: found.kind, description, tags }
    }

    /// The names of all namespaces, by id.
    pub fn namespaces(&self) -> BTreeMap<String, String> {
        let state = self.look();
        let there = state.namespaces.iter().filter(|(_, namespace)| !namespace.is_leaving);
        there.map(|(id, namespace)| (id.clone(), namespace.name.clone())).collect()
    }

    /// The id of a namespace by its name.
    pub fn find_namespace(&self, name: &str) -> Option<String> {
        let state = self.look();
        state
            .namespaces
            .iter()
            .find(|(_, namespace)| namespace.name == name && !namespace.is_leaving)
            .map(|(id, _)| id.clone())
    }
}

fn view(id: &str, service: &Service) -> ServiceView {
    ServiceView {
        id: id.to_owned(),
        name: service.name.clone(),
        description: service.description.clone(),
        tags: service.tags.clone(),
        dns: service.dns.clone(),
        health_check: service.health_check.clone(),
        custom_health: service.custom_health,
        attributes: service.attributes.clone(),
    }
}
