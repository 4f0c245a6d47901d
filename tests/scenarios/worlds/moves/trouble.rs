//! Calls that fail, once or for a while, and API servers that do not answer, answer late, half or something else.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;

use super::super::faults::situation::READER;
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
    vec![
        (5, call_fails().boxed()),
        (4, cluster_fails(flows).boxed()),
        (1, eks_fails().boxed()),
        (2, right_is_taken_away().boxed()),
        (2, namespaces_are_full().boxed()),
        (1, outage().boxed()),
        (1, outage_ends().boxed()),
    ]
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
        "GetInstancesHealthStatus",
        "UpdateInstanceCustomHealthStatus",
        "*",
    ];
    let kinds = [
        FaultKind::Throttling,
        FaultKind::ServerError,
        FaultKind::Unavailable,
        FaultKind::AccessDenied,
        FaultKind::Reset,
        FaultKind::Cut,
        FaultKind::TruncatedJson,
        FaultKind::FailAfterEffect,
        FaultKind::DropAfterEffect,
        FaultKind::Late(Duration::from_secs(2)),
        FaultKind::OperationFails("INTERNAL_FAILURE"),
        FaultKind::Error(400, "ResourceLimitExceeded", "said by a test"),
        FaultKind::Error(400, "DuplicateRequest", "said by a test"),
    ];
    let all = (select(operations.to_vec()), select(kinds.to_vec()), 0..6_usize, 1..8_usize);
    all.prop_map(|(operation, kind, after, times)| {
        let sentence = format!("after {after} calls of {operation} {times} end as {kind:?}");
        Move::new(sentence, move |scene| {
            let fault = Fault::on(operation, kind.clone()).after(after).times(times);
            scene.fleet.cloud_map.inject(fault);
        })
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
        Move::new(
            format!("the function loses the right to {}", rights.join(" and ")),
            move |scene| {
                for right in rights {
                    scene
                        .fleet
                        .cloud_map
                        .inject(Fault::on(right, FaultKind::AccessDenied).always());
                }
            },
        )
    })
}

fn cluster_fails(flows: Flows) -> impl Strategy<Value = Move> {
    let paths = if flows.has_exported { &PATHS[..] } else { &PATHS[..4] };
    let kinds = [
        ClusterFaultKind::Status(500),
        ClusterFaultKind::Status(403),
        ClusterFaultKind::Status(401),
        ClusterFaultKind::Status(429),
        ClusterFaultKind::TruncatedBody,
        ClusterFaultKind::NotJson,
        ClusterFaultKind::Slow(Duration::from_secs(2)),
        ClusterFaultKind::Late(Duration::from_secs(40)),
    ];
    let all = (0..CLUSTERS.len(), select(paths), select(kinds.to_vec()), 1..8_usize);
    all.prop_map(|(cluster, path, kind, times)| {
        let name = CLUSTERS[cluster];
        let sentence = format!("{name} answers {times} requests below {path} with {kind:?}");
        Move::new(sentence, move |scene| {
            let fault = ClusterFault { times, ..ClusterFault::once(path, kind.clone()) };
            scene.cluster(cluster).fail(fault);
        })
    })
}

type Outage = (&'static str, fn(&Scene));

/// Something fails until it is mended.
fn outage() -> impl Strategy<Value = Move> {
    const OUTAGES: [Outage; 8] = [
        ("Cloud Map is away", |scene| {
            scene.fleet.cloud_map.inject(Fault::on("*", FaultKind::Unavailable).always());
        }),
        ("Cloud Map throttles all calls but three", |scene| {
            scene.fleet.cloud_map.inject(Fault::on("*", FaultKind::Throttling).after(3).always());
        }),
        ("nothing may be registered", |scene| {
            let denied = Fault::on("RegisterInstance", FaultKind::AccessDenied);
            scene.fleet.cloud_map.inject(denied.always());
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
    let (operation, after, times) = ("DescribeCluster".to_owned(), 0, usize::MAX);
    scene.fleet.sandbox.aws().faults.inject(AwsFault { operation, kind, after, times });
}

fn is_away(scene: &Scene, cluster: usize) {
    let away = ClusterFault::always("/", ClusterFaultKind::Status(503));
    scene.cluster(cluster).fail(away);
}

fn outage_ends() -> impl Strategy<Value = Move> {
    Just(()).prop_map(|()| Move::new("no call fails any more", |scene| scene.heal()))
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
    let kinds = [
        AwsFaultKind::Reset,
        AwsFaultKind::Half,
        AwsFaultKind::Body("{\"cluster\": {}}"),
        AwsFaultKind::Refused(403, "AccessDeniedException"),
        AwsFaultKind::Refused(404, "ResourceNotFoundException"),
    ];
    (select(kinds.to_vec()), 1..6_usize).prop_map(|(kind, times)| {
        Move::new(format!("EKS answers {times} times with {kind:?}"), move |scene| {
            let (operation, kind) = ("DescribeCluster".to_owned(), kind.clone());
            let fault = AwsFault { operation, kind, after: 0, times };
            scene.fleet.sandbox.aws().faults.inject(fault);
        })
    })
}
