//! The answer of the action `explain`: the annotations of one Service, then each of its names with the fate of each
//! endpoint and the answers that clients get.

use serde::{Deserialize, Serialize};

use super::{Condition, Discovery, EndpointFate, EndpointLine};
use crate::model::{NamespaceKind, Place, ServiceRef};
use crate::publish::plan::{Found, Observation, Plan};
use crate::report::{HeldBackLine, Shorten, Word};

/// A Service, and why it is found as it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Whether nothing keeps a ready endpoint of it from being found.
    pub ok: bool,
    /// The cluster's ARN.
    pub cluster: String,
    /// The Service.
    pub service: ServiceRef,
    /// The facts of the Service itself, and what is wrong with it.
    pub facts: Vec<Fact>,
    /// Each name that it claims.
    pub names: Vec<Name>,
    /// What is held back before it comes to any name.
    pub held_back: Vec<HeldBackLine>,
    /// What is left out, where Lambda's limit does not let all of it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}

/// Something about the Service or one of its names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Whether it keeps the Service from being found.
    pub stops: bool,
    /// What it is about.
    pub about: Word,
    /// What there is to know.
    pub detail: String,
}

/// A name that it claims.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Name {
    /// The Cloud Map namespace's name.
    pub namespace: String,
    /// The Cloud Map service's name.
    pub name: String,
    /// What the Cloud Map service serves, whose the name is, what may surprise.
    pub facts: Vec<Fact>,
    /// What becomes of each endpoint.
    pub endpoints: Vec<EndpointLine>,
    /// What is held back.
    pub held_back: Vec<HeldBackLine>,
    /// What clients are told, where the Cloud Map service exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovery: Option<Discovery>,
}

impl Explanation {
    /// Of a Service of which nothing is known yet.
    pub fn new(cluster: &str, service: &ServiceRef) -> Self {
        Self {
            ok: true,
            cluster: cluster.to_owned(),
            service: service.clone(),
            facts: Vec::new(),
            names: Vec::new(),
            held_back: Vec::new(),
            cut: None,
        }
    }

    /// There is no such Service.
    #[must_use]
    pub fn missing(mut self) -> Self {
        self.fact(true, "service", "the cluster has no such Service".to_owned());
        self.unexplained()
    }

    /// Its annotations that begin with ours.
    pub fn annotated<'a>(
        &mut self,
        prefix: &str,
        annotations: impl Iterator<Item = (&'a String, &'a String)>,
    ) {
        let mut has_hostname = false;
        for (key, value) in annotations {
            let name = key.strip_prefix(prefix).unwrap_or(key);
            has_hostname |= name == "hostname";
            self.fact(false, "annotation", format!("{name}: {value}"));
        }
        if !has_hostname {
            let detail = format!("it has no {prefix}hostname, so it asks for nothing");
            self.fact(true, "annotation", detail);
        }
    }

    /// Its own address, or none.
    pub fn address(&mut self, headless: bool, address: &str) {
        let detail = if headless {
            "headless (clusterIP: None)".to_owned()
        } else {
            let address = if address.is_empty() { "none" } else { address };
            format!(
                "its clusterIP is {address}: only headless Services (clusterIP: None) are registered, \
                 and a Service cannot be changed into one: make another beside it"
            )
        };
        self.fact(!headless, "service", detail);
    }

    /// Nothing more can be said of it.
    #[must_use]
    pub fn unexplained(mut self) -> Self {
        self.ok = false;
        self
    }

    /// One of its names.
    pub fn found(
        &mut self,
        observation: &Observation,
        found: Found,
        plan: &Plan,
        discovery: Option<Discovery>,
    ) {
        let Found { place, kind, held, endpoints, remarks } = found;
        let mut facts = vec![cloud_map_service(observation, &place, kind.map(|it| it.to_string()))];
        let detail = if held { "this Service holds the name" } else { "another Service holds it" };
        facts.push(fact(!held, "claim", detail.to_owned()));
        facts.extend(remarks.iter().map(|remark| fact(false, "note", remark.to_string())));
        let of_place = plan.held_back.iter().filter(|it| it.place.as_ref() == Some(&place));
        let own = of_place.filter(|it| it.service == self.service);
        let held_back = own.cloned().map(HeldBackLine::from).collect();
        let lines: Vec<EndpointLine> = endpoints.into_iter().map(EndpointLine::from).collect();
        let left_out = |line: &EndpointLine| {
            line.condition == Condition::Ready && line.fate == EndpointFate::NotRegistered
        };
        self.ok &= held && !lines.iter().any(left_out);
        self.names.push(Name {
            namespace: place.namespace,
            name: place.name,
            facts,
            endpoints: lines,
            held_back,
            discovery,
        });
    }

    /// What is held back of it before it comes to any name.
    #[must_use]
    pub fn held_back(mut self, plan: &Plan) -> Self {
        let of_service = plan.held_back.iter().filter(|it| it.service == self.service);
        let placeless = of_service.filter(|it| it.place.is_none());
        self.held_back = placeless.cloned().map(HeldBackLine::from).collect();
        self.ok &= self.held_back.is_empty();
        self
    }

    fn fact(&mut self, stops: bool, about: &'static str, detail: String) {
        self.facts.push(fact(stops, about, detail));
    }
}

fn fact(stops: bool, about: &'static str, detail: String) -> Fact {
    Fact { stops, about: about.into(), detail }
}

fn cloud_map_service(observation: &Observation, place: &Place, kind: Option<String>) -> Fact {
    let namespace = observation.registry.namespaces.get(&place.key.namespace);
    let of = match namespace.map(|namespace| namespace.kind) {
        Some(NamespaceKind::Dns) => "a DNS namespace",
        Some(NamespaceKind::Http) => "an HTTP namespace",
        None => "a namespace that is not there yet",
    };
    let id = &place.key.namespace;
    let detail = match kind {
        Some(kind) => format!("{kind}, in {of} ({id})"),
        None => format!("not there yet, in {of} ({id}); it is created with the first instance"),
    };
    fact(false, "service", detail)
}

impl Shorten for Explanation {
    fn longest(&self) -> usize {
        self.names.iter().map(|name| name.endpoints.len()).max().unwrap_or_default()
    }

    fn shorten(&mut self, entries: usize) {
        for name in &mut self.names {
            name.endpoints.sort_by_key(|line| line.fate == EndpointFate::Registered);
            name.endpoints.truncate(entries);
            name.held_back.truncate(entries);
        }
        self.cut = Some(format!(
            "the whole explanation is too large for Lambda's answer: these are {entries} endpoints of each name, \
             first those that are not registered"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::within_limit;

    #[test]
    fn an_explanation_that_is_too_large_has_first_the_endpoints_that_are_not_registered() {
        let last = 59_999;
        let endpoint = |number: usize| EndpointLine {
            pod: Some(format!("web-{number}")),
            addresses: vec!["10.0.0.1".to_owned()],
            condition: Condition::Ready,
            fate: if number == last {
                EndpointFate::NotRegistered
            } else {
                EndpointFate::Registered
            },
            detail: "a sentence about what becomes of it".to_owned(),
        };
        let name = Name {
            namespace: "shop.local".to_owned(),
            name: "web".to_owned(),
            facts: Vec::new(),
            endpoints: (0..=last).map(endpoint).collect(),
            held_back: Vec::new(),
            discovery: None,
        };
        let mut whole = Explanation::new("blue", &ServiceRef::new("shop", "web"));
        whole.names.push(name);
        let explanation: Explanation =
            serde_json::from_value(within_limit(&whole)).expect("an explanation");
        assert_eq!(explanation.names[0].endpoints[0].fate, EndpointFate::NotRegistered);
        assert!(explanation.to_string().contains("\n! the whole explanation is too large"));
    }
}
