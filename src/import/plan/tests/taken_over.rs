//! The ServiceImport of AWS's controller: foreign until a person lets the function take it over.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::world::World;
use crate::import::plan::{AWS_DERIVED, Kind, NamespaceState, OWNER_LABEL};

/// The cluster with a ServiceImport as AWS's controller makes it.
fn of_aws() -> Cluster {
    let mut cluster = Cluster::default();
    let import = json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "uid-of-aws", "resourceVersion": "1",
            "annotations": {AWS_DERIVED: "[]"},
        },
        "spec": {
            "type": "Headless", "ips": ["172.20.0.9"],
            "ports": [{"name": "http", "protocol": "TCP", "port": 80}],
        },
        "status": {"clusters": [{"cluster": "green"}]},
    });
    cluster.objects.insert((Kind::ServiceImport, "web".to_owned()), import);
    cluster
}

fn web() -> World {
    World::with_ports("http:80").exported("green", "10.0.0.1")
}

fn taking_over(world: World) -> World {
    World { takes_over: true, ..world }
}

#[test]
fn it_is_foreign_in_a_sync() {
    let mut cluster = of_aws();
    let before = cluster.clone();
    assert_snapshot!(web().synced(&mut cluster), @"! ForeignObject: ServiceImport shop/web is not ours: another writer created it; if it is not needed: kubectl delete serviceimports.multicluster.x-k8s.io web --namespace shop");
    assert_eq!(cluster, before);
}

#[test]
fn it_stays_foreign_in_an_excluded_namespace() {
    for world in [web(), web().unexported("green")] {
        let world = World { namespace: NamespaceState::Excluded, ..taking_over(world) };
        let planned = world.planned(&of_aws());
        assert!(planned.starts_with("! NamespaceExcluded: "), "{planned}");
    }
}

/// The old IP leads to endpoints until the new one does.
#[test]
fn it_gets_the_label_first_and_the_new_ip_after_the_endpoints() {
    let mut cluster = of_aws();
    assert_snapshot!(taking_over(web()).synced(&mut cluster), @"
    ~ ServiceImport web: taken over from AWS's controller
    + Service derived-isrlchlhrq: IPv4, http:80/TCP
    + EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 1 in
    ~ ServiceImport web: annotations.multicluster.kubernetes.io/derived-service, ipFamilies, type, ips
    ~ ServiceImport web status: Ready True/Ready, from green
    ");
    let import = cluster.object(Kind::ServiceImport);
    assert_eq!(import["metadata"]["labels"][OWNER_LABEL], "cloud-map-sync");
    assert_eq!(import["metadata"]["annotations"][AWS_DERIVED], "[]");
    assert_eq!(import["metadata"]["uid"], "uid-of-aws");
    for world in [web(), taking_over(web())] {
        assert_eq!(world.planned(&cluster), "nothing");
    }
}

/// An adoption deletes nothing: the next sync ends the import, under its guard.
#[test]
fn one_that_no_cluster_exports_gets_the_label_alone() {
    let planned = taking_over(web().unexported("green")).planned(&of_aws());
    assert_eq!(planned, "~ ServiceImport web: taken over from AWS's controller");
}

/// The endpoints of a member that was not read are in slices of AWS's controller, which its IPs alone lead to.
#[test]
fn it_is_not_taken_over_unless_every_member_was_read() {
    let planned = taking_over(web().exported("red", "10.0.0.2").unread("green")).planned(&of_aws());
    assert_eq!(planned, "! Unreadable: not every member could be read: adopt it again");
}

#[test]
fn import_of_anyone_else_is_not_taken_over() {
    let mut cluster = of_aws();
    cluster.object_mut(Kind::ServiceImport)["metadata"]["annotations"] = Value::Null;
    let before = cluster.clone();
    let planned = taking_over(web()).synced(&mut cluster);
    assert!(planned.contains("ForeignObject"), "{planned}");
    assert_eq!(cluster, before);
}
