//! The instances of one endpoint in one Cloud Map service, derived from the service's records, the ports, and the
//! addresses that may be published. An annotated Service has one for each annotated port. An exported Service has one
//! for each address and each port of the Service, with the attributes of AWS's controller.

use std::net::IpAddr;

use super::identity::Identity;
use super::names::{MaximumSource, NameLimits};
use super::reason::Reason;
use crate::clusterset::attributes;
use crate::error::{printable, shorten_to};
use crate::model::attributes::{ANNOTATED, AVAILABILITY_ZONE, IPV4, IPV6, POD, PORT, REGION};
use crate::model::{
    Attributes, Claims, Endpoint, ExportedEndpoint, ExportedService, INSTANCES_OF_NAME, NoAddress,
    PortReference, PublishedService, Records, ServiceKind, is_checkable, is_publishable, join,
    join_or, without_leading_zeros,
};

/// The largest number of ports in a report, and the longest list of them in characters.
const MOST_PORTS: usize = 300;

/// The rules by which the endpoints of one Service become instances of one Cloud Map service.
#[derive(Clone, Copy, Debug)]
pub struct InstanceTemplate<'a> {
    pub kind: ServiceKind,
    /// Whether Route 53 checks the health of the instances. This needs their port, and an address that it can call.
    pub is_checked: bool,
    pub published: &'a PublishedService,
    pub claims: &'a Claims,
    /// The addresses that may be published, and the allowed maximum of instances.
    pub limits: NameLimits<'a>,
}

/// The reason why an instance cannot be derived, and its addresses.
type Unfit = (Reason, Vec<IpAddr>);

/// The instances of one endpoint.
#[derive(Debug, Default)]
pub struct EndpointInstances {
    /// One, or one for each port; of an export, one for each address and port.
    pub instances: Vec<(Identity, Attributes)>,
    /// The reasons for held-back requests.
    pub held_back: Vec<Reason>,
    /// Addresses for which no instance could be derived: instances registered for them stay.
    pub unclear: Vec<IpAddr>,
}

impl InstanceTemplate<'_> {
    /// Returns the instances of an endpoint, one for each port if ports distinguish instances. An instance of an
    /// annotated Service has both address families if the records have both. `marks` are the marks of the Service.
    pub fn instances_of(
        &self,
        endpoint: &Endpoint,
        marks: &Attributes,
        region: &str,
    ) -> EndpointInstances {
        let (publishable, mut derived) = self.publishable(endpoint);
        if publishable.addresses().next().is_none() {
            return derived;
        }
        let instances = match &self.published.export {
            Some(exported) => self.exported(exported, endpoint, &publishable, region),
            None => self.annotated(endpoint, &publishable, region),
        };
        let pod = endpoint.pod.as_deref().map(|pod| (POD, pod));
        let are_all_allowed = derived.held_back.is_empty();
        for instance in instances {
            match instance {
                Ok(mut attributes) => {
                    attributes.extend(marks.iter().chain(pod));
                    let identity = Identity::of(&attributes, self.distinguishes_ports());
                    derived.instances.push((identity, attributes));
                }
                Err((reason, mut addresses)) => {
                    // An instance registered for one of these addresses stays. But if another address of the endpoint
                    // must not be published, an address that the records cannot carry keeps no instance.
                    addresses.retain(|address| are_all_allowed || self.carries(*address));
                    derived.held_back.push(reason);
                    derived.unclear.extend(addresses);
                }
            }
        }
        derived
    }

    /// The attributes without marks of an annotated Service's instances, one at each port.
    fn annotated(
        &self,
        endpoint: &Endpoint,
        publishable: &Identity,
        region: &str,
    ) -> Vec<Result<Attributes, Unfit>> {
        let carried = self.carried(publishable);
        let annotated = self.annotated_attributes();
        let at_port = |port: Result<Option<u16>, Reason>| {
            let addresses = carried.clone()?;
            let port = port?;
            let texts = [
                (IPV4, addresses.ipv4.map(|address| address.to_string())),
                (IPV6, addresses.ipv6.map(|address| address.to_string())),
                (PORT, port.map(|port| port.to_string())),
                (AVAILABILITY_ZONE, endpoint.zone.clone()),
                (REGION, Some(region.to_owned())),
            ];
            let texts = texts.into_iter().filter_map(|(key, text)| Some((key, text?)));
            let mut attributes: Attributes = texts.collect();
            attributes.extend(&annotated);
            Ok(attributes)
        };
        let all = self.ports(endpoint).into_iter().map(at_port);
        all.map(|instance| instance.map_err(|reason| (reason, publishable.addresses().collect())))
            .collect()
    }

    /// The attributes without marks of an exported Service's instances, one at each address and port.
    fn exported(
        &self,
        exported: &ExportedService,
        endpoint: &Endpoint,
        publishable: &Identity,
        region: &str,
    ) -> Vec<Result<Attributes, Unfit>> {
        let mut all = attributes::endpoints_of(exported, endpoint, region);
        all.retain(|endpoint| {
            publishable.addresses().any(|address| address == endpoint.address)
                && self.carries(endpoint.address)
        });
        let at_port = |endpoint: &ExportedEndpoint| match self.needs_port() {
            _ if !self.allows_check_of(endpoint.address) => Err(Reason::AddressNotCheckable),
            Some(needed_by) if endpoint.port.is_none() => {
                Err(Reason::PortNeeded { needed_by, ports: 0 })
            }
            _ => Ok(attributes::write(&exported.export, &exported.clusterset, endpoint)),
        };
        let unfit = |endpoint: &ExportedEndpoint, reason| (reason, vec![endpoint.address]);
        all.iter()
            .map(|endpoint| at_port(endpoint).map_err(|reason| unfit(endpoint, reason)))
            .collect()
    }

    /// The addresses of an endpoint that may be published, and the reasons for the others. A denied address of a family
    /// that the records do not have is reported only if the endpoint has no address that may be published.
    fn publishable(&self, endpoint: &Endpoint) -> (Identity, EndpointInstances) {
        let is_allowed = |address: IpAddr| is_publishable(address) && self.limits.allows(address);
        let ipv4 = endpoint.ipv4.filter(|address| is_allowed((*address).into()));
        let ipv6 = endpoint.ipv6.filter(|address| is_allowed((*address).into()));
        let has_none = ipv4.is_none() && ipv6.is_none();
        let denied = endpoint.addresses().filter(|address| {
            let is_denied = is_publishable(*address) && !self.limits.allows(*address);
            is_denied && (has_none || self.carries(*address))
        });
        let denied = denied
            .map(|address| Reason::AddressNotAllowed { address, ranges: self.limits.ranges() });
        let malformed = endpoint.malformed.iter().map(|no_address| match no_address {
            NoAddress::Malformed(text) => Reason::AddressMalformed(text.clone()),
            NoAddress::HostName(_) => Reason::AddressTypeFqdn,
        });
        let never = endpoint.addresses().filter(|address| !is_publishable(*address));
        let never = never.map(Reason::NotPublishable);
        let held_back = malformed.chain(never).chain(denied).collect();
        let text = endpoint.malformed.as_ref().map(NoAddress::as_str);
        let meant = text.and_then(without_leading_zeros);
        let unclear = meant.into_iter().map(IpAddr::V4).collect();
        let allowed = Identity { ipv4, ipv6, ..Identity::default() };
        (allowed, EndpointInstances { instances: Vec::new(), held_back, unclear })
    }

    /// The smaller of the annotated and the allowed maximum of instances, with its source.
    pub fn maximum(&self) -> Option<(usize, MaximumSource)> {
        let annotated = self.claims.maximum.map(|count| (count, MaximumSource::Annotation));
        let allowed = self.limits.maximum().map(|count| (count, MaximumSource::NamePolicy));
        annotated.into_iter().chain(allowed).min()
    }

    /// The largest number of instances that the endpoints of an annotated Service can have here.
    pub fn most_instances(&self) -> usize {
        let endpoints = self.published.read_endpoints().iter();
        let endpoints = endpoints.filter(|endpoint| endpoint.is_published(self.claims)).count();
        let ports = if self.distinguishes_ports() { self.claims.ports.len().max(1) } else { 1 };
        let maximum = self.maximum().map_or(INSTANCES_OF_NAME, |(maximum, _)| maximum);
        (endpoints * ports).min(maximum).min(INSTANCES_OF_NAME)
    }

    /// Whether instances that differ only in their port are different instances.
    pub fn distinguishes_ports(&self) -> bool {
        self.records().is_none_or(|records| records.srv)
    }

    /// The remarks on the whole Service.
    pub fn remarks(&self) -> Vec<Reason> {
        let unknown = self.claims.ports.iter().filter(|port| self.published.port(port).is_none());
        let mut remarks: Vec<Reason> = unknown.map(|port| self.no_such_port(port)).collect();
        if let (false, Some(port)) = (self.distinguishes_ports(), self.claims.ports.first()) {
            let port = port.clone();
            remarks.push(Reason::PortNotServed { records: self.kind, port });
        }
        remarks
    }

    /// The attributes that annotations set, and the mark that lists them.
    fn annotated_attributes(&self) -> Attributes {
        let mut attributes = self.claims.attributes.clone();
        if !attributes.is_empty() {
            let keys = join(attributes.keys(), ",");
            attributes.insert(ANNOTATED, keys);
        }
        attributes
    }

    /// The records of the Cloud Map service, if it has any.
    fn records(&self) -> Option<Records> {
        match self.kind {
            ServiceKind::Http => None,
            ServiceKind::Dns(records) => Some(records),
        }
    }

    /// Whether the service's records can carry an address of this family.
    fn carries(&self, address: IpAddr) -> bool {
        match self.records() {
            Some(records) if !records.srv && address.is_ipv4() => records.a,
            Some(records) if !records.srv => records.aaaa,
            _ => true,
        }
    }

    /// Whether the service's health check, if it has one, allows an address.
    fn allows_check_of(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => !self.is_checked || is_checkable(v4),
            IpAddr::V6(_) => true,
        }
    }

    /// The addresses of one instance: those of the families that the records have.
    fn carried(&self, publishable: &Identity) -> Result<Identity, Reason> {
        let ipv4 = publishable.ipv4.filter(|address| self.carries((*address).into()));
        let ipv6 = publishable.ipv6.filter(|address| self.carries((*address).into()));
        if ipv4.is_none() && ipv6.is_none() {
            let addresses = join(publishable.addresses(), ", ");
            return Err(Reason::RecordTypeMismatch { records: self.kind.to_string(), addresses });
        }
        if ipv4.is_some_and(|address| !self.allows_check_of(address.into())) {
            return Err(Reason::AddressNotCheckable);
        }
        Ok(Identity { ipv4, ipv6, ..Identity::default() })
    }

    /// The target ports with which an endpoint is registered: all annotated ones if ports distinguish the instances of
    /// the Cloud Map service, otherwise the first. `None` is an instance without a port.
    fn ports(&self, endpoint: &Endpoint) -> Vec<Result<Option<u16>, Reason>> {
        let annotated = &self.claims.ports;
        let served = if self.distinguishes_ports() { annotated.len() } else { 1 };
        let targets = annotated.iter().take(served).map(|port| self.target(endpoint, port));
        if annotated.is_empty() { vec![self.only_port(endpoint)] } else { targets.collect() }
    }

    fn target(&self, endpoint: &Endpoint, port: &PortReference) -> Result<Option<u16>, Reason> {
        let named = self.published.port(port);
        let target = named.and_then(|named| endpoint.ports.get(&named.name));
        target.map(|target| Some(*target)).ok_or_else(|| self.no_such_port(port))
    }

    /// The port of a Service without the annotation: its only port, if the Cloud Map service needs one.
    fn only_port(&self, endpoint: &Endpoint) -> Result<Option<u16>, Reason> {
        let Some(needed_by) = self.needs_port() else { return Ok(None) };
        match self.published.ports.as_slice() {
            [port] => self.target(endpoint, &PortReference::Number(port.number)),
            ports => Err(Reason::PortNeeded { needed_by, ports: ports.len() }),
        }
    }

    /// The part of the Cloud Map service that needs a port of each instance, if there is one.
    fn needs_port(&self) -> Option<&'static str> {
        match self.records() {
            Some(records) if records.srv => Some("SRV records"),
            _ if self.is_checked => Some("the Route 53 health checks of this Cloud Map service"),
            _ => None,
        }
    }

    fn no_such_port(&self, port: &PortReference) -> Reason {
        let names =
            self.published.ports.iter().take(MOST_PORTS).map(|port| match port.name.as_str() {
                "" => port.number.to_string(),
                name => format!("{name} ({})", port.number),
            });
        let available = shorten_to(&printable(&join_or(names, ", ", "none")), MOST_PORTS);
        Reason::NoSuchPort { port: port.clone(), available }
    }
}
