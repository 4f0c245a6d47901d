//! Exports and imports: Services that are exported, and all that a person or another client does to what stands there.

use std::collections::BTreeSet;

use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::json;
use tokio::task::spawn_local;

use super::super::clusterset::{EXPORTED, Exporter, IMPORTS_ALONE, Life, OTHER_REGION, foreign};
use super::super::oracle::clusterset::{derived, has_records};
use super::super::play::Scene;
use super::super::world::{CLUSTERS, NAMES, SHOP};
use super::{Move, Table};
use crate::fleet::OTHER_ACCOUNT;
use crate::multi_cluster::{CLUSTER_ID, CLUSTERSET, IMPORT, MANAGED_BY, slices};
use testbed::ACCOUNT;
use testbed::cloud_map::{NamespaceKind, ServiceKind};
use testbed::function::TIMEOUT;
use testbed::kubernetes::{Export, Fault, FaultKind};

/// Both clusters in a Region whose Cloud Map has nothing of theirs.
const ELSEWHERE: &str = r#"[{"cluster": "blue", "registryRegion": "us-east-1"}, {"cluster": "green", "registryRegion": "us-east-1"}]"#;

pub fn table() -> Table {
    kinds! {
        12 service_is_exported();
        12 pods_change();
        3 export_ends_or_returns();
        2 exported_service_is_deleted();
        4 pods_of_amber_change();
    }
}

/// What happens besides to a clusterset that the function has served.
pub fn of_others() -> Table {
    kinds! {
        1 import_is_deleted();
        3 import_is_edited();
        3 derived_service_is_deleted();
        2 slice_is_edited();
        2 slice_loses_a_label();
        3 server_is_upgraded();
        3 definitions_leave();
        2 definitions_return();
        2 second_namespace_is_shared();
        2 empty_service_is_deleted();
        3 services_are_uncounted();
        2 services_are_counted();
        2 cluster_id_changes();
        2 fields_are_refused();
        1 other_cloud_map_is_shown();
        1 green_imports_alone();
    }
}

/// What comes into the way of imports.
pub fn obstacles() -> Table {
    kinds! {
        6 kubernetes_namespace_goes_on();
        6 object_of_another_client();
    }
}

/// What happens to Services that both flows have.
pub fn of_both() -> Table {
    kinds! { 6 annotated_service_is_exported(); }
}

fn annotated_service_is_exported() -> impl Strategy<Value = Move> {
    (0..CLUSTERS.len(), 0..NAMES.len()).prop_map(|(cluster, name)| {
        let title = NAMES[name];
        let sentence = format!("{}/{title} is exported, too, or not any more", CLUSTERS[cluster]);
        Move::new(sentence, move |scene| {
            let annotated = &mut scene.world.clusterset.annotated;
            if annotated.remove(&(cluster, name)) {
                scene.cluster(cluster).unexport(SHOP, title);
            } else {
                annotated.insert((cluster, name));
                scene.cluster(cluster).put(Export::new(SHOP, title).into());
            }
        })
    })
}

fn place() -> impl Strategy<Value = (usize, usize)> {
    (0..CLUSTERS.len(), 0..EXPORTED.len())
}

fn named((cluster, name): (usize, usize)) -> String {
    format!("{}/{}", CLUSTERS[cluster], EXPORTED[name])
}

/// Often all pods are replaced at once.
fn pods() -> impl Strategy<Value = BTreeSet<u8>> {
    let sets = prop_oneof![
        1 => subsequence(vec![1, 2, 3, 4], 0..=4),
        1 => select(vec![vec![1], vec![2], vec![3], vec![1, 2], vec![3, 4]]),
    ];
    sets.prop_map(|it| it.into_iter().collect())
}

fn exporter() -> impl Strategy<Value = Exporter> {
    let rarely = || prop::bool::weighted(0.2);
    let http = prop_oneof![6 => Just(80_u16), 1 => Just(81)];
    let pods = option::weighted(0.9, pods());
    let flags = (rarely(), rarely(), rarely(), rarely());
    (0..4_u8, flags, http, pods, prop::bool::weighted(0.8)).prop_map(
        |(
            created,
            (is_headless, has_more_ports, is_sticky, prefers_zone),
            http,
            pods,
            is_exported,
        )| Exporter {
            created,
            is_headless,
            http,
            has_more_ports,
            is_sticky,
            prefers_zone,
            pods,
            is_exported,
        },
    )
}

impl Scene {
    pub fn change_exporter(&mut self, place: (usize, usize), change: impl FnOnce(&mut Exporter)) {
        let clusterset = &mut self.world.clusterset;
        let exporter = clusterset.exporters.get_mut(&place);
        let Some(exporter) = exporter.filter(|_| clusterset.lives[place.0] == Life::Active) else {
            return;
        };
        change(exporter);
        self.world.clusterset.project(place, self.cluster(place.0));
    }
}

/// A Service keeps its kind, and an export its age.
fn service_is_exported() -> impl Strategy<Value = Move> {
    (place(), exporter()).prop_map(|(place, exporter)| {
        Move::new(format!("{} is {exporter:?}", named(place)), move |scene| {
            let clusterset = &mut scene.world.clusterset;
            if clusterset.lives[place.0] != Life::Active {
                return;
            }
            let there = clusterset.exporters.entry(place).or_insert_with(|| exporter.clone());
            let created = there.created;
            let is_headless = there.is_headless;
            let new = Exporter { created, is_headless, ..exporter.clone() };
            scene.change_exporter(place, |it| *it = new);
        })
    })
}

fn pods_change() -> impl Strategy<Value = Move> {
    (place(), pods()).prop_map(|(place, pods)| {
        Move::new(format!("{} has pods {pods:?}", named(place)), move |scene| {
            scene.change_exporter(place, |it| it.pods = Some(pods.clone()));
        })
    })
}

fn export_ends_or_returns() -> impl Strategy<Value = Move> {
    place().prop_map(|place| {
        Move::new(format!("the export of {} goes, or comes back", named(place)), move |scene| {
            scene.change_exporter(place, |it| it.is_exported = !it.is_exported);
        })
    })
}

fn exported_service_is_deleted() -> impl Strategy<Value = Move> {
    place().prop_map(|place| {
        Move::new(format!("{} is deleted, but not its export", named(place)), move |scene| {
            scene.change_exporter(place, |it| it.pods = None);
        })
    })
}

fn pods_of_amber_change() -> impl Strategy<Value = Move> {
    pods().prop_map(|pods| {
        Move::new(format!("amber/{} has pods {pods:?}", EXPORTED[0]), move |scene| {
            scene.world.clusterset.set_amber(&scene.fleet, pods.clone());
        })
    })
}

/// Its derived Service and slices go with it, or are made orphans (`--cascade=orphan`).
fn import_is_deleted() -> impl Strategy<Value = Move> {
    (place(), any::<bool>()).prop_map(|(place, are_left)| {
        let left = if are_left { ", and leaves what it owns" } else { "" };
        let sentence = format!("a person deletes ServiceImport {}{left}", named(place));
        Move::new(sentence, move |scene| {
            if scene.has_foreign(place) {
                return;
            }
            let server = scene.cluster(place.0).clone();
            let name = EXPORTED[place.1];
            let derived = derived(&server, name).and_then(|it| server.service_object(SHOP, &it));
            if are_left {
                for mut object in derived.into_iter().chain(slices(&server, name)) {
                    object["metadata"]["ownerReferences"] = json!([]);
                    server.put(object);
                }
                scene.imports.leave_behind(place);
            } else {
                scene.imports.unsettle(place.1);
            }
            server.delete("serviceimports", SHOP, name);
        })
    })
}

fn import_is_edited() -> impl Strategy<Value = Move> {
    place().prop_map(|place| {
        let sentence = format!("a person writes other ports into ServiceImport {}", named(place));
        Move::new(sentence, move |scene| {
            let server = scene.cluster(place.0);
            let import = server.service_import(SHOP, EXPORTED[place.1]);
            let Some(mut import) = import.filter(|_| !scene.has_foreign(place)) else { return };
            import["spec"]["ports"] = json!([{"name": "by-hand", "port": 7, "protocol": "TCP"}]);
            import["spec"]["sessionAffinity"] = "ClientIP".into();
            server.put(import);
        })
    })
}

fn derived_service_is_deleted() -> impl Strategy<Value = Move> {
    place().prop_map(|place| {
        let sentence = format!("a person deletes the derived Service of {}", named(place));
        Move::new(sentence, move |scene| {
            let server = scene.cluster(place.0);
            let derived = derived(server, EXPORTED[place.1]);
            if let Some(derived) = derived.filter(|_| !scene.has_foreign(place)) {
                server.delete_service(SHOP, &derived);
                scene.imports.unsettle_derived(place.1);
            }
        })
    })
}

fn slice_is_edited() -> impl Strategy<Value = Move> {
    place().prop_map(|place| {
        let sentence = format!("a person adds an endpoint to a slice of import {}", named(place));
        Move::new(sentence, move |scene| {
            let server = scene.cluster(place.0);
            let mut slices = slices(server, EXPORTED[place.1]).into_iter();
            let Some(mut slice) = slices.next() else { return };
            let endpoints = slice["endpoints"].as_array_mut().expect("endpoints");
            endpoints.push(json!({"addresses": ["10.9.9.9"], "conditions": {"ready": true}}));
            server.put(slice);
        })
    })
}

/// Without `managed-by` other controllers may take the slice for theirs; without the other one it is of no import.
fn slice_loses_a_label() -> impl Strategy<Value = Move> {
    let labels = select(&[MANAGED_BY, IMPORT][..]);
    (place(), labels).prop_map(|(place, label)| {
        let sentence = format!("a person takes {label} from a slice of import {}", named(place));
        Move::new(sentence, move |scene| {
            let server = scene.cluster(place.0).clone();
            let mut slices = slices(&server, EXPORTED[place.1]).into_iter();
            let Some(mut slice) = slices.next() else { return };
            scene.imports.unsettle(place.1);
            slice["metadata"]["labels"].as_object_mut().expect("labels").remove(label);
            server.put(slice);
        })
    })
}

/// Or downgraded: before 1.33 an API server refuses a value that others have.
fn server_is_upgraded() -> impl Strategy<Value = Move> {
    (0..CLUSTERS.len(), select(&[32_u32, 33][..])).prop_map(|(cluster, minor)| {
        let sentence = format!("the API server of {} has version 1.{minor}", CLUSTERS[cluster]);
        Move::new(sentence, move |scene| scene.cluster(cluster).set_minor_version(minor))
    })
}

fn definitions_leave() -> impl Strategy<Value = Move> {
    (0..CLUSTERS.len()).prop_map(|cluster| {
        let sentence =
            format!("the definitions of exports and imports leave {}", CLUSTERS[cluster]);
        Move::new(sentence, move |scene| {
            scene.world.clusterset.lacks_definitions[cluster] = true;
            scene.cluster(cluster).serve_multi_cluster_versions(&[]);
        })
    })
}

fn definitions_return() -> impl Strategy<Value = Move> {
    (0..CLUSTERS.len()).prop_map(|cluster| {
        let sentence = format!("{} defines exports and imports again", CLUSTERS[cluster]);
        Move::new(sentence, move |scene| scene.serve_definitions(cluster))
    })
}

/// Without records there is nothing by which the right one of two namespaces is known.
fn second_namespace_is_shared() -> impl Strategy<Value = Move> {
    (0..CLUSTERS.len()).prop_map(|cluster| {
        let name = format!("clusterset.{CLUSTERSET}");
        let id = CLUSTERS[cluster];
        let sentence = format!("another account shares a second {name} with a service of {id}");
        Move::new(sentence, move |scene| {
            let clusterset = &scene.world.clusterset;
            let is_uncertain = clusterset.has_second_namespace || clusterset.has_lost_records;
            if is_uncertain || !has_records(scene) {
                return;
            }
            scene.world.clusterset.has_second_namespace = true;
            let cloud_map = &scene.fleet.cloud_map;
            let second = cloud_map.shared_namespace(&name, NamespaceKind::Http, OTHER_ACCOUNT);
            cloud_map.service(&second, id, ServiceKind::Http);
        })
    })
}

/// The service of `amber` stays.
fn empty_service_is_deleted() -> impl Strategy<Value = Move> {
    (0..CLUSTERS.len()).prop_map(|cluster| {
        let place = (cluster, 1);
        let sentence = format!(
            "{} has no pods any more and is synced, and another party deletes its service if it is empty",
            named(place)
        );
        Move::new(sentence, move |scene| {
            scene.change_exporter(place, |it| it.pods = Some(BTreeSet::new()));
            let process = scene.processes[cluster].clone();
            let cloud_map = scene.fleet.cloud_map.clone();
            let run = spawn_local(async move {
                drop(Box::pin(process.invoke(&json!({ "action": "sync" }), TIMEOUT)).await);
                let service = cloud_map.find_service(SHOP, EXPORTED[1]);
                if let Some(service) = service.filter(|it| cloud_map.instances(it).is_empty()) {
                    cloud_map.remove_service(&service);
                }
            });
            scene.runs.push((cluster, run));
        })
    })
}

fn services_are_uncounted() -> impl Strategy<Value = Move> {
    select(&[SHOP, "clusterset.shop-set"][..]).prop_map(|namespace| {
        let sentence = format!("the lists count no instance in the services of {namespace}");
        Move::new(sentence, move |scene| scene.behave(|it| it.uncounted = namespace))
    })
}

fn services_are_counted() -> impl Strategy<Value = Move> {
    Just(Move::new("the lists count all instances", |scene| scene.behave(|it| it.uncounted = "")))
}

/// To another id, to the one of the other cluster, to none, or to one that is none.
fn cluster_id_changes() -> impl Strategy<Value = Move> {
    let ids = prop_oneof![
        select(&["azure", "lime"][..]).prop_map(Some),
        select(&CLUSTERS[..]).prop_map(Some),
        Just(Some("No id")),
        Just(None),
    ];
    (0..CLUSTERS.len(), ids).prop_map(|(cluster, id)| {
        let sentence = format!("the cluster id of {} is {id:?}", CLUSTERS[cluster]);
        Move::new(sentence, move |scene| {
            let Some(id) = id else {
                scene.cluster(cluster).delete("clusterproperties", "", CLUSTER_ID);
                return;
            };
            // Records under another id have no place in a second namespace.
            let is_free = !CLUSTERS.contains(&id) && id != "No id";
            if is_free && scene.world.clusterset.has_second_namespace {
                return;
            }
            scene.cluster(cluster).cluster_property(CLUSTER_ID, id);
        })
    })
}

fn fields_are_refused() -> impl Strategy<Value = Move> {
    let paths = select(&["/api/v1/namespaces", "/apis/discovery.k8s.io", "/apis/multicluster"][..]);
    let methods = select(&["POST", "PATCH"][..]);
    (0..CLUSTERS.len(), paths, methods, 1..6_usize).prop_map(|(cluster, path, method, times)| {
        let name = CLUSTERS[cluster];
        let sentence = format!("{name} refuses {times} {method} requests below {path} with 422");
        Move::new(sentence, move |scene| {
            scene.world.clusterset.has_refused = true;
            let refused = Fault::once(path, FaultKind::Status(422)).of_method(method);
            scene.cluster(cluster).fail(Fault { times, ..refused });
        })
    })
}

/// Of exports alone: instances of annotated Services would be registered there, too.
fn other_cloud_map_is_shown() -> impl Strategy<Value = Move> {
    Just(Move::new("the function is deployed with the Cloud Map of another Region", move |scene| {
        let clusterset = &scene.world.clusterset;
        // Without its record a cluster is no member there either, and begins as one here.
        let is_known = !clusterset.has_lost_records && has_records(scene);
        let is_certain = scene.world.services.is_empty() && scene.runs.is_empty();
        // A cluster without imports becomes a member there, too: the function then believes what that Cloud Map lacks.
        let there = scene.fleet.sandbox.cloud_map_of(OTHER_REGION, ACCOUNT);
        let is_unknown_there = there.namespaces().is_empty();
        if is_known && is_certain && is_unknown_there && !clusterset.is_apart {
            scene.world.settings.clusters = ELSEWHERE;
            scene.deploy();
        }
    }))
}

fn green_imports_alone() -> impl Strategy<Value = Move> {
    Just(Move::new("the function is deployed so that green imports alone", |scene| {
        // What it imports without its record is confirmed once it exports.
        scene.world.clusterset.has_lost_records |= !has_records(scene);
        scene.world.settings.clusters = IMPORTS_ALONE;
        scene.deploy();
    }))
}

fn kubernetes_namespace_goes_on() -> impl Strategy<Value = Move> {
    (0..CLUSTERS.len()).prop_map(|cluster| {
        let state = "is being deleted, or else is gone, or else is back";
        let sentence = format!("the Kubernetes namespace of {} {state}", CLUSTERS[cluster]);
        Move::new(sentence, move |scene| scene.go_on(cluster))
    })
}

/// It comes where nothing of ours stands, or goes.
fn object_of_another_client() -> impl Strategy<Value = Move> {
    (place(), any::<bool>()).prop_map(|(place, is_import)| {
        let kind = if is_import { "ServiceImport" } else { "derived Service" };
        let sentence = format!("another client has the {kind} of {}, or none", named(place));
        Move::new(sentence, move |scene| {
            let server = scene.cluster(place.0).clone();
            let object = foreign(place.1, is_import);
            let clusterset = &mut scene.world.clusterset;
            if let Some(there) = clusterset.in_the_way.remove(&place) {
                server.delete_object(&there);
            } else if clusterset.lives[place.0] == Life::Active && server.find(&object).is_none() {
                clusterset.in_the_way.insert(place, server.put(object));
                scene.imports.unsettle_derived(place.1);
            }
        })
    })
}

impl Scene {
    /// Whether another client's object has the place of one of an import.
    fn has_foreign(&self, place: (usize, usize)) -> bool {
        self.world.clusterset.in_the_way.contains_key(&place)
    }

    /// The Kubernetes namespace of a cluster takes nothing new, then goes with all in it, and then is there again.
    pub fn go_on(&mut self, cluster: usize) {
        let server = self.cluster(cluster).clone();
        let clusterset = &mut self.world.clusterset;
        let life = &mut clusterset.lives[cluster];
        *life = match life {
            Life::Active => {
                server.terminate_namespace(SHOP);
                Life::Terminating
            }
            Life::Terminating => {
                server.delete("namespaces", "", SHOP);
                clusterset.exporters.retain(|(of, _), _| *of != cluster);
                clusterset.in_the_way.retain(|(of, _), _| *of != cluster);
                Life::Gone
            }
            Life::Gone => {
                server.namespace(SHOP);
                Life::Active
            }
        };
        for name in 0..EXPORTED.len() {
            self.imports.unsettle(name);
            self.imports.unsettle_derived(name);
        }
        self.events = self.events();
    }
}
