//! The identity of an instance in a Cloud Map service, and the id of a new instance.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::clusterset::attributes::service_port;
use crate::clusterset::id;
use crate::model::attributes::{IPV4, IPV6, PORT};
use crate::model::clusterset::PortOfService;
use crate::model::{Attributes, Flow, Owner, ServiceRef, fingerprint};

/// The addresses of an instance, with its port if ports distinguish the instances of its service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    pub ipv4: Option<Ipv4Addr>,
    pub ipv6: Option<Ipv6Addr>,
    /// `None` except in HTTP and SRV services.
    pub port: Option<u16>,
    /// The Service's port that leads to it, if the instance is exported: two of them may lead to one port of a pod. Boxed,
    /// since most instances have none, and a plan has one identity for each.
    pub service_port: Option<Box<PortOfService>>,
}

impl Identity {
    /// The identity in an instance's attributes. Invalid addresses and ports are ignored.
    pub fn of(attributes: &Attributes, tells_ports_apart: bool) -> Self {
        let port = attributes.get(PORT).filter(|_| tells_ports_apart);
        let is_exported = tells_ports_apart && Flow::Exports.is_of(attributes);
        Self {
            ipv4: attributes.get(IPV4).and_then(|text| text.parse().ok()),
            ipv6: attributes.get(IPV6).and_then(|text| text.parse().ok()),
            port: port.and_then(|text| text.parse().ok()),
            service_port: is_exported.then(|| service_port(attributes)).flatten().map(Box::new),
        }
    }

    /// The addresses, IPv4 first.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + use<> {
        self.ipv4.map(IpAddr::V4).into_iter().chain(self.ipv6.map(IpAddr::V6))
    }
}

/// The id of a new instance in the flow of its owner.
pub fn new_id(owner: &Owner, service: &ServiceRef, identity: &Identity) -> String {
    match (owner.flow, identity.addresses().next()) {
        (Flow::Exports, Some(address)) => {
            let port = identity.port.zip(identity.service_port.as_deref());
            id::instance(owner, service, address, port)
        }
        _ => id_of_annotated(owner, service, identity),
    }
}

/// The id of an instance of an annotated Service: `ip-<address>[-<port>]-<10 hexadecimal digits>`, a DNS label of at most 63 characters. The
/// digits are a hash of owner, cluster, Service, address and port, so no other party and no other cluster makes the
/// same id. The format must never change: a different id would register every pod a second time.
fn id_of_annotated(owner: &Owner, service: &ServiceRef, identity: &Identity) -> String {
    let address = identity.addresses().next().map(|address| address.to_string());
    let address = address.unwrap_or_default();
    let port = identity.port.map(|port| port.to_string()).unwrap_or_default();
    let cluster = owner.cluster.as_str();
    let parts = [&owner.id, cluster, &service.namespace, &service.name, &address, &port];
    let digits = fingerprint::<5>(&parts);
    let address = address.replace(['.', ':'], "-");
    let port = identity.port.map(|port| format!("-{port}")).unwrap_or_default();
    format!("ip-{address}{port}-{digits}")
}

/// The hash in a new id, which is evenly distributed.
pub fn hash_of(id: &str) -> &str {
    id.rsplit('-').next().unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClusterArn, Flow};

    fn owner(id: &str) -> Owner {
        let arn = "arn:aws:eks:eu-central-1:111122223333:cluster/blue";
        let cluster = ClusterArn::parse(arn).expect("an ARN");
        Owner { id: id.into(), cluster, flow: Flow::Annotations }
    }

    fn identity(ipv4: Option<&str>, ipv6: Option<&str>, port: Option<u16>) -> Identity {
        Identity {
            ipv4: ipv4.map(|text| text.parse().expect("IPv4")),
            ipv6: ipv6.map(|text| text.parse().expect("IPv6")),
            port,
            service_port: None,
        }
    }

    /// The first release registered these ids.
    #[test]
    fn ids_are_frozen() {
        let web = ServiceRef::new("shop", "web");
        let cases = [
            (identity(Some("10.0.1.5"), None, None), "ip-10-0-1-5-feaedf6be2"),
            (identity(Some("10.0.1.5"), None, Some(8080)), "ip-10-0-1-5-8080-0a3900f928"),
            (
                identity(Some("10.0.1.5"), Some("fd00::1"), Some(8080)),
                "ip-10-0-1-5-8080-0a3900f928",
            ),
            (identity(None, Some("fd00::1"), None), "ip-fd00--1-065e1ddfae"),
        ];
        for (identity, expected) in cases {
            assert_eq!(new_id(&owner("cloud-map-sync"), &web, &identity), expected);
        }
    }

    #[test]
    fn parts_that_run_together_give_different_ids() {
        let identity = identity(Some("10.0.1.5"), None, None);
        let one = new_id(&owner("a"), &ServiceRef::new("shop", "web"), &identity);
        let other = new_id(&owner("a"), &ServiceRef::new("shopw", "eb"), &identity);
        assert_ne!(one, other);
    }

    #[test]
    fn instance_of_an_export_has_an_id_of_its_own_format() {
        let owner = Owner { flow: Flow::Exports, ..owner("cloud-map-sync") };
        let web = ServiceRef::new("shop", "web");
        let id = new_id(&owner, &web, &identity(Some("10.0.1.5"), None, None));
        assert!(id.starts_with("address-10-0-1-5-"), "{id}");
    }

    #[test]
    fn the_longest_id_is_a_dns_label() {
        let longest = identity(None, Some("fd00:1111:2222:3333:4444:5555:6666:7777"), Some(65535));
        let id = new_id(&owner("cloud-map-sync"), &ServiceRef::new("shop", "web"), &longest);
        assert!(id.len() <= 63, "{id} has {}", id.len());
        assert!(id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'-')));
    }
}
