//! What becomes an instance: the ready endpoints of a Service, shaped for the records of the Cloud
//! Map service that it holds.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::identity::Identity;
use super::{Observation, Reason};
use crate::model::attributes::{AVAILABILITY_ZONE, IPV4, IPV6, PORT, REGION};
use crate::model::{
    AnnotatedService, Attributes, Claims, CloudMapService, Endpoint, Family, Marks, NamespaceKind,
    Owner, PortReference, Records, ServiceKey, ServiceKind, ServiceName, ServiceRef,
};

/// TTL in seconds of the records of a new DNS service, where no annotation says otherwise.
const DEFAULT_TTL: u32 = 60;

/// The instances that a Cloud Map service should have for its holder.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The Kubernetes Service that holds the name.
    pub service: ServiceRef,
    /// The Cloud Map service is to be created like this first, where there is none.
    pub create: Option<NewService>,
    /// Whether instances that differ in their port alone are different instances.
    pub tells_ports_apart: bool,
    /// The attributes of each instance.
    pub instances: BTreeMap<Identity, Attributes>,
    /// Addresses of ready endpoints that could not be shaped: what is registered for them stays.
    pub unclear: BTreeSet<IpAddr>,
    /// What is held back, and why.
    pub held_back: Vec<Reason>,
}

/// A Cloud Map service to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewService {
    /// Its name.
    pub name: ServiceName,
    /// What it serves.
    pub kind: ServiceKind,
    /// TTL of its records in seconds; without meaning for an HTTP service.
    pub ttl: u32,
}

/// Shapes the holder's endpoints for the Cloud Map service under `key`, existing or to be created.
///
/// # Errors
/// The reason for which nothing at all can be done there.
pub fn wanted(
    observation: &Observation,
    key: &ServiceKey,
    holder: &ServiceRef,
) -> Result<Wanted, Reason> {
    let (annotated, claims) = claims(observation, holder)?;
    let existing = observation.registry.services.get(key);
    let create = match existing {
        Some(service) => {
            may_register_in(service, key, observation)?;
            None
        }
        None => new_service(observation, key, annotated, claims),
    };
    let kind = existing.map(|service| service.kind).or(create.as_ref().map(|new| new.kind));
    let shape = Shape { kind: kind.unwrap_or(ServiceKind::Http), annotated, claims };
    let mut wanted = Wanted {
        service: holder.clone(),
        create,
        tells_ports_apart: shape.tells_ports_apart(),
        instances: BTreeMap::new(),
        unclear: BTreeSet::new(),
        held_back: shape.remarks(),
    };
    for endpoint in annotated.endpoints.iter().flatten() {
        shape.add(&mut wanted, endpoint, &observation.owner);
    }
    Ok(wanted)
}

fn claims<'a>(
    observation: &'a Observation,
    holder: &ServiceRef,
) -> Result<(&'a AnnotatedService, &'a Claims), Reason> {
    let unread = || Reason::Unreadable("its claim was not read".to_owned());
    let annotated = observation.desired.services.get(holder).ok_or_else(unread)?;
    let claims = annotated.claims.as_ref().map_err(|_| unread())?;
    if annotated.endpoints.is_none() {
        return Err(Reason::Unreadable("the Service's endpoints were not read".to_owned()));
    }
    Ok((annotated, claims))
}

fn may_register_in(
    service: &CloudMapService,
    key: &ServiceKey,
    observation: &Observation,
) -> Result<(), Reason> {
    if let Some(problem) = &service.unreadable {
        return Err(Reason::Unreadable(problem.clone()));
    }
    if service.instances.is_none() {
        return Err(Reason::Unreadable("they were not asked for".to_owned()));
    }
    if matches!(service.kind, ServiceKind::Dns(Records { cname: true, .. })) {
        return Err(Reason::CnameService);
    }
    let mut instances = observation.registry.instances(key);
    let ours = instances.any(|(_, attributes)| observation.owner.owns(attributes));
    if service.managed_by_ecs && !ours {
        return Err(Reason::ServiceConnect);
    }
    Ok(())
}

fn new_service(
    observation: &Observation,
    key: &ServiceKey,
    annotated: &AnnotatedService,
    claims: &Claims,
) -> Option<NewService> {
    let namespace = observation.registry.namespaces.get(&key.namespace)?;
    let same = |name: &&ServiceName| ServiceKey::new(namespace, name.as_str()) == *key;
    let kind = match namespace.kind {
        NamespaceKind::Http => ServiceKind::Http,
        NamespaceKind::Dns if !claims.ports.is_empty() => {
            ServiceKind::Dns(Records { srv: true, ..Records::default() })
        }
        NamespaceKind::Dns => ServiceKind::Dns(Records {
            a: annotated.families.contains(&Family::V4) || annotated.families.is_empty(),
            aaaa: annotated.families.contains(&Family::V6),
            ..Records::default()
        }),
    };
    let name = claims.names.iter().find(same)?.clone();
    Some(NewService { name, kind, ttl: claims.ttl.unwrap_or(DEFAULT_TTL) })
}

/// How endpoints of one Service fit into one Cloud Map service.
struct Shape<'a> {
    kind: ServiceKind,
    annotated: &'a AnnotatedService,
    claims: &'a Claims,
}

impl Shape<'_> {
    fn records(&self) -> Option<Records> {
        match self.kind {
            ServiceKind::Http => None,
            ServiceKind::Dns(records) => Some(records),
        }
    }

    fn tells_ports_apart(&self) -> bool {
        self.records().is_none_or(|records| records.srv)
    }

    /// What is to be said of the Service as a whole.
    fn remarks(&self) -> Vec<Reason> {
        let unknown = self.claims.ports.iter().filter(|port| self.annotated.port(port).is_none());
        let mut remarks: Vec<Reason> = unknown.map(|port| self.no_such_port(port)).collect();
        if let (false, Some(port)) = (self.tells_ports_apart(), self.claims.ports.first()) {
            remarks.push(Reason::PortNotServed { records: self.kind, port: port.clone() });
        }
        remarks
    }

    fn no_such_port(&self, port: &PortReference) -> Reason {
        let names = self.annotated.ports.iter().map(|port| match port.name.as_str() {
            "" => port.number.to_string(),
            name => format!("{name} ({})", port.number),
        });
        let available: Vec<String> = names.collect();
        let available = if available.is_empty() { "none".into() } else { available.join(", ") };
        Reason::NoSuchPort { port: port.clone(), available }
    }

    fn add(&self, wanted: &mut Wanted, endpoint: &Endpoint, owner: &Owner) {
        let (publishable, refused): (Vec<IpAddr>, Vec<IpAddr>) =
            endpoint.addresses().partition(|address| is_publishable(*address));
        wanted.held_back.extend(refused.into_iter().map(Reason::NotPublishable));
        let pairs = self.families(&publishable);
        if pairs.is_empty() {
            if let (Some(records), false) = (self.records(), publishable.is_empty()) {
                wanted.held_back.push(mismatch(records, &publishable));
                wanted.unclear.extend(publishable);
            }
            return;
        }
        match self.ports(endpoint) {
            Ok(ports) => {
                for (address, port) in
                    pairs.iter().flat_map(|pair| ports.iter().map(move |port| (pair, *port)))
                {
                    self.insert(wanted, endpoint, *address, port, owner);
                }
            }
            Err(reason) => {
                wanted.held_back.push(reason);
                wanted.unclear.extend(publishable);
            }
        }
    }

    /// The addresses that go into one instance: the family or families that the records carry.
    fn families(&self, addresses: &[IpAddr]) -> Vec<Addresses> {
        let mut instance = Addresses::default();
        let (a, aaaa) = match self.records() {
            Some(records) if !records.srv => (records.a, records.aaaa),
            _ => (true, true),
        };
        for address in addresses {
            match address {
                IpAddr::V4(v4) if a => instance.ipv4 = Some(*v4),
                IpAddr::V6(v6) if aaaa => instance.ipv6 = Some(*v6),
                _ => {}
            }
        }
        if instance == Addresses::default() { Vec::new() } else { vec![instance] }
    }

    /// The target ports to register an endpoint with; `None` stands for none.
    fn ports(&self, endpoint: &Endpoint) -> Result<Vec<Option<u16>>, Reason> {
        if self.claims.ports.is_empty() {
            return self.only_port(endpoint);
        }
        let numbers: Vec<Option<u16>> = self
            .claims
            .ports
            .iter()
            .filter_map(|reference| {
                let port = self.annotated.port(reference)?;
                endpoint.ports.get(&port.name).copied().map(Some)
            })
            .collect();
        match (numbers.first(), self.claims.ports.first()) {
            (None, Some(first)) => Err(self.no_such_port(first)),
            (Some(first), _) if !self.tells_ports_apart() => Ok(vec![*first]),
            _ => Ok(numbers),
        }
    }

    /// Without the annotation only SRV records get a port, where there is no choice.
    fn only_port(&self, endpoint: &Endpoint) -> Result<Vec<Option<u16>>, Reason> {
        if !self.records().is_some_and(|records| records.srv) {
            return Ok(vec![None]);
        }
        match self.annotated.ports.as_slice() {
            [port] => match endpoint.ports.get(&port.name) {
                Some(number) => Ok(vec![Some(*number)]),
                None => Err(self.no_such_port(&PortReference::Number(port.number))),
            },
            ports => Err(Reason::PortNeeded(ports.len())),
        }
    }

    fn insert(
        &self,
        wanted: &mut Wanted,
        endpoint: &Endpoint,
        addresses: Addresses,
        port: Option<u16>,
        owner: &Owner,
    ) {
        let marks = Marks { service: wanted.service.clone(), pod: endpoint.pod.clone() };
        let mut attributes = marks.write(owner);
        let mut set = |key: &str, value: Option<String>| {
            attributes.extend(value.map(|value| (key.to_owned(), value)));
        };
        set(IPV4, addresses.ipv4.map(|address| address.to_string()));
        set(IPV6, addresses.ipv6.map(|address| address.to_string()));
        set(PORT, port.map(|port| port.to_string()));
        set(AVAILABILITY_ZONE, endpoint.zone.clone());
        set(REGION, Some(owner.cluster.region().to_owned()));
        let identity = Identity {
            ipv4: addresses.ipv4,
            ipv6: addresses.ipv6,
            port: port.filter(|_| wanted.tells_ports_apart),
        };
        wanted.instances.entry(identity).or_insert(attributes);
    }
}

/// The addresses of one instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Addresses {
    ipv4: Option<std::net::Ipv4Addr>,
    ipv6: Option<std::net::Ipv6Addr>,
}

fn mismatch(records: Records, addresses: &[IpAddr]) -> Reason {
    let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    let records = ServiceKind::Dns(records).to_string();
    Reason::RecordTypeMismatch { records, addresses: addresses.join(", ") }
}

/// Whether an address may stand in a registry that other hosts read.
fn is_publishable(address: IpAddr) -> bool {
    let special = address.is_loopback() || address.is_multicast() || address.is_unspecified();
    let local = match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.to_ipv4_mapped().is_some(),
    };
    !special && !local
}
