//! What an API server refuses: fields of objects, a change of the derived Service, the IPs of a new one.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::world::{World, after};
use crate::import::plan::{FailedWrite, Kind, missing_fields, refused_fields};
use crate::model::{
    InternalTrafficPolicy, OptionalField, RefusedField, ServiceRef, SessionAffinity,
};

fn web_service() -> ServiceRef {
    ServiceRef::new("shop", "web")
}

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
    let text = |it: RefusedField| format!("{} {} {}", it.kind, it.field.as_str(), it.value);
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
        texts(refused_fields(kind, &web_service(), (body, &Value::Null), &causes))
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
        (Kind::ServiceImport, &["metadata.labels"], "ServiceImport labels shop/web"),
        (
            Kind::ServiceImport,
            &["metadata.annotations[page]"],
            "ServiceImport annotations shop/web",
        ),
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
    assert_eq!(hints, "EndpointSlice hints shop/web");
    let label = json!({"metadata": {"labels": {"team": "shop"}}});
    let causes = ["spec.trafficDistribution".to_owned()];
    let standing = refused_fields(Kind::Service, &web_service(), (&label, &body), &causes);
    assert_eq!(texts(standing), "Service trafficDistribution PreferSameZone", "not sent");
    let protocol = of(Kind::EndpointSlice, &slice, &["ports[0].appProtocol"]);
    assert_eq!(protocol, "EndpointSlice appProtocol b!");
}

#[test]
fn field_that_the_answer_lacks_counts_as_refused() {
    let body = json!({
        "metadata": {"annotations": {"page": "1", "gone": null}},
        "spec": {"trafficDistribution": "PreferClose", "sessionAffinity": "None", "x": 1},
    });
    let stored =
        json!({"metadata": {"annotations": {"page": "1"}}, "spec": {"sessionAffinity": "None"}});
    let missing = missing_fields(Kind::ServiceImport, &web_service(), &body, &stored);
    assert_eq!(texts(missing), "ServiceImport trafficDistribution PreferClose");
    assert_eq!(missing_fields(Kind::ServiceImport, &web_service(), &body, &body), []);
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
    });
    let labels = RefusedField {
        kind: "ServiceImport",
        field: OptionalField::Labels,
        value: "shop/web".to_owned(),
    };
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
    assert_snapshot!(import["status"]["conditions"][0]["message"].as_str().unwrap_or_default(), @r#"the import is complete, without what this cluster's API server refuses: labels of the ServiceImport, sessionAffinityConfig {"clientIP":{"timeoutSeconds":100000}} of the Service, internalTrafficPolicy Local of the Service, trafficDistribution PreferSameZone of the Service, appProtocol example.org/odd of the Service"#);
}

#[test]
fn local_traffic_policy_is_said_in_ready() {
    let message = |world: &World| {
        let import = after(world).object(Kind::ServiceImport).clone();
        import["status"]["conditions"][0]["message"].as_str().unwrap_or_default().to_owned()
    };
    assert_snapshot!(message(&web()), @"the import is complete; with internalTrafficPolicy Local its IP leads to pods of the client's own node alone");
    assert_eq!(message(&web().headless()), "the import is complete");
}

#[test]
fn slices_are_written_for_the_ports_of_a_service_that_cannot_be_changed() {
    let mut cluster = after(&World::with_ports("http:80").exported("green", "10.0.0.1"));
    let failed = |kind| Some(FailedWrite { kind, message: "forbidden".to_owned() });
    let world = World {
        failure: failed(Kind::Service),
        ..World::with_ports("web:80").exported("green", "10.0.0.2")
    };
    assert_snapshot!(world.synced(&mut cluster), @"
    + EndpointSlice imported-isrlchlhrq-8de69181-2: IPv4 of green, 1 in
    - EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 1 out
    ~ ServiceImport web status: Ready False/Pending, from green
    ");
    assert_eq!(cluster.reachable(), BTreeSet::from(["10.0.0.2 TCP/80->8080".to_owned()]));
    let of_slice = World { failure: failed(Kind::EndpointSlice), ..world.clone() };
    assert_eq!(of_slice.planned(&cluster), "nothing");
    let without_import = World { failure: failed(Kind::ServiceImport), ..world };
    let planned = without_import.planned(&Cluster::default());
    assert_eq!(planned, "~ ServiceImport web status: Ready False/Pending, from green", "no slices");
}

#[test]
fn new_service_asks_for_the_ips_of_the_import_and_for_fewer_if_they_are_refused() {
    let mut world = World::with_ports("http:80").families(&super::world::BOTH);
    world = world.exported("green", "10.0.0.1");
    let first = after(&world);
    let ips = first.object(Kind::ServiceImport)["spec"]["ips"].clone();
    for (kept_ips, same) in [(usize::MAX, 2), (1, 1), (0, 0)] {
        let mut cluster = first.clone();
        cluster.objects.retain(|(kind, _), _| *kind != Kind::Service);
        let world = World { kept_ips, ..world.clone() };
        let plan = world.synced(&mut cluster);
        let after = cluster.object(Kind::ServiceImport)["spec"]["ips"].clone();
        let kept = (0..2).filter(|index| after[index] == ips[index]).count();
        assert_eq!(kept, same, "{plan}");
        assert_eq!(plan.contains("ServiceImport"), same < 2, "{plan}");
    }
}
