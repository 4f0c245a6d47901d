//! Random stories: Services of two served clusters and of one that AWS's controller serves, which are exported under
//! two names, their changes, the moves and the runs that overlap, and the calls that fail meanwhile. All times are
//! milliseconds.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::moves::{Move, moves};
use super::trouble::{PROCESSES, Trouble, trouble};

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
/// More settings of the last process: it may see or do less than the others, and so takes out nothing that they keep.
const OTHER_SETTINGS: [&[(&str, &str)]; 7] = [
    &[],
    &[("CLOUD_MAP_NAMESPACES", "clusterset.shop-set"), ("CREATE_NAMESPACES", "false")],
    &[("CLOUD_MAP_NAMESPACES", "shop"), ("CREATE_NAMESPACES", "false")],
    &[("POLICY", "create-only")],
    &[("POLICY", "upsert-only")],
    &[("DRY_RUN", "true")],
    &[("MULTI_CLUSTER", "import")],
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
    pub moves: Vec<(u64, Move)>,
    pub trouble: Trouble,
    pub runs: Vec<Run>,
    /// More settings of the last process.
    pub other_settings: &'static [(&'static str, &'static str)],
    /// The process of the last sync.
    pub last: usize,
}

/// A Service and its export.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The age of the export: the second of its creation.
    pub created: u8,
    pub is_headless: bool,
    /// The number of its port `http`.
    pub http: u16,
    /// Whether its clients stay with one pod.
    pub is_sticky: bool,
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

/// One invocation of one process. Those of one process come one after the other.
#[derive(Clone, Debug)]
pub struct Run {
    pub process: usize,
    pub start: u64,
    /// The Services of its messages, and whether each is about the import alone; none: a full sync.
    pub batch: Vec<(usize, bool)>,
    /// The time that it is given.
    pub timeout: u64,
    /// When its process ends in the middle of it.
    pub killed: Option<u64>,
}

impl Plot {
    /// The state in the end.
    pub fn last(&self) -> &State {
        &self.states.last().expect("a state").1
    }
}

pub fn story() -> impl Strategy<Value = Story> {
    any::<bool>().prop_flat_map(|is_converged| {
        let services = SERVICES.map(|_| plot());
        let amber = vec((0..6000_u64, pods()), 1..=2).prop_map(|mut amber| {
            amber[0].0 = 0;
            amber
        });
        let trouble = trouble(&PATHS, &OPERATIONS);
        let processes = (vec(run(), 1..=5), select(&OTHER_SETTINGS[..]), 0..2_usize);
        let is_apart = prop::bool::weighted(0.4);
        let all = (services, amber, is_apart, moves(is_converged), trouble, processes);
        all.prop_map(move |(services, amber, is_apart, moves, trouble, processes)| {
            let (runs, other_settings, last) = processes;
            Story {
                services,
                amber,
                is_apart,
                is_converged,
                moves,
                trouble,
                runs,
                other_settings,
                last,
            }
        })
    })
}

fn plot() -> impl Strategy<Value = Plot> {
    let changes = vec((1..6000_u64, state()), 0..=2);
    let (is_headless, is_sticky) = (prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    let http = prop_oneof![6 => Just(80_u16), 1 => Just(81)];
    let all = (0..4_u8, is_headless, http, is_sticky, state(), changes);
    all.prop_map(|(created, is_headless, http, is_sticky, first, changes)| {
        let mut states = vec![(0, first)];
        states.extend(changes);
        states.sort_by_key(|(at, _)| *at);
        Plot { created, is_headless, http, is_sticky, states }
    })
}

fn state() -> impl Strategy<Value = State> {
    let pods = option::weighted(0.9, pods());
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

/// A full sync, or a batch of messages about Services of one or both clusters.
fn run() -> impl Strategy<Value = Run> {
    let message = (0..SERVICES.len(), prop::bool::weighted(0.2));
    let batch = prop_oneof![
        1 => Just(Vec::new()),
        2 => vec(message, 1..=3),
    ];
    let timeout = select(&[300_000, 300_000, 8000][..]);
    let killed = option::weighted(0.15, 100..5000_u64);
    (0..PROCESSES, 0..6000_u64, batch, timeout, killed).prop_map(
        |(process, start, batch, timeout, killed)| Run { process, start, batch, timeout, killed },
    )
}
