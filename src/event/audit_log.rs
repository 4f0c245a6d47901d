//! The payload of a CloudWatch Logs subscription to an EKS cluster's audit log: a gzipped batch of lines, each an audit
//! event of the API server. Each successful write of a Service, its Endpoints, an EndpointSlice, a ServiceExport or a
//! Namespace yields a scope, which is derived from the object's metadata by the same rules as for the other event
//! sources. A subscription filter cannot select exactly these lines, so all other lines are ignored here. Writes by the
//! function itself, recognized by its Kubernetes user group, are ignored too. The log group names the cluster.

#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{BufReader, Read};

use base64::engine::{Engine, general_purpose};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::{Error, Message, Scope, Unusable, object};

/// The limit of the unpacked text, in bytes. CloudWatch Logs sends far less, but gzip can expand a payload a
/// thousandfold.
const LARGEST_BATCH: u64 = 64 * 1024 * 1024;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Batch {
    message_type: String,
    #[serde(default)]
    log_group: String,
    #[serde(default)]
    log_events: Vec<AuditLine>,
}

#[derive(Deserialize)]
struct AuditLine {
    id: String,
    message: String,
}

/// Reads `{"awslogs":{"data":…}}`. A line that is not an audit event becomes an unusable message.
pub(super) fn read(payload: &Map<String, Value>) -> Result<Vec<Message>, Error> {
    let batch = unpack(payload).ok_or(Error::LogsNotReadable)?;
    if batch.message_type == "CONTROL_MESSAGE" {
        return Ok(Vec::new());
    }
    let cluster = cluster(&batch.log_group).ok_or(Error::LogsNotOfCluster)?;
    let messages = batch.log_events.into_iter().filter_map(|line| {
        let scope = read_line(&line.message).transpose()?;
        let scope = scope.map(|scope| scope.in_cluster(Some(cluster.clone())));
        Some(Message { id: line.id, receipt: None, reading: scope })
    });
    Ok(messages.collect())
}

fn unpack(payload: &Map<String, Value>) -> Option<Batch> {
    let packed =
        general_purpose::STANDARD.decode(payload.get("awslogs")?.get("data")?.as_str()?).ok()?;
    let text = flate2::read::GzDecoder::new(packed.as_slice()).take(LARGEST_BATCH);
    serde_json::from_reader(BufReader::new(text)).ok()
}

/// Returns the cluster of a log group: `/aws/eks/NAME/cluster`.
fn cluster(log_group: &str) -> Option<String> {
    let cluster = log_group.strip_prefix("/aws/eks/")?.strip_suffix("/cluster")?;
    object::check_cluster(cluster).ok()
}

/// The resources whose writes can change a registration or an import.
const FOLLOWED: [&str; 5] =
    ["services", "endpoints", "endpointslices", "serviceexports", "namespaces"];
/// The Kubernetes user group that `deploy/` gives the function. A write by the function needs no sync.
const OWN_USER_GROUP: &str = "cloud-map-sync";
const WRITES: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];

/// The metadata of an `audit.k8s.io/v1` Event.
#[derive(Default)]
struct AuditEvent {
    stage: String,
    verb: String,
    user: User,
    object_ref: Option<ObjectReference>,
    response_status: Option<ResponseStatus>,
    /// Whether parsing failed inside `requestObject` or `responseObject`, for example because the log cut the line
    /// there.
    breaks_in_body: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectReference {
    resource: String,
    subresource: Option<String>,
    api_group: Option<String>,
    api_version: Option<String>,
    /// An `objectRef` has only a name and a namespace, no labels or owners.
    #[serde(flatten)]
    metadata: object::EventMetadata,
}

#[derive(Default, Deserialize)]
struct User {
    #[serde(default)]
    groups: Vec<String>,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

/// Returns the scope of an audit line, or `None` if the line needs no sync: it is not a successful write of a followed
/// resource, or the function wrote the object.
pub(super) fn read_line(message: &str) -> Result<Option<Scope>, Unusable> {
    let mut event = AuditEvent::default();
    let mut text = serde_json::Deserializer::from_str(message);
    let read = text.deserialize_map(&mut event).and_then(|()| text.end());
    // A log may cut a long line. The line is still usable if the cut is inside an object: the API server writes
    // `objectRef` before the objects.
    let is_readable = read.is_ok() || event.breaks_in_body && event.object_ref.is_some();
    if !is_readable || event.stage.is_empty() {
        return Err(Unusable::NotJson);
    }
    let Some(written) = event.followed_write() else { return Ok(None) };
    let version = match written.api_group.as_deref() {
        None | Some("") => "v1".to_owned(),
        Some(group) => format!("{group}/{}", written.api_version.as_deref().unwrap_or("v1")),
    };
    match object::scope(&written.resource, Some(&version), &written.metadata) {
        // An object that the function imported needs no sync. Other API groups have resources of the same name, such as
        // Knative's services.
        Err(Unusable::Imported | Unusable::UnknownKind { .. }) => Ok(None),
        Err(Unusable::IncompleteScope { missing: "name" }) => written.namespace_scope().transpose(),
        scope => scope.map(Some),
    }
}

/// Reads only the fields of `AuditEvent`. Skips all others, such as `requestObject` and `responseObject`, without
/// allocating them and without a recursion limit, since tenants control the depth and size of these objects.
impl<'de> Visitor<'de> for &mut AuditEvent {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an audit event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(field) = fields.next_key::<String>()? {
            match field.as_str() {
                "stage" => self.stage = fields.next_value()?,
                "verb" => self.verb = fields.next_value()?,
                "user" => self.user = fields.next_value()?,
                "objectRef" => self.object_ref = fields.next_value()?,
                "responseStatus" => self.response_status = fields.next_value()?,
                other => {
                    self.breaks_in_body = matches!(other, "requestObject" | "responseObject");
                    fields.next_value::<IgnoredAny>()?;
                    self.breaks_in_body = false;
                }
            }
        }
        Ok(())
    }
}

impl AuditEvent {
    /// Returns the reference to the written object, if the write succeeded, is of a followed resource and not of a
    /// subresource, and is not the function's own.
    fn followed_write(&self) -> Option<&ObjectReference> {
        let succeeded = self.response_status.as_ref().is_none_or(|status| status.code < 300);
        let finished = self.stage == "ResponseComplete" && succeeded;
        let is_own = self.user.groups.iter().any(|group| group == OWN_USER_GROUP);
        let object = self.object_ref.as_ref().filter(|_| finished && !is_own)?;
        let followed = FOLLOWED.contains(&object.resource.as_str()) && object.subresource.is_none();
        (followed && WRITES.contains(&self.verb.as_str())).then_some(object)
    }
}

impl ObjectReference {
    /// Returns the scope of the whole namespace. An `objectRef` has no name if the API server generates the name
    /// (`generateName`) or if the verb is `deletecollection`.
    ///
    /// Returns `None` for a namespace that is created with a generated name: it has no Service yet.
    fn namespace_scope(&self) -> Option<Result<Scope, Unusable>> {
        let namespace = self.metadata.namespace.as_deref()?;
        Some(object::check_namespace(namespace).map(|namespace| Scope::inside(namespace, None)))
    }
}
