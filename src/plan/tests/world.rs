//! Small worlds, told in few words: Kubernetes Services with their ready endpoints on one side, Cloud
//! Map services with their instances on the other. Cloud Map always has a namespace `http` and a
//! namespace `dns`, and everything in it is addressed as `namespace/name`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::model::attributes::{IPV4, IPV6, REGION};
use crate::model::{
    AnnotatedService, Attributes, BadAnnotation, Claims, CloudMapService, ClusterArn, Endpoint,
    Family, Marks, Namespace, NamespaceKind, NamespaceReference, Owner, PortReference, Records,
    Selection, ServiceKey, ServiceKind, ServiceName, ServicePort, ServiceRef,
};
use crate::plan::{Observation, Plan, Policy, affected, plan};

pub const HTTP: ServiceKind = ServiceKind::Http;
pub const A: ServiceKind = dns(true, false, false);
pub const AAAA: ServiceKind = dns(false, true, false);
pub const BOTH: ServiceKind = dns(true, true, false);
pub const SRV: ServiceKind = dns(false, false, true);
pub const CNAME: ServiceKind =
    ServiceKind::Dns(Records { a: false, aaaa: false, srv: false, cname: true });

const fn dns(a: bool, aaaa: bool, srv: bool) -> ServiceKind {
    ServiceKind::Dns(Records { a, aaaa, srv, cname: false })
}

/// The cluster that plans are made for, or another one.
pub fn owner_of(cluster: &str) -> Owner {
    let arn = format!("arn:aws:eks:eu-central-1:111122223333:cluster/{cluster}");
    Owner { id: "cloud-map-sync".into(), cluster: ClusterArn::parse(&arn).expect("an ARN") }
}

/// What one cluster and Cloud Map contain.
#[derive(Clone)]
pub struct World(pub Observation);

/// In as few lines as a failing property needs.
impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, service) in &self.0.desired.services {
            writeln!(f, "\nService {name} of {}: {:?}", service.created, service.claims)?;
            writeln!(f, "  {:?} {:?}", service.ports, service.families)?;
            for endpoint in service.endpoints.iter().flatten() {
                writeln!(f, "  {endpoint:?}")?;
            }
        }
        for (key, service) in &self.0.registry.services {
            let (kind, unreadable) = (service.kind, &service.unreadable);
            writeln!(f, "{key:?}: {kind}, ECS: {}, {unreadable:?}", service.managed_by_ecs)?;
            for (id, attributes) in self.0.registry.instances(key) {
                writeln!(f, "  {id}: {attributes:?}")?;
            }
        }
        Ok(())
    }
}

impl World {
    pub fn new() -> Self {
        let (desired, registry) = Default::default();
        let world = Self(Observation { owner: owner_of("blue"), desired, registry });
        world.namespace("ns-http", "http", NamespaceKind::Http).namespace(
            "ns-dns",
            "dns",
            NamespaceKind::Dns,
        )
    }

    pub fn namespace(mut self, id: &str, name: &str, kind: NamespaceKind) -> Self {
        let arn = format!("arn:aws:servicediscovery:eu-central-1:111122223333:namespace/{id}");
        let namespace = Namespace { id: id.into(), arn, name: name.into(), kind };
        self.0.registry.namespaces.insert(id.into(), namespace);
        self
    }

    /// Adds a Kubernetes Service.
    pub fn service(mut self, service: Kubernetes) -> Self {
        self.0.desired.services.insert(service.name, service.annotated);
        self
    }

    /// Adds a Cloud Map service with the instances given, each with its id.
    pub fn cloud_map<const N: usize>(
        mut self,
        place: &str,
        kind: ServiceKind,
        instances: [(&str, Attributes); N],
    ) -> Self {
        let name = split(place).1;
        let arn = format!("arn:aws:servicediscovery:eu-central-1:111122223333:service/srv-{name}");
        let mut service = CloudMapService::created(arn, &name, kind);
        service.instances = Some(instances.map(|(id, it)| (id.to_owned(), it)).into());
        self.0.registry.services.insert(key(place), service);
        self
    }

    /// Changes a Cloud Map service that is there.
    pub fn with(mut self, place: &str, change: impl FnOnce(&mut CloudMapService)) -> Self {
        change(self.0.registry.services.get_mut(&key(place)).expect("the service is there"));
        self
    }

    /// The plan of a full sync.
    pub fn plan(&self) -> Plan {
        self.plan_for(&Selection::Everything, Policy::Sync)
    }

    /// The plan of a sync of one Service.
    pub fn plan_of(&self, service: &str) -> Plan {
        self.plan_for(&Selection::service(named(service)), Policy::Sync)
    }

    pub fn plan_for(&self, selection: &Selection, policy: Policy) -> Plan {
        plan(&self.0, policy, &affected(&self.0, selection))
    }

    /// The id under which a full sync would register an address.
    pub fn id_given(&self, place: &str, address: &str) -> String {
        let written = written(&self.plan(), place).into_iter();
        let mut at = written.filter(|(_, attributes)| attributes.values().any(|it| it == address));
        at.next().expect("the address is registered").0
    }

    /// What a full sync would do, one line for each change and for each thing held back.
    pub fn told(&self) -> String {
        tell(&self.plan())
    }
}

/// A Kubernetes Service under construction.
#[derive(Clone, Debug)]
pub struct Kubernetes {
    name: ServiceRef,
    annotated: AnnotatedService,
}

/// A Service of IPv4 without ports that claims `place`.
pub fn service(name: &str, place: &str) -> Kubernetes {
    let (namespace, claimed) = split(place);
    let claims = Claims {
        names: vec![ServiceName::parse(&claimed).expect("a name")],
        namespace: NamespaceReference::parse(&namespace).expect("a namespace"),
        ttl: None,
        ports: Vec::new(),
    };
    let annotated = AnnotatedService {
        created: 100,
        claims: Ok(claims),
        ports: Vec::new(),
        families: BTreeSet::from([Family::V4]),
        endpoints: Some(Vec::new()),
    };
    Kubernetes { name: named(name), annotated }
}

impl Kubernetes {
    /// Also claims this name in the same Cloud Map namespace.
    pub fn also(mut self, name: &str) -> Self {
        self.claims().names.push(ServiceName::parse(name).expect("a name"));
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

    /// Is annotated with these ports.
    pub fn port<'a>(mut self, ports: impl IntoIterator<Item = &'a str>) -> Self {
        let ports = ports.into_iter().map(|port| PortReference::Name(port.into()));
        self.claims().ports = ports.collect();
        self
    }

    /// Has an annotation that says nothing usable.
    pub fn mistaken(mut self) -> Self {
        self.annotated.claims = Err(vec![mistake()]);
        self
    }

    pub fn ready(mut self, endpoints: impl Into<Vec<Endpoint>>) -> Self {
        self.annotated.endpoints = Some(endpoints.into());
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

/// A ready pod with one address, or with several joined by `+`.
pub fn pod(name: &str, addresses: &str) -> Endpoint {
    let addresses: Vec<_> = addresses.split('+').collect();
    Endpoint {
        pod: Some(name.to_owned()),
        ipv4: addresses.iter().find_map(|text| text.parse().ok()),
        ipv6: addresses.iter().find_map(|text| text.parse().ok()),
        ..Endpoint::default()
    }
}

impl Endpoint {
    pub(super) fn target(mut self, port: &str, number: u16) -> Self {
        self.ports.insert(port.to_owned(), number);
        self
    }

    pub(super) fn zone(mut self, zone: &str) -> Self {
        self.zone = Some(zone.to_owned());
        self
    }
}

/// What this installation registered for a Service at these addresses.
pub fn ours(service: &str, addresses: &str) -> Attributes {
    marked(&owner_of("blue"), service, addresses)
}

/// The same, with the id that it has.
pub fn own<'a>(id: &'a str, service: &str, addresses: &str) -> (&'a str, Attributes) {
    (id, ours(service, addresses))
}

/// What it registered for the same Service of another cluster.
pub fn of_other_cluster(service: &str, addresses: &str) -> Attributes {
    marked(&owner_of("green"), service, addresses)
}

fn marked(owner: &Owner, service: &str, addresses: &str) -> Attributes {
    let mut attributes = Marks { service: named(service), pod: None }.write(owner);
    attributes.extend(foreign(addresses));
    attributes.insert(REGION.into(), "eu-central-1".into());
    attributes
}

/// What somebody else registered at these addresses.
pub fn foreign(addresses: &str) -> Attributes {
    let addresses = addresses.split('+');
    let keyed = addresses.map(|text| (if text.contains(':') { IPV6 } else { IPV4 }, text));
    keyed.map(|(key, text)| (key.to_owned(), text.to_owned())).collect()
}

/// The attributes with one more, or with another value.
pub fn with(mut attributes: Attributes, key: &str, value: &str) -> Attributes {
    attributes.insert(key.to_owned(), value.to_owned());
    attributes
}

pub fn key(place: &str) -> ServiceKey {
    let (namespace, name) = split(place);
    ServiceKey { namespace: format!("ns-{namespace}"), name }
}

pub fn named(service: &str) -> ServiceRef {
    let (namespace, name) = split(service);
    ServiceRef::new(namespace, name)
}

fn split(text: &str) -> (String, String) {
    let (namespace, name) = text.split_once('/').expect("a namespace and a name");
    (namespace.to_owned(), name.to_owned())
}

/// A plan in lines: each change under the Service whose turn it is, then what is held back.
pub fn tell(plan: &Plan) -> String {
    let changes = plan.changes.iter().flat_map(|(service, changes)| {
        changes.iter().map(move |change| {
            let (verb, place, detail) = (change.verb(), change.place(), change.detail());
            let instance = change.instance().filter(|id| !id.starts_with("ip-"));
            let instance = instance.map(|id| format!(" {id}")).unwrap_or_default();
            format!("{service}: {verb} {place}{instance}: {detail}")
        })
    });
    let held_back = plan.held_back.iter().map(|held_back| {
        let place = held_back.place.as_ref().map(|place| format!(" {place}")).unwrap_or_default();
        let reason = &held_back.reason;
        format!("! {}{place}: {} ({})", held_back.service, reason, reason.code())
    });
    changes.chain(held_back).collect::<Vec<_>>().join("\n")
}

/// The instances that a plan registers or rewrites in one Cloud Map service, by id.
pub fn written(plan: &Plan, place: &str) -> BTreeMap<String, Attributes> {
    use crate::plan::Change::{Register, Rewrite};
    let changes = plan.changes.values().flatten();
    let here = changes.filter(|change| change.place().key == key(place));
    here.filter_map(|change| match change {
        Register { instance, attributes, .. } | Rewrite { instance, attributes, .. } => {
            Some((instance.clone(), attributes.clone()))
        }
        _ => None,
    })
    .collect()
}
