//! What a CloudWatch Logs subscription delivers of an EKS cluster's audit log: a gzipped batch of
//! lines, each an audit event of the API server. A finished write on a Service, its Endpoints or an
//! EndpointSlice gives a scope, read like any other sender's object; everything else is passed over,
//! since no filter of a subscription is exact. The cluster is named by the log group.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::object::{self, Metadata};
use super::{Error, Message, Scope, Unusable, name};

/// The most text that is unpacked: CloudWatch Logs sends far less, and gzip could hold a thousand
/// times what Lambda takes.
const LARGEST_BATCH: u64 = 64 * 1024 * 1024;
/// The resources whose writes change what is registered.
const FOLLOWED: [&str; 3] = ["services", "endpoints", "endpointslices"];
const WRITES: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Batch {
    message_type: String,
    #[serde(default)]
    log_group: String,
    #[serde(default)]
    log_events: Vec<Line>,
}

#[derive(Deserialize)]
struct Line {
    id: String,
    message: String,
}

/// The part of an `audit.k8s.io/v1` Event that says what was written, and whether it was.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuditEvent {
    stage: String,
    verb: String,
    object_ref: Option<ObjectReference>,
    response_status: Option<ResponseStatus>,
    request_object: Option<Value>,
    response_object: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectReference {
    resource: String,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    api_group: Option<String>,
    api_version: Option<String>,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

/// Reads `{"awslogs":{"data":…}}`. A line that is no audit event is an unusable message.
pub(super) fn read(payload: &Map<String, Value>) -> Result<Vec<Message>, Error> {
    let batch = unpack(payload).ok_or(Error::LogsNotReadable)?;
    if batch.message_type == "CONTROL_MESSAGE" {
        return Ok(Vec::new());
    }
    let cluster = cluster(&batch.log_group).ok_or(Error::LogsNotOfCluster)?;
    let messages = batch.log_events.into_iter().filter_map(|line| {
        let reading = read_line(&line.message).transpose()?;
        let reading = reading.map(|scope| scope.in_cluster(Some(cluster.clone())));
        Some(Message { id: line.id, reading })
    });
    Ok(messages.collect())
}

fn unpack(payload: &Map<String, Value>) -> Option<Batch> {
    let packed = STANDARD.decode(payload.get("awslogs")?.get("data")?.as_str()?).ok()?;
    let mut text = String::new();
    GzDecoder::new(packed.as_slice()).take(LARGEST_BATCH).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// The cluster whose control plane writes to a log group: `/aws/eks/NAME/cluster`.
fn cluster(log_group: &str) -> Option<String> {
    let cluster = log_group.strip_prefix("/aws/eks/")?.strip_suffix("/cluster")?;
    name::cluster(cluster).ok()
}

fn read_line(message: &str) -> Result<Option<Scope>, Unusable> {
    let event: AuditEvent = serde_json::from_str(message).map_err(|_| Unusable::NotJson)?;
    let Some(written) = event.written() else { return Ok(None) };
    let version = match written.api_group.as_deref() {
        None | Some("") => "v1".to_owned(),
        Some(group) => format!("{group}/{}", written.api_version.as_deref().unwrap_or("v1")),
    };
    let read = |metadata: &Map<String, Value>| {
        let metadata = Metadata::read(metadata)?;
        object::scope(&written.resource, Some(&version), &metadata)
    };
    let object = [&event.response_object, &event.request_object].into_iter().flatten();
    for metadata in object.filter_map(|object| object.get("metadata")?.as_object()) {
        let of_object = written.completed(metadata);
        if let Ok(scope) = read(&of_object) {
            return Ok(Some(scope));
        }
    }
    match read(&written.completed(&Map::new())) {
        Err(Unusable::IncompleteScope { missing: "name" }) => written.whole_namespace().map(Some),
        scope => scope.map(Some),
    }
}

impl AuditEvent {
    /// What was written, where it is followed and the API server says that it was done.
    fn written(&self) -> Option<&ObjectReference> {
        let done = self.response_status.as_ref().is_none_or(|status| status.code < 300);
        let finished = self.stage == "ResponseComplete" && done;
        let object = self.object_ref.as_ref().filter(|_| finished)?;
        let followed = FOLLOWED.contains(&object.resource.as_str()) && object.subresource.is_none();
        (followed && WRITES.contains(&self.verb.as_str())).then_some(object)
    }
}

impl ObjectReference {
    /// Metadata of the object, with the name and namespace that the request was about.
    fn completed(&self, metadata: &Map<String, Value>) -> Map<String, Value> {
        let mut metadata = metadata.clone();
        for (field, text) in [("namespace", &self.namespace), ("name", &self.name)] {
            if let Some(text) = text {
                metadata.insert(field.to_owned(), Value::String(text.clone()));
            }
        }
        metadata
    }

    /// An object whose name the API server made up, or all objects of a namespace: at the level
    /// `Metadata` the log does not say which.
    fn whole_namespace(&self) -> Result<Scope, Unusable> {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        Ok(Scope::inside(name::namespace(namespace)?, None))
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use serde_json::json;
    use std::io::Write;

    use super::*;

    fn pack(batch: &Value) -> Value {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(batch.to_string().as_bytes()).expect("memory");
        json!({"awslogs": {"data": STANDARD.encode(encoder.finish().expect("memory"))}})
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

    fn said(line: &Value) -> Option<String> {
        let payload = batch("/aws/eks/blue/cluster", &[line.to_string()]);
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
        let endpoints = json!({"resource": "endpoints", "namespace": "shop", "name": "web", "apiVersion": "v1"});
        let labels = json!({"labels": {"kubernetes.io/service-name": "cart"}});
        let mut created = event("create", &slice(None));
        created["responseObject"] = json!({"metadata": labels});
        let mut patched = event("patch", &slice(Some("web-x7k2p")));
        patched["requestObject"] = json!({"endpoints": []});
        let rows = [
            (event("patch", &service), "blue/shop/web"),
            (event("delete", &endpoints), "blue/shop/web"),
            (event("update", &slice(Some("web-x7k2p"))), "blue/shop/web"),
            (patched, "blue/shop/web"),
            (created, "blue/shop/cart"),
            // At the level Metadata the log has no name that the API server made up.
            (event("create", &slice(None)), "blue/shop"),
            (event("deletecollection", &slice(None)), "blue/shop"),
        ];
        for (line, expected) in rows {
            assert_eq!(said(&line).as_deref(), Some(expected), "{line}");
        }
    }

    #[test]
    fn what_changes_no_registration_is_passed_over() {
        let service =
            json!({"resource": "services", "namespace": "shop", "name": "web", "apiVersion": "v1"});
        let mut refused = event("patch", &service);
        refused["responseStatus"]["code"] = json!(409);
        let mut begun = event("patch", &service);
        begun["stage"] = json!("RequestReceived");
        let mut status = service.clone();
        status["subresource"] = json!("status");
        let pod =
            json!({"resource": "pods", "namespace": "shop", "name": "web-1", "apiVersion": "v1"});
        let rows = [
            event("get", &service),
            event("watch", &slice(None)),
            event("patch", &status),
            event("patch", &pod),
            refused,
            begun,
        ];
        for line in rows {
            assert_eq!(said(&line), None, "{line}");
        }
    }

    #[test]
    fn a_line_that_is_no_audit_event_is_unusable_beside_good_ones() {
        let good = event("update", &slice(Some("web-x7k2p"))).to_string();
        let payload = batch("/aws/eks/blue/cluster", &["{\"kind\":\"Ev".to_owned(), good]);
        let messages = read(payload.as_object().expect("an object")).expect("a batch");
        let readings: Vec<_> = messages.iter().map(|message| message.reading.is_ok()).collect();
        assert_eq!(readings, [false, true]);
    }

    #[test]
    fn hostile_names_are_refused() {
        let line = event(
            "update",
            &json!({"resource": "services", "namespace": "shop", "name": "../x\n"}),
        );
        assert_eq!(said(&line).as_deref(), Some("invalid_name"));
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
}
