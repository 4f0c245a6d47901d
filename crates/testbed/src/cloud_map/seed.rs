//! Changes and reads the registry without HTTP: as ECS, Terraform or a user changes it beside the function, and as a
//! test asks for its present content. A wrong name panics, since the test itself is then wrong.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::CloudMap;
use super::operation::{Effect, Targets};
use super::resource::{DnsConfig, Instance, NamespaceKind, RecordType, Service};
use super::state::State;

/// What a seeded service offers beside the API.
#[derive(Clone, Debug)]
pub enum ServiceKind {
    /// Nothing.
    Http,
    /// DNS records with their times to live; `custom_health` as ECS service discovery sets it.
    Dns {
        /// The records: A, AAAA, A and AAAA, SRV, or CNAME.
        records: Vec<(RecordType, i64)>,
        /// Whether the service has HealthCheckCustomConfig.
        custom_health: bool,
    },
}

impl ServiceKind {
    /// These records, which live for a minute.
    pub fn of_records(records: &[RecordType]) -> Self {
        let records = records.iter().map(|record| (*record, 60)).collect();
        Self::Dns { records, custom_health: false }
    }
}

impl CloudMap {
    /// Creates a namespace, a private one in a VPC of its own, and gives its id. A name may come again.
    pub fn namespace(&self, name: &str, kind: NamespaceKind) -> String {
        self.change(|state| {
            let id = state.ids.namespace();
            let vpc = (kind == NamespaceKind::DnsPrivate).then(|| state.ids.vpc());
            let namespace = state.new_namespace(name, kind, vpc.as_deref());
            state.add_namespace(id.clone(), namespace);
            id
        })
    }

    /// Another party begins to create a namespace.
    pub fn begin_namespace(&self, name: &str, kind: NamespaceKind) {
        self.change(|state| {
            let vpc = (kind == NamespaceKind::DnsPrivate).then(|| state.ids.vpc());
            let namespace = Box::new(state.new_namespace(name, kind, vpc.as_deref()));
            let targets = Targets { namespace: state.ids.namespace(), ..Targets::default() };
            let begun = state.submit(Effect::CreateNamespace(namespace), targets, None);
            begun.expect("its id is new");
        });
    }

    /// Another account shares one of its namespaces with this one; what is seeded in it is that account's.
    pub fn shared_namespace(&self, name: &str, kind: NamespaceKind, owner: &str) -> String {
        let id = self.namespace(name, kind);
        self.change(|state| {
            let namespace = state.namespaces.get_mut(&id).expect("it was just created");
            (namespace.owner, namespace.http_name) = (owner.to_owned(), name.to_owned());
        });
        id
    }

    /// Creates a service and gives its id.
    pub fn service(&self, namespace_id: &str, name: &str, kind: ServiceKind) -> String {
        self.change(|state| {
            assert!(
                state.namespaces.contains_key(namespace_id),
                "there is no namespace {namespace_id}"
            );
            let id = state.id_of_new_service(namespace_id, name);
            let mut service = state.new_service(namespace_id, name);
            if let ServiceKind::Dns { records, custom_health } = kind {
                let weighted = records.iter().any(|(record, _)| *record == RecordType::Cname);
                let routing_policy = if weighted { "WEIGHTED" } else { "MULTIVALUE" }.to_owned();
                service.dns = Some(DnsConfig { routing_policy, records });
                service.custom_health = custom_health;
            }
            state.add_service(id.clone(), service);
            id
        })
    }

    /// Describes a service and gives it a Route 53 health check, as a person does in the console.
    pub fn dress(&self, service_id: &str, description: &str, health_check: &Value) {
        self.change(|state| {
            let service = seeded(state, service_id);
            service.description = Some(description.to_owned());
            service.health_check = Some(health_check.clone());
        });
    }

    /// Another party begins to give the records of a service another time to live.
    pub fn begin_update(&self, service_id: &str, ttl: i64) {
        self.change(|state| {
            let service = seeded(state, service_id);
            let mut dns = service.dns.clone();
            dns.iter_mut().flat_map(|dns| &mut dns.records).for_each(|record| record.1 = ttl);
            let effect = Effect::UpdateService {
                description: service.description.clone(),
                dns,
                health_check: service.health_check.clone(),
            };
            let namespace = service.namespace.clone();
            let targets =
                Targets { namespace, service: Some(service_id.to_owned()), instance: None };
            state.submit(effect, targets, None).expect("no other operation is under way");
        });
    }

    /// Makes a service answer DNS queries by another routing policy.
    pub fn route(&self, service_id: &str, policy: &str) {
        self.change(|state| {
            let dns = seeded(state, service_id).dns.as_mut().expect("a service with records");
            policy.clone_into(&mut dns.routing_policy);
        });
    }

    /// Tags a namespace or a service, named by id or ARN.
    pub fn tag(&self, arn_or_id: &str, key: &str, value: &str) {
        let id = arn_or_id.rsplit('/').next().unwrap_or(arn_or_id);
        self.change(|state| {
            let namespace = state.namespaces.get_mut(id).map(|namespace| &mut namespace.tags);
            let service = state.services.get_mut(id).map(|service| &mut service.tags);
            let tags = namespace
                .or(service)
                .unwrap_or_else(|| panic!("there is nothing with the id {id} to tag"));
            tags.insert(key.to_owned(), value.to_owned());
        });
    }

    /// Another party registers an instance, or replaces one; it is there at once.
    pub fn instance(&self, service_id: &str, id: &str, attributes: &[(&str, &str)]) {
        self.change(|state| {
            let attributes = attributes
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect();
            let namespace = seeded(state, service_id).namespace.clone();
            let created_by = state.owner_of(&namespace).to_owned();
            let instance = Instance { attributes, created_by, creator_request_id: None };
            let now = state.now;
            let service = seeded(state, service_id);
            service.start_health(id, &instance.attributes);
            service.raise_revision(now);
            state.put(service_id, id, now, (now, now), Some(Arc::new(instance)));
        });
    }

    /// Another party deregisters an instance; it is gone at once.
    pub fn remove_instance(&self, service_id: &str, id: &str) {
        self.change(|state| {
            let now = state.now;
            seeded(state, service_id).raise_revision(now);
            state.put(service_id, id, now, (now, now), None);
        });
    }

    /// Another party deletes a service with all that is in it.
    pub fn remove_service(&self, service_id: &str) {
        self.change(|state| {
            let now = state.now;
            let service = seeded(state, service_id);
            let ids: Vec<String> = service.present().map(|(id, _)| id.clone()).collect();
            for id in ids {
                state.put(service_id, &id, now, (now, now), None);
            }
            state.take_service(service_id);
        });
    }

    /// Another party deletes a namespace without services.
    pub fn remove_namespace(&self, id: &str) {
        let removed = self.change(|state| state.finish_delete_namespace(id, state.now).is_ok());
        assert!(removed, "the namespace {id} holds services");
    }

    /// Another party deregisters an instance, as ECS does when a task ends; it is gone at once.
    pub fn withdraw(&self, service_id: &str, id: &str) {
        self.change(|state| {
            let now = state.now;
            let service = seeded(state, service_id);
            assert!(
                service.instance(id).is_some(),
                "there is no instance {id} in {service_id} to withdraw"
            );
            service.raise_revision(now);
            state.put(service_id, id, now, (now, now), None);
        });
    }
}

/// The service of a test, which must be there.
pub(super) fn seeded<'a>(state: &'a mut State, service_id: &str) -> &'a mut Service {
    state.services.get_mut(service_id).unwrap_or_else(|| panic!("there is no service {service_id}"))
}

/// A namespace as a test sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct NamespaceView {
    /// Its type.
    pub kind: NamespaceKind,
    pub description: Option<String>,
    pub tags: BTreeMap<String, String>,
}

/// A service as a test sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceView {
    pub id: String,
    pub name: String,
    pub description: Option<String>,
    pub tags: BTreeMap<String, String>,
    /// Its DNS settings; none where it is found by the API alone.
    pub dns: Option<DnsConfig>,
    pub health_check: Option<Value>,
    /// Whether it has HealthCheckCustomConfig.
    pub custom_health: bool,
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

    /// The id of a service that must be there.
    pub fn service_id(&self, namespace_name: &str, service_name: &str) -> String {
        let found = self.find_service(namespace_name, service_name);
        found.unwrap_or_else(|| panic!("there is no service {namespace_name}/{service_name}"))
    }

    /// The service of a name in the namespace of a name; either is created, found by the API alone, if it is not there.
    pub fn ensure_service(&self, namespace_name: &str, service_name: &str) -> String {
        let namespace = self.find_namespace(namespace_name);
        let namespace =
            namespace.unwrap_or_else(|| self.namespace(namespace_name, NamespaceKind::Http));
        let found = self.find_service(namespace_name, service_name);
        found.unwrap_or_else(|| self.service(&namespace, service_name, ServiceKind::Http))
    }

    /// A namespace by its name.
    pub fn namespace_view(&self, name: &str) -> NamespaceView {
        let state = self.look();
        let found = state.namespaces.values().find(|namespace| namespace.name == name);
        let found = found.unwrap_or_else(|| panic!("there is no namespace {name}"));
        let description = found.description.clone();
        let tags = found.tags.clone();
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
        self.namespaces().into_iter().find(|(_, known)| known == name).map(|(id, _)| id)
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
    }
}
