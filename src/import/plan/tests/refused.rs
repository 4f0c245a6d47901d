//! What an API server refuses: fields of objects, a change of the derived Service, the IPs of a new one.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::world::{World, after, failed, slices};
use crate::import::plan::change::Content;
use crate::import::plan::{
    Change, FailedWrite, Kind, Stage, Write, changed_fields, noted_fields, noted_server,
    refused_fields, with_exported_values,
};
use crate::model::{InternalTrafficPolicy, OptionalField, RefusedField, SessionAffinity};

fn web() -> World {
    let mut world = World::with_ports("http:80").exported("green", "10.0.0.1");
    let service = world.merged_mut();
    service.ports[0].app_protocol = Some("example.org/odd".to_owned());
    let properties = &mut service.properties;
    properties.session_affinity = SessionAffinity::ClientIp(Some(100_000));
    properties.internal_traffic_policy = InternalTrafficPolicy::Local;
    properties.traffic_distribution = Some("PreferSameZone".to_owned());
    properties.labels = [("team".to_owned(), "shop".to_owned())].into();
    properties.annotations = [("page".to_owned(), "1".to_owned())].into();
    world
}

/// What the API server named, as the next plan leaves it out.
fn texts(refused: Vec<RefusedField>) -> String {
    let text = |it: RefusedField| match it.field {
        OptionalField::Labels | OptionalField::Annotations => {
            format!("{} {}", it.kind, it.field.as_str())
        }
        _ => format!("{} {} {}", it.kind, it.field.as_str(), it.value),
    };
    refused.into_iter().map(text).collect::<Vec<_>>().join("; ")
}

#[test]
fn only_a_refusal_of_optional_fields_alone_is_done_without() {
    let body = json!({
        "metadata": {"labels": {"team": "shop"}, "annotations": {"page": "1"}},
        "spec": {
            "trafficDistribution": "PreferSameZone", "clusterIPs": ["10.96.0.1"],
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 100_000}},
            "ports": [{"port": 80, "appProtocol": "a"}, {"port": 81, "appProtocol": "b!"}],
        },
    });
    let slice = json!({
        "ports": [{"appProtocol": "b!"}],
        "endpoints": [{"addresses": []}, {"hints": {"forZones": [{"name": "a!"}]}}],
    });
    let of = |kind, body: &Value, causes: &[&str]| {
        let causes: Vec<String> = causes.iter().map(ToString::to_string).collect();
        texts(refused_fields(kind, (body, &Value::Null), &causes))
    };
    let cases = [
        (
            Kind::Service,
            &["spec.trafficDistribution"][..],
            "Service trafficDistribution PreferSameZone",
        ),
        (Kind::Service, &["spec.ports[1].appProtocol"], "Service appProtocol b!"),
        (
            Kind::Service,
            &["spec.sessionAffinityConfig.clientIP.timeoutSeconds"],
            r#"Service sessionAffinityConfig {"clientIP":{"timeoutSeconds":100000}}"#,
        ),
        (Kind::ServiceImport, &["metadata.labels"], "ServiceImport labels"),
        (Kind::ServiceImport, &["metadata.annotations[page]"], "ServiceImport annotations"),
        // Our own label is on every object.
        (Kind::Service, &["metadata.labels"], ""),
        (Kind::Service, &["spec.clusterIPs"], ""),
        (Kind::Service, &["spec.ports[1].port"], ""),
        (Kind::Service, &["spec.trafficDistribution", "spec.ports[1].port"], ""),
        // A policy names no field.
        (Kind::Service, &[""], ""),
        // It is not in the request.
        (Kind::Service, &["spec.internalTrafficPolicy"], ""),
        (Kind::Service, &[], ""),
    ];
    for (kind, causes, expected) in cases {
        assert_eq!(of(kind, &body, causes), expected, "{kind} {causes:?}");
    }
    let hints = of(Kind::EndpointSlice, &slice, &["endpoints[1].hints.forZones[0].name"]);
    assert_eq!(hints, "EndpointSlice hints ");
    let label = json!({"metadata": {"labels": {"team": "shop"}}});
    let causes = ["spec.trafficDistribution".to_owned()];
    let standing = refused_fields(Kind::Service, (&label, &body), &causes);
    assert_eq!(texts(standing), "Service trafficDistribution PreferSameZone", "not sent");
    let protocol = of(Kind::EndpointSlice, &slice, &["ports[0].appProtocol"]);
    assert_eq!(protocol, "EndpointSlice appProtocol b!");
}

#[test]
fn field_that_is_not_stored_as_it_was_sent_counts_as_refused() {
    let cases = [
        (
            json!({"spec": {"trafficDistribution": "PreferClose", "x": 1}}),
            json!({}),
            "trafficDistribution PreferClose",
        ),
        (
            json!({"spec": {"trafficDistribution": null}}),
            json!({"spec": {"trafficDistribution": "PreferClose"}}),
            "trafficDistribution null",
        ),
        (json!({"spec": {"trafficDistribution": null}}), json!({}), ""),
        (
            json!({"spec": {"sessionAffinity": "None"}}),
            json!({"spec": {"sessionAffinity": "ClientIP"}}),
            "sessionAffinity None",
        ),
        (
            json!({"spec": {"sessionAffinity": "None"}}),
            json!({"spec": {"sessionAffinity": "None"}}),
            "",
        ),
        (
            json!({"metadata": {"annotations": {"page": "1", "gone": null}}}),
            json!({"metadata": {"annotations": {"page": "1"}}}),
            "",
        ),
    ];
    for (sent, stored, expected) in cases {
        let changed = texts(changed_fields(Kind::ServiceImport, &sent, &stored));
        assert_eq!(changed.trim_start_matches("ServiceImport "), expected, "{sent}");
    }
}

/// The table of the rule.
#[test]
fn refused_value_is_taken_out_and_that_of_a_webhook_stays() {
    let field = OptionalField::TrafficDistribution;
    let of = |value: &str, is_changed| RefusedField {
        kind: "Service",
        field,
        value: value.to_owned(),
        is_changed,
    };
    let wanted = json!("PreferSameZone");
    let of_webhook = json!("PreferClose");
    let cases = [
        // The field that is known, the value that stands, and the one after the next plan.
        (of("PreferSameZone", false), wanted.clone(), Value::Null),
        (of("PreferSameZone", false), of_webhook.clone(), Value::Null),
        (of("PreferSameZone", false), Value::Null, Value::Null),
        (of("PreferSameZone", true), of_webhook.clone(), of_webhook.clone()),
        (of("PreferSameZone", true), Value::Null, Value::Null),
        // Another value is tried.
        (of("PreferClose", false), Value::Null, wanted.clone()),
        (of("null", true), of_webhook.clone(), wanted),
    ];
    for (known, standing, expected) in cases {
        let mut world = web();
        let mut cluster = after(&world);
        cluster.object_mut(Kind::Service)["spec"]["trafficDistribution"] = standing.clone();
        world.refused = [known.clone()].into();
        world.sync(&mut cluster);
        let after = cluster.object(Kind::Service)["spec"]["trafficDistribution"].clone();
        assert_eq!(after, expected, "{known:?} {standing}");
    }
}

/// The next process knows by the annotation what this one has found out.
#[test]
fn annotation_of_an_object_has_its_refused_fields_for_one_version_of_the_server() {
    let mut world = web();
    let kind = "Service";
    let field = OptionalField::TrafficDistribution;
    world.refused =
        [RefusedField { kind, field, value: "PreferSameZone".into(), is_changed: false }].into();
    let cluster = after(&world);
    let text = &cluster.object(Kind::Service)["metadata"]["annotations"];
    let noted = r#"{"refused":{"trafficDistribution":["PreferSameZone"]},"server":"1.32"}"#;
    assert_eq!(*text, json!({"cloud-map-sync/refused-fields": noted}));
    let present = cluster.present();
    for (server, counts) in [(Some("1.32"), true), (None, true), (Some("1.33"), false)] {
        let expected = if counts { world.refused.clone() } else { BTreeSet::new() };
        assert_eq!(noted_fields(&world.owner, &present, server), expected, "{server:?}");
    }
    assert_eq!(noted_server(&world.owner, &present).as_deref(), Some("1.32"));
    world.refused.clear();
    let planned = world.planned(&cluster);
    assert!(
        planned.contains("annotations.cloud-map-sync/refused-fields")
            && planned.contains("trafficDistribution"),
        "{planned}"
    );
}

#[test]
fn refused_fields_are_left_out_of_their_kind_alone_and_ready_names_them() {
    let fields = [
        (OptionalField::TrafficDistribution, "PreferSameZone"),
        (OptionalField::AppProtocol, "example.org/odd"),
        (OptionalField::SessionAffinityConfig, r#"{"clientIP":{"timeoutSeconds":100000}}"#),
        (OptionalField::InternalTrafficPolicy, "Local"),
        (OptionalField::InternalTrafficPolicy, "Cluster"),
    ];
    let mut world = web();
    let of_service = fields.map(|(field, value)| RefusedField {
        kind: "Service",
        field,
        value: value.to_owned(),
        is_changed: false,
    });
    let labels = RefusedField {
        kind: "ServiceImport",
        field: OptionalField::Labels,
        value: String::new(),
        is_changed: false,
    };
    let [labels] = &with_exported_values(vec![labels], world.merged_mut())[..] else {
        panic!("one field")
    };
    let labels = labels.clone();
    world.refused = of_service.into_iter().chain([labels]).collect();
    let cluster = after(&world);
    let service = cluster.object(Kind::Service)["spec"].clone();
    assert_eq!(service["trafficDistribution"], json!(null));
    assert_eq!(service["ports"][0]["appProtocol"], json!(null));
    assert_eq!(service["internalTrafficPolicy"], "Cluster");
    assert_eq!(service["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"], 10800);
    let import = cluster.object(Kind::ServiceImport);
    assert_eq!(import["spec"]["trafficDistribution"], "PreferSameZone");
    assert_eq!(import["metadata"]["labels"]["team"], json!(null));
    assert_eq!(import["metadata"]["annotations"]["page"], "1");
    assert_snapshot!(import["status"]["conditions"][0]["message"].as_str().unwrap_or_default(), @r#"the import is complete, except for what this cluster's API server refuses or changes: labels of the ServiceImport, sessionAffinityConfig {"clientIP":{"timeoutSeconds":100000}} of the Service, internalTrafficPolicy Local of the Service, trafficDistribution PreferSameZone of the Service, appProtocol example.org/odd of the Service"#);
}

/// The message of the condition `Ready` after a sync.
fn message(world: &World) -> String {
    let import = after(world).object(Kind::ServiceImport).clone();
    import["status"]["conditions"][0]["message"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn refused_hints_are_named_only_if_the_export_asks_for_them() {
    let hints = RefusedField {
        kind: "EndpointSlice",
        field: OptionalField::Hints,
        value: String::new(),
        is_changed: false,
    };
    let mut world = World::with_ports("http:80").exported("green", "10.0.0.1");
    world.refused = [hints].into();
    assert_eq!(message(&world), "the import is complete");
    world.merged_mut().properties.traffic_distribution = Some("PreferClose".to_owned());
    let expected = "the import is complete, except for what this cluster's API server refuses or changes: hints of the \
                    EndpointSlice";
    assert_eq!(message(&world), expected);
}

#[test]
fn refused_protocol_with_the_text_of_another_field_s_default_is_left_out() {
    let mut world = World::with_ports("http:80").exported("green", "10.0.0.1");
    world.merged_mut().ports[0].app_protocol = Some("Cluster".to_owned());
    let field = OptionalField::AppProtocol;
    world.refused =
        [RefusedField { kind: "Service", field, value: "Cluster".into(), is_changed: false }]
            .into();
    assert_eq!(after(&world).object(Kind::Service)["spec"]["ports"][0]["appProtocol"], json!(null));
}

#[test]
fn local_traffic_policy_is_said_in_ready() {
    assert_snapshot!(message(&web()), @"the import is complete; with internalTrafficPolicy Local its IP leads to pods of the client's own node alone");
    assert_eq!(message(&web().headless()), "the import is complete");
}

#[test]
fn slices_are_written_for_the_ports_of_a_service_that_cannot_be_changed() {
    let mut cluster = after(&World::with_ports("http:80").exported("green", "10.0.0.1"));
    let service = failed(Kind::Service, "derived-isrlchlhrq", Stage::AddPorts, "forbidden");
    let world = World {
        failures: vec![service.clone()],
        ..World::with_ports("web:80").exported("green", "10.0.0.2")
    };
    assert_snapshot!(world.synced(&mut cluster), @"
    + EndpointSlice imported-isrlchlhrq-8de69181-2: IPv4 of green, 1 in
    - EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 1 out
    ~ ServiceImport web status: Ready False/Pending, from green
    ");
    assert_eq!(cluster.reachable(), BTreeSet::from(["10.0.0.2 TCP/80->8080".to_owned()]));
    let import = failed(Kind::ServiceImport, "web", Stage::CreateImport, "forbidden");
    let without_import = World { failures: vec![import], ..world };
    assert_eq!(without_import.planned(&Cluster::default()), "nothing");
}

#[test]
fn endpoint_stays_in_its_slice_while_the_one_that_takes_it_cannot_be_written() {
    let before = World::with_ports("http:80")
        .exported("green", "10.0.0.1 10.0.0.2 10.0.0.3")
        .exported("red", "10.0.0.8");
    let name = "imported-isrlchlhrq-8de69181-2";
    let denied = failed(Kind::EndpointSlice, name, Stage::AddEndpoints, "exceeded quota: q");
    let denied = FailedWrite { is_denied: true, ..denied };
    // 10.0.0.2 has other ports now, and so goes to a slice of its own.
    let mut world = World::with_ports("http:80 admin:81")
        .exported("green", "10.0.0.1 10.0.0.2")
        .exported("red", "10.0.0.9");
    world.endpoints_mut("green")[0].ports.pop_last();
    world.failures = vec![denied];
    let mut cluster = after(&before);
    assert_snapshot!(world.synced(&mut cluster), @"
    + EndpointSlice imported-isrlchlhrq-a893d503-2: IPv4 of red, 1 in
    ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 1 out
    - EndpointSlice imported-isrlchlhrq-a893d503-1: IPv4 of red, 1 out
    ~ ServiceImport web status: Ready False/AdmissionDenied, from green, red
    ! AdmissionDenied: exceeded quota: q
    ");
    assert_snapshot!(slices(&cluster), @"
    imported-isrlchlhrq-8de69181-1: 10.0.0.1 10.0.0.2
    imported-isrlchlhrq-a893d503-2: 10.0.0.9
    ");
}

#[test]
fn failure_of_a_slice_blocks_only_that_slice_and_what_goes() {
    let change = |kind, name: &str, stage| Change {
        stage,
        object: failed(kind, name, stage, "").object,
        write: Write::Patch,
        content: Content::default(),
        detail: String::new(),
    };
    let others = [
        (change(Kind::EndpointSlice, "a", Stage::AddEndpoints), true),
        (change(Kind::EndpointSlice, "b", Stage::AddEndpoints), false),
        (change(Kind::ServiceImport, "web", Stage::UpdateImport), false),
        (change(Kind::Service, "derived-isrlchlhrq", Stage::RemovePorts), true),
        (change(Kind::EndpointSlice, "b", Stage::RemoveEndpoints), true),
    ];
    let slice = failed(Kind::EndpointSlice, "a", Stage::AddEndpoints, "");
    let service = failed(Kind::Service, "derived-isrlchlhrq", Stage::AddPorts, "");
    for (other, is_blocked) in others {
        assert_eq!(slice.blocks(&other), is_blocked, "{other}");
        assert!(service.blocks(&other), "{other}");
    }
}

#[test]
fn endpoints_stay_while_a_service_that_lost_its_ips_cannot_be_changed() {
    let mut world = World::with_ports("http:80").exported("green", "10.0.0.1");
    let mut cluster = after(&world);
    let ports = cluster.object(Kind::Service)["spec"]["ports"].clone();
    cluster.object_mut(Kind::Service)["spec"] = json!({"type": "ExternalName", "ports": ports});
    world.failures = vec![failed(Kind::Service, "derived-isrlchlhrq", Stage::AddPorts, "no")];
    assert_snapshot!(world.planned(&cluster), @"~ ServiceImport web status: Ready False/Pending, from green");
}

#[test]
fn new_service_asks_for_the_ips_of_the_import_and_for_fewer_if_they_are_refused() {
    let mut world = World::with_ports("http:80").families(&super::world::BOTH);
    world = world.exported("green", "10.0.0.1");
    let first = after(&world);
    let ips = first.object(Kind::ServiceImport)["spec"]["ips"].clone();
    for (max_kept_ips, same) in [(usize::MAX, 2), (1, 1), (0, 0)] {
        let mut cluster = first.clone();
        cluster.objects.retain(|(kind, _), _| *kind != Kind::Service);
        let world = World { max_kept_ips, ..world.clone() };
        let plan = world.synced(&mut cluster);
        let after = cluster.object(Kind::ServiceImport)["spec"]["ips"].clone();
        let kept = (0..2).filter(|index| after[index] == ips[index]).count();
        assert_eq!(kept, same, "{plan}");
        assert_eq!(plan.contains("ServiceImport"), same < 2, "{plan}");
    }
}
