//! Batches of a log, and the scope of each line.

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use std::io::Write;

use super::*;

fn pack(batch: &Value) -> Value {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(batch.to_string().as_bytes()).expect("memory");
    json!({"awslogs": {"data": general_purpose::STANDARD.encode(encoder.finish().expect("memory"))}})
}

fn batch(group: &str, lines: &[String]) -> Value {
    let events = lines.iter().enumerate();
    let events: Vec<Value> =
        events.map(|(id, line)| json!({"id": id.to_string(), "message": line})).collect();
    pack(&json!({"messageType": "DATA_MESSAGE", "logGroup": group, "logEvents": events}))
}

fn event(verb: &str, object: &Value) -> Value {
    json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "stage": "ResponseComplete",
        "verb": verb, "objectRef": object, "responseStatus": {"code": 200},
    })
}

fn slice(name: Option<&str>) -> Value {
    json!({
        "resource": "endpointslices", "namespace": "shop", "name": name,
        "apiGroup": "discovery.k8s.io", "apiVersion": "v1",
    })
}

fn scope_of(line: &Value) -> Option<String> {
    scope_of_text(line.to_string())
}

fn scope_of_text(line: String) -> Option<String> {
    let payload = batch("/aws/eks/blue/cluster", &[line]);
    let messages = read(payload.as_object().expect("an object")).expect("a batch");
    messages.into_iter().next().map(|message| match message.reading {
        Ok(scope) => scope.to_string(),
        Err(unusable) => unusable.reason().to_owned(),
    })
}

#[test]
fn a_finished_write_names_its_service() {
    let service =
        json!({"resource": "services", "namespace": "shop", "name": "web", "apiVersion": "v1"});
    let endpoints =
        json!({"resource": "endpoints", "namespace": "shop", "name": "web", "apiVersion": "v1"});
    let export = json!({
        "resource": "serviceexports", "namespace": "shop", "name": "web",
        "apiGroup": "multicluster.x-k8s.io", "apiVersion": "v1beta1",
    });
    // The API server names the namespace in both fields.
    let namespace =
        json!({"resource": "namespaces", "namespace": "shop", "name": "shop", "apiVersion": "v1"});
    // A namespace of `generateName`: nothing is in it yet.
    let unnamed = event("create", &json!({ "resource": "namespaces", "apiVersion": "v1" }));
    assert_eq!(scope_of(&unnamed), None);
    let rows = [
        (event("patch", &service), "blue/shop/web"),
        (event("delete", &endpoints), "blue/shop/web"),
        (event("create", &export), "blue/shop/web"),
        (event("create", &namespace), "blue/shop"),
        (event("update", &slice(Some("web-x7k2p"))), "blue/shop/web"),
        // The reference has no name that the API server made up.
        (event("create", &slice(None)), "blue/shop"),
        (event("deletecollection", &slice(None)), "blue/shop"),
    ];
    for (line, expected) in rows {
        assert_eq!(scope_of(&line).as_deref(), Some(expected), "{line}");
    }
}

#[test]
fn the_body_of_a_written_object_changes_nothing() {
    let metadata = event("update", &slice(Some("web-x7k2p"))).to_string();
    let metadata = metadata.strip_suffix('}').expect("an object");
    let deep = "[".repeat(1_000) + &"]".repeat(1_000);
    let bodies = [
        // Of another Service, of an import, and of none.
        r#"{"metadata":{"labels":{"kubernetes.io/service-name":"cart"}}}"#,
        r#"{"metadata":{"labels":{"cloud-map-sync/owner":"shop"}}}"#,
        r#"{"metadata":{"labels":7,"name":"../x","namespace":{}}}"#,
        r#"{"metadata":[],"objectRef":{"name":"cart"}}"#,
        &deep,
        "1e999",
        r#""\ud800""#,
        r#"{},"requestObject":null"#,
    ];
    for body in bodies {
        for field in ["requestObject", "responseObject"] {
            let line = format!(r#"{metadata},"{field}":{body}}}"#);
            assert_eq!(scope_of_text(line).as_deref(), Some("blue/shop/web"), "{field} {body}");
        }
    }
    // A log may cut a long line, and the API server writes the bodies after the reference to the object.
    let cut = format!(r#"{metadata},"requestObject":{{"endpoints":[{{"addresses":["10.0."#);
    assert_eq!(scope_of_text(cut).as_deref(), Some("blue/shop/web"));
    let cut_before = r#"{"stage":"ResponseComplete","verb":"update","requestObject":{"endpo"#;
    assert_eq!(scope_of_text(cut_before.to_owned()).as_deref(), Some("not_json"));
}

#[test]
fn lines_that_change_no_registration_are_ignored() {
    let service =
        json!({"resource": "services", "namespace": "shop", "name": "web", "apiVersion": "v1"});
    let mut refused = event("patch", &service);
    refused["responseStatus"]["code"] = json!(409);
    let mut begun = event("patch", &service);
    begun["stage"] = json!("RequestReceived");
    let mut status = service.clone();
    status["subresource"] = json!("status");
    let mut own = event("patch", &service);
    own["user"] = json!({"username": "role", "groups": ["cloud-map-sync", "system:authenticated"]});
    let pod = json!({"resource": "pods", "namespace": "shop", "name": "web-1", "apiVersion": "v1"});
    let mut knative_service = service.clone();
    knative_service["apiGroup"] = json!("serving.knative.dev");
    let rows = [
        event("patch", &knative_service),
        event("get", &service),
        event("watch", &slice(None)),
        event("patch", &status),
        event("patch", &pod),
        refused,
        begun,
        own,
    ];
    for line in rows {
        assert_eq!(scope_of(&line), None, "{line}");
    }
}

#[test]
fn a_line_that_is_no_audit_event_is_unusable_beside_good_ones() {
    let good = event("update", &slice(Some("web-x7k2p"))).to_string();
    let lines = ["{\"kind\":\"Ev", "{\"kind\":\"Event\"}", "[]", &good, &format!("{good}}}")];
    let payload = batch("/aws/eks/blue/cluster", &lines.map(str::to_owned));
    let messages = read(payload.as_object().expect("an object")).expect("a batch");
    let readings: Vec<_> = messages.iter().map(|message| message.reading.is_ok()).collect();
    assert_eq!(readings, [false, false, false, true, false]);
}

#[test]
fn hostile_names_are_refused() {
    let line =
        event("update", &json!({"resource": "services", "namespace": "shop", "name": "../x\n"}));
    assert_eq!(scope_of(&line).as_deref(), Some("invalid_name"));
}

#[test]
fn only_batches_of_a_clusters_log_group_are_read() {
    let read = |payload: Value| read(payload.as_object().expect("an object"));
    let control = pack(&json!({"messageType": "CONTROL_MESSAGE", "logEvents": []}));
    assert_eq!(read(control), Ok(Vec::new()));
    assert_eq!(read(batch("/aws/lambda/x", &[])), Err(Error::LogsNotOfCluster));
    assert_eq!(read(json!({"awslogs": {"data": "!"}})), Err(Error::LogsNotReadable));
    assert_eq!(read(json!({"awslogs": {"data": "e30="}})), Err(Error::LogsNotReadable));
    assert_eq!(read(json!({"awslogs": 7})), Err(Error::LogsNotReadable));
}
