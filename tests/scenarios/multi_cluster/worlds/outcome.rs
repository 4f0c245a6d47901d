//! The results that a story may and must have, by rules of its own, so that a mistake of the function is not repeated
//! here.

use std::collections::{BTreeMap, BTreeSet};

use super::play::Stage;
use super::story::{NAMES, Plot, SERVICES, State, Story};
use crate::multi_cluster::{condition, imported, in_full, writes};
use crate::run::sync;

/// The creation of the exports of `amber`: older than some and younger than others.
pub const AMBER_CREATED: &str = "1767225601000";

/// Endpoints that are ready throughout and imported at the beginning.
#[derive(Debug)]
pub struct Kept {
    source: &'static str,
    name: &'static str,
    endpoints: BTreeSet<String>,
}

/// An exporter of a name in the end.
struct Exporter {
    cluster: &'static str,
    created: String,
    is_headless: bool,
    ports: BTreeSet<u16>,
    pods: Vec<u8>,
}

/// The address of a pod of a cluster.
pub fn address(cluster: &str, pod: u8) -> String {
    let network = match cluster {
        "blue" => 1,
        "green" => 2,
        _ => 3,
    };
    format!("10.0.{network}.{pod}")
}

/// The time at which an export was created.
pub fn created(plot: &Plot) -> String {
    format!("2026-01-01T00:00:0{}Z", plot.created)
}

/// The ports of a Service; its pods have them above 8,000.
pub fn ports(state: &State) -> BTreeSet<u16> {
    if state.has_more_ports { [80, 90].into() } else { [80].into() }
}

fn endpoints(cluster: &str, pods: &[u8], ports: &BTreeSet<u16>) -> BTreeSet<String> {
    let pods = pods.iter().map(|pod| address(cluster, *pod));
    pods.flat_map(|pod| ports.iter().map(move |port| format!("{pod}:{}", 8000 + port))).collect()
}

/// The endpoints on port 80 that no import may lose. An import that a person deletes is left out.
pub fn kept(story: &Story) -> Vec<Kept> {
    if !story.is_converged {
        return Vec::new();
    }
    let always = |of: Vec<Option<&Vec<u8>>>| -> Vec<u8> {
        let is_ready = |pod: &u8| of.iter().all(|pods| pods.is_some_and(|it| it.contains(pod)));
        (1..=4).filter(is_ready).collect()
    };
    let served = story.services.iter().enumerate().map(|(number, plot)| {
        let (source, name) = SERVICES[number];
        let states = plot.states.iter().map(|(_, state)| state);
        let pods = states.map(|state| state.pods.as_ref().filter(|_| state.is_exported));
        (source, name, always(pods.collect()))
    });
    let amber = always(story.amber.iter().map(|(_, pods)| Some(pods)).collect());
    let all = served.chain([("amber", "web", amber)]);
    let all = all.filter(|(_, name, _)| story.deletions.iter().all(|(_, _, of)| of != name));
    let kept = all.map(|(source, name, pods)| {
        let endpoints = endpoints(source, &pods, &[80].into());
        Kept { source, name, endpoints }
    });
    kept.filter(|kept| !kept.endpoints.is_empty()).collect()
}

pub fn assert_kept(stage: &Stage, kept: &[Kept]) {
    for Kept { source, name, endpoints } in kept {
        for cluster in [&stage.blue, &stage.green] {
            let all = imported(cluster, name);
            let left = all.get(*source).is_some_and(|there| endpoints.is_subset(there));
            assert!(left, "{source}'s {name} has {endpoints:?} throughout; imported are {all:?}");
        }
        let pods = endpoints.iter().filter_map(|it| it.split(':').next()).map(str::to_owned);
        let there: BTreeSet<String> = stage.fleet.addresses("shop", name).into_iter().collect();
        let pods: BTreeSet<String> = pods.collect();
        assert!(pods.is_subset(&there), "{source}'s {name}: {pods:?} of {there:?} in Cloud Map");
    }
}

/// One full sync of each function reaches the wanted state, and then no process has anything to write.
pub async fn assert_rest(stage: &Stage, story: &Story, kept: &[Kept]) {
    let mut reports = Vec::new();
    for process in stage.all_clusters(story.is_apart, story.last) {
        let report = sync(process).await;
        assert_kept(stage, kept);
        assert!(report.ok, "in the end: {}", in_full(&report));
        reports.push(in_full(&report));
    }
    for name in NAMES {
        assert_name(stage, story, name);
    }
    stage.fleet.cloud_map.forget_calls();
    for cluster in [&stage.blue, &stage.green] {
        cluster.forget_requests();
    }
    for process in stage.processes() {
        let next = sync(process).await;
        let both = || format!("{}\n{}", reports.join("\n"), in_full(&next));
        assert_eq!(stage.fleet.cloud_map.writes(), 0, "at rest: {}", both());
        for cluster in [&stage.blue, &stage.green] {
            assert_eq!(writes(cluster), [""; 0], "at rest: {}", both());
        }
    }
}

/// The imports of a name in both clusters, its instances in Cloud Map, and the conditions of its exports.
fn assert_name(stage: &Stage, story: &Story, name: &str) {
    let exporters = exporters(story, name);
    let of = |it: &Exporter| (it.cluster.to_owned(), endpoints(it.cluster, &it.pods, &it.ports));
    let wanted: BTreeMap<_, _> = exporters.iter().map(of).filter(|it| !it.1.is_empty()).collect();
    for cluster in [&stage.blue, &stage.green] {
        assert_eq!(imported(cluster, name), wanted, "{name}");
        let import = cluster.service_import("shop", name);
        assert_eq!(import.is_some(), !exporters.is_empty(), "{name}: {import:?}");
        let (Some(import), Some(first)) = (import, exporters.first()) else { continue };
        let kind = if first.is_headless { "Headless" } else { "ClusterSetIP" };
        assert_eq!(import["spec"]["type"], kind, "{name}");
        let clusters = import["status"]["clusters"].as_array().into_iter().flatten();
        let clusters: Vec<&str> = clusters.filter_map(|it| it["cluster"].as_str()).collect();
        let all: BTreeSet<&str> = exporters.iter().map(|it| it.cluster).collect();
        assert_eq!(clusters, all.into_iter().collect::<Vec<_>>(), "{name}");
    }
    let there: BTreeSet<String> = stage.fleet.addresses("shop", name).into_iter().collect();
    let pods = exporters.iter().flat_map(|it| it.pods.iter().map(|pod| address(it.cluster, *pod)));
    assert_eq!(there, pods.collect(), "{name} in Cloud Map");
    let differ = |other: &Exporter| {
        other.is_headless != exporters[0].is_headless || other.ports != exporters[0].ports
    };
    let conflict = if exporters.iter().any(differ) { "True" } else { "False" };
    for (number, plot) in story.services.iter().enumerate() {
        let (cluster, of) = SERVICES[number];
        if of != name || !plot.last().is_exported {
            continue;
        }
        let condition = |kind| condition(stage.cluster(cluster), name, kind);
        if plot.last().pods.is_none() {
            assert_eq!(condition("Valid"), "False NoService", "{cluster}'s {name}");
            continue;
        }
        assert_eq!(condition("Ready"), "True Exported", "{cluster}'s {name}");
        let found = condition("Conflict");
        assert!(found.starts_with(conflict), "{cluster}'s {name}: {found}");
    }
}

/// The exporters of a name in the end, the oldest first.
fn exporters(story: &Story, name: &str) -> Vec<Exporter> {
    let numbered = SERVICES.iter().zip(&story.services).filter(|((_, of), _)| *of == name);
    let served = numbered.filter_map(|((cluster, _), plot)| {
        let state = plot.last();
        let pods = state.pods.clone().filter(|_| state.is_exported)?;
        let (created, is_headless, ports) = (created(plot), plot.is_headless, ports(state));
        Some(Exporter { cluster, created, is_headless, ports, pods })
    });
    let pods = story.amber.last().expect("a state").1.clone();
    let amber = Exporter {
        cluster: "amber",
        created: "2026-01-01T00:00:01Z".to_owned(),
        is_headless: false,
        ports: [80].into(),
        pods,
    };
    let amber = Some(amber).filter(|amber| name == "web" && !amber.pods.is_empty());
    let mut all: Vec<Exporter> = served.chain(amber).collect();
    all.sort_by_key(|it| (it.created.clone(), it.cluster));
    all
}
