//! What disturbs a random world: slow operations, lists that lag and calls that fail. All times are milliseconds.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use testbed::cloud_map::{Behaviour, CloudMap, Fault as CloudMapFault, FaultKind};
use testbed::kubernetes::{
    Fault as KubernetesFault, FaultKind as KubernetesFaultKind, KubernetesServer,
};

/// How many processes there are.
pub const PROCESSES: usize = 3;

/// How Cloud Map and the clusters behave meanwhile.
#[derive(Clone, Debug)]
pub struct Trouble {
    operation_delay: u64,
    list_lag: u64,
    latency: u64,
    faults: Vec<Fault>,
    cluster_faults: Vec<ClusterFault>,
}

/// Calls to Cloud Map that fail.
#[derive(Clone, Debug)]
struct Fault {
    operation: &'static str,
    kind: FaultKind,
    after: usize,
    times: usize,
}

/// Requests to a cluster that fail.
#[derive(Clone, Debug)]
struct ClusterFault {
    cluster: &'static str,
    path: &'static str,
    kind: KubernetesFaultKind,
    times: usize,
}

impl Trouble {
    /// The times of Cloud Map meanwhile.
    pub fn behaviour(&self) -> Behaviour {
        let time = Duration::from_millis;
        Behaviour {
            operation_delay: time(self.operation_delay),
            list_lag: time(self.list_lag),
            latency: time(self.latency),
            ..Behaviour::default()
        }
    }

    /// Brings it about.
    pub fn begin<'a>(&self, cloud_map: &CloudMap, cluster: impl Fn(&str) -> &'a KubernetesServer) {
        cloud_map.behave(self.behaviour());
        for fault in &self.faults {
            let found = CloudMapFault::on(fault.operation, fault.kind.clone());
            cloud_map.inject(found.after(fault.after).times(fault.times));
        }
        for fault in &self.cluster_faults {
            let kind = fault.kind.clone();
            let once = KubernetesFault::once(fault.path, kind);
            cluster(fault.cluster).fail(KubernetesFault { times: fault.times, ..once });
        }
    }
}

/// Trouble of all kinds, with requests to these paths of `blue` and `green`, and operations that take one of these
/// times.
pub fn trouble(
    paths: &'static [&'static str],
    operations: &'static [u64],
) -> impl Strategy<Value = Trouble> {
    let times = (select(operations), select(&[0, 0, 500, 2000][..]), select(&[0, 20][..]));
    (times, vec(fault(), 0..=4), vec(cluster_fault(paths), 0..=2)).prop_map(
        |((operation_delay, list_lag, latency), faults, cluster_faults)| Trouble {
            operation_delay,
            list_lag,
            latency,
            faults,
            cluster_faults,
        },
    )
}

fn fault() -> impl Strategy<Value = Fault> {
    let operations = [
        "ListNamespaces",
        "ListServices",
        "ListInstances",
        "ListInstances",
        "ListTagsForResource",
        "CreateService",
        "RegisterInstance",
        "RegisterInstance",
        "DeregisterInstance",
        "GetOperation",
        "*",
    ];
    let kinds = vec![
        FaultKind::Throttling,
        FaultKind::ServerError,
        FaultKind::Unavailable,
        FaultKind::AccessDenied,
        FaultKind::Reset,
        FaultKind::Cut,
        FaultKind::FailAfterEffect,
        FaultKind::DropAfterEffect,
        FaultKind::Late(Duration::from_secs(2)),
        FaultKind::OperationFails("INTERNAL_FAILURE"),
    ];
    let all = (select(operations.to_vec()), select(kinds), 0..8_usize, 1..10_usize);
    all.prop_map(|(operation, kind, after, times)| Fault { operation, kind, after, times })
}

fn cluster_fault(paths: &'static [&'static str]) -> impl Strategy<Value = ClusterFault> {
    let kinds = vec![
        KubernetesFaultKind::Status(500),
        KubernetesFaultKind::Status(429),
        KubernetesFaultKind::TruncatedBody,
        KubernetesFaultKind::NotJson,
        KubernetesFaultKind::Slow(Duration::from_secs(2)),
    ];
    let all = (select(&["blue", "green"][..]), select(paths), select(kinds), 1..8_usize);
    all.prop_map(|(cluster, path, kind, times)| ClusterFault { cluster, path, kind, times })
}
