//! What a purge does to one import.

use serde_json::json;

use super::cluster::Cluster;
use super::world::{World, after, described};
use crate::import::plan::{AWS_DERIVED, Kind, OWNER_LABEL, Removal};
use crate::model::ServiceRef;

/// An import of ours; with an IP of AWS's controller if that serves it again.
fn imported(served_by_aws: bool) -> (World, Cluster) {
    let world = World::with_ports("http:80").exported("green", "10.0.0.1");
    let mut cluster = after(&world);
    if served_by_aws {
        cluster.object_mut(Kind::ServiceImport)["spec"]["ips"] = json!(["172.20.0.9"]);
    }
    (world, cluster)
}

fn removed(world: &World, cluster: &mut Cluster, of_aws: &[&str], is_back: bool) -> String {
    let (present, service) = (cluster.present(), ServiceRef::new("shop", "web"));
    let removal = Removal {
        owner: &world.owner,
        service: &service,
        present: &present,
        of_aws: of_aws.iter().map(|name| (format!("of {name}"), (*name).to_owned())).collect(),
        is_back,
    };
    let plan = removal.plan();
    cluster.carry_out(&plan, |_| ());
    described(&plan)
}

#[test]
fn import_is_deleted_handed_over_or_held_back() {
    let handed_over = "\
        ~ ServiceImport web: annotations\n\
        ~ ServiceImport web: handed over to AWS's controller\n\
        - Service derived-isrlchlhrq: its cluster is purged\n\
        - EndpointSlice imported-isrlchlhrq-8de69181-1: its cluster is purged";
    let deleted = "- ServiceImport web: its cluster is purged";
    // Whether AWS's controller is back, its Services, and whether its IPs are on the import.
    let cases: [(bool, &[&str], bool, &str); 6] = [
        (false, &[], false, deleted),
        (false, &["imported-a"], false, "! ServicesOfAws: "),
        (true, &[], false, "! NotTakenBack: "),
        (true, &["imported-a"], false, "! NotTakenBack: "),
        (true, &["imported-a"], true, handed_over),
        (true, &[], true, "! NotTakenBack: "),
    ];
    for (is_back, of_aws, served_by_aws, expected) in cases {
        let (world, mut cluster) = imported(served_by_aws);
        let lines = removed(&world, &mut cluster, of_aws, is_back);
        assert!(lines.contains(expected), "{is_back} {of_aws:?} {served_by_aws}: {lines}");
        assert_eq!(lines.lines().count(), expected.lines().count(), "{lines}");
    }
}

#[test]
fn what_is_handed_over_is_as_awss_controller_makes_it() {
    let (world, mut cluster) = imported(true);
    removed(&world, &mut cluster, &["imported-b", "imported-a"], true);
    let import = cluster.object(Kind::ServiceImport);
    assert_eq!(import["metadata"]["labels"].get(OWNER_LABEL), None, "{import:#}");
    let list = r#"[{"cluster":"of imported-a","derived-service":"imported-a"},{"cluster":"of imported-b","derived-service":"imported-b"}]"#;
    assert_eq!(import["metadata"]["annotations"], json!({AWS_DERIVED: list}));
    assert_eq!(cluster.objects.len(), 1);
}

#[test]
fn foreign_objects_stay() {
    let (world, mut cluster) = imported(false);
    for object in cluster.objects.values_mut() {
        object["metadata"]["labels"][OWNER_LABEL] = json!("another");
    }
    let before = cluster.clone();
    removed(&world, &mut cluster, &[], false);
    assert_eq!(cluster, before);
}
