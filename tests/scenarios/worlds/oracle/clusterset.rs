//! What is right for exports and imports, by rules of its own: `Ledger` has what holds at every moment, `at_rest` what
//! is there in the end, a section for each rule.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use cloud_map_sync::report::Report;
use serde_json::Value;

use super::super::clusterset::{Clusterset, EXPORTED, Exporter, Life, OTHER_REGION, address};
use super::super::play::Scene;
use super::super::world::{CLUSTERS, NAMES, SHOP, World};
use super::guard::SIGHTING;
use super::of;
use crate::fleet::Attributes;
use crate::multi_cluster::{CLUSTER_ID, CLUSTERSET, IMPORT, MANAGED_BY, condition, imported_from};
use testbed::kubernetes::KubernetesServer;

/// A port of a Service: its name and number.
type Port = (&'static str, u16);

/// The derived Service that an import names.
pub fn derived(cluster: &KubernetesServer, name: &str) -> Option<String> {
    let import = cluster.service_import(SHOP, name)?;
    let annotations = &import["metadata"]["annotations"];
    annotations["multicluster.kubernetes.io/derived-service"].as_str().map(str::to_owned)
}

// At every moment: an endpoint that an import and Cloud Map have, with the record of its export, stays there while it is
// ready and exported, and a ServiceImport keeps its IP for life. One that was away for a moment is left out until all is
// quiet, and so is a name whose exporters have its port under several numbers. A derived Service keeps the ports that
// the exports have, whatever is read of them. While Cloud Map has no record of a cluster, none of `amber` leaves its imports.

/// Endpoints by the number of their name.
type Endpoints = BTreeMap<usize, BTreeSet<String>>;

/// The names and numbers of ports.
type Ports = BTreeSet<(String, u64)>;

#[derive(Default)]
pub struct Ledger {
    ready: Endpoints,
    /// Those that the lists of Cloud Map show, which may be late.
    shown: Endpoints,
    /// Those that the import of each cluster has, and Cloud Map.
    kept: [Endpoints; 3],
    /// Those of `amber` in the imports of each cluster that has no record.
    unknown: BTreeMap<usize, BTreeSet<String>>,
    /// The derived Service of each import by cluster and name, with its ports.
    derived: BTreeMap<(usize, usize), (String, Ports)>,
    /// Those whose import a person has deleted, until it is back.
    left_behind: BTreeSet<(usize, usize)>,
    /// The ports of the exports of each name, if its import has an IP and each of them has a record, or is of `amber` and has
    /// a part in an import; and the names for which these have changed while a run was under way.
    agreed: BTreeMap<usize, Ports>,
    changed: BTreeSet<usize>,
    has_amber: bool,
    /// The IPs of each ServiceImport, by its cluster and UID, and the names that had none by their exports while a run was
    /// under way.
    ips: BTreeMap<(usize, String), Value>,
    headless: BTreeSet<usize>,
    gone: BTreeSet<(usize, String)>,
    back: BTreeSet<(usize, String)>,
    unsettled: BTreeSet<usize>,
}

impl Ledger {
    /// A person takes out what stands under a name.
    pub fn unsettle(&mut self, name: usize) {
        self.unsettled.insert(name);
    }

    /// A person deletes the ServiceImport of a name in a cluster, and leaves its derived Service.
    pub fn leave_behind(&mut self, place: (usize, usize)) {
        self.left_behind.insert(place);
    }

    /// A person deletes the derived Service of a name.
    pub fn unsettle_derived(&mut self, name: usize) {
        self.changed.insert(name);
    }

    /// What was begun has come to its end.
    pub fn is_idle(&mut self) {
        self.changed.clear();
        self.headless.clear();
    }

    /// No run is under way, nor any operation.
    pub fn is_quiet(&mut self) {
        self.gone.clear();
        self.back.clear();
        self.unsettled.clear();
        self.headless.clear();
    }

    /// Compares what stands with the last look.
    pub fn look(&mut self, scene: &Scene) -> Result<(), String> {
        let clusterset = &scene.world.clusterset;
        for ((cluster, _), object) in &clusterset.in_the_way {
            let found = scene.cluster(*cluster).find(object);
            same(&found.as_ref(), &Some(object), "the object of another client")?;
        }
        let ready = ready(clusterset);
        for name in 0..EXPORTED.len() {
            let was = of(&self.ready, &name);
            let now = of(&ready, &name);
            let named = |it: &String| (name, it.clone());
            self.gone.extend(was.difference(now).map(named));
            self.back.extend(now.difference(was).map(named).filter(|it| self.gone.contains(it)));
        }
        let own = [0, 1].map(|it| own_records(scene, it));
        let conflicting = (0..EXPORTED.len()).filter(|it| has_two_numbers(clusterset, &own, *it));
        self.unsettled.extend(conflicting);
        self.ready = ready;
        let there = registered(scene, &own.each_ref().map(exports_in), &self.ready);
        let is_shown =
            |name: usize, it: &String| scene.shows_all() || of(&self.shown, &name).contains(it);
        let of_name = |(name, it): (&usize, &BTreeSet<String>)| {
            (*name, it.iter().filter(|it| is_shown(*name, it)).cloned().collect())
        };
        self.shown = there.iter().map(of_name).collect();
        for (place, kept) in self.kept.iter_mut().enumerate() {
            for (name, title) in EXPORTED.into_iter().enumerate() {
                let now: BTreeSet<String> = if place < CLUSTERS.len() {
                    imported_from(scene.cluster(place), title).into_values().flatten().collect()
                } else {
                    of(&there, &name).clone()
                };
                let owed = of(kept, &name).intersection(of(&self.ready, &name));
                let owed = owed.filter(|it| !self.back.contains(&(name, (*it).clone())));
                let lost: Vec<_> = owed.filter(|it| !now.contains(*it)).collect();
                if !lost.is_empty() && !self.unsettled.contains(&name) {
                    let place = CLUSTERS.get(place).unwrap_or(&"Cloud Map");
                    return Err(format!("{title} in {place} lost {lost:?}; left: {now:?}"));
                }
                kept.insert(name, of(&self.shown, &name) & &now);
            }
        }
        self.look_at_amber(scene, own.each_ref().map(|it| it.contains_key("cluster")))?;
        self.look_at_derived(scene, &own)?;
        self.look_at_ips(scene, &own)
    }

    fn look_at_amber(&mut self, scene: &Scene, has_record: [bool; 2]) -> Result<(), String> {
        let is_elsewhere = scene.world.settings.clusters.contains(OTHER_REGION);
        let unknown = (0..CLUSTERS.len()).filter(|it| is_elsewhere || !has_record[*it]);
        let amber = |it: usize| imported_from(scene.cluster(it), EXPORTED[0]).remove(AMBER);
        let unknown = unknown.map(|it| (it, amber(it).unwrap_or_default())).collect();
        for (cluster, was) in std::mem::replace(&mut self.unknown, unknown) {
            let now = self.unknown.get(&cluster).unwrap_or(&was);
            if !was.is_subset(now) && !self.unsettled.contains(&0) {
                let cluster = CLUSTERS[cluster];
                return Err(format!("{cluster} has no record, and of {was:?} only {now:?} stays"));
            }
        }
        Ok(())
    }

    fn look_at_derived(&mut self, scene: &Scene, own: &[Records; 2]) -> Result<(), String> {
        for (name, title) in EXPORTED.into_iter().enumerate() {
            let agreed = agreed(&scene.world.clusterset, name, (own, self.has_amber));
            let has_changed = self.agreed.get(&name) != Some(&agreed);
            self.changed.extend(has_changed.then_some(name));
            // A headless import has no derived Service.
            let unsettled = [&self.changed, &self.unsettled, &self.headless];
            let is_settled = unsettled.iter().all(|it| !it.contains(&name));
            for (cluster, place) in CLUSTERS.into_iter().enumerate() {
                let server = scene.cluster(cluster);
                let was = self.derived.remove(&(cluster, name));
                let (known, was) = was.unzip();
                let Some(known) = derived(server, title).or(known) else { continue };
                let there = server.service_object(SHOP, &known).unwrap_or_default();
                let mut ports: BTreeSet<_> =
                    numbered(&there["spec"]["ports"]).into_iter().collect();
                let lost = &(&was.unwrap_or_default() & &agreed) - &ports;
                if !lost.is_empty() && is_settled {
                    return Err(format!("{known} of {title} in {place} lost {lost:?}"));
                }
                // The import may come back without a member that could not be read since.
                if server.service_import(SHOP, title).is_some() {
                    self.left_behind.remove(&(cluster, name));
                } else if self.left_behind.contains(&(cluster, name)) {
                    ports.clear();
                }
                self.derived.insert((cluster, name), (known, ports));
            }
            self.agreed.insert(name, agreed);
        }
        let mut clusters = (0..CLUSTERS.len()).map(|it| scene.cluster(it));
        self.has_amber = clusters.all(|it| {
            it.service_import(SHOP, EXPORTED[0]).is_none()
                || imported_from(it, EXPORTED[0]).contains_key(AMBER)
        });
        Ok(())
    }

    fn look_at_ips(&mut self, scene: &Scene, own: &[Records; 2]) -> Result<(), String> {
        let mut now = BTreeMap::new();
        // Another type ends it, also between two looks.
        let is_headless = |name: &usize| {
            let exporters = exporters(&scene.world.clusterset, *name);
            exporters.first().is_none_or(|it| it.is_headless)
                || has_former_headless(&exporters, *name, own)
        };
        self.headless.extend((0..EXPORTED.len()).filter(is_headless));
        for (cluster, name) in places().filter(|(_, name)| !self.headless.contains(name)) {
            let import = scene.cluster(cluster).service_import(SHOP, EXPORTED[name]);
            let import = import.unwrap_or_default();
            let ips = &import["spec"]["ips"];
            if import["spec"]["type"] == "ClusterSetIP" && ips[0].is_string() {
                now.insert((cluster, import["metadata"]["uid"].to_string()), ips.clone());
            }
        }
        for (import, ips) in std::mem::replace(&mut self.ips, now) {
            let now = self.ips.get(&import).unwrap_or(&ips);
            if *now != ips {
                return Err(format!("the IPs {ips} of {import:?} are {now} now"));
            }
        }
        Ok(())
    }
}

/// The ports of an import with an IP if each of its exporters has a record with its own, and so none is unknown.
fn agreed(clusterset: &Clusterset, name: usize, (own, has_amber): (&[Records; 2], bool)) -> Ports {
    let exporters = exporters(clusterset, name);
    let has_ports = |export: &Value, ports: &[Port]| {
        let ports = ports.iter().map(|(name, number)| ((*name).to_owned(), u64::from(*number)));
        numbered(&export["ports"]) == ports.collect::<Vec<_>>()
    };
    let is_known = |it: &Exports<'_>| {
        own.get(it.cluster).map_or(has_amber, |all| {
            recorded(all, name).any(|export| has_ports(&export, &it.ports))
        })
    };
    let has_ip = exporters.first().is_some_and(|it| !it.is_headless)
        && exporters.iter().all(is_known)
        && !has_former_headless(&exporters, name, own);
    let ports = merged(&exporters).into_iter().filter(|_| has_ip);
    ports.map(|(name, number)| (name.to_owned(), u64::from(number))).collect()
}

/// Whether a cluster has a record of a headless export that has ended or has an IP by now: another one may follow it.
fn has_former_headless(exporters: &[Exports<'_>], name: usize, own: &[Records; 2]) -> bool {
    own.iter().enumerate().any(|(cluster, all)| {
        let mut is_headless = exporters.iter().map(|it| it.cluster == cluster && it.is_headless);
        recorded(all, name).any(|it| it["type"] == "Headless") && !is_headless.any(|it| it)
    })
}

/// The exports of a name that records of a cluster describe.
fn recorded(records: &Records, name: usize) -> impl Iterator<Item = Value> {
    let of_name = records
        .values()
        .filter(move |it| it.get("cloud-map-sync/service").is_some_and(|it| it == EXPORTED[name]));
    let exports = of_name.filter_map(|it| it.get("cloud-map-sync/export"));
    exports.map(|it| serde_json::from_str(it).unwrap_or_default())
}

/// Those that Cloud Map has, with the record of their export unless they are of `amber`.
fn registered(scene: &Scene, exports: &[BTreeSet<String>; 2], ready: &Endpoints) -> Endpoints {
    let of_name = |(name, endpoints): (&usize, &BTreeSet<String>)| {
        let there = scene.fleet.instances(SHOP, EXPORTED[*name]);
        let there = there.values().filter_map(|it| {
            Some(format!("{}:{}", it.get("AWS_INSTANCE_IPV4")?, it.get("AWS_INSTANCE_PORT")?))
        });
        let there: BTreeSet<String> = there.collect();
        let is_exported = |pod: &str| {
            let is_of = |cluster: usize| pod.starts_with(&address(cluster, 0)[..7]);
            let mut exports = exports.iter().enumerate();
            exports.all(|(cluster, names)| !is_of(cluster) || names.contains(EXPORTED[*name]))
        };
        let is_there = |it: &&String| there.contains(*it) && is_exported(it);
        (*name, endpoints.iter().filter(is_there).cloned().collect())
    };
    ready.iter().map(of_name).collect()
}

/// The ready endpoints that are exported, on the port `http`.
fn ready(clusterset: &Clusterset) -> Endpoints {
    let mut ready = Endpoints::new();
    for name in 0..EXPORTED.len() {
        for it in exporters(clusterset, name) {
            let pods = it.pods.iter().map(|pod| address(it.cluster, *pod));
            let port = 8000 + it.ports[0].1;
            ready.entry(name).or_default().extend(pods.map(|pod| format!("{pod}:{port}")));
        }
    }
    ready
}

/// Whether the exporters of a name have its port under several numbers, as they are or as a record says.
fn has_two_numbers(clusterset: &Clusterset, own: &[Records; 2], name: usize) -> bool {
    let exporters = exporters(clusterset, name);
    let numbers = exporters.iter().map(|it| u64::from(it.ports[0].1));
    let recorded = own.iter().flat_map(|it| recorded(it, name));
    let recorded = recorded.flat_map(|export| numbered(&export["ports"]));
    let recorded = recorded.filter(|(port, _)| port == "http").map(|(_, number)| number);
    numbers.chain(recorded).collect::<BTreeSet<_>>().len() > 1
}

// At rest.

/// A cluster that exports a name.
struct Exports<'a> {
    cluster: usize,
    id: &'static str,
    created: String,
    is_headless: bool,
    ports: Vec<Port>,
    /// What its record says; AWS's controller has no record.
    affinity: Option<&'static str>,
    prefers_zone: bool,
    pods: &'a BTreeSet<u8>,
}

/// The exporters of a name, the oldest first.
fn exporters(clusterset: &Clusterset, name: usize) -> Vec<Exports<'_>> {
    let of_name = clusterset.exporters.iter().filter(|((_, of), _)| *of == name);
    let served = of_name.filter_map(|((cluster, _), it)| {
        let pods = it.pods.as_ref().filter(|_| it.is_exported)?;
        let id = clusterset.ids[*cluster];
        let created = it.created();
        let ports = it.ports();
        let cluster = *cluster;
        let affinity = Some(it.affinity());
        let is_headless = it.is_headless;
        let prefers_zone = it.prefers_zone;
        Some(Exports { cluster, id, created, is_headless, ports, affinity, prefers_zone, pods })
    });
    let amber = Exports {
        cluster: CLUSTERS.len(),
        id: AMBER,
        created: "2026-01-01T00:00:01Z".to_owned(),
        is_headless: false,
        ports: vec![("http", 80)],
        affinity: None,
        prefers_zone: false,
        pods: &clusterset.amber,
    };
    // AWS's controller has no export without endpoints.
    let amber = Some(amber).filter(|amber| name == 0 && !amber.pods.is_empty());
    let mut all: Vec<_> = served.chain(amber).collect();
    all.sort_by_key(|it| (it.created.clone(), it.id));
    all
}

/// The numbers of each cluster and name.
fn places() -> impl Iterator<Item = (usize, usize)> {
    (0..CLUSTERS.len()).flat_map(|it| (0..EXPORTED.len()).map(move |name| (it, name)))
}

/// The whole relation: returns the first rule that is broken.
pub fn at_rest(scene: &Scene) -> Result<(), String> {
    let clusterset = &scene.world.clusterset;
    for (number, name) in EXPORTED.into_iter().enumerate() {
        let exporters = exporters(clusterset, number);
        for (cluster, title) in CLUSTERS.into_iter().enumerate() {
            let of = format!("{name} in {title}");
            if clusterset.in_the_way.contains_key(&(cluster, number)) {
                continue;
            }
            let is_there = clusterset.lives[cluster] == Life::Active;
            let exporters = if is_there { &exporters[..] } else { &[] };
            import(scene.cluster(cluster), name, exporters).map_err(|it| format!("{of}: {it}"))?;
        }
        let there: BTreeSet<String> = scene.fleet.addresses(SHOP, name).into_iter().collect();
        let pods = |it: &Exports<'_>| {
            it.pods.iter().map(|pod| address(it.cluster, *pod)).collect::<Vec<_>>()
        };
        same(&there, &exporters.iter().flat_map(pods).collect(), "addresses in Cloud Map")?;
        conditions(scene, number, &exporters)?;
    }
    // Where another client's object is in the way, what is left of an import stays as it is.
    let is_free = |of: &usize| !clusterset.in_the_way.keys().any(|(cluster, _)| cluster == of);
    (0..CLUSTERS.len()).filter(is_free).try_for_each(|it| labels(scene.cluster(it)))?;
    annotated(scene)?;
    records(scene)
}

// Annotated Services: one that is exported, too, has an import in each cluster.
fn annotated(scene: &Scene) -> Result<(), String> {
    let all = (0..CLUSTERS.len()).flat_map(|it| annotated_of(&scene.world, it));
    let exported: BTreeSet<usize> = all.collect();
    for (cluster, (number, name)) in
        (0..CLUSTERS.len()).flat_map(|it| NAMES.into_iter().enumerate().map(move |name| (it, name)))
    {
        let is_imported = scene.cluster(cluster).service_import(SHOP, name).is_some();
        let what = format!("whether {name} is imported in {}", CLUSTERS[cluster]);
        same(&is_imported, &exported.contains(&number), &what)?;
    }
    Ok(())
}

/// The numbers of annotated Services that a cluster exports.
fn annotated_of(world: &World, cluster: usize) -> impl Iterator<Item = usize> {
    let exported = world.clusterset.annotated.iter();
    let exported = exported.filter(move |it| it.0 == cluster && world.services.contains_key(it));
    exported.map(|(_, name)| *name).filter(|name| world.allows(NAMES[*name]))
}

// Slices: each of ours has the labels by which others know whose it is. Services: each of ours is that of an import.
fn labels(cluster: &KubernetesServer) -> Result<(), String> {
    let is_ours = |it: &Value| it["metadata"]["labels"]["cloud-map-sync/owner"].is_string();
    for slice in cluster.objects("endpointslices", SHOP).iter().filter(|it| is_ours(it)) {
        let labels = &slice["metadata"]["labels"];
        let has_all = [MANAGED_BY, IMPORT].iter().all(|it| labels[*it].is_string());
        same(&has_all, &true, &format!("whether a slice has its labels: {labels}"))?;
    }
    let derived = EXPORTED.into_iter().chain(NAMES).filter_map(|it| derived(cluster, it));
    let derived: Vec<String> = derived.collect();
    for service in cluster.objects("services", SHOP).iter().filter(|it| is_ours(it)) {
        let name = &service["metadata"]["name"];
        let has_import = derived.iter().any(|it| name == it);
        same(&has_import, &true, &format!("whether {name} has an import"))?;
    }
    Ok(())
}

fn same<T: PartialEq + Debug>(found: &T, wanted: &T, what: &str) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("{what}: {found:?}, wanted: {wanted:?}")) }
}

// Ports: those of all exporters, the oldest first; a name and a number are there once.
fn merged(exporters: &[Exports<'_>]) -> Vec<Port> {
    let mut merged: Vec<Port> = Vec::new();
    for (name, number) in exporters.iter().flat_map(|it| it.ports.clone()) {
        if merged.iter().all(|port| port.0 != name && port.1 != number) {
            merged.push((name, number));
        }
    }
    merged
}

/// The affinities that Services with an IP have; AWS's controller says nothing of them.
fn affinities(exporters: &[Exports<'_>]) -> Vec<&'static str> {
    let with_ip = exporters.iter().filter(|it| !it.is_headless);
    with_ip.filter_map(|it| it.affinity).collect()
}

// Import: there is one while a cluster exports the name, with the type of the oldest export. One with an IP leads to
// those that have its port; a headless one has each endpoint with its own.
fn import(cluster: &KubernetesServer, name: &str, exporters: &[Exports<'_>]) -> Result<(), String> {
    let import = cluster.service_import(SHOP, name);
    let there = imported_from(cluster, name);
    same(&import.is_some(), &!exporters.is_empty(), "whether it exists")?;
    let (Some(import), Some(first)) = (import, exporters.first()) else {
        return same(&there, &BTreeMap::new(), "endpoints without an import");
    };
    let spec = &import["spec"];
    let merged = merged(exporters);
    let kind = if first.is_headless { "Headless" } else { "ClusterSetIP" };
    same(&spec["type"], &kind.into(), "type")?;
    let served = |it: &Exports<'_>| -> BTreeSet<String> {
        let ports = it.ports.iter().map(|port| port.1);
        let ports = ports.filter(|it| first.is_headless || merged.iter().any(|port| port.1 == *it));
        let of_port = |port| it.pods.iter().map(move |pod| (address(it.cluster, *pod), port));
        ports.flat_map(of_port).map(|(pod, port)| format!("{pod}:{}", 8000 + port)).collect()
    };
    let wanted = exporters.iter().map(|it| (it.id.to_owned(), served(it)));
    same(&there, &wanted.filter(|it| !it.1.is_empty()).collect(), "endpoints")?;
    let clusters = import["status"]["clusters"].as_array().into_iter().flatten();
    let clusters: Vec<&str> = clusters.filter_map(|it| it["cluster"].as_str()).collect();
    let all: BTreeSet<&str> = exporters.iter().map(|it| it.id).collect();
    same(&clusters, &all.into_iter().collect(), "clusters in its status")?;
    let ports = merged.iter().map(|(name, number)| ((*name).to_owned(), u64::from(*number)));
    same(&numbered(&spec["ports"]), &ports.collect(), "ports")?;
    let conditions = import["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions.filter(|it| it["type"] == "Ready").map(|it| it["status"].clone());
    same(&ready.collect(), &vec![Value::from("True")], "Ready")?;
    derived_service(cluster, name, spec, exporters)
}

fn numbered(ports: &Value) -> Vec<(String, u64)> {
    let text = |port: &Value| port["name"].as_str().unwrap_or_default().to_owned();
    let ports = ports.as_array().into_iter().flatten();
    ports.map(|port| (text(port), port["port"].as_u64().expect("a number"))).collect()
}

// Derived Service: an import with an IP has one, with its IPs, ports and affinity; a headless one has neither.
fn derived_service(
    cluster: &KubernetesServer,
    name: &str,
    spec: &Value,
    exporters: &[Exports<'_>],
) -> Result<(), String> {
    let derived = derived(cluster, name).and_then(|it| cluster.service_object(SHOP, &it));
    same(&derived.is_some(), &!exporters[0].is_headless, "whether it has a derived Service")?;
    let Some(derived) = derived else {
        let has_ips = spec["ips"].as_array().is_some_and(|it| !it.is_empty());
        return same(&has_ips, &false, "whether it has IPs");
    };
    same(&derived["spec"]["clusterIPs"], &spec["ips"], "IPs of the derived Service")?;
    let sorted = |ports: &Value| numbered(ports).into_iter().collect::<BTreeSet<_>>();
    let of_derived = &derived["spec"]["ports"];
    let of_import = &spec["ports"];
    same(&sorted(of_derived), &sorted(of_import), "ports of the derived Service")?;
    let affinity = affinities(exporters).first().copied().unwrap_or("None");
    let of = |spec: &Value| spec["sessionAffinity"].as_str().unwrap_or("None").to_owned();
    same(&of(spec), &affinity.to_owned(), "affinity")?;
    same(&of(&derived["spec"]), &affinity.to_owned(), "affinity of the derived Service")
}

// Conditions: every exporter of a name has each conflict of the name.
fn conditions(scene: &Scene, name: usize, exporters: &[Exports<'_>]) -> Result<(), String> {
    let mut conflicts = BTreeSet::new();
    if let Some(first) = exporters.first() {
        let sorted = |it: &Exports<'_>| it.ports.iter().copied().collect::<BTreeSet<_>>();
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
        let mut with_ip = exporters.iter().filter(|it| !it.is_headless && it.affinity.is_some());
        let first_with_ip = with_ip.next().filter(|_| !first.is_headless);
        if first_with_ip.is_some_and(|one| with_ip.any(|it| it.prefers_zone != one.prefers_zone)) {
            conflicts.insert("TrafficDistributionConflict");
        }
    }
    let all = scene.world.clusterset.exporters.iter();
    let exported = all.filter(|((_, of), it)| *of == name && it.is_exported);
    for ((cluster, _), Exporter { pods, .. }) in exported {
        let condition = |kind| condition(scene.cluster(*cluster), EXPORTED[name], kind);
        let what = format!("{} of {}", EXPORTED[name], CLUSTERS[*cluster]);
        if pods.is_none() {
            same(&condition("Valid"), &"False NoService".to_owned(), &what)?;
            continue;
        }
        same(&condition("Ready"), &"True Exported".to_owned(), &what)?;
        let found = condition("Conflict");
        let (status, reasons) = found.split_once(' ').unwrap_or_default();
        let reasons: BTreeSet<&str> = reasons.split(',').collect();
        let none = BTreeSet::from(["NoConflicts"]);
        let wanted =
            if conflicts.is_empty() { ("False", none) } else { ("True", conflicts.clone()) };
        same(&(status, reasons), &wanted, &what)?;
    }
    Ok(())
}

/// The instances of a cluster in the clusterset's own namespaces: their service, id and attributes.
fn records_of(scene: &Scene, cluster: usize) -> impl Iterator<Item = (String, String, Attributes)> {
    let cloud_map = &scene.fleet.cloud_map;
    let named = format!("clusterset.{CLUSTERSET}");
    let ids = cloud_map.namespaces().into_iter().filter(move |(_, name)| *name == named);
    let arn = scene.fleet.sandbox.cluster_arn(CLUSTERS[cluster]);
    let all = ids.flat_map(|(id, _)| cloud_map.services(&id)).flat_map(|service| {
        let instances = cloud_map.instances(&service.id).into_iter();
        instances.map(move |(id, it)| (service.name.clone(), id, it))
    });
    all.filter(move |(.., it)| it.get("cloud-map-sync/cluster") == Some(&arn))
}

/// The records of a cluster by their ids.
type Records = BTreeMap<String, Attributes>;

fn own_records(scene: &Scene, cluster: usize) -> Records {
    records_of(scene, cluster).map(|(_, id, it)| (id, it)).collect()
}

/// The names whose exports have a record.
fn exports_in(records: &Records) -> BTreeSet<String> {
    let exports = records.iter().filter(|(id, _)| id.starts_with("export-"));
    exports.filter_map(|(_, it)| it.get("cloud-map-sync/service").cloned()).collect()
}

/// Whether both clusters have a record of themselves.
pub fn has_records(scene: &Scene) -> bool {
    (0..CLUSTERS.len()).all(|it| own_records(scene, it).contains_key("cluster"))
}

/// The id under which a cluster has its record, with exports if it has several; else one that is free.
pub fn id_of(scene: &Scene, cluster: usize) -> &'static str {
    let all = [CLUSTERS[0], CLUSTERS[1], "azure", "lime"];
    let stated = scene.world.clusterset.ids[cluster];
    let count =
        |of: usize, id: &str| records_of(scene, of).filter(|(service, ..)| service == id).count();
    let own = all.into_iter().filter(|id| count(cluster, id) > 0);
    let own = own.max_by_key(|id| (count(cluster, id), *id == stated));
    let is_free =
        |id: &&str| count(1 - cluster, id) == 0 && scene.world.clusterset.ids[1 - cluster] != *id;
    let free = || [stated].into_iter().chain(all).find(is_free);
    own.or_else(free).unwrap_or(stated)
}

/// The clusters that have a record under the id of the other one, which waits for a sync that takes it away.
pub fn with_taken_ids(scene: &Scene) -> Vec<usize> {
    let other = |it: &usize| scene.world.clusterset.ids[1 - it];
    let has_taken = |it: &usize| records_of(scene, *it).any(|(service, ..)| service == other(it));
    (0..CLUSTERS.len()).filter(has_taken).collect()
}

// Obstacles: a member that cannot go on says why, and its sync is not good.
pub fn obstacles(scene: &Scene, report: &Report) -> Result<(), String> {
    let clusterset = &scene.world.clusterset;
    let elsewhere = OTHER_REGION;
    for (cluster, name) in CLUSTERS.into_iter().enumerate() {
        let arn = scene.fleet.sandbox.cluster_arn(name);
        let of_cluster = report.clusters.iter().find(|it| it.cluster == arn);
        let Some(part) = of_cluster.and_then(|it| it.multi_cluster.as_ref()) else { continue };
        let properties = scene.cluster(cluster).objects("clusterproperties", "");
        let id = properties.iter().find(|it| it["metadata"]["name"] == CLUSTER_ID);
        let wanted = match id.map_or("", |it| it["spec"]["value"].as_str().unwrap_or_default()) {
            _ if clusterset.lacks_definitions[cluster] => "NoMultiClusterApi",
            "" => "NoIdentity",
            "No id" => "InvalidIdentity",
            id if id != id_of(scene, cluster) => "ClusterIdChanged",
            _ => continue,
        };
        let is_elsewhere = scene.world.settings.clusters.contains(elsewhere);
        let is_member = |it: usize| own_records(scene, it).contains_key("cluster");
        // An id under which it has neither exports nor imports may be changed.
        let is_changed = wanted == "ClusterIdChanged";
        let has_exports = !exports_in(&own_records(scene, cluster)).is_empty();
        if !is_member(cluster) || is_elsewhere || is_changed && !has_exports {
            continue;
        }
        // Which of two namespaces has the records is known by the id alone.
        let is_ambiguous = is_changed && clusterset.has_second_namespace;
        let is_meant = |it: &str| {
            it == wanted
                || is_changed && it == "ClusterIdTaken"
                || is_ambiguous && it == "Namespace"
        };
        let is_named = part.lines.iter().any(|line| line.is_obstacle() && is_meant(&line.code));
        if !is_named || report.ok {
            return Err(format!("{name} is a member with {wanted}:\n{report}\n{part:?}"));
        }
    }
    Ok(())
}

/// What stands at one time.
pub struct Stood {
    /// The endpoints of imports by their cluster and name, and by the cluster that they are of.
    imports: BTreeMap<(usize, usize), BTreeMap<String, BTreeSet<String>>>,
    /// The names with a record, by their cluster.
    records: [BTreeSet<String>; 2],
    /// Whether an import of each cluster has a note of the guard.
    noted: [bool; 2],
    /// The addresses in Cloud Map by name: they may come into an import before they go there.
    registered: [BTreeSet<String>; 2],
}

impl Stood {
    pub fn of(scene: &Scene) -> Self {
        let imports = places().filter_map(|place| {
            let cluster = scene.cluster(place.0);
            let name = EXPORTED[place.1];
            cluster.service_import(SHOP, name)?;
            Some((place, imported_from(cluster, name)))
        });
        let own = [0, 1].map(|cluster| own_records(scene, cluster));
        let noted = [0, 1].map(|cluster| {
            let mut imports = scene.cluster(cluster).objects("serviceimports", SHOP).into_iter();
            imports.any(|it| it["metadata"]["annotations"][SIGHTING].is_string())
        });
        let registered =
            EXPORTED.map(|name| scene.fleet.addresses(SHOP, name).into_iter().collect());
        let records = own.map(|it| exports_in(&it));
        Self { imports: imports.collect(), records, noted, registered }
    }

    /// Whether an import has a note of the guard.
    pub fn is_noted(&self) -> bool {
        self.noted.contains(&true)
    }

    // Policies: under another one than `sync` imports stand still, and no export ends.
    pub fn at_rest(&self, scene: &Scene) -> Result<(), String> {
        let policy = scene.world.settings.policy;
        let now = Self::of(scene);
        if policy == "sync" || !scene.world.clusterset.is_on {
            return Ok(());
        }
        if self.imports != now.imports {
            return Err(format!(
                "under {policy} imports were {:?}, now {:?}",
                self.imports, now.imports
            ));
        }
        for (was, now) in self.records.iter().zip(&now.records) {
            if !was.is_subset(now) {
                return Err(format!("under {policy} of records of {was:?} {now:?} are left"));
            }
        }
        Ok(())
    }

    // Guard: a full sync after which the imports of a cluster would have lost more than half of the endpoints of other
    // clusters, and more than the minimum, takes none out, and notes the loss on the import. Only a loss
    // of `amber` is looked at: that of the others may be judged, or excused, with their exports. The second of two syncs
    // weighs what came in the first one, too.
    pub fn is_guarded(
        &self,
        (first, are_two): (&Self, bool),
        rest: &Self,
        minimum: u32,
    ) -> Result<(), String> {
        for cluster in (0..CLUSTERS.len()).filter(|it| !self.noted[*it]) {
            let [before, after, left] =
                [self, first, rest].map(|it| [0, 1].map(|name| it.count(cluster, name)));
            let mut sum = 0;
            let mut total = 0;
            let mut is_of_amber = true;
            for (name, (before, left)) in before.iter().zip(&left).enumerate() {
                let (was, is): (usize, usize) = (before.values().sum(), left.values().sum());
                sum += was.saturating_sub(is);
                let came = after[name].iter().filter(|_| are_two);
                let came = came.map(|(of, now)| now.saturating_sub(*before.get(of).unwrap_or(&0)));
                let imported = self.pods(cluster, name);
                let coming = self.registered[name].iter().filter(|it| !imported.contains(&***it));
                let weight = was + came.sum::<usize>().max(coming.count());
                let weight = weight.max(1);
                let stands = |it: &Self| it.imports.contains_key(&(cluster, name));
                total += if stands(self) || are_two && stands(first) { weight } else { 0 };
                // Others may have come in the first sync, and left since.
                let mut others = before.iter().chain(&after[name]).filter(|(of, _)| *of != AMBER);
                is_of_amber &= others.all(|(of, was)| left.get(of) >= Some(was));
            }
            // Of one name that is still imported Cloud Map has answered for each endpoint, and amber exports no other.
            let is_excused = rest.imports.contains_key(&(cluster, 0));
            if is_excused || !is_of_amber || sum <= minimum as usize || 2 * sum <= total {
                continue;
            }
            let of = format!("of {sum} of {total} endpoints in imports of {}", CLUSTERS[cluster]);
            if after[0].get(AMBER) < before[0].get(AMBER) {
                return Err(format!(
                    "the guard does not hold the loss {of}: {before:?}, {after:?}"
                ));
            }
            if !first.noted[cluster] {
                return Err(format!("the guard holds the loss {of}, and notes it nowhere"));
            }
        }
        Ok(())
    }

    /// The addresses in an import.
    fn pods(&self, cluster: usize, name: usize) -> BTreeSet<&str> {
        let all = self.imports.get(&(cluster, name)).into_iter().flatten();
        all.flat_map(|(_, endpoints)| endpoints).filter_map(|it| it.split(':').next()).collect()
    }

    /// The number of endpoints in an import by their cluster, but for those of its own.
    fn count(&self, cluster: usize, name: usize) -> Counts {
        let all = self.imports.get(&(cluster, name)).into_iter().flatten();
        let own = address(cluster, 0);
        let counts = all.map(|(of, endpoints)| {
            let pods = endpoints.iter().filter_map(|it| it.split(':').next());
            let pods: BTreeSet<_> = pods.filter(|it| !it.starts_with(&own[..7])).collect();
            (of.clone(), pods.len())
        });
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

/// Numbers of endpoints by their cluster.
type Counts = BTreeMap<String, usize>;

/// The cluster of AWS's controller.
const AMBER: &str = "amber";

// Records: one for each export that counts, in the clusterset's own namespace, and one of the cluster.
fn records(scene: &Scene) -> Result<(), String> {
    for cluster in 0..CLUSTERS.len() {
        let all = scene.world.clusterset.exporters.iter();
        let counting =
            all.filter(|((of, _), it)| *of == cluster && it.is_exported && it.pods.is_some());
        let counting = counting.map(|((_, name), _)| EXPORTED[*name]);
        let annotated = annotated_of(&scene.world, cluster).map(|name| NAMES[name]);
        let wanted = counting.chain(annotated).map(str::to_owned).collect();
        let found = own_records(scene, cluster);
        same(&exports_in(&found), &wanted, "records of exports")?;
        same(&found.contains_key("cluster"), &true, "whether the cluster has its record")?;
    }
    Ok(())
}
