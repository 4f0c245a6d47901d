//! What stands in `deploy/forwarders/`: each way to tell of a change is set up to send one of the
//! payloads in `events/`, which the function reads as a sync of what changed.

use std::path::PathBuf;

use cloud_map_sync::event;
use serde_json::{Map, Value};

use testbed::function;

/// The list of the documents of a file in `deploy/forwarders/`.
fn documents(file: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("deploy/forwarders").join(file);
    let text = std::fs::read_to_string(&path).expect(file);
    serde_saphyr::from_multiple::<Value>(&text).expect(file).into()
}

fn find<'a>(list: &'a Value, field: &str, value: &str) -> &'a Value {
    list.as_array().and_then(|list| list.iter().find(|it| it[field] == value)).expect(value)
}

/// The only record of a recorded batch, and its body.
fn recorded(name: &str) -> (Value, Value) {
    let record = function::event(name)["Records"][0].clone();
    let body = serde_json::from_str(record["body"].as_str().expect("a body")).expect("JSON");
    (record, body)
}

/// What the function takes a payload for.
fn reading(payload: &Value) -> String {
    match event::read(payload).expect("a payload of a known kind") {
        event::Payload::Queue(messages) => {
            messages[0].reading.as_ref().expect("usable").to_string()
        }
        event::Payload::Direct(command) => format!("{} {}", command.action, command.scope),
        other => panic!("{other:?}"),
    }
}

/// Whether `^A$` or `^(A|B)$` matches.
fn matches(pattern: &Value, text: &Value) -> bool {
    let pattern = pattern.as_str().and_then(|it| it.strip_prefix('^')?.strip_suffix('$'));
    let words = pattern.expect("a whole word").trim_matches(['(', ')']);
    words.split('|').any(|word| text == word)
}

#[test]
fn event_exporter_routes_its_recorded_event_to_the_queue_with_the_clusters_name() {
    let documents = documents("kubernetes-event-exporter.yaml");
    let configuration = &find(&documents, "kind", "ConfigMap")["data"]["config.yaml"];
    let configuration: Value =
        serde_saphyr::from_str(configuration.as_str().expect("text")).expect("YAML");
    let (record, body) = recorded("sqs-kubernetes-event-exporter");

    let rule = &configuration["route"]["routes"][0]["match"][0];
    assert!(matches(&rule["kind"], &body["involvedObject"]["kind"]), "{rule}");
    assert!(matches(&rule["reason"], &body["reason"]), "{rule}");
    let receiver = &configuration["receivers"][0];
    assert_eq!(rule["receiver"], receiver["name"]);
    let queue = record["eventSourceARN"].as_str().and_then(|arn| arn.rsplit(':').next());
    assert_eq!(receiver["sqs"]["queueName"].as_str(), queue);
    assert_eq!(receiver["sqs"]["region"], record["awsRegion"]);
    assert_eq!(receiver["sqs"]["layout"], Value::Null, "it sends the Event as it is");
    assert_eq!(configuration["clusterName"], body["clusterName"]);
    assert_eq!(reading(&function::event("sqs-kubernetes-event-exporter")), "blue/shop");
}

#[test]
fn knative_puts_its_recorded_event_into_the_queue_whole_with_the_cluster_beside_the_reference() {
    let documents = documents("knative.yaml");
    let source = &find(&documents, "kind", "ApiServerSource")["spec"];
    let transform = find(&documents, "kind", "EventTransform");
    let sink = find(&documents, "kind", "IntegrationSink");
    let (record, body) = recorded("sqs-knative-reference");

    assert_eq!(source["mode"], "Reference");
    assert_eq!(body["type"], "dev.knative.apiserver.ref.update");
    let watched = source["resources"].as_array().expect("resources");
    let watched = watched.iter().any(|resource| {
        resource["kind"] == body["data"]["kind"]
            && resource["apiVersion"] == body["data"]["apiVersion"]
    });
    assert!(watched, "{body}");
    assert_eq!(source["ceOverrides"]["extensions"]["cluster"], body["cluster"]);
    assert_eq!(source["sink"]["ref"]["name"], transform["metadata"]["name"]);
    let expression = transform["spec"]["jsonata"]["expression"].as_str().expect("an expression");
    assert!(expression.contains(r#""data": $string($)"#), "the whole event, as text: {expression}");
    assert_eq!(transform["spec"]["sink"]["ref"]["name"], sink["metadata"]["name"]);
    assert_eq!(sink["spec"]["aws"]["sqs"]["arn"], record["eventSourceARN"]);
    assert_eq!(reading(&function::event("sqs-knative-reference")), "blue/shop/web");
}

#[test]
fn argo_events_invokes_the_function_for_the_service_of_its_recorded_events() {
    let documents = documents("argo-events.yaml");
    let source = &find(&documents, "kind", "EventSource")["spec"]["resource"];
    let sensor = &find(&documents, "kind", "Sensor")["spec"];
    let on_the_bus = recorded("sqs-argo-events").1["data_base64"].clone();
    let slice = decode(on_the_bus.as_str().expect("base64"));
    let service = recorded("sqs-argo-events-data").1;
    let rows = [
        ("slice", slice, function::event("direct-sync-service"), "sync blue/shop/web"),
        ("service", service, crate::run::sync_of("green", "checkout"), "sync green/shop/checkout"),
    ];
    for (dependency, data, payload, scope) in rows {
        let named = find(&sensor["dependencies"], "name", dependency);
        let event_source = &source[named["eventName"].as_str().expect("a name")];
        for field in ["group", "version", "resource"] {
            assert_eq!(event_source[field], data[field], "{dependency}");
        }
        assert!(event_source["metadata"]["cluster"].is_string(), "{dependency}");
        let triggers = sensor["triggers"].as_array().expect("triggers");
        let trigger = triggers.iter().find(|it| it["template"]["conditions"] == dependency);
        let mapping = &trigger.expect("a trigger")["template"]["awsLambda"]["payload"];
        assert_eq!(construct(mapping, dependency, &data), payload);
        assert_eq!(reading(&payload), scope);
    }
}

fn decode(text: &str) -> Value {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).expect("base64");
    serde_json::from_slice(&bytes).expect("JSON")
}

/// The payload that a sensor constructs: for each `dest` the value at the data's `dataKey`, a path
/// with dots, or the literal `value` where there is no path.
/// <https://github.com/argoproj/argo-events/blob/master/pkg/sensors/triggers/params.go>
fn construct(mapping: &Value, dependency: &str, data: &Value) -> Value {
    let mut payload = Map::new();
    for parameter in mapping.as_array().expect("parameters") {
        let source = &parameter["src"];
        assert_eq!(source["dependencyName"], dependency);
        let value = match source["dataKey"].as_str() {
            Some(path) => at(data, path).clone(),
            None => source["value"].clone(),
        };
        assert!(value.is_string(), "{parameter} in {data}");
        payload.insert(parameter["dest"].as_str().expect("a field").to_owned(), value);
    }
    Value::Object(payload)
}

/// A dot behind a backslash is part of a name.
fn at<'a>(data: &'a Value, path: &str) -> &'a Value {
    let path = path.replace(r"\.", "\0");
    path.split('.').fold(data, |value, name| &value[name.replace('\0', ".")])
}
