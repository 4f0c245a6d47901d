//! Random stories: Services of two clusters that meet under a few names, how they change, which runs overlap, and
//! which calls go wrong meanwhile. All times are milliseconds from the moment at which trouble begins.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::trouble::{PROCESSES, Run, Trouble, run, trouble};

/// The clusters with the names of their Services.
pub const SERVICES: [(&str, &str); 5] =
    [("blue", "api"), ("blue", "cart"), ("blue", "web"), ("green", "cart"), ("green", "web")];

/// The Cloud Map services that Services claim: namespace and name.
pub const PLACES: [(&str, &str); 4] =
    [("prod", "cart"), ("prod", "web"), ("prod.local", "cart"), ("prod.local", "web")];

/// The times of operations in milliseconds: a minute is the longest that a run waits for one.
const OPERATIONS: [u64; 8] = [30, 30, 300, 300, 3000, 3000, 20_000, 90_000];
/// The paths of API servers whose requests fail.
const PATHS: [&str; 4] =
    ["/", "/api/v1/services", "/apis/discovery.k8s.io", "/api/v1/namespaces/shop"];

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

pub fn story() -> impl Strategy<Value = Story> {
    let services = SERVICES.map(|_| plot());
    let all = (
        services,
        prop::bool::weighted(0.8),
        trouble(&PATHS, &OPERATIONS),
        vec(run(SERVICES.len()), 1..=5),
        0..PROCESSES,
    );
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
