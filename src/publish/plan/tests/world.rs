//! A builder for small worlds: Kubernetes Services with their ready endpoints, and Cloud Map services with their
//! instances. Cloud Map always has a namespace `http` and a namespace `dns`; its services are named `namespace/name`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub use super::kubernetes::{Kubernetes, mistake, pod, pods, service};
use crate::model::attributes::{IPV4, IPV6, REGION};
use crate::model::{
    Attributes, CloudMapService, ClusterArn, Flow, Marks, Namespace, NamespaceKind, Owner, Records,
    Registry, Selection, ServiceKey, ServiceKind, ServiceRef, ServiceTags, Tags, Timestamp,
};
use crate::publish::plan::{Extent, Observation, Plan, Rules, namespaces, plan};

/// The time at which plans are made, unless a test sets another one.
pub const NOW: Timestamp = Timestamp::constant(1_795_258_260, 0);

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

/// The owner of the instances of this cluster; plans are made for `blue`.
pub fn owner_of(cluster: &str) -> Owner {
    let arn = format!("arn:aws:eks:eu-central-1:111122223333:cluster/{cluster}");
    let cluster = ClusterArn::parse(&arn).expect("an ARN");
    Owner { id: "cloud-map-sync".into(), cluster, flow: Flow::Annotations }
}

/// The contents of one cluster and Cloud Map.
#[derive(Clone)]
pub struct World(pub Observation);

/// Short, for the output of a failing property test.
impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, service) in &self.0.desired.services {
            writeln!(f, "\nService {name} of {}: {:?}", service.created, service.claims)?;
            let ports = &service.ports;
            let families = &service.families;
            writeln!(f, "  {ports:?} {families:?} truncated: {}", service.truncated)?;
            for endpoint in service.read_endpoints() {
                writeln!(f, "  {endpoint:?}")?;
            }
        }
        for (key, service) in &self.0.registry.services {
            let kind = service.kind;
            let ttls = &service.ttls;
            let unreadable = &service.unreadable;
            writeln!(f, "{key:?}: {kind} {ttls:?}, {:?}, {unreadable:?}", service.tags)?;
            for (id, attributes) in self.0.registry.instances(key) {
                writeln!(f, "  {id}: {attributes:?}")?;
            }
        }
        Ok(())
    }
}

impl World {
    pub fn new() -> Self {
        let nothing = Observation::new(owner_of("blue"), Arc::default(), NOW, Registry::default());
        let world = Self(Observation { extent: Extent::Everything, ..nothing });
        world.namespace("ns-http", "http", NamespaceKind::Http).namespace(
            "ns-dns",
            "dns",
            NamespaceKind::Dns,
        )
    }

    /// A world with this Service.
    pub fn of(service: Kubernetes) -> Self {
        Self::new().service(service)
    }

    pub fn namespace(mut self, id: &str, name: &str, kind: NamespaceKind) -> Self {
        let arn = format!("arn:aws:servicediscovery:eu-central-1:111122223333:namespace/{id}");
        let arn = Some(arn);
        let owner = None;
        let namespace =
            Namespace { id: id.into(), arn, name: name.into(), kind, http_name: None, owner };
        self.0.registry.namespaces.insert(id.into(), namespace);
        self
    }

    pub fn service(mut self, service: Kubernetes) -> Self {
        self.0.desired.services.insert(service.name, service.annotated);
        self
    }

    /// Adds a service without DNS records, with these instances by id.
    pub fn http<const N: usize>(self, name: &str, instances: [(&str, Attributes); N]) -> Self {
        self.cloud_map(&format!("http/{name}"), HTTP, instances)
    }

    /// Adds a service with A records, with these instances by id.
    pub fn dns<const N: usize>(self, name: &str, instances: [(&str, Attributes); N]) -> Self {
        self.cloud_map(&format!("dns/{name}"), A, instances)
    }

    /// Adds a Cloud Map service with these instances, by id.
    pub fn cloud_map<const N: usize>(
        mut self,
        place: &str,
        kind: ServiceKind,
        instances: [(&str, Attributes); N],
    ) -> Self {
        let name = split(place).1;
        let arn = format!("arn:aws:servicediscovery:eu-central-1:111122223333:service/srv-{name}");
        let mut service = CloudMapService::created(arn, &name, kind);
        service.instances =
            Some(instances.map(|(id, it)| (id.to_owned(), it)).into_iter().collect());
        self.0.registry.services.insert(key(place), service);
        self
    }

    /// Changes an existing Cloud Map service.
    pub fn with(mut self, place: &str, change: impl FnOnce(&mut CloudMapService)) -> Self {
        change(self.0.registry.services.get_mut(&key(place)).expect("the service is there"));
        self
    }

    /// The plan of a full sync.
    pub fn plan(&self) -> Plan {
        self.plan_for(&Selection::Everything)
    }

    /// The plan of a sync of one Service.
    pub fn plan_of(&self, service: &str) -> Plan {
        self.plan_for(&Selection::service(named(service)))
    }

    /// The same world under other rules.
    pub fn under(mut self, rules: Rules) -> Self {
        self.0.rules = Arc::new(rules);
        self
    }

    /// The plan of a sync of the selected Services.
    pub fn plan_for(&self, selection: &Selection) -> Plan {
        let mut world = self.clone();
        namespaces::expect_missing(&mut world.0);
        plan(&world.observed(selection))
    }

    /// The observation for a plan for the selected Services.
    pub fn observed(&self, selection: &Selection) -> Observation {
        self.0.clone().decided(selection)
    }

    /// The id with which a full sync would register an address.
    pub fn id_given(&self, place: &str, address: &str) -> String {
        let written = written(&self.plan(), place).into_iter();
        let mut at =
            written.filter(|(_, attributes)| attributes.iter().any(|(_, it)| it == address));
        at.next().expect("the address is registered").0
    }

    /// The changes of a full sync, one line for each change and for each item held back.
    pub fn planned(&self) -> String {
        lines_of(&self.plan())
    }
}

/// The tags of a service of ours, of another installation's, or of ECS Service Connect's.
pub fn tagged(by: &str) -> Tags {
    let owner = Some(by.to_owned()).filter(|_| by != "ECS");
    Tags::Read(ServiceTags { owner, managed_by_ecs: by == "ECS" })
}

/// An instance that this installation registered for a Service at these addresses.
pub fn ours(service: &str, addresses: &str) -> Attributes {
    marked(&owner_of("blue"), service, addresses)
}

/// The same, with its id.
pub fn own<'a>(id: &'a str, service: &str, addresses: &str) -> (&'a str, Attributes) {
    (id, ours(service, addresses))
}

/// An instance that it registered for the same Service of another cluster.
pub fn of_other_cluster(service: &str, addresses: &str) -> Attributes {
    marked(&owner_of("green"), service, addresses)
}

fn marked(owner: &Owner, service: &str, addresses: &str) -> Attributes {
    let mut attributes = Marks { service: named(service), pod: None }.write(owner);
    attributes.extend(&foreign(addresses));
    attributes.insert(REGION, "eu-central-1");
    attributes
}

/// An instance that another party registered at these addresses.
pub fn foreign(addresses: &str) -> Attributes {
    let addresses = addresses.split('+');
    let keyed = addresses.map(|text| (if text.contains(':') { IPV6 } else { IPV4 }, text));
    keyed.map(|(key, text)| (key.to_owned(), text.to_owned())).collect()
}

/// Sets one attribute.
pub fn with(mut attributes: Attributes, key: &str, value: &str) -> Attributes {
    attributes.insert(key, value);
    attributes
}

/// The service `web` in the usual namespace of services of this kind.
pub fn web_of(kind: ServiceKind) -> &'static str {
    if kind == HTTP { "http/web" } else { "dns/web" }
}

pub fn key(place: &str) -> ServiceKey {
    let (namespace, name) = split(place);
    ServiceKey { namespace: format!("ns-{namespace}"), name }
}

pub fn named(service: &str) -> ServiceRef {
    let (namespace, name) = split(service);
    ServiceRef::new(namespace, name)
}

pub fn split(text: &str) -> (String, String) {
    let (namespace, name) = text.split_once('/').expect("a namespace and a name");
    (namespace.to_owned(), name.to_owned())
}

/// A plan in lines: each change under the Service for which it is planned, then the items held back.
pub fn lines_of(plan: &Plan) -> String {
    let changes = plan.changes.iter().flat_map(|(service, changes)| {
        changes.iter().map(move |change| {
            let verb = change.verb();
            let place = change.place();
            let detail = change.detail();
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
    use crate::publish::plan::Change::{Register, Rewrite};
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
