//! The results that a story may and must have, by rules of its own, so that a mistake of the function is not repeated
//! here: a section for each rule. `kept` is about the time in which all goes on, the rest about the end.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::play::Stage;
use super::story::{NAMES, Plot, SERVICES, State, Story};
use crate::multi_cluster::{CLUSTERSET, condition, imported, in_full, writes};
use crate::run::sync;
use testbed::kubernetes::KubernetesServer;

/// The creation of the exports of `amber`: older than some and younger than others.
pub const AMBER_CREATED: &str = "1767225601000";

/// A port of a Service: its name and number. Pods have it above 8,000.
type Port = (&'static str, u16);

/// An exporter of a name in the end.
struct Exporter {
    cluster: &'static str,
    created: String,
    is_headless: bool,
    ports: Vec<Port>,
    /// What its record says; AWS's controller has no record.
    affinity: Option<&'static str>,
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

/// The ports of a Service.
pub fn ports(plot: &Plot, state: &State) -> Vec<Port> {
    let more = state.has_more_ports.then_some(("more", 90));
    [("http", plot.http)].into_iter().chain(more).collect()
}

pub fn affinity(plot: &Plot) -> &'static str {
    if plot.is_sticky { "ClientIP" } else { "None" }
}

/// The derived Service that an import names.
pub fn derived(cluster: &KubernetesServer, name: &str) -> Option<String> {
    let import = cluster.service_import("shop", name)?;
    let annotations = &import["metadata"]["annotations"];
    annotations["multicluster.kubernetes.io/derived-service"].as_str().map(str::to_owned)
}

// No import loses an endpoint that is ready throughout, or its IP.

/// What no import may lose.
#[derive(Debug)]
pub struct Kept {
    source: &'static str,
    name: &'static str,
    endpoints: BTreeSet<String>,
    /// The IPs of the import in each cluster, if its type is the same throughout.
    ips: Option<[Value; 2]>,
}

/// The endpoints on the port `http` that are imported at the beginning and ready all the time. An import that a person
/// deletes is left out, and one whose exporters have the port under several numbers.
pub fn kept(stage: &Stage, story: &Story) -> Vec<Kept> {
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
        (source, name, plot.http, always(pods.collect()))
    });
    let amber = always(story.amber.iter().map(|(_, pods)| Some(pods)).collect());
    let all = served.chain([("amber", "web", 80, amber)]);
    let of_name = |name: &str| {
        let all = SERVICES.iter().zip(&story.services).filter(move |((_, of), _)| *of == name);
        all.map(|(_, plot)| plot).collect::<Vec<_>>()
    };
    let is_stable = |name: &str| {
        let is_taken_out = story.moves.iter().any(|(_, it)| it.takes_out(name));
        let amber = (name == "web").then_some(80);
        let numbers: BTreeSet<u16> = of_name(name).iter().map(|it| it.http).chain(amber).collect();
        !is_taken_out && numbers.len() == 1
    };
    let kept = all.filter(|(_, name, _, pods)| is_stable(name) && !pods.is_empty());
    let kept = kept.map(|(source, name, http, pods)| {
        let pods = pods.iter().map(|pod| format!("{}:{}", address(source, *pod), 8000 + http));
        let has_one_type = of_name(name).iter().all(|it| !it.is_headless);
        let ips = has_one_type.then(|| [&stage.blue, &stage.green].map(|it| ips(it, name)));
        Kept { source, name, endpoints: pods.collect(), ips }
    });
    kept.collect()
}

fn ips(cluster: &KubernetesServer, name: &str) -> Value {
    cluster.service_import("shop", name).map_or(Value::Null, |it| it["spec"]["ips"].clone())
}

pub fn assert_kept(stage: &Stage, kept: &[Kept]) {
    for Kept { source, name, endpoints, ips: before } in kept {
        for (number, cluster) in [&stage.blue, &stage.green].into_iter().enumerate() {
            let all = imported(cluster, name);
            let left = all.get(*source).is_some_and(|there| endpoints.is_subset(there));
            assert!(left, "{source}'s {name} has {endpoints:?} throughout; imported are {all:?}");
            if let Some(before) = before {
                assert_eq!(ips(cluster, name), before[number], "the IPs of {name}");
            }
        }
        let pods = endpoints.iter().filter_map(|it| it.split(':').next()).map(str::to_owned);
        let there: BTreeSet<String> = stage.fleet.addresses("shop", name).into_iter().collect();
        let pods: BTreeSet<String> = pods.collect();
        assert!(pods.is_subset(&there), "{source}'s {name}: {pods:?} of {there:?} in Cloud Map");
    }
}

// At rest.

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
        let exporters = exporters(story, name);
        for cluster in [&stage.blue, &stage.green] {
            assert_import(cluster, name, &exporters);
        }
        let there: BTreeSet<String> = stage.fleet.addresses("shop", name).into_iter().collect();
        let pods =
            exporters.iter().flat_map(|it| it.pods.iter().map(|pod| address(it.cluster, *pod)));
        assert_eq!(there, pods.collect(), "{name} in Cloud Map");
        assert_conditions(stage, story, name, &exporters);
    }
    assert_records(stage, story);
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

/// The exporters of a name in the end, the oldest first.
fn exporters(story: &Story, name: &str) -> Vec<Exporter> {
    let numbered = SERVICES.iter().zip(&story.services).filter(|((_, of), _)| *of == name);
    let served = numbered.filter_map(|((cluster, _), plot)| {
        let state = plot.last();
        let pods = state.pods.clone().filter(|_| state.is_exported)?;
        let (created, is_headless, ports) = (created(plot), plot.is_headless, ports(plot, state));
        Some(Exporter {
            cluster,
            created,
            is_headless,
            ports,
            affinity: Some(affinity(plot)),
            pods,
        })
    });
    let amber = Exporter {
        cluster: "amber",
        created: "2026-01-01T00:00:01Z".to_owned(),
        is_headless: false,
        ports: vec![("http", 80)],
        affinity: None,
        pods: story.amber.last().expect("a state").1.clone(),
    };
    // AWS's controller has no export without endpoints.
    let amber = Some(amber).filter(|amber| name == "web" && !amber.pods.is_empty());
    let mut all: Vec<Exporter> = served.chain(amber).collect();
    all.sort_by_key(|it| (it.created.clone(), it.cluster));
    all
}

/// The ports of all exporters, the oldest first; a name and a number are there once.
fn merged(exporters: &[Exporter]) -> Vec<Port> {
    let mut merged: Vec<Port> = Vec::new();
    for (name, number) in exporters.iter().flat_map(|it| it.ports.clone()) {
        if merged.iter().all(|port| port.0 != name && port.1 != number) {
            merged.push((name, number));
        }
    }
    merged
}

/// The affinities that Services with an IP have; AWS's controller says nothing of them.
fn affinities(exporters: &[Exporter]) -> Vec<&'static str> {
    let with_ip = exporters.iter().filter(|it| !it.is_headless);
    with_ip.filter_map(|it| it.affinity).collect()
}

fn assert_import(cluster: &KubernetesServer, name: &str, exporters: &[Exporter]) {
    let import = cluster.service_import("shop", name);
    assert_eq!(import.is_some(), !exporters.is_empty(), "{name}: {import:?}");
    let (Some(import), Some(first)) = (import, exporters.first()) else {
        assert_eq!(imported(cluster, name), BTreeMap::new(), "{name}");
        return;
    };
    let (spec, merged) = (&import["spec"], merged(exporters));
    let kind = if first.is_headless { "Headless" } else { "ClusterSetIP" };
    assert_eq!(spec["type"], kind, "{name}");
    let served = |it: &Exporter| -> BTreeSet<String> {
        // An import with an IP leads to those who have its port; a headless one has each endpoint with its own.
        let ports = it.ports.iter().map(|port| port.1);
        let ports = ports.filter(|it| first.is_headless || merged.iter().any(|port| port.1 == *it));
        let of_port = |port| it.pods.iter().map(move |pod| (address(it.cluster, *pod), port));
        ports.flat_map(of_port).map(|(pod, port)| format!("{pod}:{}", 8000 + port)).collect()
    };
    let wanted = exporters.iter().map(|it| (it.cluster.to_owned(), served(it)));
    let wanted: BTreeMap<_, _> = wanted.filter(|it| !it.1.is_empty()).collect();
    assert_eq!(imported(cluster, name), wanted, "{name}");
    let clusters = import["status"]["clusters"].as_array().into_iter().flatten();
    let clusters: Vec<&str> = clusters.filter_map(|it| it["cluster"].as_str()).collect();
    let all: BTreeSet<&str> = exporters.iter().map(|it| it.cluster).collect();
    assert_eq!(clusters, all.into_iter().collect::<Vec<_>>(), "{name}");
    let numbered = |ports: &Value| -> Vec<(String, u64)> {
        let text = |port: &Value| port["name"].as_str().unwrap_or_default().to_owned();
        let ports = ports.as_array().into_iter().flatten();
        ports.map(|port| (text(port), port["port"].as_u64().expect("a number"))).collect()
    };
    let ports = merged.iter().map(|(name, number)| ((*name).to_owned(), u64::from(*number)));
    assert_eq!(numbered(&spec["ports"]), ports.collect::<Vec<_>>(), "{name}");
    let conditions = import["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions.filter(|it| it["type"] == "Ready").map(|it| it["status"].clone());
    assert_eq!(ready.collect::<Vec<_>>(), ["True"], "{name}: {import}");

    let derived = derived(cluster, name).and_then(|it| cluster.service_object("shop", &it));
    assert_eq!(derived.is_some(), !first.is_headless, "{name}: {derived:?}");
    let Some(derived) = derived else {
        assert!(spec["ips"].as_array().is_none_or(Vec::is_empty), "{name}: {spec}");
        return;
    };
    assert_eq!(derived["spec"]["clusterIPs"], spec["ips"], "{name}");
    let sorted = |ports: &Value| numbered(ports).into_iter().collect::<BTreeSet<_>>();
    assert_eq!(sorted(&derived["spec"]["ports"]), sorted(&spec["ports"]), "{name}");
    let affinity = affinities(exporters).first().copied().unwrap_or("None");
    assert_eq!(spec["sessionAffinity"].as_str().unwrap_or("None"), affinity, "{name}: {spec}");
    assert_eq!(derived["spec"]["sessionAffinity"].as_str().unwrap_or("None"), affinity, "{name}");
}

/// The conditions of the exports of a name: every exporter has each conflict of the name.
fn assert_conditions(stage: &Stage, story: &Story, name: &str, exporters: &[Exporter]) {
    let mut conflicts = BTreeSet::new();
    if let Some(first) = exporters.first() {
        let sorted = |it: &Exporter| it.ports.iter().copied().collect::<BTreeSet<_>>();
        if exporters.iter().any(|it| it.is_headless != first.is_headless) {
            conflicts.insert("TypeConflict");
        }
        if exporters.iter().any(|it| sorted(it) != sorted(first)) {
            conflicts.insert("PortConflict");
        }
        let affinities = affinities(exporters);
        if !first.is_headless && affinities.iter().any(|it| *it != affinities[0]) {
            conflicts.insert("SessionAffinityConflict");
        }
    }
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
        let (status, reasons) = found.split_once(' ').expect("a status and a reason");
        if conflicts.is_empty() {
            assert_eq!((status, reasons), ("False", "NoConflicts"), "{cluster}'s {name}");
            continue;
        }
        let reasons: BTreeSet<&str> = reasons.split(',').collect();
        assert_eq!((status, reasons), ("True", conflicts.clone()), "{cluster}'s {name}");
    }
}

/// One record for each export that counts, in the clusterset's own namespace, and one of the cluster.
fn assert_records(stage: &Stage, story: &Story) {
    let cloud_map = &stage.fleet.cloud_map;
    for cluster in ["blue", "green"] {
        let numbered = SERVICES.iter().zip(&story.services).filter(|((of, _), _)| *of == cluster);
        let counting = numbered.filter(|(_, plot)| {
            let state = plot.last();
            state.is_exported && state.pods.is_some()
        });
        let wanted: BTreeSet<String> = counting.map(|((_, name), _)| (*name).to_owned()).collect();
        let arn = stage.fleet.sandbox.cluster_arn(cluster);
        let named = format!("clusterset.{CLUSTERSET}");
        let namespaces = cloud_map.namespaces().into_iter();
        let ids = namespaces.filter(|(_, name)| *name == named).map(|(id, _)| id);
        let services = ids.flat_map(|id| cloud_map.services(&id));
        let instances = services.flat_map(|service| cloud_map.instances(&service.id));
        let is_of_cluster = |it: &(String, BTreeMap<String, String>)| {
            it.1.get("cloud-map-sync/cluster") == Some(&arn)
        };
        let of_cluster: Vec<_> = instances.filter(is_of_cluster).collect();
        let exports = of_cluster.iter().filter(|(id, _)| id.starts_with("export-"));
        let found = exports.filter_map(|(_, it)| it.get("cloud-map-sync/service").cloned());
        assert_eq!(found.collect::<BTreeSet<_>>(), wanted, "records of {cluster}");
        let own = of_cluster.iter().filter(|(id, _)| id == "cluster").count();
        assert_eq!(own, 1, "the record of {cluster} itself");
    }
}
