//! Tests of the stand-in's surprising rules, by request and reply with tokio's clock paused. They are grouped by
//! subject and use no client library.

mod answers;
mod guarding;
mod lists;
mod operations;
mod planes;

use std::time::Duration;

use axum::body::{Bytes, to_bytes};
use axum::http::Request;
use serde_json::{Value, json};

use super::{CloudMap, NamespaceKind, RecordType, ServiceKind};

const AUTHORIZATION: &str = "AWS4-HMAC-SHA256 \
    Credential=AK/20261121/us-west-2/servicediscovery/aws4_request, SignedHeaders=host, Signature=00";

fn cloud_map() -> CloudMap {
    CloudMap::new("us-west-2", "111122223333")
}

/// An HTTP namespace with one service; its id.
fn http_service(map: &CloudMap, name: &str) -> String {
    let namespace =
        map.find_namespace("shop").unwrap_or_else(|| map.namespace("shop", NamespaceKind::Http));
    map.service(&namespace, name, ServiceKind::Http)
}

/// A private DNS namespace with one service as ECS service discovery has it; its id.
fn dns_service(map: &CloudMap, records: &[RecordType]) -> String {
    let namespace = map.namespace("corp.local", NamespaceKind::DnsPrivate);
    let records = records.iter().map(|record| (*record, 60)).collect();
    map.service(&namespace, "web", ServiceKind::Dns { records, custom_health: true })
}

fn request(host: &str, operation: &str, body: &Value) -> Request<Bytes> {
    Request::post("/")
        .header("host", host)
        .header("content-type", "application/x-amz-json-1.1")
        .header("x-amz-target", format!("Route53AutoNaming_v20170314.{operation}"))
        .header("authorization", AUTHORIZATION)
        .body(Bytes::from(body.to_string()))
        .expect("a request")
}

/// Sends any request; the status and the JSON of the answer, null where it is empty.
async fn send(map: &CloudMap, request: Request<Bytes>) -> (u16, Value) {
    let response = map.answer(request).await;
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), usize::MAX).await.expect("a whole body");
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

async fn call(map: &CloudMap, operation: &str, body: Value) -> (u16, Value) {
    send(map, request("servicediscovery.us-west-2.amazonaws.com", operation, &body)).await
}

/// A call that must succeed; its body.
async fn done(map: &CloudMap, operation: &str, body: Value) -> Value {
    let (status, answer) = call(map, operation, body).await;
    assert_eq!(status, 200, "{operation}: {answer}");
    answer
}

/// A call that must fail; the name of its error.
async fn refused(map: &CloudMap, operation: &str, body: Value) -> String {
    let (status, answer) = call(map, operation, body).await;
    assert!(status >= 400, "{operation}: {answer}");
    answer["__type"].as_str().expect("a name").to_owned()
}

async fn discover(map: &CloudMap, body: Value) -> Value {
    send(map, request("data-servicediscovery.us-west-2.amazonaws.com", "DiscoverInstances", &body))
        .await
        .1
}

fn registration(service: &str, instance: &str, attributes: &Value) -> Value {
    json!({ "ServiceId": service, "InstanceId": instance, "Attributes": attributes })
}

/// Registers and waits for the operation; how it ended.
async fn register(map: &CloudMap, service: &str, instance: &str, attributes: Value) -> Value {
    let accepted =
        done(map, "RegisterInstance", registration(service, instance, &attributes)).await;
    ended(map, &accepted).await
}

/// The operation that a call was answered with, after it has ended.
async fn ended(map: &CloudMap, accepted: &Value) -> Value {
    tokio::time::sleep(Duration::from_millis(30)).await;
    let answer = done(map, "GetOperation", json!({ "OperationId": accepted["OperationId"] })).await;
    answer["Operation"].clone()
}
