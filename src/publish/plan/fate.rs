//! The fate of each endpoint of one Service under each name that it claims, so that people can find out why a pod is
//! missing. It is read off a plan and its input, and decides nothing.

use serde::{Deserialize, Serialize};

use super::{Change, Identity, Observation, Plan};
use crate::model::attributes::PORT;
use crate::model::{
    Attributes, Endpoint, Namespace, NamespaceKind, Place, PublishedService, Records, ServiceKind,
    ServiceRef,
};

/// One Service under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub place: Place,
    /// The kind of the Cloud Map service, if that exists.
    pub kind: Option<ServiceKind>,
    /// Whether the Service holds the name.
    pub held: bool,
    /// Each endpoint with its fate, also in a sentence.
    pub endpoints: Vec<(Endpoint, Fate, String)>,
    /// Facts that may surprise the reader.
    pub remarks: Vec<String>,
}

/// The fate of an endpoint in Cloud Map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It is registered without drift.
    Registered,
    /// It is registered, and the next sync changes its instance.
    Changes,
    /// The next sync registers it.
    ToRegister,
    /// It stays out of Cloud Map.
    NotRegistered,
}

/// The state of the endpoints of a Service. Its endpoints must have been read.
pub fn found(observation: &Observation, plan: &Plan, service: &ServiceRef) -> Vec<Found> {
    let Observation { holders, .. } = observation;
    let Some(annotated) = observation.desired.services.get(service) else { return Vec::new() };
    let keys = holders.claims(service).into_iter().flatten();
    keys.map(|key| {
        let place = Place::of(key, &observation.registry);
        let kind = observation.registry.services.get(key).map(|it| it.kind);
        let endpoints = annotated.endpoints.iter().flatten();
        let fates = endpoints.map(|endpoint| {
            let (fate, detail) = fate(observation, plan, &place, endpoint);
            (endpoint.clone(), fate, detail)
        });
        Found {
            held: holders.holds(key, service),
            endpoints: fates.collect(),
            remarks: remarks(observation, &place, kind, annotated),
            place,
            kind,
        }
    })
    .collect()
}

/// The fate of an endpoint in the plan, and the same in a sentence.
fn fate(
    observation: &Observation,
    plan: &Plan,
    place: &Place,
    endpoint: &Endpoint,
) -> (Fate, String) {
    let ours = observation.ours(&place.key).filter(|(_, attributes)| is_at(attributes, endpoint));
    let registered: Vec<&str> = ours.map(|(id, _)| id.as_str()).collect();
    let mut changes = plan.changes.values().flatten().filter(|change| change.place() == place);
    let change = changes
        .clone()
        .find_map(|change| Some((change, change.instance().filter(|id| registered.contains(id))?)));
    if let Some((change, id)) = change {
        let (verb, detail) = (change.verb(), change.detail());
        let detail = format!("registered as {id}, and a sync would {verb} it: {detail}");
        return (Fate::Changes, detail);
    }
    if !registered.is_empty() {
        return (Fate::Registered, format!("registered as {}", registered.join(", ")));
    }
    let new = changes.find_map(|change| match change {
        Change::Register { instance, attributes, .. } if is_at(attributes, endpoint) => {
            Some(instance)
        }
        _ => None,
    });
    if let Some(id) = new {
        return (Fate::ToRegister, format!("a sync would register it as {id}"));
    }
    let why = match endpoint {
        Endpoint { terminating: true, .. } => "its pod is terminating",
        Endpoint { ready: false, .. } => "its pod is not ready",
        _ => "see the held back lines",
    };
    (Fate::NotRegistered, format!("not registered: {why}"))
}

fn is_at(attributes: &Attributes, endpoint: &Endpoint) -> bool {
    let mut addresses = Identity::of(attributes, false).addresses();
    let ports: Vec<String> = endpoint.ports.values().map(u16::to_string).collect();
    let port = attributes
        .get(PORT)
        .is_none_or(|port| ports.is_empty() || ports.iter().any(|it| it == port));
    port && addresses.any(|it| endpoint.addresses().any(|own| own == it))
}

/// A hostname that ends with the name of the namespace, and pods that listen at another port than the Service, of which
/// the records have none.
fn remarks(
    observation: &Observation,
    place: &Place,
    kind: Option<ServiceKind>,
    annotated: &PublishedService,
) -> Vec<String> {
    let namespace = observation.registry.namespaces.get(&place.key.namespace);
    let dns = namespace.filter(|namespace| namespace.kind == NamespaceKind::Dns);
    let repeats = dns.and_then(|Namespace { name, .. }| {
        let ending = format!(".{}", name.to_ascii_lowercase());
        let repeats = place.name.to_ascii_lowercase().ends_with(&ending);
        repeats.then(|| {
            format!(
                "the hostname repeats the namespace, so that DNS has it as {}.{name}: write the hostname without the namespace",
                place.name
            )
        })
    });
    let kind = kind.filter(|kind| matches!(kind, ServiceKind::Dns(Records { srv: false, .. })));
    let endpoints = annotated.endpoints.as_deref().unwrap_or_default();
    let target = kind.and_then(|kind| {
        annotated.ports.iter().find_map(|port| {
            let mut targets = endpoints.iter().filter_map(|it| it.ports.get(&port.name));
            let target = targets.find(|target| **target != port.number)?;
            Some(format!(
                "{kind} records carry no port: clients connect to the pods themselves, which listen at {target}, and not to the Service's port {}",
                port.number
            ))
        })
    });
    repeats.into_iter().chain(target).collect()
}
