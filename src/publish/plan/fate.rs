//! The fate of each endpoint of one Service under each name that it claims, so that a person can find out why a pod is
//! missing. [`plan_with_fates`](super::plan_with_fates) makes a plan that records the fates of one Service at each
//! decision, and [`names_with_fates`] formats the record. No other plan records fates.
//!
//! The record has the id of each instance that an endpoint requests. An endpoint that requests no instance may still be
//! registered, so its line has our instances at its addresses.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::change::Change;
use super::identity::Identity;
use super::observation::{Observation, Plan};
use super::reason::{HeldBack, Reason};
use super::removals::DeregisterReason;
use super::wanted::WantedInstances;
use crate::error::{printable, shorten};
use crate::model::{
    Claims, Endpoint, EndpointLine, Fate, Marks, Owner, Place, PublishedService, Records,
    ServiceKey, ServiceKind, ServiceRef, join,
};

/// The fates of the endpoints of one Service, in their order, under each name that a plan has compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fates {
    service: ServiceRef,
    names: BTreeMap<ServiceKey, Vec<EndpointFate>>,
}

/// The fate of an endpoint under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointFate {
    /// The endpoint requests these instances.
    Requests(Vec<InstanceFate>),
    RequestsNone(NotRequested),
}

/// The reason why an endpoint requests no instance.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRequested {
    #[error("its pod is {0}")]
    NotReady(&'static str),
    #[error("{}", DeregisterReason::Withdrawn)]
    Withdrawn,
    #[error("{0}")]
    HeldBack(Reason),
}

impl NotRequested {
    fn fate(&self) -> Fate {
        match self {
            Self::NotReady(_) => Fate::NotReady,
            Self::Withdrawn | Self::HeldBack(_) => Fate::LeftOut,
        }
    }

    fn held_back(&self) -> Option<&Reason> {
        match self {
            Self::HeldBack(reason) => Some(reason),
            Self::NotReady(_) | Self::Withdrawn => None,
        }
    }
}

/// The fate of an instance that an endpoint requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceFate {
    /// The instance has this id, or gets it by a change of the plan.
    Registered {
        id: String,
        /// The reason why a change of the instance is held back.
        held_back: Option<Reason>,
    },
    LeftOut(Reason),
}

/// The fates of the requested instances under a name, by the id that each would get as a new instance.
pub type InstanceFates = BTreeMap<String, InstanceFate>;

impl Fates {
    /// Returns an empty record for a Service.
    pub(super) fn of(service: &ServiceRef) -> Self {
        Self { service: service.clone(), names: BTreeMap::new() }
    }

    /// Returns an empty record of the instances of `holder` under a name. `None` if these fates are about another
    /// Service.
    pub(super) fn new_record(&self, holder: &ServiceRef) -> Option<InstanceFates> {
        (self.service == *holder).then(InstanceFates::new)
    }

    /// The fates of an instance, one for each endpoint that requests it.
    fn fates_of_instance(
        &mut self,
        key: &ServiceKey,
        id: &str,
    ) -> impl Iterator<Item = &mut InstanceFate> {
        let endpoints = self.names.get_mut(key).into_iter().flatten();
        let instances = endpoints.flat_map(|endpoint| match endpoint {
            EndpointFate::Requests(instances) => instances.as_mut_slice(),
            EndpointFate::RequestsNone(_) => &mut [],
        });
        instances.filter(move |instance| {
            matches!(instance, InstanceFate::Registered { id: registered, .. } if registered == id)
        })
    }
}

impl InstanceFate {
    pub(super) fn registered(id: &str, held_back: Option<&Reason>) -> Self {
        Self::Registered { id: id.to_owned(), held_back: held_back.cloned() }
    }
}

impl EndpointFate {
    /// Returns the fate of an endpoint that requests no instance. `held_back` gives the reason if its pod and its
    /// Service do not.
    fn without_instance(
        endpoint: &Endpoint,
        claims: &Claims,
        held_back: impl FnOnce() -> Reason,
    ) -> Self {
        Self::RequestsNone(if !endpoint.is_published(claims) {
            NotRequested::NotReady(condition(endpoint))
        } else if !claims.publish {
            NotRequested::Withdrawn
        } else {
            NotRequested::HeldBack(held_back())
        })
    }
}

/// Returns the fates of the endpoints under a name, in their order, from the fates of the instances.
pub(super) fn endpoint_fates(
    wanted: &WantedInstances,
    owner: &Owner,
    instances: &InstanceFates,
) -> Vec<EndpointFate> {
    let template = wanted.template;
    let is_maximum =
        |reason: &&Reason| matches!(reason, Reason::Maximum { .. } | Reason::ServiceFull { .. });
    let maximum = wanted.held_back.iter().find(is_maximum);
    let marks = Marks { service: wanted.holder.clone(), pod: None }.write(owner);
    let mut fates = Vec::new();
    for endpoint in template.published.read_endpoints() {
        let derived = template.instances_of(endpoint, &marks, owner.cluster.region());
        let mut requested = Vec::new();
        for (identity, _) in &derived.instances {
            requested.extend(instances.get(&identity.new_id(owner, &wanted.holder)).cloned());
        }
        fates.push(if requested.is_empty() {
            EndpointFate::without_instance(endpoint, template.claims, || {
                let reason = derived.held_back.first().or(maximum).cloned();
                reason.unwrap_or_else(|| Reason::RecordTypeMismatch {
                    records: template.kind.to_string(),
                    addresses: join(endpoint.addresses(), ", "),
                })
            })
        } else {
            EndpointFate::Requests(requested)
        });
    }
    fates
}

impl Plan {
    /// Records the fates of the endpoints under a name, if there are any.
    pub(super) fn record(&mut self, place: &Place, endpoints: Option<Vec<EndpointFate>>) {
        if let (Some(fates), Some(endpoints)) = (&mut self.fates, endpoints) {
            fates.names.insert(place.key.clone(), endpoints);
        }
    }

    /// Records the reason why a new instance is not registered.
    pub(super) fn record_left_out(&mut self, place: &Place, id: &str, reason: &Reason) {
        for fate in self.fates.iter_mut().flat_map(|fates| fates.fates_of_instance(&place.key, id))
        {
            *fate = InstanceFate::LeftOut(reason.clone());
        }
    }

    /// Records the fate of the instance whose change was taken out of the plan, with the reason.
    pub(super) fn record_fate(&mut self, change: &Change, reason: &Reason) {
        let place = change.place();
        match change {
            Change::Register { instance, .. } => self.record_left_out(place, instance, reason),
            Change::Rewrite { exchange: Some(exchange), .. } => {
                self.record_left_out(place, &exchange.newcomer, reason);
            }
            change => {
                let id = change.instance().unwrap_or_default();
                for fate in
                    self.fates.iter_mut().flat_map(|fates| fates.fates_of_instance(&place.key, id))
                {
                    *fate = InstanceFate::registered(id, Some(reason));
                }
            }
        }
    }
}

/// A name that a Service claims, with the fate of each of its endpoints there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameWithFates {
    pub place: Place,
    /// The kind of the Cloud Map service, if that exists.
    pub kind: Option<ServiceKind>,
    pub is_holder: bool,
    pub endpoints: Vec<EndpointLine>,
    /// Facts that may surprise the reader.
    pub remarks: Vec<String>,
}

/// Returns the names of a Service with the fates of its endpoints, as `plan` has recorded them. The endpoints must have
/// been read.
pub fn names_with_fates(
    observation: &Observation,
    plan: &Plan,
    service: &ServiceRef,
) -> Vec<NameWithFates> {
    let Some(published) = observation.desired.services.get(service) else { return Vec::new() };
    let Ok(claims) = &published.claims else { return Vec::new() };
    let mut names = Vec::new();
    for key in observation.holders.claims(service).into_iter().flatten() {
        let place = Place::of(key, &observation.registry);
        let endpoints = published.read_endpoints().iter();
        let recorded = plan.fates.as_ref().and_then(|fates| fates.names.get(key)).cloned();
        let fates = recorded.unwrap_or_else(|| {
            let held_back = || not_compared(plan, &place, service);
            let fate = |endpoint| EndpointFate::without_instance(endpoint, claims, held_back);
            endpoints.clone().map(fate).collect()
        });
        let lines = endpoints
            .zip(&fates)
            .map(|(endpoint, fate)| line(observation, plan, &place, endpoint, fate));
        let kind = observation.registry.services.get(key).map(|service| service.kind);
        names.push(NameWithFates {
            kind,
            is_holder: observation.holders.holds(key, service),
            endpoints: lines.collect(),
            remarks: remarks(kind, published),
            place,
        });
    }
    names
}

/// The reason why a plan does not compare a name of a Service.
fn not_compared(plan: &Plan, place: &Place, service: &ServiceRef) -> Reason {
    let is_reason = |line: &&HeldBack| {
        line.service == *service && line.place.as_ref() == Some(place) && line.reason.keeps_out()
    };
    let unread = || Reason::Unreadable("they were not requested".to_owned());
    plan.held_back.iter().find(is_reason).map_or_else(unread, |line| line.reason.clone())
}

/// An endpoint with its fate in the plan.
fn line(
    observation: &Observation,
    plan: &Plan,
    place: &Place,
    endpoint: &Endpoint,
    fate: &EndpointFate,
) -> EndpointLine {
    let facts = match fate {
        EndpointFate::Requests(instances) => {
            instances.iter().map(|instance| Fact::about_request(plan, place, instance)).collect()
        }
        EndpointFate::RequestsNone(reason) => {
            let mut facts = Vec::new();
            for id in registered_at(observation, &place.key, endpoint) {
                facts.push(Fact::about_registered(plan, place, id, reason.held_back()));
            }
            if facts.is_empty() {
                facts.push(Fact::not_registered(reason.fate(), reason));
            }
            facts
        }
    };
    let has = |fate: &Fate| facts.iter().any(|fact| fact.fate == *fate);
    let in_order = [Fate::LeftOut, Fate::Changes, Fate::ToAdd, Fate::NotReady];
    let malformed = endpoint.malformed.as_ref().map(|text| printable(&shorten(text.as_str())));
    let addresses = endpoint.addresses().map(|address| address.to_string());
    EndpointLine {
        member: None,
        addresses: addresses.chain(malformed).collect(),
        ports: Vec::new(),
        pod: endpoint.pod.clone(),
        condition: Some(condition(endpoint).to_owned()),
        fate: in_order.into_iter().find(has).unwrap_or(Fate::Present),
        detail: join(facts.iter().map(|fact| &fact.text), "; "),
    }
}

fn condition(endpoint: &Endpoint) -> &'static str {
    match endpoint {
        Endpoint { terminating: true, .. } => "terminating",
        Endpoint { ready: true, .. } => "ready",
        _ => "not ready",
    }
}

/// The ids of our instances that have an address of an endpoint.
fn registered_at<'a>(
    observation: &'a Observation,
    key: &ServiceKey,
    endpoint: &Endpoint,
) -> Vec<&'a String> {
    let mut registered = Vec::new();
    for (id, attributes) in observation.our_instances(key) {
        let mut addresses = Identity::of(attributes, false).addresses();
        if addresses.any(|registered| endpoint.addresses().any(|address| address == registered)) {
            registered.push(id);
        }
    }
    registered
}

/// A part of the line of an endpoint.
struct Fact {
    fate: Fate,
    text: String,
}

impl Fact {
    fn not_registered(fate: Fate, reason: &dyn Display) -> Self {
        Self { fate, text: format!("not registered: {reason}") }
    }

    /// The fact about an instance that an endpoint requests.
    fn about_request(plan: &Plan, place: &Place, instance: &InstanceFate) -> Self {
        match instance {
            InstanceFate::LeftOut(reason) => Self::not_registered(Fate::LeftOut, reason),
            InstanceFate::Registered { id, held_back } => {
                Self::about_registered(plan, place, id, held_back.as_ref())
            }
        }
    }

    /// The fact about an instance that has this id or gets it, with its planned change.
    fn about_registered(plan: &Plan, place: &Place, id: &str, held_back: Option<&Reason>) -> Self {
        for change in plan.changes.values().flatten().filter(|change| change.place() == place) {
            let displaced = change.exchange().filter(|exchange| exchange.newcomer == id);
            if displaced.is_none() && change.instance() != Some(id) {
                continue;
            }
            let verb = change.verb();
            let detail = change.detail();
            return match change {
                Change::Register { .. } => {
                    Self { fate: Fate::ToAdd, text: format!("a sync would register it as {id}") }
                }
                Change::Rewrite { instance, .. } if displaced.is_some() => {
                    let text = format!("a sync would register it as {instance}: {detail}");
                    Self { fate: Fate::ToAdd, text }
                }
                _ => {
                    let text = format!("registered as {id}, and a sync would {verb} it: {detail}");
                    Self { fate: Fate::Changes, text }
                }
            };
        }
        let text = match held_back {
            Some(reason) => format!("registered as {id}; {reason}"),
            None => format!("registered as {id}"),
        };
        Self { fate: Fate::Present, text }
    }
}

/// Returns a remark if the pods listen on another port than the Service, and the records carry no port.
fn remarks(kind: Option<ServiceKind>, published: &PublishedService) -> Vec<String> {
    let Some(kind @ ServiceKind::Dns(Records { srv: false, .. })) = kind else {
        return Vec::new();
    };
    let endpoints = published.read_endpoints();
    let remark = published.ports.iter().find_map(|port| {
        let mut targets = endpoints.iter().filter_map(|endpoint| endpoint.ports.get(&port.name));
        let target = targets.find(|target| **target != port.number)?;
        Some(format!(
            "{kind} records carry no port: clients connect to the pods themselves, which listen at {target}, and not to the Service's port {}",
            port.number
        ))
    });
    remark.into_iter().collect()
}
