//! The records of exports that cannot be used, with the problems.

use insta::assert_snapshot;

use super::*;
use crate::model::attributes::SCHEMA;

#[test]
fn a_record_that_cannot_be_used_has_a_problem() {
    let cases = [
        ("no exporter", without("cloud-map-sync/exporter")),
        ("an owner", with("cloud-map-sync/owner", "team-a")),
        ("no ARN", with("cloud-map-sync/cluster", "blue")),
        ("later schema", with(SCHEMA, "2")),
        ("no name", without("cloud-map-sync/service")),
        ("no Service's name", with("cloud-map-sync/service", "a_b")),
        ("another Service", with("cloud-map-sync/service", "api")),
        ("no piece", without(EXPORT[0])),
        ("a hole", with(EXPORT[2], "{")),
        ("empty", with(EXPORT[0], "")),
        ("cut", with_json("\"type\":\"ClusterSetIP\"}", "")),
        ("not JSON", with(EXPORT[0], "export")),
        ("more after it", with(EXPORT[1], "{}")),
        ("no type", with_json(",\"type\":\"ClusterSetIP\"", "")),
        ("other type", with_json("ClusterSetIP", "NodePort")),
        ("no time", with_json("2026-01-01T00:00:00Z", "yesterday")),
        ("family", with_json("IPv4", "IPv8")),
        ("affinity", with_json("\"ClientIP\"", "\"Cookie\"")),
        ("policy", with_json("\"Local\"", "\"Node\"")),
        ("timeout", with_json("10800", "-1")),
        ("port 0", with_json("\"port\":81", "\"port\":0")),
        ("port 70000", with_json("\"port\":81", "\"port\":70000")),
        ("port name", with_json("\"http2\"", "\"http_2\"")),
        ("protocol", with_json("\"protocol\":\"TCP\"", "\"protocol\":\"tcp\"")),
        ("label", with_json("\"web\"", "7")),
    ];
    let line =
        |(case, attributes): &(&str, Attributes)| format!("{case}: {}\n", problem(attributes));
    assert_snapshot!(cases.iter().map(line).collect::<String>(), @r#"
    no exporter: it has no mark of an exporter, or no ARN of an EKS cluster
    an owner: it has no mark of an exporter, or no ARN of an EKS cluster
    no ARN: it has no mark of an exporter, or no ARN of an EKS cluster
    later schema: a later release wrote it (schema 2, and this release reads 1)
    no name: its marks name no Service of Kubernetes
    no Service's name: its marks name no Service of Kubernetes
    another Service: its id is not that of the Service in its marks
    no piece: it lacks the attribute cloud-map-sync/export
    a hole: it lacks the attribute cloud-map-sync/export.2
    empty: its JSON is invalid: EOF while parsing a value at line 1 column 0
    cut: its JSON is invalid: EOF while parsing a value at line 1 column 405
    not JSON: its JSON is invalid: expected value at line 1 column 1
    more after it: its JSON is invalid: trailing characters at line 1 column 428
    no type: its JSON is invalid: missing field `type` at line 1 column 405
    other type: its JSON is invalid: type: unknown variant `NodePort`, expected `ClusterSetIP` or `Headless` at line 1 column 422
    no time: its JSON is invalid: created: failed to parse four digit integer as year: invalid digit, expected 0-9 but got y at line 1 column 57
    family: its JSON is invalid: ipFamilies[1]: unknown variant `IPv8`, expected `IPv4` or `IPv6` at line 1 column 128
    affinity: its sessionAffinity "Cookie" is not valid
    policy: its JSON is invalid: internalTrafficPolicy: unknown variant `Node`, expected `Cluster` or `Local` at line 1 column 99
    timeout: its JSON is invalid: sessionAffinityTimeout: invalid value: integer `-1`, expected u32 at line 1 column 365
    port 0: its ports[1].port "0" is not valid
    port 70000: its JSON is invalid: ports[1].port: invalid value: integer `70000`, expected u16 at line 1 column 292
    port name: its ports[1].name "http_2" is not valid
    protocol: its JSON is invalid: ports[0].protocol: unknown variant `tcp`, expected one of `TCP`, `UDP`, `SCTP` at line 1 column 228
    label: its JSON is invalid: labels.app: invalid type: integer `7`, expected a string at line 1 column 147
    "#);
}

#[test]
fn the_schema_of_an_earlier_release_is_read() {
    for attributes in [with(SCHEMA, "0"), without(SCHEMA)] {
        assert_eq!(read_export(&attributes), Ok(Some(Record::Export(record()))));
    }
}

#[test]
fn an_unusable_record_names_its_import() {
    let unusable = read_export(&with(SCHEMA, "2")).expect_err("a later schema");
    assert_eq!(unusable.service, Some(web()));
    assert_snapshot!(unusable, @"the record export-7cb0d844a658ca77f191 of cluster blue (shop/web) cannot be used: a later release wrote it (schema 2, and this release reads 1)");
    assert!(unusable.may_be_of(&web()));
    let unmarked = read_export(&Attributes::new()).expect_err("no marks");
    assert!(unmarked.may_be_of(&web()));
    let other = read_export(&with("cloud-map-sync/service", "api")).expect_err("another Service");
    for (service, expected) in [("web", true), ("api", true), ("cart", false)] {
        assert_eq!(other.may_be_of(&ServiceRef::new("shop", service)), expected, "{service}");
    }
    assert_snapshot!(unmarked, @"the record export-7cb0d844a658ca77f191 of cluster blue cannot be used: it has no mark of an exporter, or no ARN of an EKS cluster");
}

#[test]
fn problem_is_one_short_line_whatever_the_record_has() {
    let long = "x".repeat(3_000);
    let cases = [
        ("a long value", with_json("ClusterSetIP", &long)),
        ("a long type", with_json("\"port\":81", &format!("\"port\":\"{long}\""))),
        ("a key that no parser shows", with_json("{", "{\"labels\":{\"\\u001b[31m\\n\":7},")),
    ];
    for (case, attributes) in cases {
        let problem = problem(&attributes);
        assert!(problem != "none" && problem.chars().count() < 500, "{case}: {problem}");
        assert!(!problem.contains(char::is_control), "{case}: {problem}");
    }
}
