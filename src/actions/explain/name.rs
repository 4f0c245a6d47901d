//! One name of a Service in Cloud Map, by its annotations or its export: the Cloud Map service, the fate of each endpoint,
//! and the instances that clients discover.

use serde::{Deserialize, Serialize};

use super::answer::fact;
use super::{Condition, Discovery, EndpointFate, EndpointLine, Explanation, Fact};
use crate::model::{NamespaceKind, Place};
use crate::publish::plan::{Found, Observation, Plan};
use crate::report::HeldBackLine;

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
    /// Adds one of the Service's names.
    pub fn add_name(
        &mut self,
        observation: &Observation,
        found: Found,
        plan: &Plan,
        discovery: Option<Discovery>,
    ) {
        let detail = if found.held {
            "this Service holds the name"
        } else {
            "another Service holds the name"
        };
        let claim = fact(!found.held, "claim", detail.to_owned());
        self.add_found(claim, observation, found, plan, discovery);
    }

    /// Adds the name of the Service's export.
    pub fn add_export(
        &mut self,
        observation: &Observation,
        found: Found,
        plan: &Plan,
        discovery: Option<Discovery>,
    ) {
        if !self.names.is_empty() {
            let names = self.names.iter().map(|name| format!("{}/{}", name.namespace, name.name));
            let names = names.collect::<Vec<_>>();
            let place = found.place.to_string();
            let twice =
                if names.contains(&place) { ", so clients discover each pod twice" } else { "" };
            let detail = format!(
                "the Service is annotated and exported: it is registered for both, as {} and as {place}{twice}",
                names.join(", ")
            );
            self.add_fact(false, "note", detail);
        }
        let claim = fact(false, "export", "the instances of the export".to_owned());
        self.add_found(claim, observation, found, plan, discovery);
    }

    fn add_found(
        &mut self,
        claim: Fact,
        observation: &Observation,
        found: Found,
        plan: &Plan,
        discovery: Option<Discovery>,
    ) {
        let Found { place, kind, held, endpoints, remarks } = found;
        let mut facts = vec![cloud_map_service(observation, &place, kind.map(|it| it.to_string()))];
        facts.push(claim);
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
            namespace: place.namespace.clone(),
            name: place.name.clone(),
            facts,
            endpoints: lines,
            held_back,
            discovery,
        });
    }
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
