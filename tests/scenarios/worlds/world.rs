//! The world as plain data, and its projection onto the stand-ins. Things are named by small numbers, so that a move
//! also fits a world in which others were left out.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::clusterset::{Clusterset, EXPORTED};
use crate::fleet::OTHER_ACCOUNT;
use testbed::cloud_map::NamespaceKind;
use testbed::kubernetes::{Headless, KubernetesServer, Pod};
use testbed::{ACCOUNT, REGION};

/// The clusters.
pub const CLUSTERS: [&str; 2] = ["blue", "green"];
/// A cluster that was there once.
pub const AMBER: &str = "amber";
/// The namespace that is not there until the function creates it.
pub const TEAM: &str = "team";
/// The names of Services, and those that they claim.
pub const NAMES: [&str; 4] = ["api", "cart", "pay", "web"];
/// The Kubernetes namespace of all Services.
pub const SHOP: &str = "shop";

/// Services that are put are made after so many minutes; those that were there before have lower numbers.
const OLDEST: u32 = 100;

/// The world but for what Cloud Map holds, which its stand-in has.
#[derive(Debug, Default)]
pub struct World {
    /// The Services by their cluster's and their own number.
    pub services: BTreeMap<(usize, usize), Service>,
    pub namespaces: Vec<Namespace>,
    pub settings: Settings,
    /// Whether no process has the time to read all of Cloud Map in one run.
    pub has_few_reads: bool,
    /// What is exported, beside the Services.
    pub clusterset: Clusterset,
    /// What claims of a name ever asked of its records: ("IPv4", "IPv6", both in one endpoint, "SRV").
    pub asked: BTreeMap<(String, String), BTreeSet<&'static str>>,
    /// The Services as they were last projected.
    shown: BTreeMap<(usize, usize), Service>,
    /// The Service whose endpoints changed last, and those that it had before.
    pub former: Option<((usize, usize), BTreeMap<u8, Endpoint>)>,
    /// Services that were made so far: the order of their creation, and their UIDs.
    made: u32,
    /// Services among them that are older than all others.
    aged: u32,
}

/// A Cloud Map namespace.
#[derive(Clone, Debug)]
pub struct Namespace {
    pub id: String,
    pub name: &'static str,
    pub kind: NamespaceKind,
    pub is_shared: bool,
    /// Whether the account that shared it shares it no more.
    pub is_withdrawn: bool,
}

impl Namespace {
    /// One of the function's own account.
    pub fn new(id: String, name: &'static str, kind: NamespaceKind) -> Self {
        Self { id, name, kind, is_shared: false, is_withdrawn: false }
    }

    fn arn(&self) -> String {
        let account = if self.is_shared { OTHER_ACCOUNT } else { ACCOUNT };
        format!("arn:aws:servicediscovery:{REGION}:{account}:namespace/{}", self.id)
    }
}

/// The settings of the function that moves change.
#[allow(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub owner: &'static str,
    pub prefix: &'static str,
    pub policy: &'static str,
    pub clusters: &'static str,
    pub creates_namespaces: bool,
    pub events: &'static str,
    pub guard_minimum: u32,
    pub is_dry: bool,
    /// The only name of namespaces that the function uses.
    pub namespaces: Option<&'static str>,
    /// The name that `NAME_POLICY` denies.
    pub denied: Option<&'static str>,
}

/// A headless Service.
#[derive(Clone, Debug)]
pub struct Service {
    pub claim: Claim,
    /// The prefix of its annotations.
    pub prefix: &'static str,
    pub has_selector: bool,
    pub families: Vec<&'static str>,
    pub endpoints: BTreeMap<u8, Endpoint>,
    /// Whether it has a slice that another cluster's controller wrote.
    pub has_foreign_slice: bool,
    pub created: u32,
}

/// What its annotations ask for.
#[allow(clippy::struct_excessive_bools, reason = "each is a field or an annotation of its own")]
#[derive(Clone, Debug)]
pub struct Claim {
    pub names: Vec<&'static str>,
    pub namespace: Reference,
    pub port: Option<&'static str>,
    pub ttl: Option<u32>,
    pub is_published: bool,
    pub keeps_last: bool,
    pub serves_on: bool,
    pub maximum: Option<usize>,
    pub team: Option<&'static str>,
    /// An annotation with a value that is none.
    pub bad: Option<(&'static str, &'static str)>,
}

/// How a claim refers to its namespace: by its number in the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    Name(usize),
    Id(usize),
    Arn(usize),
    /// The name `TEAM`.
    New,
}

/// One endpoint.
#[allow(clippy::struct_excessive_bools, reason = "each is a field or an annotation of its own")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub is_ready: bool,
    pub is_terminating: bool,
    pub has_v4: bool,
    pub has_v6: bool,
    /// Whether its entries name a Pod; only those without a selector may not.
    pub is_pod: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            owner: "cloud-map-sync",
            prefix: "cloudmap.controller/",
            policy: "sync",
            clusters: "blue,green",
            creates_namespaces: false,
            events: "all",
            guard_minimum: 1000,
            is_dry: false,
            namespaces: None,
            denied: None,
        }
    }
}

impl Settings {
    /// The environment of a process.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![
            ("CLUSTERS", self.clusters.to_owned()),
            ("OWNER_ID", self.owner.to_owned()),
            ("ANNOTATION_PREFIX", self.prefix.to_owned()),
            ("POLICY", self.policy.to_owned()),
            ("GUARD_MINIMUM", self.guard_minimum.to_string()),
            ("DRY_RUN", self.is_dry.to_string()),
            ("EVENTS", self.events.to_owned()),
        ];
        variables.extend(self.creates_namespaces.then(|| ("CREATE_NAMESPACES", "true".to_owned())));
        variables.extend(self.namespaces.map(|it| ("CLOUD_MAP_NAMESPACES", it.to_owned())));
        let policy = |denied| {
            let names = NAMES.into_iter().chain(EXPORTED).filter(|it| *it != denied);
            let names: Vec<_> = names.collect();
            let all = ["*"];
            json!([{"clusters": all, "kubernetesNamespaces": all, "cloudMapNamespaces": all, "names": names}])
        };
        variables.extend(self.denied.map(|it| ("NAME_POLICY", policy(it).to_string())));
        variables
    }
}

impl Default for Claim {
    fn default() -> Self {
        Self {
            names: vec!["web"],
            namespace: Reference::Name(0),
            port: None,
            ttl: None,
            is_published: true,
            keeps_last: false,
            serves_on: false,
            maximum: None,
            team: None,
            bad: None,
        }
    }
}

impl Default for Endpoint {
    fn default() -> Self {
        Self { is_ready: true, is_terminating: false, has_v4: true, has_v6: false, is_pod: true }
    }
}

/// The addresses of an endpoint: those of a cluster are its own, and its Services share them.
pub fn addresses(cluster: usize, number: u8) -> (String, String) {
    (format!("10.0.{}.{number}", cluster + 1), format!("fd00::{}:{number:x}", cluster + 1))
}

impl World {
    /// The namespace that a reference means; a number too large means another one.
    pub fn namespace(&self, number: usize) -> &Namespace {
        &self.namespaces[number % self.namespaces.len()]
    }

    /// The namespace `TEAM` is there.
    pub fn has_created(&mut self, id: String) {
        if self.namespaces.iter().all(|it| it.name != TEAM) {
            self.namespaces.push(Namespace::new(id, TEAM, NamespaceKind::Http));
        }
    }

    /// Whether the function creates namespaces.
    pub fn creates_namespaces(&self) -> bool {
        self.settings.creates_namespaces || self.clusterset.is_on
    }

    /// The namespaces that a claim may mean and the function uses.
    pub fn candidates(&self, claim: &Claim) -> Vec<&Namespace> {
        let named = self.named(claim).into_iter();
        named.filter(|it| self.settings.namespaces.is_none_or(|used| used == it.name)).collect()
    }

    /// Whether the function uses a namespace.
    pub fn is_used(&self, id: &str) -> bool {
        let namespace = self.namespaces.iter().find(|it| it.id == id);
        self.settings.namespaces.is_none_or(|used| namespace.is_some_and(|it| it.name == used))
    }

    /// Whether `NAME_POLICY` allows a name.
    pub fn allows(&self, name: &str) -> bool {
        self.settings.denied != Some(name)
    }

    /// The namespaces that a claim may mean: those of its name, or the one that it names by id.
    fn named(&self, claim: &Claim) -> Vec<&Namespace> {
        let named = self.namespaces.iter().filter(|it| match claim.namespace {
            Reference::Id(number) | Reference::Arn(number) => it.id == self.namespace(number).id,
            Reference::Name(number) => it.name == self.namespace(number).name,
            Reference::New => it.name == TEAM,
        });
        named.filter(|it| !it.is_withdrawn).collect()
    }

    /// Makes a Service, with a time of creation and a UID of its own, or replaces its spec and annotations.
    pub fn put(&mut self, place: (usize, usize), service: Service) {
        let created = if let Some(present) = self.services.get(&place) {
            present.created
        } else {
            self.made += 1;
            OLDEST + self.made
        };
        self.services.insert(place, Service { created, ..service });
    }

    /// Makes a Service that was there before all others, and opts in only now.
    pub fn put_aged(&mut self, place: (usize, usize), service: Service) {
        self.aged += 1;
        let created = OLDEST.saturating_sub(self.aged);
        self.services.insert(place, Service { created, ..service });
    }

    /// Brings a Service of a cluster's API server to what it is here.
    pub fn project(&mut self, place: (usize, usize), server: &KubernetesServer) {
        let name = NAMES[place.1];
        let Some(service) = self.services.get(&place).cloned() else {
            server.delete_service(SHOP, name);
            return delete_slices(server, name);
        };
        server.service(self.headless(name, &service));
        delete_slices(server, name);
        if service.has_selector {
            server.pods(SHOP, name, &service.pods(place));
        } else {
            put_slices(server, name, place.0, &service);
        }
        if service.has_foreign_slice {
            put_foreign_slice(server, name);
        }
        self.note_asked(&service);
        // A run that has read a Service may read endpoints that it got since.
        if let Some(former) = self.shown.insert(place, service.clone()) {
            self.note_asked(&Service { endpoints: service.endpoints, ..former });
        }
    }

    fn headless(&self, name: &str, service: &Service) -> Headless {
        let claim = &service.claim;
        let namespace = match claim.namespace {
            Reference::Name(number) => self.namespace(number).name.to_owned(),
            Reference::Id(number) => self.namespace(number).id.clone(),
            Reference::Arn(number) => self.namespace(number).arn(),
            Reference::New => TEAM.to_owned(),
        };
        let mut annotations = vec![("hostname", claim.names.join(",")), ("namespace", namespace)];
        let mut add = |key, value: Option<String>| annotations.extend(value.map(|it| (key, it)));
        add("port", claim.port.map(str::to_owned));
        add("ttl", claim.ttl.map(|it| it.to_string()));
        add("publish", (!claim.is_published).then(|| "false".to_owned()));
        add("when-none-ready", claim.keeps_last.then(|| "keep".to_owned()));
        add("terminating", claim.serves_on.then(|| "keep-serving".to_owned()));
        add("max-instances", claim.maximum.map(|it| it.to_string()));
        add("attributes", claim.team.map(|it| format!("team={it}")));
        if let Some((key, value)) = claim.bad {
            annotations.retain(|(other, _)| *other != key);
            annotations.push((key, value.to_owned()));
        }
        let hour = service.created / 60;
        let minute = service.created % 60;
        let created = format!("2026-01-01T{hour:02}:{minute:02}:00Z");
        let new = Headless::new(SHOP, name).port("http", 8080).port("admin", 9090);
        let new = new.created(&created).uid(&format!("uid-{name}-{}", service.created));
        let new = annotations.into_iter().fold(new, |new, (key, value)| {
            new.annotate(&format!("{}{key}", service.prefix), &value)
        });
        if service.has_selector { new.families(&service.families) } else { new.without_selector() }
    }

    /// Remembers what a claim asks of the records of its names.
    pub fn note_asked(&mut self, service: &Service) {
        let ids: Vec<String> =
            self.named(&service.claim).into_iter().map(|it| it.id.clone()).collect();
        for (id, name) in ids.into_iter().flat_map(|id| {
            service.claim.names.iter().map(move |name| (id.clone(), (*name).to_owned()))
        }) {
            let asked = self.asked.entry((id, name)).or_default();
            asked.extend(service.claim.port.map(|_| "SRV"));
            if service.has_selector {
                asked.extend(&service.families);
                asked.extend((service.families.len() > 1).then_some("both"));
            }
            for endpoint in service.endpoints.values().filter(|_| !service.has_selector) {
                asked.extend(endpoint.has_v4.then_some("IPv4"));
                asked.extend(endpoint.has_v6.then_some("IPv6"));
                let is_both = endpoint.has_v4 && endpoint.has_v6 && endpoint.is_pod;
                asked.extend(is_both.then_some("both"));
            }
        }
    }
}

impl Service {
    /// One with a selector and addresses of IPv4.
    pub fn plain(claim: Claim, prefix: &'static str, endpoints: BTreeMap<u8, Endpoint>) -> Self {
        let families = vec!["IPv4"];
        let has_selector = true;
        let has_foreign_slice = false;
        let created = 0;
        Self { claim, prefix, has_selector, families, endpoints, has_foreign_slice, created }
    }

    fn pods(&self, (cluster, name): (usize, usize)) -> Vec<Pod> {
        let pods = self.endpoints.iter().map(|(number, endpoint)| {
            let (v4, v6) = addresses(cluster, *number);
            let name = format!("{}-{number}", NAMES[name]);
            let pod = match (endpoint.has_v4, endpoint.has_v6) {
                (true, true) => Pod::new(&name, &v4).address(&v6),
                (false, true) => Pod::new(&name, &v6),
                _ => Pod::new(&name, &v4),
            };
            let pod = if endpoint.is_ready { pod } else { pod.not_ready() };
            if endpoint.is_terminating { pod.terminating() } else { pod }
        });
        pods.collect()
    }
}

fn delete_slices(server: &KubernetesServer, service: &str) {
    for slice in server.objects("endpointslices", SHOP) {
        let metadata = &slice["metadata"];
        if metadata["labels"]["kubernetes.io/service-name"] == service {
            server.delete("endpointslices", SHOP, metadata["name"].as_str().expect("a name"));
        }
    }
}

/// The slices of a Service without a selector, as another controller writes them: one of each family.
fn put_slices(server: &KubernetesServer, name: &str, cluster: usize, service: &Service) {
    for family in ["IPv4", "IPv6"] {
        let of_family = |endpoint: &&(&u8, &Endpoint)| match family {
            "IPv4" => endpoint.1.has_v4,
            _ => endpoint.1.has_v6,
        };
        let endpoints = service.endpoints.iter().collect::<Vec<_>>();
        let endpoints = endpoints.iter().filter(of_family).map(|(number, endpoint)| {
            let (v4, v6) = addresses(cluster, **number);
            let target = if endpoint.is_pod {
                json!({"kind": "Pod", "namespace": SHOP, "name": format!("{name}-{number}")})
            } else {
                // As a database operator writes them: all addresses refer to one object.
                json!({"kind": "Database", "namespace": SHOP, "name": "db"})
            };
            json!({
                "addresses": [if family == "IPv4" { v4 } else { v6 }],
                "conditions": {
                    "ready": endpoint.is_ready && !endpoint.is_terminating,
                    "serving": endpoint.is_ready, "terminating": endpoint.is_terminating,
                },
                "targetRef": target,
            })
        });
        let endpoints: Vec<_> = endpoints.collect();
        if endpoints.is_empty() {
            continue;
        }
        let suffix = format!("by-hand-{}", family.to_lowercase());
        server.put(slice(name, &suffix, family, &endpoints));
    }
}

/// A slice as Cilium writes it for the endpoints of another cluster.
fn put_foreign_slice(server: &KubernetesServer, name: &str) {
    let endpoint = json!({"addresses": ["10.0.7.1"], "conditions": {"ready": true}});
    let mut slice = slice(name, "of-red", "IPv4", &[endpoint]);
    slice["metadata"]["labels"]["multicluster.kubernetes.io/source-cluster"] = "red".into();
    server.put(slice);
}

fn slice(service: &str, suffix: &str, family: &str, endpoints: &[Value]) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
        "metadata": {
            "name": format!("{service}-{suffix}"), "namespace": SHOP,
            "labels": {"kubernetes.io/service-name": service},
        },
        "endpoints": endpoints,
        "ports": [
            {"name": "http", "port": 8080, "protocol": "TCP"},
            {"name": "admin", "port": 9090, "protocol": "TCP"},
        ],
    })
}
