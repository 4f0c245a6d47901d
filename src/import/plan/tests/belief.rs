//! An endpoint leaves an import only if the exports of its cluster were read completely.

use insta::assert_snapshot;
use serde_json::json;

use super::cluster::Cluster;
use super::world::{World, after, cluster, slices};
use crate::import::plan::{Kind, Read, Sources};
use crate::model::Family;

fn both() -> World {
    World::with_ports("http:80").exported("green", "10.0.0.1").exported("red", "10.0.0.2")
}

fn green(ports: &str, addresses: &str) -> World {
    World::with_ports(ports).exported("green", addresses)
}

#[test]
fn unread_cluster_keeps_its_endpoints() {
    let mut present = after(&both());
    let world = green("http:80", "10.0.0.3").unread("red");
    assert_snapshot!(world.synced(&mut present), @"~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 1 in 1 out");
    assert_snapshot!(slices(&present), @"
    imported-isrlchlhrq-8de69181-1: 10.0.0.3
    imported-isrlchlhrq-a893d503-1: 10.0.0.2
    ");
    assert_snapshot!(green("http:80", "10.0.0.3").unexported("red").synced(&mut present), @"
    - EndpointSlice imported-isrlchlhrq-a893d503-1: IPv4 of red, 1 out
    ~ ServiceImport web status: Ready True/Ready, from green
    ");
}

#[test]
fn type_and_properties_wait_for_the_unread_cluster() {
    let mut present = after(&both());
    let mut world = green("web:80 https:443", "10.0.0.1").headless().families(&[Family::V6]);
    world.merged_mut().properties.traffic_distribution = Some("PreferClose".to_owned());
    let unread = world.clone().unread("red");
    assert_snapshot!(unread.synced(&mut present), @"
    ~ Service derived-isrlchlhrq: ports
    ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, ports
    ~ ServiceImport web: ports
    ");
    assert_snapshot!(world.unexported("red").planned(&present), @"
    ~ ServiceImport web: annotations.multicluster.kubernetes.io/derived-service, ipFamilies, ips, ports, trafficDistribution, type
    - Service derived-isrlchlhrq: no import uses it
    - EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 1 out
    - EndpointSlice imported-isrlchlhrq-a893d503-1: IPv4 of red, 1 out
    ~ ServiceImport web status: Ready True/Ready, from green
    ");
}

#[test]
fn labels_and_annotations_wait_for_the_unread_cluster() {
    let labelled = |value: &str| {
        let mut world = both();
        let properties = &mut world.merged_mut().properties;
        properties.labels = [("team".to_owned(), value.to_owned())].into();
        properties.annotations = [("owner".to_owned(), value.to_owned())].into();
        world
    };
    let present = after(&labelled("old"));
    assert_eq!(labelled("new").unread("red").planned(&present), "nothing");
    assert_snapshot!(labelled("new").planned(&present), @"~ ServiceImport web: annotations.owner, labels.team");
}

#[test]
fn headless_import_without_families_loses_only_what_was_read() {
    let world = || both().headless().families(&[]);
    let present = after(&world());
    assert_snapshot!(world().unexported("green").unread("red").planned(&present), @"~ ServiceImport web status: Ready True/Ready, from red");
}

#[test]
fn member_has_the_addresses_that_were_read_of_it_whole_or_held() {
    let mut world = both().unread("red");
    let has = |world: &World, name: &str, address: &str| {
        world.sources.absent(&cluster(name), address.parse().expect("an address")).is_none()
    };
    assert!(has(&world, "green", "10.0.0.1"));
    assert!(!has(&world, "green", "10.0.0.2") && !has(&world, "red", "10.0.0.2"));
    assert!(!has(&world, "blue", "10.0.0.1"));
    let Some(Read::Whole(green)) = world.sources.by_cluster.remove(&cluster("green")) else {
        panic!("it was read")
    };
    world.sources.by_cluster.insert(cluster("green"), Read::Held(green));
    assert!(has(&world, "green", "10.0.0.1") && !has(&world, "green", "10.0.0.2"));
}

#[test]
fn unnamed_port_waits_for_the_unread_cluster() {
    let world = World::with_ports(":80").exported("green", "10.0.0.1").exported("red", "10.0.0.2");
    let present = after(&world);
    assert_eq!(green("tcp-80:80 https:443", "10.0.0.1").unread("red").planned(&present), "nothing");
}

#[test]
fn import_stays_while_one_of_its_clusters_is_unread() {
    let mut present = after(&both());
    assert_snapshot!(both().unexported("green").unread("red").synced(&mut present), @"
    - EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 1 out
    ~ ServiceImport web status: Ready True/Ready, from red
    ");
    assert_snapshot!(both().unexported("green").unexported("red").planned(&present), @"- ServiceImport web: no cluster exports it; the last were red");
}

/// A cluster without a part in the import may have exported the name since.
#[test]
fn import_keeps_its_ip_until_all_that_may_export_it_was_read() {
    let present = after(&green("http:80", "10.0.0.1"));
    let ended = green("http:80", "").unexported("green");
    let mut unread = ended.clone();
    unread.sources.is_read = false;
    let without_endpoints = unread.planned(&present);
    assert_snapshot!(without_endpoints, @"
    - EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 1 out
    ~ ServiceImport web status: Ready True/Ready, from 
    ");
    assert_eq!(ended.clone().unread("red").planned(&present), without_endpoints);
    assert_snapshot!(ended.planned(&present), @"- ServiceImport web: no cluster exports it; the last were green");
}

#[test]
fn import_that_was_never_completed_ends_only_if_all_clusters_were_read() {
    let mut present = after(&green("http:80", ""));
    present.object_mut(Kind::ServiceImport)["status"].take();
    let world = green("http:80", "").unexported("green");
    assert_eq!(world.clone().unread("red").planned(&present), "nothing");
    assert_snapshot!(world.planned(&present), @"- ServiceImport web: no cluster exports it");
}

#[test]
fn cluster_that_is_not_listed_is_unread_unless_the_list_is_complete() {
    let present = after(&both());
    let mut world = both().unexported("red");
    world.sources.by_cluster.remove(&cluster("red"));
    world.sources.is_complete = false;
    assert_eq!(world.planned(&present), "nothing");
    world.sources.is_complete = true;
    assert_snapshot!(world.planned(&present), @"
    - EndpointSlice imported-isrlchlhrq-a893d503-1: IPv4 of red, 1 out
    ~ ServiceImport web status: Ready True/Ready, from green
    ");
    let nothing_known = World { merged: None, sources: Sources::default(), ..both() };
    assert_eq!(nothing_known.planned(&present), "nothing");
}

#[test]
fn objects_without_an_import_stay_while_their_cluster_is_unread() {
    let mut present = after(&both());
    present.objects.retain(|(kind, _), _| *kind != Kind::ServiceImport);
    let world = both().unexported("green").unread("red");
    assert_eq!(world.planned(&present), "nothing");
    // The new import becomes their owner, or garbage collection would remove them.
    assert_snapshot!(both().unread("red").synced(&mut present), @"
    + ServiceImport web: ClusterSetIP, http:80/TCP
    ~ Service derived-isrlchlhrq: ownerReferences
    ~ EndpointSlice imported-isrlchlhrq-a893d503-1: IPv4 of red, ownerReferences
    ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, ownerReferences
    ~ ServiceImport web: ips
    ~ ServiceImport web status: Ready True/Ready, from green, red
    ");
    present.collect_garbage();
    assert_snapshot!(slices(&present), @"
    imported-isrlchlhrq-8de69181-1: 10.0.0.1
    imported-isrlchlhrq-a893d503-1: 10.0.0.2
    ");
}

/// Only the import shows the exported families.
#[test]
fn import_without_a_family_of_the_cluster_waits_for_the_unread_cluster() {
    let mut present = after(&green("http:80", "fd00::1").families(&[Family::V6]));
    present.objects.retain(|(kind, _), _| *kind != Kind::Service);
    let mut world = green("http:80", "").unread("green");
    world.available = vec![Family::V4];
    world.sync(&mut present);
    assert_eq!(world.plan(&present).held_back.len(), 1);
    assert_eq!(present.object(Kind::ServiceImport)["spec"]["ipFamilies"], json!(["IPv6"]));
}

#[test]
fn slice_without_its_label_may_be_of_a_cluster_that_is_not_known() {
    let mut present = after(&green("http:80", "10.0.0.1"));
    let slice = present.object_mut(Kind::EndpointSlice);
    let labels = slice["metadata"]["labels"].as_object_mut().expect("labels");
    labels.remove("multicluster.kubernetes.io/source-cluster");
    let mut world = green("http:80", "").unexported("green");
    world.sources.is_complete = false;
    assert_eq!(world.planned(&present), "nothing");
    let mut other = green("http:80", "").headless();
    other.sources.is_complete = false;
    other.sync(&mut present);
    assert_eq!(present.object(Kind::ServiceImport)["spec"]["type"], "ClusterSetIP");
    world.sources.is_complete = true;
    assert_snapshot!(world.planned(&present), @"- ServiceImport web: no cluster exports it; the last were green");
}

#[test]
fn export_whose_endpoints_are_unread_is_imported_without_them() {
    let mut world = both();
    world.sources.by_cluster.insert(cluster("red"), crate::import::plan::Read::Unread);
    let mut present = Cluster::default();
    assert_snapshot!(world.synced(&mut present), @"
    + ServiceImport web: ClusterSetIP, http:80/TCP
    + Service derived-isrlchlhrq: IPv4, http:80/TCP
    + EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 1 in
    ~ ServiceImport web: ips
    ~ ServiceImport web status: Ready True/Ready, from green, red
    ");
    assert_snapshot!(slices(&present), @"imported-isrlchlhrq-8de69181-1: 10.0.0.1");
}

#[test]
fn labels_of_an_unread_clusters_slice_are_repaired() {
    let mut cluster = after(&both());
    let of_red = |object: &serde_json::Value| {
        object["metadata"]["labels"]["multicluster.kubernetes.io/source-cluster"] == "red"
    };
    let slice = cluster.objects.values_mut().find(|it| of_red(it)).expect("a slice of red");
    slice["metadata"]["labels"]["kubernetes.io/service-name"] = "another".into();
    assert_snapshot!(both().unread("red").planned(&cluster), @"~ EndpointSlice imported-isrlchlhrq-a893d503-1: IPv4 of red, labels.kubernetes.io/service-name");
}
