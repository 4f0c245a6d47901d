//! GetNamespace and ListNamespaces, and the JSON of a namespace.

use serde_json::{Value, json};

use super::dispatch::Output;
use super::input::Input;
use super::page::{Filter, Page};
use super::resource::Namespace;
use super::state::State;

/// Filters and the conditions that each supports; the first is the default.
const FILTERS: [(&str, &[&str]); 4] = [
    ("TYPE", &["EQ", "BEGINS_WITH"]),
    ("NAME", &["EQ", "BEGINS_WITH"]),
    ("HTTP_NAME", &["EQ", "BEGINS_WITH"]),
    ("RESOURCE_OWNER", &["EQ"]),
];

impl State {
    pub(super) fn get_namespace(&mut self, input: Input<'_>) -> Output {
        let id = self.namespace_id(input, "Id")?;
        let namespace = &self.namespaces[&id];
        let mut shown = self.show_namespace(&id, namespace);
        if let Some(creator) = &namespace.creator_request_id {
            shown["CreatorRequestId"] = json!(creator);
        }
        Ok(json!({ "Namespace": shown }))
    }

    pub(super) fn list_namespaces(&mut self, input: Input<'_>) -> Output {
        let filters = Filter::read(input, &FILTERS)?;
        let (page, token) = Page::read(input, "namespaces", self.behaviour.page_limit)?
            .cut(self.listed_namespaces().map(|(id, namespace)| (id, (id, namespace))));
        let passes = |namespace: &Namespace| {
            filters.iter().all(|filter| match filter.name.as_str() {
                "TYPE" => filter.passes(namespace.kind.word()),
                "NAME" => filter.passes(&namespace.name),
                "HTTP_NAME" => filter.passes(&namespace.http_name),
                _ => filter.passes(self.owner_word(&namespace.owner)),
            })
        };
        let shown: Vec<Value> = page
            .into_iter()
            .filter(|(_, namespace)| passes(namespace))
            .map(|(id, namespace)| self.show_namespace(id, namespace))
            .collect();
        Ok(with_token(json!({ "Namespaces": shown }), token))
    }

    fn listed_namespaces(&self) -> impl Iterator<Item = (&String, &Namespace)> {
        let is_listed =
            |namespace: &Namespace| !namespace.is_leaving && namespace.listed_from <= self.now;
        self.namespaces.iter().filter(move |(_, namespace)| is_listed(namespace))
    }

    /// How the filter RESOURCE_OWNER calls an account.
    pub(super) fn owner_word(&self, account: &str) -> &'static str {
        if account == self.account { "SELF" } else { "OTHER_ACCOUNTS" }
    }

    fn show_namespace(&self, id: &str, namespace: &Namespace) -> Value {
        // An HTTP namespace has the member, too, and it is empty: see botocore's examples-1.json, GetNamespace.
        let mut properties = json!({
            "DnsProperties": {},
            "HttpProperties": { "HttpName": namespace.http_name },
        });
        if let Some(zone) = &namespace.hosted_zone {
            properties["DnsProperties"] =
                json!({ "HostedZoneId": zone, "SOA": { "TTL": namespace.soa_ttl } });
        }
        let mut shown = json!({
            "Id": id,
            "Arn": self.namespace_arn(id),
            "ResourceOwner": namespace.owner,
            "Name": namespace.name,
            "Type": namespace.kind.word(),
            "ServiceCount": self.services.values().filter(|service| service.namespace == id).count(),
            "Properties": properties,
            "CreateDate": self.timestamp(namespace.created),
        });
        if let Some(description) = &namespace.description {
            shown["Description"] = json!(description);
        }
        shown
    }
}

/// A page's body with its NextToken, if there is one.
pub(super) fn with_token(mut body: Value, token: Option<String>) -> Value {
    if let Some(token) = token {
        body["NextToken"] = json!(token);
    }
    body
}
