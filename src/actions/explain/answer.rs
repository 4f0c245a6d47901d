//! The answer of the action `explain`: the annotations of one Service, then each of its names with the fate of each
//! endpoint and the instances that clients discover.

use serde::{Deserialize, Serialize};

use super::{Condition, Discovery, EndpointFate, EndpointLine};
use crate::model::{NamespaceKind, Place, ServiceRef};
use crate::publish::plan::{Found, Observation, Plan};
use crate::report::{HeldBackLine, Shorten, Word};

/// The registration of a Service, with the reasons.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Whether nothing keeps a ready endpoint from being registered.
    pub ok: bool,
    /// The cluster's ARN.
    pub cluster: String,
    /// The Service.
    pub service: ServiceRef,
    /// The facts and problems of the Service itself.
    pub facts: Vec<Fact>,
    /// The names that it claims.
    pub names: Vec<Name>,
    /// The held-back requests that belong to no name.
    pub held_back: Vec<HeldBackLine>,
    /// The part that is left out, if the answer is too large for a Lambda response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}

/// A fact about the Service or one of its names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Whether it keeps the Service from being discovered.
    pub stops: bool,
    /// The subject.
    pub about: Word,
    /// The fact in words.
    pub detail: String,
}

/// A name that the Service claims.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Name {
    /// The Cloud Map namespace's name.
    pub namespace: String,
    /// The Cloud Map service's name.
    pub name: String,
    /// The type of the Cloud Map service, the holder of the name, and remarks.
    pub facts: Vec<Fact>,
    /// The fate of each endpoint.
    pub endpoints: Vec<EndpointLine>,
    /// The held-back requests.
    pub held_back: Vec<HeldBackLine>,
    /// The instances that clients discover, if the Cloud Map service exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovery: Option<Discovery>,
}

impl Explanation {
    /// An explanation without facts.
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

    /// Records that the Service does not exist.
    #[must_use]
    pub fn with_missing_service(mut self) -> Self {
        self.add_fact(true, "service", "not found in the cluster".to_owned());
        self.with_failure()
    }

    /// Adds the Service's annotations with our prefix.
    pub fn add_annotations<'a>(
        &mut self,
        prefix: &str,
        annotations: impl Iterator<Item = (&'a String, &'a String)>,
    ) {
        let mut has_hostname = false;
        for (key, value) in annotations {
            let name = key.strip_prefix(prefix).unwrap_or(key);
            has_hostname |= name == "hostname";
            self.add_fact(false, "annotation", format!("{name}: {value}"));
        }
        if !has_hostname {
            let detail = format!("{prefix}hostname is not set, so the Service claims no name");
            self.add_fact(true, "annotation", detail);
        }
    }

    /// Adds the Service's own address.
    pub fn add_address(&mut self, headless: bool, address: &str) {
        let detail = if headless {
            "headless (clusterIP: None)".to_owned()
        } else {
            let address = if address.is_empty() { "none" } else { address };
            format!(
                "clusterIP is {address}: only headless Services (clusterIP: None) are registered, and the field \
                 is immutable: create a headless Service beside it"
            )
        };
        self.add_fact(!headless, "service", detail);
    }

    /// Marks the explanation as failed.
    #[must_use]
    pub fn with_failure(mut self) -> Self {
        self.ok = false;
        self
    }

    /// Adds one of the Service's names.
    pub fn add_name(
        &mut self,
        observation: &Observation,
        found: Found,
        plan: &Plan,
        discovery: Option<Discovery>,
    ) {
        let Found { place, kind, held, endpoints, remarks } = found;
        let mut facts = vec![cloud_map_service(observation, &place, kind.map(|it| it.to_string()))];
        let detail =
            if held { "this Service holds the name" } else { "another Service holds the name" };
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

    /// Adds the held-back requests that belong to no name.
    #[must_use]
    pub fn with_held_back(mut self, plan: &Plan) -> Self {
        let of_service = plan.held_back.iter().filter(|it| it.service == self.service);
        let placeless = of_service.filter(|it| it.place.is_none());
        self.held_back = placeless.cloned().map(HeldBackLine::from).collect();
        self.ok &= self.held_back.is_empty();
        self
    }

    fn add_fact(&mut self, stops: bool, about: &'static str, detail: String) {
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
        None => "a namespace that does not exist yet",
    };
    let id = &place.key.namespace;
    let detail = match kind {
        Some(kind) => format!("{kind}, in {of} ({id})"),
        None => format!("does not exist yet, in {of} ({id}); created with the first instance"),
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
            "the explanation is too large for a Lambda response: it has {entries} endpoints of each name, first those \
             that are not registered"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::within_limit;

    #[test]
    fn an_explanation_that_is_too_large_keeps_the_endpoints_that_are_not_registered() {
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
            detail: "a sentence about its fate".to_owned(),
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
        assert!(explanation.to_string().contains("\n! the explanation is too large"));
    }
}
