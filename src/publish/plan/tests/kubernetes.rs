//! Builds annotated Services and their ready pods for the tests of the plan.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;

use super::world::{named, split};
use crate::model::{
    BadAnnotation, Claims, Endpoint, Family, NamespaceReference, PortReference, PublishedService,
    RoutingPolicy, ServiceName, ServicePort, ServiceRef,
};

/// A Kubernetes Service under construction.
#[derive(Clone, Debug)]
pub struct Kubernetes {
    pub name: ServiceRef,
    pub annotated: PublishedService,
}

/// An IPv4 Service without ports that claims `place`.
pub fn service(name: &str, place: &str) -> Kubernetes {
    let (namespace, claimed) = split(place);
    let claims = Claims {
        publish: true,
        attributes: crate::model::Attributes::new(),
        maximum: None,
        keeps_serving: false,
        keeps_last: false,
        names: vec![ServiceName::parse(&claimed).expect("a name")],
        names_left_out: 0,
        namespace: NamespaceReference::parse(&namespace).expect("a namespace"),
        ttl: None,
        routing_policy: None,
        ports: Vec::new(),
    };
    let annotated = PublishedService {
        unknown_annotations: None,
        export: None,
        uid: String::new(),
        created: 100,
        claims: Ok(claims),
        ports: Vec::new(),
        families: BTreeSet::from([Family::V4]),
        endpoints: Some(Vec::new().into()),
        truncated: false,
        left_out: 0,
    };
    Kubernetes { name: named(name), annotated }
}

impl Kubernetes {
    /// Also claims this name in the same Cloud Map namespace.
    pub fn also(mut self, name: &str) -> Self {
        self.claims().names.push(ServiceName::parse(name).expect("a name"));
        self
    }

    /// Asks for more names than a Service may claim.
    pub fn names_left_out(mut self, count: usize) -> Self {
        self.claims().names_left_out = count;
        self
    }

    /// Claims its names in this Cloud Map namespace.
    pub fn within(mut self, namespace: &str) -> Self {
        self.claims().namespace = NamespaceReference::parse(namespace).expect("a reference");
        self
    }

    pub fn created(mut self, created: i64) -> Self {
        self.annotated.created = created;
        self
    }

    pub fn ttl(mut self, ttl: u32) -> Self {
        self.claims().ttl = Some(ttl);
        self
    }

    pub fn routing(mut self, policy: RoutingPolicy) -> Self {
        self.claims().routing_policy = Some(policy);
        self
    }

    pub fn families(mut self, families: impl IntoIterator<Item = Family>) -> Self {
        self.annotated.families = families.into_iter().collect();
        self
    }

    /// Has these ports, by name and number.
    pub fn ports<'a>(mut self, ports: impl IntoIterator<Item = (&'a str, u16)>) -> Self {
        let ports = ports.into_iter();
        let ports = ports.map(|(name, number)| ServicePort { name: name.into(), number });
        self.annotated.ports = ports.collect();
        self
    }

    /// Annotates these ports.
    pub fn port<'a>(mut self, ports: impl IntoIterator<Item = &'a str>) -> Self {
        let ports = ports.into_iter().map(|port| PortReference::Name(port.into()));
        self.claims().ports = ports.collect();
        self
    }

    /// Annotates `publish` and `max-instances`.
    pub fn levers(mut self, publish: bool, maximum: Option<usize>) -> Self {
        let claims = self.claims();
        (claims.publish, claims.maximum) = (publish, maximum);
        self
    }

    /// Annotates `terminating` and `when-none-ready`.
    pub fn keeps(mut self, serving: bool, last: bool) -> Self {
        let claims = self.claims();
        (claims.keeps_serving, claims.keeps_last) = (serving, last);
        self
    }

    /// Has an invalid annotation.
    pub fn mistaken(mut self) -> Self {
        self.annotated.claims = Err(vec![mistake()]);
        self
    }

    pub fn ready(mut self, endpoints: impl Into<Vec<Endpoint>>) -> Self {
        self.annotated.endpoints = Some(endpoints.into().into());
        self
    }

    /// Has more endpoints than the cluster reports.
    pub fn truncated(mut self) -> Self {
        self.annotated.truncated = true;
        self
    }

    pub fn unread(mut self) -> Self {
        self.annotated.endpoints = None;
        self
    }

    fn claims(&mut self) -> &mut Claims {
        self.annotated.claims.as_mut().expect("its annotations are right")
    }
}

pub fn mistake() -> BadAnnotation {
    let annotation = "cloudmap.controller/ttl".to_owned();
    BadAnnotation { annotation, value: "soon".into(), problem: "it must be whole seconds".into() }
}

/// Ready pods at these numbers of a network such as `10.0.0`.
pub fn pods<N: Display>(network: &str, numbers: impl IntoIterator<Item = N>) -> Vec<Endpoint> {
    numbers.into_iter().map(|last| pod("one", &format!("{network}.{last}"))).collect()
}

/// A ready pod with one address, or with several joined by `+`.
pub fn pod(name: &str, addresses: &str) -> Endpoint {
    let addresses: Vec<_> = addresses.split('+').collect();
    Endpoint {
        pod: Some(name.to_owned()),
        ipv4: addresses.iter().find_map(|text| text.parse().ok()),
        ipv6: addresses.iter().find_map(|text| text.parse().ok()),
        ready: true,
        serving: true,
        ..Endpoint::default()
    }
}

impl Endpoint {
    pub(super) fn target(mut self, port: &str, number: u16) -> Self {
        Arc::make_mut(&mut self.ports).insert(port.to_owned(), number);
        self
    }

    pub(super) fn zone(mut self, zone: &str) -> Self {
        self.zone = Some(zone.to_owned());
        self
    }
}
