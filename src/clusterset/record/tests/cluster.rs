//! The record of a member.

use insta::assert_snapshot;

use super::*;
use crate::model::attributes::{CLUSTERSET, HEARTBEAT, SCHEMA};

fn cluster_record() -> ClusterRecord {
    ClusterRecord {
        owner: owner(),
        clusterset: ClustersetId::parse("shop").expect("an id"),
        heartbeat: Timestamp::from_second(1_767_225_600).expect("a time"),
        only_imports: false,
    }
}

#[test]
fn a_cluster_record_written_is_the_one_read() {
    let attributes = cluster_record().write();
    let lines = attributes.iter().map(|(key, value)| format!("{key} = {value}\n"));
    assert_snapshot!(lines.collect::<String>(), @r"
    cloud-map-sync/cluster = arn:aws:eks:eu-central-1:111122223333:cluster/eks-blue
    cloud-map-sync/clusterset = shop
    cloud-map-sync/exporter = team-a
    cloud-map-sync/heartbeat = 2026-01-01T00:00:00Z
    cloud-map-sync/schema = 1
    ");
    for (key, value) in [(SCHEMA, "2"), ("cloud-map-sync/guard", "x")] {
        let mut attributes = attributes.clone();
        attributes.insert(key, value);
        let read = read(&blue(), id::CLUSTER_RECORD, &attributes);
        assert_eq!(read, Ok(Some(Record::Cluster(cluster_record()))));
    }
}

#[test]
fn a_cluster_record_without_its_attributes_is_unusable() {
    let line = |(key, value): (&str, Option<&str>)| {
        let mut attributes = cluster_record().write();
        match value {
            Some(value) => () = attributes.insert(key, value),
            None => () = attributes.remove(key),
        }
        let unusable = read(&blue(), id::CLUSTER_RECORD, &attributes).expect_err(key);
        format!("{unusable}\n")
    };
    let cases = [
        ("cloud-map-sync/exporter", None),
        ("cloud-map-sync/owner", Some("team-a")),
        ("cloud-map-sync/cluster", Some("blue")),
        (CLUSTERSET, None),
        (CLUSTERSET, Some("a b")),
        (HEARTBEAT, None),
        (HEARTBEAT, Some("yesterday")),
    ];
    assert_snapshot!(cases.map(line).concat(), @r#"
    the record cluster of cluster blue cannot be used: it has no mark of an exporter, or no ARN of an EKS cluster
    the record cluster of cluster blue cannot be used: it has no mark of an exporter, or no ARN of an EKS cluster
    the record cluster of cluster blue cannot be used: it has no mark of an exporter, or no ARN of an EKS cluster
    the record cluster of cluster blue cannot be used: it lacks the attribute cloud-map-sync/clusterset
    the record cluster of cluster blue cannot be used: its cloud-map-sync/clusterset "a b" is not valid
    the record cluster of cluster blue cannot be used: it lacks the attribute cloud-map-sync/heartbeat
    the record cluster of cluster blue cannot be used: its cloud-map-sync/heartbeat "yesterday" is not valid
    "#);
}

#[test]
fn the_namespace_has_the_clustersets_name() {
    assert_eq!(namespace(&cluster_record().clusterset), "clusterset.shop");
}
