//! GetService and ListServices, and the JSON of a service. A list does not contain the namespace of a service, and
//! cannot be filtered by name.

use serde_json::{Value, json};

use super::dispatch::Output;
use super::input::Input;
use super::namespace_reads::with_token;
use super::page::{Filter, Page};
use super::resource::{DnsConfig, Service};
use super::state::State;

const FILTERS: [(&str, &[&str]); 2] = [("NAMESPACE_ID", &["EQ"]), ("RESOURCE_OWNER", &["EQ"])];

impl State {
    pub(super) fn get_service(&mut self, input: Input<'_>) -> Output {
        let id = self.service_id(input, "Id")?;
        Ok(json!({ "Service": self.show_service(&id, &self.services[&id]) }))
    }

    pub(super) fn list_services(&mut self, input: Input<'_>) -> Output {
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
    pub(super) fn show_service(&self, id: &str, service: &Service) -> Value {
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
        let is_counted = namespace.is_none_or(|it| it.name != self.behaviour.uncounted);
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
