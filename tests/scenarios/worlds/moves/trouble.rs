//! Calls that fail, once or for a while, and API servers that do not answer, answer late, half or something else.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::super::faults::situation::READER;
use super::super::faults::trouble::{
    Case, Target, kinds_of_call, kinds_of_other, kinds_of_request,
};
use super::super::play::Scene;
use super::super::world::CLUSTERS;
use super::{Flows, Move, Table};
use testbed::aws_fault::{AwsFault, AwsFaultKind};
use testbed::cloud_map::{Fault, FaultKind};
use testbed::kubernetes::{Fault as ClusterFault, FaultKind as ClusterFaultKind};

/// Requests to API servers; the last ones are of exports and imports alone.
const PATHS: [&str; 7] = [
    "/",
    "/api/v1/services",
    "/apis/discovery.k8s.io",
    "/api/v1/namespaces/shop",
    "/api/v1/namespaces",
    "/apis/about.k8s.io",
    "/apis/multicluster.x-k8s.io",
];

pub fn table(flows: Flows) -> Table {
    let all: Table = kinds! {
        5 call_fails();
        4 cluster_fails(flows);
        1 eks_fails();
        2 right_is_taken_away();
        2 namespaces_are_full();
        1 outage();
        1 outage_ends();
        1 registrations_are_refused();
        1 service_is_unreadable();
    };
    let disturbing = |it: BoxedStrategy<Move>| it.prop_map(Move::disturbing).boxed();
    all.into_iter().map(|(kind, weight, it)| (kind, weight, disturbing(it))).collect()
}

/// One of the single faults, for some calls after so many, unless it is a lie that a run may believe.
fn struck(target: Target, after: usize, times: usize) -> Option<Move> {
    let case = Case { target, after, times, kills: false };
    let is_lie = case.deceives() || case.denies_a_service();
    let is_unprocessable =
        matches!(case.target, Target::Cluster { kind: ClusterFaultKind::Status(422), .. });
    (!is_lie).then(|| {
        Move::new(case.to_string(), move |scene| {
            scene.world.clusterset.has_refused |= is_unprocessable;
            case.strike(scene);
        })
    })
}

fn call_fails() -> impl Strategy<Value = Move> {
    let operations = [
        "ListNamespaces",
        "ListServices",
        "ListInstances",
        "ListTagsForResource",
        "CreateService",
        "UpdateService",
        "RegisterInstance",
        "RegisterInstance",
        "DeregisterInstance",
        "DeregisterInstance",
        "GetOperation",
        "GetInstance",
        "*",
    ];
    let all = (select(operations.to_vec()), any::<Index>(), 0..6_usize, 1..8_usize);
    all.prop_filter_map("a lie", |(operation, kind, after, times)| {
        let kind = kind.get(&kinds_of_call(operation, Duration::from_secs(2))).clone();
        struck(Target::CloudMap { operation: operation.to_owned(), kind }, after, times)
    })
}

/// The rights come back when trouble ends.
fn right_is_taken_away() -> impl Strategy<Value = Move> {
    let rights: [&[&str]; 5] = [
        &["ListInstances", "ListTagsForResource"],
        &["ListInstances"],
        &["RegisterInstance"],
        &["DeregisterInstance"],
        &["CreateService", "UpdateService"],
    ];
    select(rights.to_vec()).prop_map(|rights| {
        let sentence = format!("the function loses the right to {}", rights.join(" and "));
        Move::new(sentence, move |scene| {
            for right in rights {
                scene.fleet.cloud_map.deny(right);
            }
        })
    })
}

fn cluster_fails(flows: Flows) -> impl Strategy<Value = Move> {
    let paths = if flows.has_exported { &PATHS[..] } else { &PATHS[..4] };
    let methods = ["GET", "GET", "GET", "PATCH", "POST", "DELETE"];
    let request = (select(&CLUSTERS[..]), select(methods.to_vec()), select(paths));
    (request, any::<Index>(), 1..8_usize).prop_filter_map("a lie", |(request, kind, times)| {
        let (cluster, method, path) = request;
        let kind = kind.get(&kinds_of_request(method, Duration::from_secs(40))).clone();
        let method = method.to_owned();
        let path = path.to_owned();
        struck(Target::Cluster { cluster, method, path, kind }, 0, times)
    })
}

type Outage = (&'static str, fn(&Scene));

/// Something fails until it is mended.
fn outage() -> impl Strategy<Value = Move> {
    const OUTAGES: [Outage; 7] = [
        ("Cloud Map is away", |scene| {
            scene.fleet.cloud_map.inject(Fault::on("*", FaultKind::Unavailable).always());
        }),
        ("Cloud Map throttles all calls but three", |scene| {
            scene.fleet.cloud_map.inject(Fault::on("*", FaultKind::Throttling).after(3).always());
        }),
        ("the API server of blue is away", |scene| is_away(scene, 0)),
        ("the API server of green is away", |scene| is_away(scene, 1)),
        ("EKS knows no cluster", |scene| {
            describes_no_cluster(scene, AwsFaultKind::Refused(404, "ResourceNotFoundException"));
        }),
        ("EKS does not answer", |scene| describes_no_cluster(scene, AwsFaultKind::Reset)),
        ("the role of green may not be assumed", |scene| {
            scene.fleet.sandbox.aws().identities.refuse_role(READER);
        }),
    ];
    select(&OUTAGES[..])
        .prop_map(|(sentence, begin)| Move::new(sentence, move |scene| begin(scene)))
}

fn describes_no_cluster(scene: &Scene, kind: AwsFaultKind) {
    let operation = "DescribeCluster".to_owned();
    let after = 0;
    let times = usize::MAX;
    scene.fleet.sandbox.aws().faults.inject(AwsFault { operation, kind, after, times });
}

fn is_away(scene: &Scene, cluster: usize) {
    let away = ClusterFault::always("/", ClusterFaultKind::Status(503));
    scene.cluster(cluster).fail(away);
}

fn registrations_are_refused() -> impl Strategy<Value = Move> {
    Just(Move::new("Cloud Map refuses each registration for good", |scene| {
        let refused = FaultKind::Error(400, "InvalidInput", "said by a test");
        scene.fleet.cloud_map.inject(Fault::on("RegisterInstance", refused).always());
    }))
}

fn service_is_unreadable() -> impl Strategy<Value = Move> {
    any::<Index>().prop_map(|service| {
        let sentence = format!("the function may not read service {service:?} any more");
        Move::new(sentence, move |scene| {
            let ids = scene.service_ids();
            if !ids.is_empty() {
                let id = &ids[service.index(ids.len())];
                scene.fleet.cloud_map.deny_in(id, "ListInstances");
            }
        })
    })
}

fn outage_ends() -> impl Strategy<Value = Move> {
    Just(Move::new("no call fails any more", |scene| scene.heal()))
}

/// The quota of instances of each namespace, also below what is there.
fn namespaces_are_full() -> impl Strategy<Value = Move> {
    (0..10_usize).prop_map(|most| {
        Move::new(format!("no namespace holds more than {most} instances"), move |scene| {
            scene.behave(|it| it.instances_per_namespace = most);
        })
    })
}

fn eks_fails() -> impl Strategy<Value = Move> {
    (any::<Index>(), 1..6_usize).prop_filter_map("a lie", |(kind, times)| {
        let operation = "DescribeCluster".to_owned();
        let kind = kind.get(&kinds_of_other(&operation, Duration::from_secs(2))).clone();
        struck(Target::Aws { operation, kind }, 0, times)
    })
}
