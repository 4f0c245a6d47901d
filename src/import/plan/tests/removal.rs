//! The removal of an import by a purge.

use serde_json::json;

use super::cluster::Cluster;
use super::world::{World, after, described};
use crate::import::plan::{Kind, OWNER_LABEL, removal};
use crate::model::ServiceRef;

/// An import of ours.
fn imported() -> (World, Cluster) {
    let world = World::with_ports("http:80").exported("green", "10.0.0.1");
    let cluster = after(&world);
    (world, cluster)
}

fn removed(world: &World, cluster: &mut Cluster) -> String {
    let plan = removal(&world.owner, &ServiceRef::new("shop", "web"), &cluster.present());
    cluster.carry_out(&plan, |_| ());
    described(&plan)
}

#[test]
fn garbage_collection_takes_the_service_and_the_slices_with_the_import() {
    let (world, mut cluster) = imported();
    let deleted = "- ServiceImport web: its cluster is purged";
    assert_eq!(removed(&world, &mut cluster), deleted);
}

#[test]
fn service_and_slices_without_an_import_are_deleted() {
    let (world, mut cluster) = imported();
    cluster.objects.retain(|(kind, _), _| *kind != Kind::ServiceImport);
    let deleted = "\
        - Service derived-isrlchlhrq: its cluster is purged\n\
        - EndpointSlice imported-isrlchlhrq-8de69181-1: its cluster is purged";
    assert_eq!(removed(&world, &mut cluster), deleted);
    assert!(cluster.objects.is_empty());
}

#[test]
fn foreign_objects_stay() {
    let (world, mut cluster) = imported();
    for object in cluster.objects.values_mut() {
        object["metadata"]["labels"][OWNER_LABEL] = json!("another");
    }
    let before = cluster.clone();
    removed(&world, &mut cluster);
    assert_eq!(cluster, before);
}
