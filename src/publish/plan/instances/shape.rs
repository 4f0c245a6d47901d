//! The instances of one endpoint in one Cloud Map service, derived from the service's records, the annotated ports and
//! the addresses that may be published.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::identity::Identity;
use crate::model::attributes::{ANNOTATED, AVAILABILITY_ZONE, IPV4, IPV6, PORT, REGION};
use crate::model::{
    Attributes, Claims, Endpoint, Marks, Owner, PublishedService, Records, ServiceKind, ServiceRef,
    is_checkable, is_publishable, without_leading_zeros,
};
use crate::publish::plan::{Permit, Reason, Setting};

/// The rules by which the endpoints of one Service become instances of one Cloud Map service.
pub struct Shape<'a> {
    pub kind: ServiceKind,
    /// Whether Route 53 checks the health of the instances. It needs their port, and an address that it can call.
    pub is_checked: bool,
    pub published: &'a PublishedService,
    pub claims: &'a Claims,
    /// The addresses that may be published.
    pub permit: Permit<'a>,
}

/// The instances of one endpoint.
#[derive(Debug, Default)]
pub struct Fit {
    /// One, or one for each port.
    pub instances: Vec<(Identity, Attributes)>,
    /// The reasons for held-back requests.
    pub held_back: Vec<Reason>,
    /// Addresses for which no instance could be derived: instances registered for them stay.
    pub unclear: Vec<IpAddr>,
}

/// The addresses of one instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Addresses {
    ipv4: Option<Ipv4Addr>,
    ipv6: Option<Ipv6Addr>,
}

impl Shape<'_> {
    /// The instances of an endpoint: one with both address families if the records have both, and one for each port if
    /// ports distinguish instances.
    pub fn fit(&self, endpoint: &Endpoint, service: &ServiceRef, owner: &Owner) -> Fit {
        if let Some(exported) = &self.published.export {
            return self.fit_exported(exported, endpoint, service, owner);
        }
        let (publishable, mut fit) = self.publishable(endpoint);
        if publishable.is_empty() {
            return fit;
        }
        let marks = Marks { service: service.clone(), pod: endpoint.pod.clone() };
        let carried = self.addresses(&publishable);
        let mut unclear = publishable;
        if !fit.held_back.is_empty() {
            // An address that the records do not have keeps no instance, if another address must not be published.
            unclear.retain(|address| self.carries(*address));
        }
        for port in self.ports(endpoint) {
            match carried.clone().and_then(|addresses| Ok((addresses, port?))) {
                Ok((addresses, port)) => {
                    let mut attributes =
                        attributes(&marks.write(owner), addresses, port, endpoint, owner);
                    attributes.extend(&self.annotated_attributes());
                    let port = port.filter(|_| self.tells_ports_apart());
                    fit.instances.push((addresses.identity(port), attributes));
                }
                Err(reason) => {
                    fit.held_back.push(reason);
                    fit.unclear.extend_from_slice(&unclear);
                }
            }
        }
        fit
    }

    /// The addresses of an endpoint that may be published, and the reasons for the others. An address that the records
    /// do not have is reported only if the endpoint has no allowed one.
    pub(super) fn publishable(&self, endpoint: &Endpoint) -> (Vec<IpAddr>, Fit) {
        let (addresses, never): (Vec<IpAddr>, Vec<IpAddr>) =
            endpoint.addresses().partition(|address| is_publishable(*address));
        let (allowed, refused): (Vec<IpAddr>, Vec<IpAddr>) =
            addresses.into_iter().partition(|address| self.permit.allows(*address));
        let told = |address: &IpAddr| allowed.is_empty() || self.carries(*address);
        let refused = refused.into_iter().filter(told);
        let refused = refused
            .map(|address| Reason::AddressNotAllowed { address, ranges: self.permit.ranges() });
        let malformed = endpoint.malformed.iter().cloned().map(Reason::AddressMalformed);
        let never = never.into_iter().map(Reason::NotPublishable);
        let held_back = malformed.chain(never).chain(refused).collect();
        let meant = endpoint.malformed.as_deref().and_then(without_leading_zeros);
        let unclear = meant.into_iter().map(IpAddr::V4).collect();
        (allowed, Fit { instances: Vec::new(), held_back, unclear })
    }

    /// Whether instances that differ only in their port are different instances.
    pub fn tells_ports_apart(&self) -> bool {
        self.records().is_none_or(|records| records.srv)
    }

    /// The remarks on the whole Service.
    pub fn remarks(&self) -> Vec<Reason> {
        let unknown = self.claims.ports.iter().filter(|port| self.published.port(port).is_none());
        let mut remarks: Vec<Reason> = unknown.map(|port| self.no_such_port(port)).collect();
        if let (false, Some(port)) = (self.tells_ports_apart(), self.claims.ports.first()) {
            let port = port.clone();
            remarks.push(Setting::PortNotServed { records: self.kind, port }.into());
        }
        remarks
    }

    /// The attributes that annotations set, and the mark that lists them.
    fn annotated_attributes(&self) -> Attributes {
        let mut attributes = self.claims.attributes.clone();
        if !attributes.is_empty() {
            let keys = attributes.keys().collect::<Vec<_>>().join(",");
            attributes.insert(ANNOTATED, keys);
        }
        attributes
    }

    /// The records of the Cloud Map service, if it has any.
    pub(super) fn records(&self) -> Option<Records> {
        match self.kind {
            ServiceKind::Http => None,
            ServiceKind::Dns(records) => Some(records),
        }
    }

    /// Whether the records have addresses of this family.
    pub(super) fn carries(&self, address: IpAddr) -> bool {
        match self.records() {
            Some(records) if !records.srv && address.is_ipv4() => records.a,
            Some(records) if !records.srv => records.aaaa,
            _ => true,
        }
    }

    /// Whether the service's health check, if it has one, allows an address.
    pub(super) fn allows_check_of(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => !self.is_checked || is_checkable(v4),
            IpAddr::V6(_) => true,
        }
    }

    /// The addresses of one instance: those of the families that the records have.
    fn addresses(&self, addresses: &[IpAddr]) -> Result<Addresses, Reason> {
        let mut carried = Addresses::default();
        for address in addresses.iter().filter(|address| self.carries(**address)) {
            match address {
                IpAddr::V4(v4) => carried.ipv4 = Some(*v4),
                IpAddr::V6(v6) => carried.ipv6 = Some(*v6),
            }
        }
        if carried == Addresses::default() {
            let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
            let (records, addresses) = (self.kind.to_string(), addresses.join(", "));
            return Err(Reason::RecordTypeMismatch { records, addresses });
        }
        if carried.ipv4.is_some_and(|address| !self.allows_check_of(address.into())) {
            return Err(Reason::AddressNotCheckable);
        }
        Ok(carried)
    }
}

impl Addresses {
    fn identity(self, port: Option<u16>) -> Identity {
        Identity { ipv4: self.ipv4, ipv6: self.ipv6, port, service_port: None }
    }
}

fn attributes(
    marks: &Attributes,
    addresses: Addresses,
    port: Option<u16>,
    endpoint: &Endpoint,
    owner: &Owner,
) -> Attributes {
    let texts = [
        (IPV4, addresses.ipv4.map(|address| address.to_string())),
        (IPV6, addresses.ipv6.map(|address| address.to_string())),
        (PORT, port.map(|port| port.to_string())),
        (AVAILABILITY_ZONE, endpoint.zone.clone()),
        (REGION, Some(owner.cluster.region().to_owned())),
    ];
    let mut attributes = marks.clone();
    attributes.extend(texts.into_iter().filter_map(|(key, text)| Some((key, text?))));
    attributes
}
