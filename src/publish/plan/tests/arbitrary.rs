//! Random worlds. The pools of names, addresses and ids are small, so that conflicts are frequent: Services that claim
//! the same name, instances with the same address, and ids that another party uses.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::json;

use super::simulation::Course;
use super::world::{
    self, A, AAAA, BOTH, CNAME, HTTP, Kubernetes, SRV, World, named, of_other_cluster, ours,
    service, with,
};
use crate::model::attributes::{AVAILABILITY_ZONE, INITIAL_HEALTH, PORT, SCHEMA};
use crate::model::{
    Attributes, CloudMapService, Endpoint, Family, NamespaceKind, ServiceKind, SignedDuration, Tags,
};
use crate::publish::plan::identity::Identity;
use crate::publish::plan::{Guard, NamePolicy, Policy, Rules, ServiceLimit};

/// A guard that holds nothing.
pub const OFF: Guard =
    Guard { share: 100, minimum: 0, wait: SignedDuration::ZERO, period: SignedDuration::ZERO };

const SERVICES: [&str; 4] = ["ops/web", "shop/api", "shop/cart", "shop/web"];
const GONE: &str = "shop/gone";
const PLACES: [&str; 5] = ["dns/api", "dns/web", "http/WEB", "http/api", "http/web"];
const ADDRESSES: [&str; 8] = [
    "10.0.0.1",
    "10.0.0.2",
    "10.0.0.3",
    "fd00::1",
    "fd00::2",
    "10.0.0.1+fd00::1",
    "10.0.0.2+fd00::2",
    "127.0.0.1",
];

pub fn course() -> impl Strategy<Value = Course> {
    let policies = prop_oneof![
        6 => Just(Policy::Sync),
        1 => Just(Policy::UpsertOnly),
        1 => Just(Policy::CreateOnly),
    ];
    let failing = prop_oneof![2 => Just(0), 1 => any::<u64>(), 1 => Just(u64::MAX)];
    let guards = prop_oneof![2 => Just(OFF), 1 => guard()];
    let rules =
        (policies, guards, any::<bool>(), option::weighted(0.4, name_policy()), few(1..5, 1000));
    let rules = rules.prop_map(|(policy, guard, create_namespaces, name_policy, limit)| Rules {
        policy,
        guard,
        create_namespaces,
        name_policy,
        service_limit: ServiceLimit(limit),
        ..Rules::default()
    });
    let all = (rules, failing, any::<bool>(), few(1..9, 2000));
    all.prop_map(|(rules, failing, side_by_side, namespace_quota)| Course {
        rules,
        side_by_side,
        failing,
        namespace_quota,
    })
}

/// Cloud Map's own limit, or one that is too small for all instances.
fn few(range: std::ops::Range<usize>, all: usize) -> impl Strategy<Value = usize> {
    prop_oneof![1 => range, 1 => Just(all)]
}

/// A guard with limits that these small worlds exceed.
pub fn guard() -> impl Strategy<Value = Guard> {
    let limits = (select(&[0, 20, 50][..]), 0..=3_usize);
    limits.prop_map(|(share, minimum)| Guard { share, minimum, ..Guard::default() })
}

/// One or two rules that allow some Services some names.
fn name_policy() -> impl Strategy<Value = NamePolicy> {
    let namespaces = select(&["*", "shop", "ops"][..]);
    let cidrs = option::of(subsequence(vec!["10.0.0.0/31", "10.0.0.2/31", "fd00::/8"], 1..=2));
    let rule = (
        namespaces,
        select(&["*", "http", "ns-dns"][..]),
        select(&["*", "w*", "api"][..]),
        cidrs,
        option::weighted(0.2, 1..3_usize),
        option::weighted(0.2, 1..3_usize),
    );
    let rule = rule.prop_map(|(namespaces, places, names, cidrs, maximum, most)| {
        json!({
            "clusters": ["blue"], "kubernetesNamespaces": [namespaces],
            "cloudMapNamespaces": [places], "names": [names], "cidrs": cidrs, "maxInstances": maximum,
            "maxNames": most,
        })
    });
    vec(rule, 1..=2).prop_map(|it| NamePolicy(serde_json::from_value(json!(it)).expect("rules")))
}

pub fn world() -> impl Strategy<Value = World> {
    let services = SERVICES.map(|name| option::weighted(0.7, kubernetes(name)));
    let places = PLACES.map(|place| option::weighted(0.7, cloud_map(place)));
    (services, places).prop_map(|(services, places)| {
        let empty = World::new().namespace("ns-1", "twice", NamespaceKind::Http).namespace(
            "ns-2",
            "twice",
            NamespaceKind::Http,
        );
        let world = services.into_iter().flatten().fold(empty, World::service);
        PLACES.into_iter().zip(places).fold(world, |world, (place, service)| match service {
            Some((kind, change)) => {
                world.cloud_map(place, kind, []).with(place, |service| *service = change)
            }
            None => world,
        })
    })
}

fn kubernetes(name: &'static str) -> impl Strategy<Value = Kubernetes> {
    let place = prop_oneof![
        8 => select(&PLACES[..]),
        1 => select(&["twice/web", "missing/web"][..]),
    ];
    let also = subsequence(vec!["web", "Web", "api"], 0..=2);
    let ports = prop_oneof![
        3 => Just(vec![]),
        2 => Just(vec!["http"]),
        1 => Just(vec!["http", "grpc"]),
        1 => Just(vec!["typo", "http"]),
        1 => Just(vec!["http", "typo"]),
    ];
    let families = subsequence(vec![Family::V4, Family::V6], 0..=2);
    let ttl = option::weighted(0.3, select(&[15, 60][..]));
    let levers = (prop::bool::weighted(0.9), option::weighted(0.1, 1..3_usize), ttl);
    let keeps = (prop::bool::weighted(0.1), prop::bool::weighted(0.1));
    let has = prop_oneof![Just(vec![("http", 80)]), Just(vec![("http", 80), ("grpc", 90)])];
    (
        (place, also, 0..3_i64, ports, families),
        (has, vec(endpoint(), 0..=4), levers, keeps, (rarely(), rarely())),
    )
        .prop_map(
            move |(
                (place, also, created, ports, families),
                (has, endpoints, levers, keeps, (truncated, mistaken)),
            )| {
                let new = service(name, place).created(created).port(ports);
                let new = also.into_iter().fold(new, Kubernetes::also);
                let new = new.ports(has).families(families).ready(endpoints);
                let new = new.levers(levers.0, levers.1).keeps(keeps.0, keeps.1);
                let new = if truncated { new.truncated() } else { new };
                let new = levers.2.into_iter().fold(new, Kubernetes::ttl);
                if mistaken { new.mistaken() } else { new }
            },
        )
}

fn rarely() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.1)
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    let targets = subsequence(vec![("http", 8080), ("grpc", 9090)], 0..=2);
    let targets = prop_oneof![2 => Just(vec![("http", 8080), ("grpc", 9090)]), 1 => targets];
    let zone = option::of(select(&["a", "b"][..]));
    let pod = option::of(select(&["one", "two"][..]));
    let conditions =
        (prop::bool::weighted(0.8), prop::bool::weighted(0.8), prop::bool::weighted(0.1));
    let all = (select(&ADDRESSES[..]), targets, zone, pod, conditions);
    all.prop_map(|(addresses, targets, zone, pod, conditions)| {
        let mut endpoint = world::pod("", addresses);
        (endpoint.ready, endpoint.serving, endpoint.terminating) = conditions;
        endpoint.pod = pod.map(str::to_owned);
        endpoint.zone = zone.map(str::to_owned);
        targets.into_iter().fold(endpoint, |endpoint, (port, number)| endpoint.target(port, number))
    })
}

/// An existing Cloud Map service.
fn cloud_map(place: &'static str) -> impl Strategy<Value = (ServiceKind, CloudMapService)> {
    let kind = if place.starts_with("http/") {
        Just(HTTP).boxed()
    } else {
        select(&[HTTP, A, A, AAAA, BOTH, SRV, SRV, CNAME][..]).boxed()
    };
    let instances = vec(instance(), 0..=6);
    let tags = prop_oneof![
        4 => Just(world::tagged("cloud-map-sync")),
        2 => Just(world::tagged("team-a")),
        1 => Just(world::tagged("ECS")),
        1 => Just(Tags::Unreadable("denied".into())),
    ];
    let ttls = prop_oneof![2 => Just(vec![60]), 1 => Just(vec![15]), 1 => Just(vec![15, 60])];
    let unreadable = prop::bool::weighted(0.05);
    (kind, instances, (tags, ttls), unreadable).prop_map(
        move |(kind, instances, (tags, ttls), unreadable)| {
            let ttls = ttls.into_iter().filter(|_| kind != HTTP).collect();
            let distinguishes_ports = !matches!(kind, A | AAAA | BOTH);
            let mut service = CloudMapService::created("arn".into(), place, kind);
            let instances = instances.into_iter();
            let instances = instances
                .map(|(id, attributes)| (id.of(&attributes, distinguishes_ports), attributes));
            let instances: BTreeMap<String, Attributes> = instances.collect();
            service.instances = (!unreadable).then_some(instances.into_iter().collect());
            service.unreadable = unreadable.then(|| "throttled".to_owned());
            (service.tags, service.ttls) = (tags, ttls);
            (kind, service)
        },
    )
}

/// The origin of an instance's id.
#[derive(Clone, Debug)]
enum Id {
    /// Our id for this Service and the address of the instance.
    Ours(&'static str),
    /// Our id for this Service and another address.
    OursFor(&'static str, &'static str),
    /// An id that another party chose.
    Any(&'static str),
}

impl Id {
    fn of(&self, attributes: &Attributes, distinguishes_ports: bool) -> String {
        let id = |service, attributes: &Attributes| {
            let identity = Identity::of(attributes, distinguishes_ports);
            identity.new_id(&world::owner_of("blue"), &named(service))
        };
        match self {
            Self::Ours(service) => id(service, attributes),
            Self::OursFor(service, address) => id(service, &world::foreign(address)),
            Self::Any(id) => (*id).to_owned(),
        }
    }
}

fn instance() -> impl Strategy<Value = (Id, Attributes)> {
    let marked = prop_oneof![6 => select(&SERVICES[..]), 1 => Just(GONE)];
    let id = prop_oneof![
        4 => select(&SERVICES[..]).prop_map(Id::Ours),
        1 => (select(&SERVICES[..]), select(&ADDRESSES[..5])).prop_map(|(service, address)| Id::OursFor(service, address)),
        2 => select(&["0", "i-1", "i-2", "z"][..]).prop_map(Id::Any),
    ];
    let own = (id, marked, select(&ADDRESSES[..7]));
    let whose = 0..10_u8;
    let drift = subsequence(
        vec![
            (PORT, "8080"),
            (AVAILABILITY_ZONE, "a"),
            (SCHEMA, "2"),
            ("color", "red"),
            (INITIAL_HEALTH, "UNHEALTHY"),
            ("AWS_ALIAS", "x"),
        ],
        0..=3,
    );
    (own, whose, drift).prop_map(|((id, marked, address), whose, drift)| {
        let attributes = match whose {
            0 => of_other_cluster(marked, address),
            1 => with(world::foreign(address), "ECS_SERVICE_NAME", "web"),
            2 => world::foreign(address),
            _ => ours(marked, address),
        };
        let attributes =
            drift.into_iter().fold(attributes, |it, (key, value)| with(it, key, value));
        (id, attributes)
    })
}
