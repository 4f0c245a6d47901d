//! Random stories: Services of two served clusters and of one that AWS's controller serves, which are exported under two
//! names, their changes, the runs that overlap, and the calls that fail meanwhile. All times are milliseconds.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::overlapping::trouble::{Run, Trouble, run, trouble};

/// The names of exported Services.
pub const NAMES: [&str; 2] = ["cart", "web"];

/// The served clusters with the names of their Services.
pub const SERVICES: [(&str, &str); 4] =
    [("blue", "cart"), ("blue", "web"), ("green", "cart"), ("green", "web")];

/// The times of operations in milliseconds.
const OPERATIONS: [u64; 3] = [30, 300, 3000];
/// The paths of API servers whose requests fail.
const PATHS: [&str; 6] = [
    "/",
    "/api/v1/namespaces",
    "/api/v1/services",
    "/apis/about.k8s.io",
    "/apis/discovery.k8s.io",
    "/apis/multicluster.x-k8s.io",
];

#[derive(Clone, Debug)]
pub struct Story {
    pub services: [Plot; SERVICES.len()],
    /// The endpoints of `web` in the cluster of AWS's controller, from each time on.
    pub amber: Vec<(u64, Vec<u8>)>,
    /// Whether each cluster has a function of its own, which knows nothing of the other.
    pub is_apart: bool,
    /// Whether all processes converged before.
    pub is_converged: bool,
    /// ServiceImports that a person deletes.
    pub deletions: Vec<(u64, &'static str, &'static str)>,
    pub trouble: Trouble,
    pub runs: Vec<Run>,
    /// The process of the last sync.
    pub last: usize,
}

/// A Service and its export.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The age of the export: the second of its creation.
    pub created: u8,
    pub is_headless: bool,
    /// The states from each time on, the first at the beginning.
    pub states: Vec<(u64, State)>,
}

/// A Service and its export for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The last parts of its pods' addresses. Without them there is no Service.
    pub pods: Option<Vec<u8>>,
    /// Whether it has a second port.
    pub has_more_ports: bool,
    pub is_exported: bool,
}

impl Plot {
    /// The state in the end.
    pub fn last(&self) -> &State {
        &self.states.last().expect("a state").1
    }
}

pub fn story() -> impl Strategy<Value = Story> {
    let services = SERVICES.map(|_| plot());
    let amber = vec((0..6000_u64, pods()), 1..=2).prop_map(|mut amber| {
        amber[0].0 = 0;
        amber
    });
    let deletions = vec((0..6000_u64, select(&["blue", "green"][..]), select(&NAMES[..])), 0..=1);
    let runs = vec(run(SERVICES.len()), 1..=5);
    let flags = (prop::bool::weighted(0.4), any::<bool>());
    let all = (services, amber, flags, deletions, trouble(&PATHS, &OPERATIONS), runs, 0..2_usize);
    all.prop_map(|(services, amber, (is_apart, is_converged), deletions, trouble, runs, last)| {
        Story { services, amber, is_apart, is_converged, deletions, trouble, runs, last }
    })
}

fn plot() -> impl Strategy<Value = Plot> {
    let changes = vec((1..6000_u64, state()), 0..=2);
    let is_headless = prop::bool::weighted(0.2);
    (0..4_u8, is_headless, state(), changes).prop_map(|(created, is_headless, first, changes)| {
        let mut states = vec![(0, first)];
        states.extend(changes);
        states.sort_by_key(|(at, _)| *at);
        Plot { created, is_headless, states }
    })
}

fn state() -> impl Strategy<Value = State> {
    let pods = prop::option::weighted(0.9, pods());
    (pods, prop::bool::weighted(0.2), prop::bool::weighted(0.8))
        .prop_map(|(pods, has_more_ports, is_exported)| State { pods, has_more_ports, is_exported })
}

/// Often all pods are replaced at once.
fn pods() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        1 => subsequence(vec![1, 2, 3, 4], 0..=4),
        1 => select(vec![vec![1], vec![2], vec![3], vec![1, 2], vec![3, 4]]),
    ]
}
