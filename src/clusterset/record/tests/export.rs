//! The records of exports, as they are written and read.

use insta::assert_snapshot;

use super::*;

#[test]
fn an_export_is_written_with_sorted_keys_in_ascii() {
    let attributes = written(&record());
    let lines = attributes.iter().map(|(key, value)| format!("{key} = {value}\n"));
    assert_snapshot!(lines.collect::<String>(), @r#"
    cloud-map-sync/cluster = arn:aws:eks:eu-central-1:111122223333:cluster/eks-blue
    cloud-map-sync/export = {"annotations":{"note":"a \"b\"\n"},"created":"2026-01-01T00:00:00Z","internalTrafficPolicy":"Local","ipFamilies":["IPv6","IPv4"],"labels":{"app":"web","team":"gr\u00f6\u00dfe"},"ports":[{"name":"http","port":80,"protocol":"TCP"},{"appProtocol":"kubernetes.io/h2c","name":"http2","port":81,"protocol":"TCP"}],"sessionAffinity":"ClientIP","sessionAffinityTimeout":10800,"trafficDistribution":"PreferClose","type":"ClusterSetIP"}
    cloud-map-sync/exporter = team-a
    cloud-map-sync/namespace = shop
    cloud-map-sync/schema = 1
    cloud-map-sync/service = web
    "#);
}

#[test]
fn a_headless_export_without_ports_has_a_short_record() {
    let export = Export {
        kind: ImportType::Headless,
        ports: Vec::new(),
        families: vec![Family::V4],
        properties: Some(Properties::default()),
        ..record().export
    };
    let record = ExportRecord { export, ..record() };
    assert_snapshot!(written(&record).get(EXPORT[0]).expect("written"), @r#"{"created":"2026-01-01T00:00:00Z","internalTrafficPolicy":"Cluster","ipFamilies":["IPv4"],"ports":[],"sessionAffinity":"None","type":"Headless"}"#);
    assert_eq!(read_export(&written(&record)), Ok(Some(Record::Export(record))));
}

#[test]
fn a_record_written_is_the_one_read() {
    assert_eq!(read_export(&written(&record())), Ok(Some(Record::Export(record()))));
}

/// The record of the first release, which every later one must read: absent properties have the API's defaults.
#[test]
fn unknown_fields_are_ignored_and_absent_ones_have_defaults() {
    let json = r#"{"later":{"a":[1]},"created":"2026-01-01T00:00:00Z","type":"ClusterSetIP","ipFamilies":["IPv4"],
        "ports":[{"port":80,"protocol":"UDP","later":1}]}"#;
    let expected = Export {
        ports: vec![ExportedPort { protocol: Protocol::Udp, ..port("", 80) }],
        families: vec![Family::V4],
        properties: Some(Properties::default()),
        ..record().export
    };
    let expected = ExportRecord { export: expected, ..record() };
    let mut attributes = with(EXPORT[0], json);
    attributes.insert("cloud-map-sync/later", "x");
    assert_eq!(read_export(&attributes), Ok(Some(Record::Export(expected))));
}

#[test]
fn an_export_without_properties_is_written_with_the_defaults() {
    let bare = Export { properties: None, ..record().export };
    let bare = ExportRecord { export: bare, ..record() };
    assert_eq!(written(&bare), written(&with_properties(Properties::default())));
}

#[test]
fn labels_and_annotations_that_do_not_fit_are_left_out() {
    let properties = |labels: &str, annotations: &str| Properties {
        labels: texts(&[("app", labels)]),
        annotations: texts(&[("note", annotations)]),
        ..record().export.properties.expect("properties")
    };
    let long = "a".repeat(2500);
    let short = with_properties(properties(&long, "")).export;
    assert_eq!(as_recorded(&short), short);
    let large = with_properties(properties(&long, &long));
    assert_ne!(as_recorded(&large.export), large.export);
    let none =
        Properties { labels: BTreeMap::new(), annotations: BTreeMap::new(), ..properties("", "") };
    assert_eq!(written(&large), written(&with_properties(none)));
}

#[test]
fn an_export_of_many_ports_is_too_large() {
    let of_ports = |count: u16| {
        let ports = (1..=count).map(|number| port(&"p".repeat(63), number)).collect();
        ExportRecord { export: Export { ports, ..record().export }, ..record() }
    };
    let fits = of_ports(34).write().expect("it fits");
    assert!(fits.contains_key(EXPORT[3]));
    let too_large = of_ports(60).write().expect_err("too large");
    assert_eq!(too_large.ports, 60);
    assert_snapshot!(too_large, @"the properties of its 60 ports have 6334 characters without labels and annotations, and a record has 4000");
}
