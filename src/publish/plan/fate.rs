//! The fate of each endpoint of one Service under each name that it claims, so that people can find out why a pod is
//! missing. It is read off a plan and its input, and decides nothing.

use super::change::Change;
use super::instance::Identity;
use super::observation::{Observation, Plan};
use crate::error::{printable, shorten};
use crate::model::attributes::PORT;
use crate::model::{
    Attributes, Endpoint, EndpointLine, Fate, Place, PublishedService, Records, ServiceKind,
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
    pub endpoints: Vec<EndpointLine>,
    /// Facts that may surprise the reader.
    pub remarks: Vec<String>,
}

impl Observation {
    /// The state of the endpoints of a Service. Its endpoints must have been read.
    pub fn found(&self, plan: &Plan, service: &ServiceRef) -> Vec<Found> {
        let Some(annotated) = self.desired.services.get(service) else { return Vec::new() };
        let keys = self.holders.claims(service).into_iter().flatten();
        keys.map(|key| {
            let place = Place::of(key, &self.registry);
            let kind = self.registry.services.get(key).map(|it| it.kind);
            let endpoints = annotated.endpoints.iter().flatten();
            Found {
                held: self.holders.holds(key, service),
                endpoints: endpoints.map(|it| line(self, plan, &place, it)).collect(),
                remarks: remarks(kind, annotated),
                place,
                kind,
            }
        })
        .collect()
    }
}

/// An endpoint with its fate in the plan.
fn line(
    observation: &Observation,
    plan: &Plan,
    place: &Place,
    endpoint: &Endpoint,
) -> EndpointLine {
    let condition = match endpoint {
        Endpoint { terminating: true, .. } => "terminating",
        Endpoint { ready: true, .. } => "ready",
        _ => "not ready",
    };
    let ours = observation.ours(&place.key).filter(|(_, attributes)| is_at(attributes, endpoint));
    let registered: Vec<&str> = ours.map(|(id, _)| id.as_str()).collect();
    let mut changes = plan.changes.values().flatten().filter(|change| change.place() == place);
    let change = changes
        .clone()
        .find_map(|change| Some((change, change.instance().filter(|id| registered.contains(id))?)));
    let new = changes.find_map(|change| match change {
        Change::Register { instance, attributes, .. } if is_at(attributes, endpoint) => {
            Some(instance)
        }
        _ => None,
    });
    let (fate, detail) = match (change, new) {
        (Some((change, id)), _) => {
            let (verb, detail) = (change.verb(), change.detail());
            let detail = format!("registered as {id}, and a sync would {verb} it: {detail}");
            (Fate::Changes, detail)
        }
        (None, _) if !registered.is_empty() => {
            (Fate::Present, format!("registered as {}", registered.join(", ")))
        }
        (None, Some(id)) => (Fate::ToAdd, format!("a sync would register it as {id}")),
        (None, None) if condition == "ready" => {
            (Fate::LeftOut, "not registered: see the held back lines".to_owned())
        }
        (None, None) => (Fate::NotReady, format!("not registered: its pod is {condition}")),
    };
    let malformed = endpoint.malformed.as_ref().map(|it| printable(&shorten(it.as_str())));
    let addresses = endpoint.addresses().map(|address| address.to_string());
    EndpointLine {
        member: None,
        addresses: addresses.chain(malformed).collect(),
        ports: Vec::new(),
        pod: endpoint.pod.clone(),
        condition: Some(condition.to_owned()),
        fate,
        detail,
    }
}

fn is_at(attributes: &Attributes, endpoint: &Endpoint) -> bool {
    let mut addresses = Identity::of(attributes, false).addresses();
    let ports: Vec<String> = endpoint.ports.values().map(u16::to_string).collect();
    let port = attributes
        .get(PORT)
        .is_none_or(|port| ports.is_empty() || ports.iter().any(|it| it == port));
    port && addresses.any(|it| endpoint.addresses().any(|own| own == it))
}

/// Pods that listen at another port than the Service, of which the records have none.
fn remarks(kind: Option<ServiceKind>, annotated: &PublishedService) -> Vec<String> {
    let Some(kind @ ServiceKind::Dns(Records { srv: false, .. })) = kind else {
        return Vec::new();
    };
    let endpoints = annotated.endpoints.as_deref().unwrap_or_default();
    let remark = annotated.ports.iter().find_map(|port| {
        let mut targets = endpoints.iter().filter_map(|endpoint| endpoint.ports.get(&port.name));
        let target = targets.find(|target| **target != port.number)?;
        Some(format!(
            "{kind} records carry no port: clients connect to the pods themselves, which listen at {target}, and not to the Service's port {}",
            port.number
        ))
    });
    remark.into_iter().collect()
}
