//! Random stories: Services of two clusters that meet under a few names, how they change, which runs overlap, and
//! which calls go wrong meanwhile. All times are milliseconds from the moment at which trouble begins.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::sandbox::cloud_map::FaultKind;
use crate::sandbox::kubernetes::FaultKind as ClusterFaultKind;

/// The clusters with the names of their Services.
pub const SERVICES: [(&str, &str); 5] =
    [("blue", "api"), ("blue", "cart"), ("blue", "web"), ("green", "cart"), ("green", "web")];

/// The Cloud Map services that Services claim: namespace and name.
pub const PLACES: [(&str, &str); 4] =
    [("prod", "cart"), ("prod", "web"), ("prod.local", "cart"), ("prod.local", "web")];

/// How many processes there are.
pub const PROCESSES: usize = 3;

/// What happens.
#[derive(Clone, Debug)]
pub struct Story {
    pub services: [Plot; SERVICES.len()],
    /// Whether the function had done its work before.
    pub is_converged: bool,
    pub trouble: Trouble,
    pub runs: Vec<Run>,
    /// The process that has the last word.
    pub last: usize,
}

/// What becomes of a Service.
#[derive(Clone, Debug)]
pub struct Plot {
    pub before: Option<Service>,
    pub changes: Vec<(u64, Option<Service>)>,
}

/// A Service as it is for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub place: (&'static str, &'static str),
    pub pods: Vec<u8>,
}

/// How Cloud Map and the clusters behave meanwhile.
#[derive(Clone, Debug)]
pub struct Trouble {
    pub operation_delay: u64,
    pub list_lag: u64,
    pub latency: u64,
    pub faults: Vec<Fault>,
    pub cluster_faults: Vec<ClusterFault>,
}

/// Calls to Cloud Map that go wrong.
#[derive(Clone, Debug)]
pub struct Fault {
    pub operation: &'static str,
    pub kind: FaultKind,
    pub after: usize,
    pub times: usize,
}

/// Requests to a cluster that go wrong.
#[derive(Clone, Debug)]
pub struct ClusterFault {
    pub cluster: &'static str,
    pub path: &'static str,
    pub kind: ClusterFaultKind,
    pub times: usize,
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

pub fn story() -> impl Strategy<Value = Story> {
    let services = SERVICES.map(|_| plot());
    let all = (services, prop::bool::weighted(0.8), trouble(), vec(run(), 1..=5), 0..PROCESSES);
    all.prop_map(|(services, is_converged, trouble, runs, last)| Story {
        services,
        is_converged,
        trouble,
        runs,
        last,
    })
}

fn plot() -> impl Strategy<Value = Plot> {
    let other_pods = (0..6000_u64, pods(), Just(true));
    let changes = vec((other_pods, option::weighted(0.15, select(&PLACES[..])), rarely()), 0..=2);
    (option::weighted(0.8, service()), changes).prop_map(|(before, changes)| {
        let mut service = before.clone();
        let changes = changes.into_iter().map(|((at, pods, _), place, is_gone)| {
            let present = service.take().map_or(PLACES[0], |it: Service| it.place);
            service = Some(Service { place: place.unwrap_or(present), pods });
            (at, service.clone().filter(|_| !is_gone))
        });
        let mut changes: Vec<_> = changes.collect();
        changes.sort_by_key(|(at, _)| *at);
        Plot { before, changes }
    })
}

fn service() -> impl Strategy<Value = Service> {
    (select(&PLACES[..]), pods()).prop_map(|(place, pods)| Service { place, pods })
}

/// The last parts of the addresses of a Service's ready pods. Often all of them are replaced at once.
fn pods() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        1 => subsequence(vec![1, 2, 3, 4], 0..=4),
        1 => select(vec![vec![1], vec![2], vec![3], vec![1, 2], vec![3, 4]]),
    ]
}

fn rarely() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.15)
}

fn trouble() -> impl Strategy<Value = Trouble> {
    let times =
        (select(&[30, 300, 3000][..]), select(&[0, 0, 500, 2000][..]), select(&[0, 20][..]));
    (times, vec(fault(), 0..=4), vec(cluster_fault(), 0..=2)).prop_map(
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
    use std::time::Duration;
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

fn cluster_fault() -> impl Strategy<Value = ClusterFault> {
    use std::time::Duration;
    let paths = ["/", "/api/v1/services", "/apis/discovery.k8s.io", "/api/v1/namespaces/shop"];
    let kinds = vec![
        ClusterFaultKind::Status(500),
        ClusterFaultKind::Status(429),
        ClusterFaultKind::TruncatedBody,
        ClusterFaultKind::NotJson,
        ClusterFaultKind::Slow(Duration::from_secs(2)),
    ];
    let all = (select(&["blue", "green"][..]), select(paths.to_vec()), select(kinds), 1..8_usize);
    all.prop_map(|(cluster, path, kind, times)| ClusterFault { cluster, path, kind, times })
}

fn run() -> impl Strategy<Value = Run> {
    let causes = prop_oneof![
        1 => Just(Cause::Schedule),
        1 => (0..SERVICES.len()).prop_map(Cause::Message),
    ];
    let timeout = select(&[300_000, 300_000, 8000][..]);
    let killed = option::weighted(0.15, 100..5000_u64);
    (0..PROCESSES, 0..6000_u64, causes, timeout, killed).prop_map(
        |(process, start, cause, timeout, killed)| Run { process, start, cause, timeout, killed },
    )
}
