//! Promises of every merge, checked on random exports with few different names and numbers, so that they often
//! conflict.

use std::collections::BTreeSet;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};

use super::notation::merge_all;
use crate::clusterset::merge::{Merged, served_ports};
use crate::model::{
    ClusterId, Export, ExportedPort, Family, ImportType, InternalTrafficPolicy, Properties,
    Protocol, SessionAffinity, Timestamp,
};

/// In the order of the API's constants.
const REASONS: [&str; 9] = [
    "PortConflict",
    "TypeConflict",
    "SessionAffinityConflict",
    "SessionAffinityConfigConflict",
    "LabelsConflict",
    "AnnotationsConflict",
    "InternalTrafficPolicyConflict",
    "TrafficDistributionConflict",
    "IPFamilyConflict",
];

/// Ports of instances, which can be those of a Service before and after a change.
fn ports() -> impl Strategy<Value = Vec<ExportedPort>> {
    let names = select(vec!["", "http", "web", "tcp-80", "tcp-80-2"]);
    let protocols = select(vec![Protocol::Tcp, Protocol::Udp]);
    let app_protocol = option::of(select(vec!["h2c", "http"]));
    let port = (names, protocols, 80..83_u16, app_protocol);
    let port = port.prop_map(|(name, protocol, number, app_protocol)| ExportedPort {
        name: name.to_owned(),
        protocol,
        number,
        app_protocol: app_protocol.map(str::to_owned),
    });
    vec(port, 0..4)
}

/// The ports that a Service can have: the API server refuses repeated ones.
fn without_repeated(ports: Vec<ExportedPort>) -> Vec<ExportedPort> {
    let mut names = BTreeSet::new();
    let mut keys = BTreeSet::new();
    let is_new_port =
        |it: &ExportedPort| names.insert(it.name.clone()) && keys.insert((it.protocol, it.number));
    ports.into_iter().filter(is_new_port).collect()
}

fn properties() -> impl Strategy<Value = Properties> {
    let pairs = || btree_map("[ab]", "[01]", 0..3);
    let affinity = prop_oneof![
        Just(SessionAffinity::None),
        option::of(select(vec![60, 10_800])).prop_map(SessionAffinity::ClientIp),
    ];
    let policy = select(vec![InternalTrafficPolicy::Cluster, InternalTrafficPolicy::Local]);
    let distribution = option::of(Just("PreferClose".to_owned()));
    (affinity, policy, distribution, pairs(), pairs()).prop_map(
        |(session_affinity, internal_traffic_policy, traffic_distribution, labels, annotations)| {
            Properties {
                session_affinity,
                internal_traffic_policy,
                traffic_distribution,
                labels,
                annotations,
            }
        },
    )
}

/// An export of any cluster.
fn export() -> impl Strategy<Value = Export> {
    let kind = select(vec![ImportType::ClusterSetIp, ImportType::Headless]);
    let families = subsequence(vec![Family::V4, Family::V6], 0..=2).prop_shuffle();
    (0..3_i64, kind, ports(), families, option::weighted(0.7, properties())).prop_map(
        |(age, kind, ports, families, properties)| Export {
            cluster: cluster(0),
            created: Timestamp::constant(age, 0),
            kind,
            ports: if properties.is_some() { without_repeated(ports) } else { ports },
            families,
            properties,
        },
    )
}

fn cluster(number: usize) -> ClusterId {
    ClusterId::parse(&format!("cluster-{number}")).expect("a cluster id")
}

/// Exports of different clusters, in any order.
fn exports() -> impl Strategy<Value = Vec<Export>> {
    let numbered = |mut exports: Vec<Export>| {
        for (number, export) in exports.iter_mut().enumerate() {
            export.cluster = cluster(number);
        }
        exports
    };
    vec(export(), 1..6).prop_map(numbered).prop_shuffle()
}

/// The export that decides before all others.
fn first(exports: &[Export]) -> &Export {
    exports.iter().min_by_key(|it| (it.created, &it.cluster)).expect("an export")
}

/// The conflicts without the counts of their messages.
fn disagreements(merged: &Merged) -> Vec<(&str, &ClusterId, &[ClusterId])> {
    let conflicts = merged.conflicts.iter();
    conflicts.map(|it| (it.reason, &it.decided_by, it.disagreeing.as_slice())).collect()
}

proptest! {
    #[test]
    fn every_order_of_the_exports_has_one_outcome(
        (exports, shuffled) in exports().prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
    ) {
        prop_assert_eq!(merge_all(&exports), merge_all(&shuffled));
    }

    #[test]
    fn api_server_accepts_the_ports(exports in exports()) {
        let ports = merge_all(&exports).service.ports;
        let names: BTreeSet<&str> = ports.iter().map(|it| it.name.as_str()).collect();
        let keys: BTreeSet<_> = ports.iter().map(|it| (it.protocol, it.number)).collect();
        prop_assert_eq!((names.len(), keys.len()), (ports.len(), ports.len()));
        prop_assert!(ports.len() == 1 || !names.contains(""), "{:?}", names);
    }

    #[test]
    fn every_port_is_served_by_an_exporter(exports in exports()) {
        let service = merge_all(&exports).service;
        let served = exports.iter().flat_map(|export| served_ports(&service, export));
        let served: BTreeSet<&ExportedPort> = served.collect();
        prop_assert_eq!(served, service.ports.iter().collect());
    }

    #[test]
    fn exported_port_is_missing_only_if_its_name_is_taken(exports in exports()) {
        let ports = merge_all(&exports).service.ports;
        for exported in exports.iter().flat_map(|it| &it.ports).filter(|it| !it.name.is_empty()) {
            let is_there = ports.iter().any(|it| {
                it.name == exported.name
                    || (it.protocol, it.number) == (exported.protocol, exported.number)
            });
            prop_assert!(is_there, "{:?} is not in {:?}", exported, ports);
        }
    }

    #[test]
    fn single_export_is_in_no_conflict(export in export()) {
        let merged = merge_all(std::slice::from_ref(&export));
        prop_assert_eq!(merged.conflicts, []);
        prop_assert_eq!(merged.service.kind, export.kind);
        prop_assert_eq!(merged.service.properties, export.properties.unwrap_or_default());
    }

    #[test]
    fn export_that_equals_the_first_changes_nothing(
        exports in exports(), later in 0..3_i64, at in any::<Index>(),
    ) {
        let before = merge_all(&exports);
        let first = first(&exports);
        let created = Timestamp::constant(first.created.as_second() + later, 0);
        let equal = Export { cluster: cluster(9), created, ..first.clone() };
        let mut more = exports.clone();
        more.insert(at.index(exports.len() + 1), equal);
        let mut after = merge_all(&more);
        prop_assert_eq!(after.service.clusters.pop(), Some(cluster(9)));
        prop_assert_eq!(&after.service, &before.service);
        prop_assert_eq!(disagreements(&after), disagreements(&before));
    }

    #[test]
    fn conflict_names_a_deciding_exporter_and_others(exports in exports()) {
        let merged = merge_all(&exports);
        let reasons: Vec<_> = merged.conflicts.iter().map(|it| it.reason).collect();
        let of_api = REASONS.into_iter().filter(|it| reasons.contains(it));
        prop_assert_eq!(of_api.collect::<Vec<_>>(), reasons);
        for conflict in &merged.conflicts {
            prop_assert!(!conflict.disagreeing.is_empty());
            prop_assert!(!conflict.disagreeing.contains(&conflict.decided_by));
        }
    }
}
