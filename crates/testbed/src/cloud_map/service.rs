//! Creates, changes, deletes, gets and lists services. Creation and deletion are
//! synchronous; a change is an operation. A list does not contain the namespace of a service.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::dns::Settings;
use super::input::{Filter, Input, Page, absent};
use super::namespace::with_token;
use super::operation::{Effect, Failure, Targets};
use super::resource::{DnsConfig, NamespaceKind, RecordType, Service};
use super::state::State;
use super::wire::{ApiError, Checked};
use super::{dns, id, tag};

pub const LONGEST_ARN: usize = 255;
/// As large as in the AWS CLI's example of discover-instances: a client that reads it as a float loses the last digits.
const FIRST_REVISION: i64 = 85_648_075_627_387_284;

impl State {
    pub fn create_service(&mut self, input: Input<'_>) -> Checked<Value> {
        let name = input.text("Name", 127)?;
        if !id::is_service_name(name) {
            return Err(ApiError::constraint(
                "Name",
                name,
                "Member must satisfy the pattern of a service name",
            ));
        }
        let description = input.optional_text("Description", 1024)?;
        let creator_request_id = input.optional_text("CreatorRequestId", 64)?;
        let tags = tag::read(input)?;
        let namespace = self.namespace_of_new_service(input)?;
        let settings = Settings::read(input, self.namespaces[&namespace].kind)?;
        tag::refuse_too_many(&tags, name)?;
        self.refuse_same_name(&namespace, name)?;
        let service = Service {
            description: description.map(str::to_owned),
            dns: settings.dns,
            health_check: settings.health_check,
            custom_health: settings.custom_health,
            creator_request_id: creator_request_id.map(str::to_owned),
            tags,
            ..self.new_service(&namespace, name)
        };
        let id = self.id_of_new_service(&namespace, name);
        let shown = self.show_service(&id, &service);
        self.add_service(id, service);
        Ok(json!({ "Service": shown }))
    }

    /// A service with nothing but its name.
    pub fn new_service(&self, namespace: &str, name: &str) -> Service {
        Service {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            description: None,
            dns: None,
            health_check: None,
            custom_health: false,
            creator_request_id: None,
            created: self.now,
            tags: BTreeMap::new(),
            instances: BTreeMap::new(),
            health: BTreeMap::new(),
            revisions: vec![(self.now, FIRST_REVISION)],
        }
    }

    /// The namespace is named beside DnsConfig, or by older clients inside it.
    fn namespace_of_new_service(&self, input: Input<'_>) -> Checked<String> {
        match (input.optional_text("NamespaceId", LONGEST_ARN)?, input.object("DnsConfig")?) {
            (None, Some(dns)) => self.namespace_id(dns, "NamespaceId"),
            _ => self.namespace_id(input, "NamespaceId"),
        }
    }

    /// Puts a service into the registry.
    pub fn add_service(&mut self, id: String, service: Service) {
        self.names.insert(self.name_key(&service.namespace, &service.name), id.clone());
        self.services.insert(id, service);
    }

    /// The id of a service that had this name, or a new one.
    pub fn id_of_new_service(&mut self, namespace: &str, name: &str) -> String {
        let former = self.former_names.get(&self.name_key(namespace, name)).cloned();
        let returns = self.behaviour.service_ids_return;
        former.filter(|_| returns).unwrap_or_else(|| self.ids.service())
    }

    /// Removes a service from the registry.
    pub fn take_service(&mut self, id: &str) {
        let Some(service) = self.services.remove(id) else { return };
        let key = self.name_key(&service.namespace, &service.name);
        self.names.remove(&key);
        self.former_names.insert(key, id.to_owned());
    }

    /// In DNS, names that differ only by case are the same name.
    pub fn name_key(&self, namespace: &str, name: &str) -> (String, String) {
        let in_dns = self.namespaces[namespace].kind != NamespaceKind::Http;
        let name = if in_dns { name.to_ascii_lowercase() } else { name.to_owned() };
        (namespace.to_owned(), name)
    }

    /// The service that has a name, or in DNS one that differs from it by case alone.
    pub fn twin_of(&self, namespace: &str, name: &str) -> Option<(&String, &Service)> {
        let id = self.names.get(&self.name_key(namespace, name))?;
        self.services.get_key_value(id)
    }

    /// The service that has exactly this name.
    pub fn named(&self, namespace: &str, name: &str) -> Option<(&String, &Service)> {
        self.twin_of(namespace, name).filter(|(_, service)| service.name == name)
    }

    /// Assumed (service_by_the_same_request): a name is refused to the request that made the first service, too.
    fn refuse_same_name(&self, namespace: &str, name: &str) -> Checked<()> {
        let Some((id, twin)) = self.twin_of(namespace, name) else { return Ok(()) };
        if self.now < twin.created + self.behaviour.service_creation_race {
            return Err(ApiError::unnamed());
        }
        let creator = twin.creator_request_id.as_deref().unwrap_or_default();
        let error = ApiError::new(400, "ServiceAlreadyExists", "Service already exists.");
        Err(error
            .with("ServiceId", id)
            .with("ServiceArn", &self.service_arn(namespace, id))
            .with("CreatorRequestId", creator))
    }

    pub fn delete_service(&mut self, input: Input<'_>) -> Checked<Value> {
        let id = self.service_id(input, "Id")?;
        // Assumed (service_is_busy): an instance on its way counts as there.
        let busy = self
            .operations
            .in_flight()
            .any(|(_, operation)| operation.targets.service.as_deref() == Some(&id));
        if busy || self.services[&id].present().next().is_some() {
            let message = "Service contains registered instances; delete the instances before deleting the service";
            return Err(ApiError::in_use(message));
        }
        self.take_service(&id);
        Ok(json!({}))
    }

    pub fn update_service(&mut self, input: Input<'_>) -> Checked<Value> {
        let change = input.object("Service")?.ok_or_else(|| absent("Service"))?;
        let description = change.optional_text("Description", 1024)?.map(str::to_owned);
        let id = self.service_id(input, "Id")?;
        let service = &self.services[&id];
        let kind = self.namespaces[&service.namespace].kind;
        // InvalidInput: go-to-k/cdk-real-drift 261.
        if kind == NamespaceKind::Http {
            return Err(ApiError::invalid("A service in an HTTP namespace cannot be updated"));
        }
        // Assumed (no case): InvalidInput; that it is refused is documented. To ask, a second account is needed.
        if service.present().any(|(_, instance)| instance.created_by != self.account) {
            return Err(ApiError::invalid("The service holds instances of other accounts"));
        }
        let dns =
            change.object("DnsConfig")?.map(|dns| changed_records(service, dns)).transpose()?;
        let health_check =
            change.object("HealthCheckConfig")?.map(dns::health_check).transpose()?;
        if health_check.is_some() && service.custom_health {
            return Err(ApiError::invalid(
                "HealthCheckConfig and HealthCheckCustomConfig exclude each other",
            ));
        }
        if let (Some(present), Some(asked)) = (&service.health_check, &health_check)
            && present["Type"] != asked["Type"]
        {
            return Err(ApiError::invalid("Type of health check cannot be changed"));
        }
        dns::refuse_health_check(health_check.as_ref(), kind, dns.as_ref())?;
        let targets =
            Targets { namespace: service.namespace.clone(), service: Some(id), instance: None };
        self.submit(Effect::UpdateService { description, dns, health_check }, targets, None)
    }

    /// Records and health check that the change left out are gone.
    /// Assumed (update_without_a_description): the description, too, since a client must not rely on its staying.
    pub fn finish_update_service(
        &mut self,
        id: &str,
        description: Option<String>,
        dns: Option<DnsConfig>,
        health_check: Option<Value>,
    ) -> Result<(), Failure> {
        let service = self.services.get_mut(id).ok_or_else(|| Failure::gone(id))?;
        service.description = description;
        service.dns = dns;
        service.health_check = health_check;
        Ok(())
    }

    /// The service that a member of a request names by id or ARN.
    pub fn service_id(&self, input: Input<'_>, member: &str) -> Checked<String> {
        let given = input.text(member, LONGEST_ARN)?;
        let id = self.known_service(given);
        id.map(str::to_owned).ok_or_else(|| ApiError::missing("ServiceNotFound", given))
    }
}

/// Times to live may change and records may go; a record type that was not there cannot come. The words are those of
/// hashicorp/terraform-provider-aws, pull request 2613, as are those of the check's type.
fn changed_records(service: &Service, change: Input<'_>) -> Checked<DnsConfig> {
    let records = dns::dns_records(change)?;
    match &service.dns {
        Some(dns) if records.iter().all(|(kind, _)| dns.has(*kind)) => {
            Ok(DnsConfig { routing_policy: dns.routing_policy.clone(), records })
        }
        present => {
            let present = present.iter().flat_map(|dns| &dns.records);
            let present = words(present);
            let asked = words(records.iter());
            Err(ApiError::invalid(format!(
                "The record types in the request must be the same as those present in the existing service. Records in the existing service are [{present}], but the records in the request are [{asked}]. The record types of a service cannot be changed."
            )))
        }
    }
}

fn words<'a>(records: impl Iterator<Item = &'a (RecordType, i64)>) -> String {
    records.map(|(kind, _)| kind.word()).collect::<Vec<_>>().join(", ")
}

const FILTERS: [(&str, &[&str]); 2] = [("NAMESPACE_ID", &["EQ"]), ("RESOURCE_OWNER", &["EQ"])];

impl State {
    pub fn get_service(&mut self, input: Input<'_>) -> Checked<Value> {
        let id = self.service_id(input, "Id")?;
        Ok(json!({ "Service": self.show_service(&id, &self.services[&id]) }))
    }

    pub fn list_services(&mut self, input: Input<'_>) -> Checked<Value> {
        let filters = Filter::read(input, &FILTERS)?;
        let (page, token) = Page::read(input, "services", self.behaviour.page_limit)?
            .cut(self.services.iter().map(|(id, service)| (id, (id, service))));
        let passes = |service: &Service| {
            filters.iter().all(|filter| match filter.name.as_str() {
                // Assumed (services_of_an_unknown_namespace): it has no services, and to ask is no error.
                "NAMESPACE_ID" => {
                    self.known_namespace(&filter.values[0]) == Some(service.namespace.as_str())
                }
                _ => filter.passes(self.owner_word(self.owner_of(&service.namespace))),
            })
        };
        let shown = page.into_iter().filter(|(_, service)| passes(service));
        let shown: Vec<Value> =
            shown.map(|(id, service)| self.summarize_service(id, service)).collect();
        Ok(with_token(json!({ "Services": shown }), token))
    }

    /// A service as CreateService and GetService show it.
    pub fn show_service(&self, id: &str, service: &Service) -> Value {
        let mut shown = self.summarize_service(id, service);
        shown["NamespaceId"] = json!(service.namespace);
        if service.dns.is_some() {
            shown["DnsConfig"]["NamespaceId"] = json!(service.namespace);
        }
        if let Some(creator) = &service.creator_request_id {
            shown["CreatorRequestId"] = json!(creator);
        }
        shown
    }

    fn summarize_service(&self, id: &str, service: &Service) -> Value {
        let namespace = self.namespaces.get(&service.namespace);
        let is_counted =
            namespace.is_none_or(|namespace| namespace.name != self.behaviour.uncounted);
        let counted = if is_counted { service.listed(self.now).count() } else { 0 };
        let mut shown = json!({
            "Id": id,
            "Arn": self.service_arn(&service.namespace, id),
            "ResourceOwner": self.owner_of(&service.namespace),
            "CreatedByAccount": self.account,
            "Name": service.name,
            "Type": if service.dns.is_some() { "DNS_HTTP" } else { "HTTP" },
            "InstanceCount": counted,
            "CreateDate": self.timestamp(service.created),
        });
        if let Some(description) = &service.description {
            shown["Description"] = json!(description);
        }
        if let Some(dns) = &service.dns {
            shown["DnsConfig"] =
                json!({ "RoutingPolicy": dns.routing_policy, "DnsRecords": records(dns) });
        }
        if let Some(check) = &service.health_check {
            shown["HealthCheckConfig"] = check.clone();
        }
        if service.custom_health {
            shown["HealthCheckCustomConfig"] = json!({ "FailureThreshold": 1 });
        }
        shown
    }
}

fn records(dns: &DnsConfig) -> Value {
    dns.records.iter().map(|(kind, ttl)| json!({ "Type": kind.word(), "TTL": ttl })).collect()
}
