//! What disturbs a random world: slow operations, lists that lag, calls that fail, and runs that overlap, which may have
//! little time or end in the middle. All times are milliseconds.

use std::time::Duration;

use cloud_map_sync::function::Function;
use cloud_map_sync::time::Deadline;
use futures_util::future::join_all;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until, timeout};

use crate::queue::{batch, message};
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

/// One invocation of one process. Those of one process come one after the other.
#[derive(Clone, Debug)]
pub struct Run {
    pub process: usize,
    pub start: u64,
    pub cause: Cause,
    /// The time that it is given.
    pub timeout: u64,
    /// When its process ends in the middle of it.
    pub killed: Option<u64>,
}

/// Why a run is.
#[derive(Clone, Copy, Debug)]
pub enum Cause {
    Schedule,
    /// A message about the Service of this number.
    Message(usize),
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

impl Run {
    /// The invocation, whatever comes of it.
    async fn invoke(&self, process: &Function, payload: &Value) {
        let deadline = Deadline::after(Duration::from_millis(self.timeout));
        let end = Duration::from_millis(self.killed.unwrap_or(self.timeout));
        drop(timeout(end, process.invoke(payload, deadline)).await);
    }

    /// Its payload. A message is about one of these Services, of which each has its cluster and name.
    fn payload(&self, services: &[(&str, &str)]) -> Value {
        match self.cause {
            Cause::Schedule => json!({ "action": "sync" }),
            Cause::Message(number) => {
                let (cluster, name) = services[number];
                let body = json!({ "cluster": cluster, "namespace": "shop", "service": name });
                batch(&[message("one", &body)])
            }
        }
    }
}

/// Takes all runs, those of one process one after the other.
pub async fn take_runs(
    runs: &[Run],
    processes: &[Function],
    services: &[(&str, &str)],
    start: Instant,
) {
    let of_process = |number: usize| async move {
        let mut runs: Vec<&Run> = runs.iter().filter(|it| it.process == number).collect();
        runs.sort_by_key(|run| run.start);
        for run in runs {
            sleep_until(start + Duration::from_millis(run.start)).await;
            run.invoke(&processes[number], &run.payload(services)).await;
        }
    };
    join_all((0..processes.len()).map(of_process)).await;
}

/// Trouble of all kinds, with requests to these paths of `blue` and `green`, and operations that take one of these times.
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

/// A run of the schedule, or for a message about one of so many Services.
pub fn run(services: usize) -> impl Strategy<Value = Run> {
    let causes = prop_oneof![
        1 => Just(Cause::Schedule),
        1 => (0..services).prop_map(Cause::Message),
    ];
    let timeout = select(&[300_000, 300_000, 8000][..]);
    let killed = option::weighted(0.15, 100..5000_u64);
    (0..PROCESSES, 0..6000_u64, causes, timeout, killed).prop_map(
        |(process, start, cause, timeout, killed)| Run { process, start, cause, timeout, killed },
    )
}
