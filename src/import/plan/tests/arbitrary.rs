//! Random worlds. Names, addresses and ports come from small pools, so that endpoints move, ports conflict and clusters
//! come and go.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::world::{BOTH, World, cluster, endpoint, many, ports};
use crate::import::plan::{ImportedEndpoint, MemberEndpoints, Read};
use crate::model::{ExportedPort, Family, ImportType, SessionAffinity};

const CLUSTERS: [&str; 3] = ["blue", "green", "red"];
const PORTS: [&str; 5] =
    ["http:80", "web:80", "https:443", "http:8080 udp!dns:53", "http:80 https:443"];
const ADDRESSES: [&str; 8] =
    ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "fd00::1", "fd00::2", "fd00::3", "127.0.0.1"];

/// The outcome of the read of a cluster: not read, no export, or an export with endpoints.
#[derive(Clone, Debug)]
enum MemberRead {
    Unread,
    NoExport,
    Export(Vec<ImportedEndpoint>),
}

pub fn world() -> impl Strategy<Value = World> {
    let ports_of_import = prop_oneof![
        8 => select(&PORTS[..]).prop_map(str::to_owned),
        1 => Just(":80".to_owned()),
        1 => Just("tcp-80:80 https:443".to_owned()),
    ];
    let families = select(vec![vec![Family::V4], vec![Family::V6], BOTH.to_vec(), Vec::new()]);
    let available = select(vec![vec![Family::V4], vec![Family::V6, Family::V4], BOTH.to_vec()]);
    let properties = (option::of(select(&["PreferClose"][..])), any::<bool>());
    let member_read = vec(member_read(), CLUSTERS.len());
    let kind = prop_oneof![4 => Just(ImportType::ClusterSetIp), 1 => Just(ImportType::Headless)];
    let all = (ports_of_import, families, available, properties, member_read, kind, 0..9);
    all.prop_map(
        |(ports, families, available, (distribution, has_affinity), member_read, kind, list)| {
            let mut world = World::with_ports(&ports).families(&families);
            world.available = available;
            world.merged_mut().kind = kind;
            let properties = &mut world.merged_mut().properties;
            properties.traffic_distribution = distribution.map(str::to_owned);
            if has_affinity {
                properties.session_affinity = SessionAffinity::ClientIp(None);
                properties.labels.insert("team".to_owned(), "shop".to_owned());
            }
            for (name, member_read) in CLUSTERS.into_iter().zip(member_read) {
                add(&mut world, name, member_read);
            }
            world.merged = world.merged.filter(|merged| !merged.clusters.is_empty());
            // One list in nine is not complete.
            world.sources.is_complete = list > 0;
            world
        },
    )
}

fn add(world: &mut World, name: &str, member_read: MemberRead) {
    let read = match member_read {
        MemberRead::Unread => Read::Unread,
        MemberRead::NoExport => Read::Whole(MemberEndpoints::default()),
        MemberRead::Export(endpoints) => return world.export(name, endpoints),
    };
    world.sources.by_cluster.insert(cluster(name), read);
}

fn member_read() -> impl Strategy<Value = MemberRead> {
    prop_oneof![
        1 => Just(MemberRead::Unread),
        2 => Just(MemberRead::NoExport),
        6 => endpoints().prop_map(MemberRead::Export),
    ]
}

fn endpoints() -> impl Strategy<Value = Vec<ImportedEndpoint>> {
    prop_oneof![12 => a_few(), 1 => crowd()]
}

/// More endpoints than one slice can have.
fn crowd() -> impl Strategy<Value = Vec<ImportedEndpoint>> {
    let blocks = subsequence((0..7).collect::<Vec<usize>>(), 1..=7);
    let addresses = blocks.prop_map(|blocks| {
        let texts: Vec<String> = blocks.into_iter().map(|block| many(block * 40, 40)).collect();
        texts.join(" ")
    });
    addresses.prop_map(|addresses| {
        addresses.split(' ').map(|address| endpoint(address, &ports("http:80"))).collect()
    })
}

/// Endpoints with one of two sets of ports, some with another target.
fn a_few() -> impl Strategy<Value = Vec<ImportedEndpoint>> {
    let addresses = subsequence(ADDRESSES.to_vec(), 0..=ADDRESSES.len()).prop_shuffle();
    let each = (any::<bool>(), select(&[0, 0, 0, 1][..]), any::<bool>());
    (addresses, vec(each, ADDRESSES.len())).prop_map(|(addresses, each)| {
        let endpoints = addresses.into_iter().zip(each);
        let endpoints = endpoints.map(|(address, (has_all, shift, ready))| {
            let mut endpoint = endpoint(address, &all_ports());
            endpoint.ready = ready;
            endpoint.hostname = (shift == 1).then(|| "web-0".into());
            endpoint.ports.retain(|(_, number), _| has_all || *number == 80);
            endpoint.ports.values_mut().for_each(|target| *target += shift);
            endpoint
        });
        endpoints.collect()
    })
}

fn all_ports() -> Vec<ExportedPort> {
    ports("http:80 https:443 alt:8080 udp!dns:53")
}
