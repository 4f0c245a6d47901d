//! Services and endpoints of the clusters.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::oracle::{Key, is_served, marks, opted_in, possible_keys};
use super::super::play::Scene;
use super::super::world::{CLUSTERS, Claim, Endpoint, NAMES, Reference, Service};
use super::{Move, Table};

/// Annotations with values that are none.
const BAD: [(&str, &str); 4] = [
    ("hostname", "no name!"),
    ("ttl", "soon"),
    ("attributes", "aws_instance_ipv4=10.9.9.9"),
    ("port", "nowhere"),
];

/// The families of Services with a selector, most of them of one.
const FAMILIES: &[&[&str]] = &[&["IPv4"], &["IPv4"], &["IPv4"], &["IPv6"], &["IPv4", "IPv6"]];

pub fn table() -> Table {
    kinds! {
        12 service_is_put();
        3 service_is_deleted();
        2 service_is_made_anew();
        10 endpoints_change();
        3 last_change_is_undone();
        6 endpoint_flips();
        6 claim_moves();
        3 claim_changes();
        3 ttl_changes();
        2 cluster_is_made_anew();
        2 clusters_share_a_name();
        1 names_are_claimed_by_all();
        6 older_claims_what_is_held();
    }
}

fn place() -> impl Strategy<Value = (usize, usize)> {
    (0..CLUSTERS.len(), 0..NAMES.len())
}

fn named((cluster, name): (usize, usize)) -> String {
    format!("{}/{}", CLUSTERS[cluster], NAMES[name])
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    let families = prop_oneof![
        6 => Just((true, false)),
        1 => Just((false, true)),
        2 => Just((true, true)),
    ];
    let flags = (prop::bool::weighted(0.85), prop::bool::weighted(0.1), prop::bool::weighted(0.6));
    (families, flags).prop_map(|((has_v4, has_v6), (is_ready, is_terminating, is_pod))| Endpoint {
        is_ready,
        is_terminating,
        has_v4,
        has_v6,
        is_pod,
    })
}

fn endpoints() -> impl Strategy<Value = BTreeMap<u8, Endpoint>> {
    let plain = vec(1..7_u8, 0..4).prop_map(|numbers| {
        numbers.into_iter().map(|number| (number, Endpoint::default())).collect()
    });
    prop_oneof![3 => plain, 1 => btree_map(1..7_u8, endpoint(), 0..4)]
}

fn reference() -> impl Strategy<Value = Reference> {
    prop_oneof![
        8 => (0..2_usize).prop_map(Reference::Name),
        1 => (0..4_usize).prop_map(Reference::Id),
        1 => (0..4_usize).prop_map(Reference::Arn),
        1 => Just(Reference::New),
    ]
}

fn names() -> impl Strategy<Value = Vec<&'static str>> {
    prop_oneof![
        6 => select(&NAMES[1..]).prop_map(|name| vec![name]),
        1 => Just(vec![NAMES[1], NAMES[3]]),
    ]
}

fn rarely() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.12)
}

fn claim() -> impl Strategy<Value = Claim> {
    let place = (names(), reference());
    let values = (
        option::weighted(0.15, select(&["http", "admin"][..])),
        option::weighted(0.1, select(&[15_u32, 30][..])),
        option::weighted(0.08, 1..3_usize),
        option::weighted(0.15, select(&["shop", "till"][..])),
        option::weighted(0.06, select(&BAD[..])),
    );
    let flags = (prop::bool::weighted(0.93), rarely(), rarely());
    (place, values, flags).prop_map(|((names, namespace), values, flags)| {
        let (port, ttl, maximum, team, bad) = values;
        let (is_published, keeps_last, serves_on) = flags;
        Claim {
            names,
            namespace,
            port,
            ttl,
            is_published,
            keeps_last,
            serves_on,
            maximum,
            team,
            bad,
        }
    })
}

fn service() -> impl Strategy<Value = Service> {
    let families = select(FAMILIES);
    (claim(), prop::bool::weighted(0.75), families, endpoints(), rarely()).prop_map(
        |(claim, has_selector, families, endpoints, has_foreign_slice)| Service {
            claim,
            prefix: "cloudmap.controller/",
            has_selector,
            families: families.to_vec(),
            endpoints,
            has_foreign_slice,
            created: 0,
        },
    )
}

fn described(service: &Service) -> String {
    let Service { claim, has_selector, families, endpoints, .. } = service;
    let kind = if *has_selector { format!("with {families:?}") } else { "without selector".into() };
    let foreign = if service.has_foreign_slice { ", and another cluster's slice" } else { "" };
    format!("{kind}, {}, {}{foreign}", claimed(claim), listed(endpoints))
}

fn claimed(claim: &Claim) -> String {
    let Claim { names, namespace, port, ttl, maximum, team, bad, .. } = claim;
    let flags = [
        (!claim.is_published, "not published"),
        (claim.keeps_last, "keeping the last"),
        (claim.serves_on, "serving on"),
    ];
    let flags = flags.into_iter().filter(|(is_so, _)| *is_so).map(|(_, text)| text.to_owned());
    let values = [
        port.map(|it| format!("port {it}")),
        ttl.map(|it| format!("TTL {it}")),
        maximum.map(|it| format!("{it} at most")),
        team.map(|it| format!("team={it}")),
        bad.map(|(key, value)| format!("a bad {key} \"{value}\"")),
    ];
    let more = flags.chain(values.into_iter().flatten()).map(|it| format!(", {it}"));
    format!("claims {} in {namespace:?}{}", names.join(" and "), more.collect::<String>())
}

fn listed(endpoints: &BTreeMap<u8, Endpoint>) -> String {
    let each = endpoints.iter().map(|(number, endpoint)| {
        let Endpoint { is_ready, is_terminating, has_v4, has_v6, is_pod } = *endpoint;
        let flags = [
            (!is_ready, "not ready"),
            (is_terminating, "terminating"),
            (has_v6 && !has_v4, "IPv6"),
            (has_v6 && has_v4, "both families"),
            (!is_pod, "no Pod if written by hand"),
        ];
        let flags = flags.into_iter().filter(|(is_so, _)| *is_so).map(|(_, text)| text);
        let flags: Vec<_> = flags.collect();
        if flags.is_empty() {
            number.to_string()
        } else {
            format!("{number} ({})", flags.join(", "))
        }
    });
    format!("endpoints [{}]", each.collect::<Vec<_>>().join(", "))
}

impl Scene {
    /// Puts a Service, whose references mean namespaces that are there.
    pub fn put(&mut self, place: (usize, usize), mut service: Service) {
        let count = self.world.namespaces.len();
        service.claim.namespace = match service.claim.namespace {
            Reference::Name(number) => Reference::Name(number % 2),
            Reference::Id(number) => Reference::Id(number % count),
            Reference::Arn(number) => Reference::Arn(number % count),
            Reference::New => Reference::New,
        };
        self.unsettle(place);
        self.world.put(place, service);
        self.unsettle(place);
        self.project(place);
    }

    pub fn remove(&mut self, place: (usize, usize)) {
        self.unsettle(place);
        self.world.services.remove(&place);
        self.project(place);
    }

    /// The names of a Service are claimed otherwise from now on.
    fn unsettle(&mut self, place: (usize, usize)) {
        let names = self.world.services.get(&place).map(|it| it.claim.names.clone());
        for name in names.unwrap_or_default() {
            self.ledger.unsettle(place.0, name);
        }
    }

    fn replace_endpoints(&mut self, place: (usize, usize), endpoints: BTreeMap<u8, Endpoint>) {
        if let Some(service) = self.world.services.get_mut(&place) {
            let former = std::mem::replace(&mut service.endpoints, endpoints);
            self.world.former = Some((place, former));
            self.project(place);
        }
    }

    pub fn change(&mut self, place: (usize, usize), change: impl FnOnce(&mut Service)) {
        if let Some(mut service) = self.world.services.get(&place).cloned() {
            change(&mut service);
            self.put(place, service);
        }
    }
}

impl Scene {
    /// A name that one Service of a cluster has instances under and claims, with that Service and its claim.
    fn held_name(&self, cluster: usize, number: usize) -> Option<(Key, usize, Claim)> {
        let registry = self.registry();
        let held = registry.iter().filter_map(|(key, held)| {
            let marks = held.instances.values().filter_map(|it| marks(&self.world, it));
            let mut names = marks.filter(|(of, _)| *of == cluster).map(|(_, name)| name);
            let first = names.next()?;
            let mut opted_in = opted_in(&self.world, cluster);
            let (holder, service) = opted_in.find(|(name, _)| NAMES[*name] == first)?;
            let claim = &service.claim;
            let is_certain = names.all(|it| it == first)
                && claim.bad.is_none()
                && self.world.candidates(claim).len() == 1
                && possible_keys(&self.world, claim).contains(key);
            is_certain.then(|| (key.clone(), holder, claim.clone()))
        });
        let held: Vec<_> = held.collect();
        held.get(number % held.len().max(1)).cloned()
    }
}

/// A Service older than the holder of a name opts in with that name: the holder keeps it.
fn older_claims_what_is_held() -> impl Strategy<Value = Move> {
    let all = (0..CLUSTERS.len(), 0..8_usize, 1..NAMES.len(), endpoints());
    all.prop_map(|(cluster, number, other, endpoints)| {
        let sentence = format!(
            "an older Service of {} opts in with held name {number}, {other} after its holder, {}",
            CLUSTERS[cluster],
            listed(&endpoints)
        );
        Move::new(sentence, move |scene| {
            let Some((key, holder, claim)) = scene.held_name(cluster, number) else { return };
            let place = (cluster, (holder + other) % NAMES.len());
            // Only where nothing is under way it is certain who holds the name.
            if !scene.is_idle() || !is_served(&scene.world, cluster) {
                return;
            }
            let Some(held) = NAMES.into_iter().find(|it| *it == key.1) else { return };
            scene.remove(place);
            let claim = Claim { names: vec![held], namespace: claim.namespace, ..Claim::default() };
            let service = Service::plain(claim, scene.world.settings.prefix, endpoints.clone());
            scene.world.put_aged(place, service);
            scene.unsettle(place);
            scene.ledger.holds((cluster, key), holder);
            scene.project(place);
        })
    })
}

fn service_is_put() -> impl Strategy<Value = Move> {
    (place(), service()).prop_map(|(place, service)| {
        let sentence = format!("{} is put: {}", named(place), described(&service));
        Move::new(sentence, move |scene| {
            let prefix = scene.world.settings.prefix;
            scene.put(place, Service { prefix, ..service.clone() });
        })
    })
}

fn service_is_deleted() -> impl Strategy<Value = Move> {
    place().prop_map(|place| {
        Move::new(format!("{} is deleted", named(place)), move |scene| scene.remove(place))
    })
}

fn service_is_made_anew() -> impl Strategy<Value = Move> {
    place().prop_map(|place| {
        Move::new(format!("{} is deleted and made again", named(place)), move |scene| {
            if let Some(service) = scene.world.services.get(&place).cloned() {
                scene.remove(place);
                scene.put(place, service);
            }
        })
    })
}

/// Endpoints alone change: no claim does.
fn endpoints_change() -> impl Strategy<Value = Move> {
    (place(), endpoints()).prop_map(|(place, endpoints)| {
        Move::new(format!("{} has {}", named(place), listed(&endpoints)), move |scene| {
            scene.replace_endpoints(place, endpoints.clone());
        })
    })
}

/// Often while a run is under way that rests on it.
fn last_change_is_undone() -> impl Strategy<Value = Move> {
    Just(Move::new("the last change of endpoints is undone", |scene| {
        if let Some((place, endpoints)) = scene.world.former.take() {
            scene.replace_endpoints(place, endpoints);
        }
    }))
}

fn endpoint_flips() -> impl Strategy<Value = Move> {
    (place(), 0..3_usize, any::<bool>()).prop_map(|(place, number, is_end)| {
        let what = if is_end { "terminates, or not any more" } else { "turns ready, or not" };
        let sentence = format!("endpoint {number}, in order, of {} {what}", named(place));
        Move::new(sentence, move |scene| {
            let Some(service) = scene.world.services.get_mut(&place) else { return };
            let number = number % service.endpoints.len().max(1);
            if let Some(endpoint) = service.endpoints.values_mut().nth(number) {
                let Endpoint { is_terminating, is_ready, .. } = endpoint;
                let flag = if is_end { is_terminating } else { is_ready };
                *flag = !*flag;
                scene.project(place);
            }
        })
    })
}

fn claim_moves() -> impl Strategy<Value = Move> {
    (place(), names(), reference()).prop_map(|(place, names, namespace)| {
        let sentence = format!("{} claims {} in {namespace:?}", named(place), names.join(" and "));
        Move::new(sentence, move |scene| {
            scene.change(place, |it| {
                it.claim.names.clone_from(&names);
                it.claim.namespace = namespace;
            });
        })
    })
}

fn claim_changes() -> impl Strategy<Value = Move> {
    (place(), claim()).prop_map(|(place, claim)| {
        let sentence = format!("{} keeps its names and {}", named(place), claimed(&claim));
        Move::new(sentence, move |scene| {
            scene.change(place, |it| {
                let names = it.claim.names.clone();
                let namespace = it.claim.namespace;
                it.claim = Claim { names, namespace, ..claim.clone() };
            });
        })
    })
}

fn ttl_changes() -> impl Strategy<Value = Move> {
    (place(), select(&[15_u32, 30][..])).prop_map(|(place, ttl)| {
        Move::new(format!("{} asks for a TTL of {ttl}", named(place)), move |scene| {
            scene.change(place, |it| it.claim.ttl = Some(ttl));
        })
    })
}

/// Of a shared TTL the smallest counts.
fn clusters_share_a_name() -> impl Strategy<Value = Move> {
    let ttls = option::weighted(0.8, select(&[15_u32, 30, 90][..]));
    (0..NAMES.len(), names(), [ttls.clone(), ttls]).prop_map(|(number, names, ttls)| {
        let service = NAMES[number];
        let shared = names.join(" and ");
        let sentence =
            format!("{service} of both clusters claims {shared} in Name(1), with TTLs {ttls:?}");
        Move::new(sentence, move |scene| {
            for (cluster, ttl) in ttls.into_iter().enumerate() {
                let names = names.clone();
                let namespace = Reference::Name(1);
                let claim = Claim { names, namespace, ttl, ..Claim::default() };
                let endpoints = BTreeMap::from([(1, Endpoint::default())]);
                let service = Service::plain(claim, scene.world.settings.prefix, endpoints);
                scene.put((cluster, number), service);
            }
        })
    })
}

fn cluster_is_made_anew() -> impl Strategy<Value = Move> {
    (0..CLUSTERS.len()).prop_map(|cluster| {
        Move::new(format!("{} is made anew, without Services", CLUSTERS[cluster]), move |scene| {
            (0..NAMES.len()).for_each(|name| scene.remove((cluster, name)));
        })
    })
}

/// A tenant claims what others hold.
fn names_are_claimed_by_all() -> impl Strategy<Value = Move> {
    (0..CLUSTERS.len(), reference()).prop_map(|(cluster, namespace)| {
        let sentence = format!("api of {} claims every name in {namespace:?}", CLUSTERS[cluster]);
        Move::new(sentence, move |scene| {
            scene.change((cluster, 0), |it| {
                it.claim.names = NAMES[1..].to_vec();
                it.claim.namespace = namespace;
            });
        })
    })
}
