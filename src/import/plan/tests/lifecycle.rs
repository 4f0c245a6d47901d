//! An import from its first endpoint to its end.

use insta::assert_snapshot;
use serde_json::json;

use super::cluster::Cluster;
use super::world::{World, after, described};
use crate::import::plan::{Kind, NamespaceState};

fn web() -> World {
    World::with_ports("http:80").exported("green", "10.0.0.1 10.0.0.2")
}

#[test]
fn new_import_gets_its_ips_after_the_derived_service() {
    let mut cluster = Cluster::default();
    assert_snapshot!(web().synced(&mut cluster), @"
    + ServiceImport web: ClusterSetIP, http:80/TCP
    + Service derived-isrlchlhrq: IPv4, http:80/TCP
    + EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 2 in
    ~ ServiceImport web: ips
    ~ ServiceImport web status: Ready True/Ready, from green
    ");
    assert_eq!(web().planned(&cluster), "nothing");
    let ips = |kind: Kind, key: &str| cluster.object(kind)["spec"][key].clone();
    assert_eq!(ips(Kind::ServiceImport, "ips"), ips(Kind::Service, "clusterIPs"));
}

#[test]
fn new_headless_import_has_no_service() {
    let mut cluster = Cluster::default();
    assert_snapshot!(web().headless().synced(&mut cluster), @"
    + ServiceImport web: Headless, http:80/TCP
    + EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 2 in
    ~ ServiceImport web status: Ready True/Ready, from green
    ");
}

#[test]
fn import_without_endpoints_has_an_ip() {
    let mut cluster = Cluster::default();
    assert_snapshot!(World::with_ports("http:80").exported("green", "").synced(&mut cluster), @"
    + ServiceImport web: ClusterSetIP, http:80/TCP
    + Service derived-isrlchlhrq: IPv4, http:80/TCP
    ~ ServiceImport web: ips
    ~ ServiceImport web status: Ready True/Ready, from green
    ");
}

#[test]
fn changed_endpoints_are_one_patch() {
    let mut cluster = after(&web());
    let mut world = World::with_ports("http:80").exported("green", "10.0.0.2 10.0.0.3 10.0.0.4");
    world.endpoints_mut("green")[0].ready = false;
    assert_snapshot!(world.synced(&mut cluster), @"~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 2 in 1 out 1 changed");
}

#[test]
fn new_port_is_added_before_and_removed_after_its_endpoints() {
    let mut cluster = after(&web());
    let more = World::with_ports("http:80 https:443").exported("green", "10.0.0.1 10.0.0.2");
    assert_snapshot!(more.synced(&mut cluster), @"
    ~ Service derived-isrlchlhrq: ports
    ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, ports
    ~ ServiceImport web: ports
    ");
    assert_snapshot!(web().synced(&mut cluster), @"
    ~ ServiceImport web: ports
    ~ Service derived-isrlchlhrq: ports
    ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, ports
    ");
}

#[test]
fn endpoint_that_moves_to_another_cluster_is_in_before_it_is_out() {
    let mut cluster = after(&web().exported("red", "10.0.0.3"));
    let world = World::with_ports("http:80").exported("green", "10.0.0.2 10.0.0.4");
    assert_snapshot!(world.exported("red", "10.0.0.1 10.0.0.3").synced(&mut cluster), @"
    ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 1 in
    ~ EndpointSlice imported-isrlchlhrq-a893d503-1: IPv4 of red, 1 in
    ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 1 out
    ");
}

#[test]
fn cluster_that_ends_its_export_leaves_last() {
    let mut cluster = after(&web().exported("red", "10.0.0.3"));
    assert_snapshot!(web().unexported("red").synced(&mut cluster), @"
    - EndpointSlice imported-isrlchlhrq-a893d503-1: IPv4 of red, 1 out
    ~ ServiceImport web status: Ready True/Ready, from green
    ");
}

#[test]
fn ended_export_deletes_the_import_alone() {
    let mut cluster = after(&web());
    let world = web().unexported("green");
    assert_snapshot!(world.synced(&mut cluster), @"- ServiceImport web: no cluster exports it; the last were green");
    cluster.collect_garbage();
    assert_eq!(cluster.objects.len(), 0);
    assert_eq!(world.planned(&cluster), "nothing");
}

/// A person deleted the import before, and these objects were left over.
#[test]
fn objects_that_the_import_does_not_own_are_deleted_with_it() {
    let mut cluster = after(&web());
    for ((kind, _), object) in &mut cluster.objects {
        if *kind != Kind::ServiceImport {
            object["metadata"]["ownerReferences"] = json!([]);
        }
    }
    assert_snapshot!(web().unexported("green").synced(&mut cluster), @"
    - Service derived-isrlchlhrq: no import uses it
    - EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 2 out
    - ServiceImport web: no cluster exports it; the last were green
    ");
    assert_eq!(cluster.objects.len(), 0);
}

#[test]
fn objects_without_an_import_are_deleted() {
    let mut cluster = after(&web());
    let world = web().unexported("green");
    world.sync(&mut cluster);
    assert_snapshot!(world.synced(&mut cluster), @"
    - Service derived-isrlchlhrq: no import uses it
    - EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 2 out
    ");
    assert_eq!(cluster.objects.len(), 0);
}

#[test]
fn deleted_import_is_made_again_and_owns_the_rest() {
    let mut cluster = after(&web());
    let ip = cluster.object(Kind::Service)["spec"]["clusterIPs"].clone();
    cluster.objects.retain(|(kind, _), _| *kind != Kind::ServiceImport);
    assert_snapshot!(web().synced(&mut cluster), @"
    + ServiceImport web: ClusterSetIP, http:80/TCP
    ~ Service derived-isrlchlhrq: ownerReferences
    ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, ownerReferences
    ~ ServiceImport web: ips
    ~ ServiceImport web status: Ready True/Ready, from green
    ");
    cluster.collect_garbage();
    assert_eq!(cluster.object(Kind::ServiceImport)["spec"]["ips"], ip);
    assert_eq!(web().planned(&cluster), "nothing");
}

/// Until blue is read, its slices keep the port names of the derived Service, whose IP clients use.
#[test]
fn deleted_import_with_an_unread_exporter_is_made_again_as_its_service_is() {
    let both = web().exported("blue", "10.0.0.9");
    let mut deleted = after(&both);
    deleted.objects.retain(|(kind, _), _| *kind != Kind::ServiceImport);
    let renamed = World::with_ports("web:80").exported("green", "10.0.0.1 10.0.0.2");
    for other in [renamed, web().headless()] {
        let mut cluster = deleted.clone();
        other.unread("blue").synced(&mut cluster);
        cluster.collect_garbage();
        assert_eq!(cluster.reachable(), deleted.reachable());
    }
}

#[test]
fn deleted_service_and_slice_are_made_again() {
    let mut cluster = after(&web());
    cluster.objects.retain(|(kind, _), _| *kind == Kind::ServiceImport);
    assert_snapshot!(web().synced(&mut cluster), @"
    + Service derived-isrlchlhrq: IPv4, http:80/TCP
    + EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 2 in
    ");
}

#[test]
fn import_that_becomes_headless_loses_its_service_last() {
    let mut cluster = after(&web());
    assert_snapshot!(web().headless().synced(&mut cluster), @"
    ~ ServiceImport web: annotations.multicluster.kubernetes.io/derived-service, ips, type
    - Service derived-isrlchlhrq: no import uses it
    ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, labels.kubernetes.io/service-name
    ");
    assert_eq!(cluster.object(Kind::ServiceImport)["spec"]["ips"], json!(null));
    assert_snapshot!(web().synced(&mut cluster), @"
    + Service derived-isrlchlhrq: IPv4, http:80/TCP
    ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, labels.kubernetes.io/service-name
    ~ ServiceImport web: annotations.multicluster.kubernetes.io/derived-service, type, ips
    ");
}

#[test]
fn terminating_objects_are_not_changed() {
    let ended = json!("2026-11-01T12:00:00Z");
    let mut cluster = after(&web());
    cluster.object_mut(Kind::EndpointSlice)["metadata"]["deletionTimestamp"] = ended.clone();
    assert_snapshot!(web().planned(&cluster), @"+ EndpointSlice imported-isrlchlhrq-8de69181-2: IPv4 of green, 2 in");
    cluster.object_mut(Kind::ServiceImport)["metadata"]["deletionTimestamp"] = ended;
    // Its slices serve until it is gone: a finalizer of another writer may hold it for long.
    let more = World::with_ports("http:80 https:443").exported("green", "10.0.0.1 10.0.0.2");
    assert_snapshot!(more.planned(&cluster), @"+ EndpointSlice imported-isrlchlhrq-8de69181-2: IPv4 of green, 2 in");
    let mut held = after(&web());
    held.object_mut(Kind::ServiceImport)["metadata"]["deletionTimestamp"] = json!("now");
    assert_snapshot!(web().unexported("green").planned(&held), @"- EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 2 out");
}

#[test]
fn nothing_is_made_without_a_living_namespace() {
    for namespace in [NamespaceState::Absent, NamespaceState::Terminating] {
        let world = World { namespace, ..web() };
        assert_eq!(world.planned(&Cluster::default()), "nothing");
        let gone = World { namespace, ..web().unexported("green") };
        assert_eq!(gone.planned(&after(&web())), "nothing");
    }
}

#[test]
fn in_an_excluded_namespace_nothing_is_made_or_changed_and_what_no_cluster_exports_goes() {
    let excluded = |world: World| World { namespace: NamespaceState::Excluded, ..world };
    let held = "! NamespaceExcluded: the cluster's admission policy excludes this namespace: nothing is created or changed there. \
         To import into it, take it out of excludedNamespaces in the policy of deploy/multi-cluster";
    let mut cluster = after(&web());
    let more = World::with_ports("http:80").exported("green", "10.0.0.2 10.0.0.3");
    assert_eq!(excluded(web()).planned(&Cluster::default()), held);
    assert_eq!(excluded(more).planned(&cluster), held);
    assert_eq!(excluded(web()).planned(&cluster), "nothing");
    let empty = World::with_ports("http:80").exported("green", "");
    assert_snapshot!(excluded(empty).planned(&cluster), @"- EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 2 out");
    let ended = excluded(web().unexported("green"));
    assert_snapshot!(ended.synced(&mut cluster), @"- ServiceImport web: no cluster exports it; the last were green");
    assert_snapshot!(ended.synced(&mut cluster), @"
    - Service derived-isrlchlhrq: no import uses it
    - EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 2 out
    ");
    assert_eq!(excluded(web().unread("green")).planned(&Cluster::default()), "nothing");
}

#[test]
fn name_that_no_object_can_have_is_held_back() {
    let mut world = web();
    world.service.name = "Web.Api".to_owned();
    assert_snapshot!(described(&world.plan(&Cluster::default())), @"! ImpossibleName: no Kubernetes object can have this name");
}
