//! The state of each endpoint of one Service under each name that it claims, so that people can find out why a pod is
//! missing. It is derived from a plan and its input, and decides nothing.

use std::net::IpAddr;

use super::change::Change;
use super::observation::{Basis, Observation};
use super::result::Plan;
use crate::model::attributes::{IPV4, IPV6, PORT};
use crate::model::{
    Attributes, Endpoint, NamespaceKind, Place, PublishedService, Records, ServiceKind, ServiceRef,
    Verb,
};

/// One Service under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub place: Place,
    /// The kind of the Cloud Map service, if that exists.
    pub kind: Option<ServiceKind>,
    /// Whether the Service holds the name.
    pub held: bool,
    /// Each endpoint with its pod and addresses, and its state.
    pub endpoints: Vec<(Endpoint, Fate)>,
    /// Facts that may surprise the reader.
    pub remarks: Vec<Remark>,
}

/// The state of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fate {
    /// It is registered, as it should be.
    #[error("registered as {}", .0.join(", "))]
    Registered(Vec<String>),
    /// It is registered, and a sync would change that.
    #[error("registered as {instance}, and a sync would {verb} it: {detail}")]
    Changes {
        instance: String,
        /// The change that a sync would make.
        verb: Verb,
        /// The details of the change, or its reason.
        detail: String,
    },
    /// A sync would register it.
    #[error("a sync would register it as {0}")]
    ToRegister(String),
    #[error("not registered: its pod is terminating")]
    Terminating,
    #[error("not registered: its pod is not ready")]
    NotReady,
    /// A reason holds it back.
    #[error("not registered: see the held back lines")]
    HeldBack,
}

/// A fact about a name that may surprise the reader.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Remark {
    /// The hostname ends with the name of the namespace.
    #[error(
        "the hostname repeats the namespace, so that DNS has it as {0}: write the hostname without the namespace"
    )]
    RepeatsNamespace(String),
    /// The records have no ports, and the pods listen at another port than the Service.
    #[error(
        "{kind} records carry no port: clients connect to the pods themselves, which listen at {target}, and not to the Service's port {port}"
    )]
    TargetPort {
        kind: ServiceKind,
        port: u16,
        /// The port of the pods.
        target: u16,
    },
}

/// The state of the endpoints of a Service. Its endpoints must have been read.
pub fn found(basis: Basis<'_>, plan: &Plan, service: &ServiceRef) -> Vec<Found> {
    let Basis { observation, holders, .. } = basis;
    let Some(annotated) = observation.desired.services.get(service) else { return Vec::new() };
    let keys = holders.claims(service).into_iter().flatten();
    keys.map(|key| {
        let place = Place::of(key, &observation.registry);
        let kind = observation.registry.services.get(key).map(|it| it.kind);
        let endpoints = annotated.endpoints.iter().flatten();
        let fates =
            endpoints.map(|endpoint| (endpoint.clone(), fate(observation, plan, &place, endpoint)));
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

fn fate(observation: &Observation, plan: &Plan, place: &Place, endpoint: &Endpoint) -> Fate {
    let ours = observation.ours(&place.key).filter(|(_, attributes)| is_at(attributes, endpoint));
    let registered: Vec<String> = ours.map(|(id, _)| id.clone()).collect();
    let mut changes = plan.changes.values().flatten().filter(|change| change.place() == place);
    let change = changes.clone().find(|change| {
        change.instance().is_some_and(|id| registered.iter().any(|known| known == id))
    });
    if let Some((change, instance)) = change.and_then(|it| Some((it, it.instance()?))) {
        let (instance, verb, detail) = (instance.to_owned(), change.verb(), change.detail());
        return Fate::Changes { instance, verb, detail };
    }
    if !registered.is_empty() {
        return Fate::Registered(registered);
    }
    let new = changes.find_map(|change| match change {
        Change::Register { instance, attributes, .. } if is_at(attributes, endpoint) => {
            Some(instance.clone())
        }
        _ => None,
    });
    match new {
        Some(instance) => Fate::ToRegister(instance),
        None if endpoint.terminating => Fate::Terminating,
        None if !endpoint.ready => Fate::NotReady,
        None => Fate::HeldBack,
    }
}

fn is_at(attributes: &Attributes, endpoint: &Endpoint) -> bool {
    let addresses = [IPV4, IPV6].into_iter().filter_map(|key| attributes.get(key)?.parse().ok());
    let mut addresses = addresses.filter(|it: &IpAddr| endpoint.addresses().any(|own| own == *it));
    let ports: Vec<String> = endpoint.ports.values().map(u16::to_string).collect();
    let port = attributes
        .get(PORT)
        .is_none_or(|port| ports.is_empty() || ports.iter().any(|it| it == port));
    port && addresses.next().is_some()
}

fn remarks(
    observation: &Observation,
    place: &Place,
    kind: Option<ServiceKind>,
    annotated: &PublishedService,
) -> Vec<Remark> {
    let namespace = observation.registry.namespaces.get(&place.key.namespace);
    let dns = namespace.filter(|namespace| namespace.kind == NamespaceKind::Dns);
    let repeats = dns.and_then(|namespace| {
        let ending = format!(".{}", namespace.name.to_ascii_lowercase());
        let repeats = place.name.to_ascii_lowercase().ends_with(&ending);
        repeats.then(|| Remark::RepeatsNamespace(format!("{}.{}", place.name, namespace.name)))
    });
    let kind = kind.filter(|kind| matches!(kind, ServiceKind::Dns(Records { srv: false, .. })));
    let target = kind.and_then(|kind| target_port(kind, annotated));
    repeats.into_iter().chain(target).collect()
}

/// The first port of the Service with another number than the port of its pods.
fn target_port(kind: ServiceKind, annotated: &PublishedService) -> Option<Remark> {
    let endpoints = annotated.endpoints.as_deref().unwrap_or_default();
    annotated.ports.iter().find_map(|port| {
        let mut targets = endpoints.iter().filter_map(|endpoint| endpoint.ports.get(&port.name));
        let target = *targets.find(|target| **target != port.number)?;
        Some(Remark::TargetPort { kind, port: port.number, target })
    })
}
