//! Records of exports and of members, which other releases and every client of Cloud Map write.

use super::rules::assert_line;
use super::{Random, try_all};
use crate::clusterset::id::{CLUSTER_RECORD, export_record};
use crate::clusterset::record::{
    ClusterRecord, ExportRecord, Record, as_recorded, clusterset_of, read,
};
use crate::hostile::instances::{owner, web};
use crate::model::attributes::EXPORT;
use crate::model::{
    Attributes, ClusterId, ClustersetId, Export, ExportedPort, Family, Flow, ImportType, Owner,
    Properties, Protocol, Timestamp,
};

/// A refusal may repeat the start of one value, each character of it escaped.
const LONGEST: usize = 2_000;

fn exporter() -> Owner {
    Owner { flow: Flow::Exports, ..owner() }
}

fn green() -> ClusterId {
    ClusterId::parse("green").expect("an id")
}

fn export() -> Attributes {
    let port = |name: &str, number| ExportedPort {
        name: name.into(),
        protocol: Protocol::Tcp,
        number,
        app_protocol: Some("kubernetes.io/h2c".into()),
    };
    let label = |key: &str| (key.to_owned(), "größe \u{202e}".to_owned());
    let properties = Properties { labels: [label("team")].into(), ..Properties::default() };
    let export = Export {
        cluster: green(),
        created: Timestamp::from_second(1_767_225_600).expect("a time"),
        kind: ImportType::ClusterSetIp,
        ports: vec![port("http", 80), port("admin", 81)],
        families: vec![Family::V6, Family::V4],
        properties: Some(properties),
    };
    let record = ExportRecord { owner: exporter(), service: web(), export, is_empty: true };
    record.write().expect("it fits")
}

fn member() -> Attributes {
    let clusterset = ClustersetId::parse("shop-set").expect("an id");
    let heartbeat = Timestamp::from_second(1_767_225_600).expect("a time");
    ClusterRecord { owner: exporter(), clusterset, heartbeat, only_imports: false }.write()
}

/// A record with damaged values, or with damaged JSON.
fn damaged(random: &mut Random, attributes: &Attributes) -> Attributes {
    let mut damaged = attributes.clone();
    if let (Some(json), true) = (attributes.get(EXPORT[0]), random.one_in(2)) {
        let text = match serde_json::from_str(json) {
            Ok(value) if random.one_in(2) => random.damaged_json(&value).to_string(),
            _ => random.damaged_text(json),
        };
        damaged.insert(EXPORT[0], text);
        return damaged;
    }
    let keys: Vec<String> = attributes.keys().map(str::to_owned).collect();
    let key = random.pick(&keys).clone();
    let value = damaged.get(&key).unwrap_or_default().to_owned();
    damaged.remove(&key);
    if !random.one_in(3) {
        damaged.insert(key, random.damaged_text(&value));
    }
    damaged
}

fn assert_export(record: &ExportRecord) {
    assert!(record.service.can_exist() && record.owner.flow == Flow::Exports);
    assert!(record.export.ports.iter().all(|port| port.number > 0), "{:?}", record.export.ports);
    // What was read can be written again, and means the same.
    if let Ok(written) = record.write()
        && as_recorded(&record.export) == record.export
    {
        let again = read(&record.export.cluster, &export_record(&record.service), &written);
        assert_eq!(again, Ok(Some(Record::Export(record.clone()))));
    }
}

#[test]
fn record_is_understood_or_named_in_one_line() {
    let export = export();
    let member = member();
    let ids = [export_record(&web()), CLUSTER_RECORD.to_owned()];
    try_all("records", |random| {
        let of_member = random.one_in(3);
        let attributes = damaged(random, if of_member { &member } else { &export });
        _ = clusterset_of(&random.text());
        match read(&green(), &ids[usize::from(of_member)], &attributes) {
            Ok(Some(Record::Export(record))) => {
                assert_export(&record);
                true
            }
            Ok(found) => found.is_some(),
            Err(unusable) => {
                assert_line(&unusable, LONGEST);
                false
            }
        }
    });
}
