//! Records that are written and read back, and those that cannot be used.

mod cluster;
mod export;
mod json;
mod metadata;
mod unusable;

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::clusterset::{arbitrary, id, limits};
use crate::model::attributes::EXPORT;
use crate::model::{
    ClusterArn, Export, ExportedPort, Family, Flow, ImportType, InternalTrafficPolicy, Owner,
    Properties, Protocol, SessionAffinity, Timestamp,
};

fn blue() -> ClusterId {
    ClusterId::parse("blue").expect("an id")
}

fn owner() -> Owner {
    let cluster = ClusterArn::parse("arn:aws:eks:eu-central-1:111122223333:cluster/eks-blue");
    Owner { id: "team-a".into(), cluster: cluster.expect("an ARN"), flow: Flow::Exports }
}

fn web() -> ServiceRef {
    ServiceRef::new("shop", "web")
}

fn port(name: &str, number: u16) -> ExportedPort {
    ExportedPort { name: name.into(), protocol: Protocol::Tcp, number, app_protocol: None }
}

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn record() -> ExportRecord {
    let http2 =
        ExportedPort { app_protocol: Some("kubernetes.io/h2c".into()), ..port("http2", 81) };
    let export = Export {
        cluster: blue(),
        created: Timestamp::from_second(1_767_225_600).expect("a time"),
        kind: ImportType::ClusterSetIp,
        ports: vec![port("http", 80), http2],
        families: vec![Family::V6, Family::V4],
        properties: Some(Properties {
            session_affinity: SessionAffinity::ClientIp(Some(10800)),
            internal_traffic_policy: InternalTrafficPolicy::Local,
            traffic_distribution: Some("PreferClose".into()),
            labels: texts(&[("team", "größe"), ("app", "web")]),
            annotations: texts(&[("note", "a \"b\"\n")]),
        }),
    };
    ExportRecord { owner: owner(), service: web(), export, is_empty: false }
}

/// The same export with other properties.
fn with_properties(properties: Properties) -> ExportRecord {
    let export = Export { properties: Some(properties), ..record().export };
    ExportRecord { export, ..record() }
}

fn written(record: &ExportRecord) -> Attributes {
    record.write().expect("it fits")
}

fn with(key: &str, value: &str) -> Attributes {
    let mut attributes = written(&record());
    attributes.insert(key, value);
    attributes
}

fn without(key: &str) -> Attributes {
    let mut attributes = written(&record());
    attributes.remove(key);
    attributes
}

/// A record whose JSON has another text.
fn with_json(from: &str, to: &str) -> Attributes {
    let json = written(&record()).get(EXPORT[0]).expect("written").to_owned();
    assert!(json.contains(from), "{from}");
    with(EXPORT[0], &json.replace(from, to))
}

fn read_export(attributes: &Attributes) -> Result<Option<Record>, Box<UnusableRecord>> {
    read(&blue(), &id::export_record(&web()), attributes)
}

fn problem(attributes: &Attributes) -> String {
    read_export(attributes).map_or_else(|unusable| unusable.problem.to_string(), |_| "none".into())
}

#[test]
fn other_instances_are_no_records() {
    for id in ["cluster2", "exports", "tcp-10-0-1-5-8080-ce3c31e22c", ""] {
        assert_eq!(read(&blue(), id, &written(&record())), Ok(None), "{id}");
    }
}

proptest! {
    #[test]
    fn every_export_is_read_as_it_was_written(
        owner in arbitrary::owner(),
        service in arbitrary::service(),
        export in arbitrary::export(),
        is_empty: bool,
    ) {
        let record = ExportRecord { owner, service, export, is_empty };
        match record.write() {
            Ok(written) => {
                limits::assert_accepted(&written);
                let export = as_recorded(&record.export);
                let expected = ExportRecord { export, ..record.clone() };
                let id = id::export_record(&record.service);
                let read = read(&record.export.cluster, &id, &written);
                prop_assert_eq!(read, Ok(Some(Record::Export(expected))));
            }
            Err(error) => prop_assert!(error.characters > 4000, "{}", error),
        }
    }

    #[test]
    fn every_cluster_record_is_read_as_it_was_written(
        owner in arbitrary::owner(),
        cluster in arbitrary::cluster(),
        clusterset in arbitrary::clusterset(),
        heartbeat in arbitrary::time(),
        only_imports: bool,
    ) {
        let record = ClusterRecord { owner, clusterset, heartbeat, only_imports };
        limits::assert_accepted(&record.write());
        let read = read(&cluster, id::CLUSTER_RECORD, &record.write());
        prop_assert_eq!(read, Ok(Some(Record::Cluster(record))));
    }
}
