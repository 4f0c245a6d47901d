//! Reads the objects of an import from their JSON, as an API server has them. A field that the plan compares and that has
//! no value of the API is an error of that object's import.

use std::net::IpAddr;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::plan::{
    Addresses, Condition, DerivedService, Identity, ImportSpec, ImportStatus, Metadata,
    OwnerReference, Routing, ServiceImport, ServiceSpec, Slice, SliceEndpoint, Texts,
};
use crate::model::clusterset::{
    ExportedPort, ImportType, InternalTrafficPolicy, Protocol, SessionAffinity,
};
use crate::model::{Family, Timestamp};

/// A field without a value of the API.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its {field} is {value}, which is no value of the API")]
pub struct Unexpected {
    field: &'static str,
    value: String,
}

type Result<T> = std::result::Result<T, Unexpected>;

/// # Errors
/// Returns the field that has no value of the API.
pub fn import(object: &Value) -> Result<ServiceImport> {
    let (spec, status) = (&object["spec"], &object["status"]);
    Ok(ServiceImport {
        metadata: metadata(object),
        spec: ImportSpec {
            kind: parse(&spec["type"], "spec.type", ImportType::parse)?,
            ports: all(&spec["ports"], port)?,
            ips: addresses(&spec["ips"], "spec.ips")?,
            families: families(spec)?,
            routing: routing(spec),
        },
        status: ImportStatus {
            clusters: list(&status["clusters"]).map(|it| text(&it["cluster"])).collect(),
            conditions: all(&status["conditions"], condition)?,
            endpoint_slice_objects: maybe(&status["endpointSliceObjects"]),
        },
    })
}

/// # Errors
/// Returns the field that has no value of the API.
pub fn service(object: &Value) -> Result<DerivedService> {
    let spec = &object["spec"];
    Ok(DerivedService {
        metadata: metadata(object),
        spec: ServiceSpec {
            kind: text(&spec["type"]),
            selector: texts(&spec["selector"]),
            ports: all(&spec["ports"], port)?,
            families: families(spec)?,
            family_policy: maybe(&spec["ipFamilyPolicy"]),
            routing: routing(spec),
        },
        cluster_ips: addresses(&spec["clusterIPs"], "spec.clusterIPs")?,
    })
}

/// # Errors
/// Returns the field that has no value of the API.
pub fn slice(object: &Value) -> Result<Slice> {
    let mut zones = Vec::new();
    Ok(Slice {
        metadata: metadata(object),
        family: parse(&object["addressType"], "addressType", Family::parse)?,
        ports: all(&object["ports"], port)?.into_iter().collect(),
        endpoints: list(&object["endpoints"]).map(|it| endpoint(it, &mut zones)).collect(),
    })
}

/// `zones` are those of the endpoints before.
fn endpoint(endpoint: &Value, zones: &mut Vec<Arc<str>>) -> SliceEndpoint {
    let conditions = &endpoint["conditions"];
    let own = |value: &Value| value.as_str().map(Arc::from);
    let hints = list(&endpoint["hints"]["forZones"]);
    SliceEndpoint {
        addresses: Addresses::of(list(&endpoint["addresses"]).map(text).collect()),
        ready: conditions["ready"].as_bool(),
        serving: conditions["serving"].as_bool(),
        terminating: conditions["terminating"].as_bool(),
        hostname: own(&endpoint["hostname"]),
        node: own(&endpoint["nodeName"]),
        zone: endpoint["zone"].as_str().map(|zone| shared(zone, zones)),
        hints: hints.map(|it| shared(it["name"].as_str().unwrap_or_default(), zones)).collect(),
    }
}

/// The same text as before, if there was one: endpoints have few zones.
fn shared(text: &str, known: &mut Vec<Arc<str>>) -> Arc<str> {
    if let Some(text) = known.iter().find(|it| ***it == *text) {
        return Arc::clone(text);
    }
    let text: Arc<str> = Arc::from(text);
    known.push(Arc::clone(&text));
    text
}

pub fn metadata(object: &Value) -> Metadata {
    let metadata = &object["metadata"];
    let owner = |owner| OwnerReference::deserialize(owner).unwrap_or_default();
    Metadata {
        name: text(&metadata["name"]),
        identity: identity(object),
        labels: texts(&metadata["labels"]),
        annotations: texts(&metadata["annotations"]),
        owner_references: list(&metadata["ownerReferences"]).map(owner).collect(),
        manager: maybe(&metadata["managedFields"][0]["manager"]),
        is_terminating: !metadata["deletionTimestamp"].is_null(),
    }
}

pub fn identity(object: &Value) -> Identity {
    let metadata = &object["metadata"];
    Identity { uid: text(&metadata["uid"]), resource_version: text(&metadata["resourceVersion"]) }
}

/// The addresses of a Service; empty if it has none.
pub fn cluster_ips(object: &Value) -> Vec<IpAddr> {
    addresses(&object["spec"]["clusterIPs"], "spec.clusterIPs").unwrap_or_default()
}

fn routing(spec: &Value) -> Routing {
    let timeout = &spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
    let timeout = timeout.as_u64().and_then(|seconds| u32::try_from(seconds).ok());
    let session_affinity = match spec["sessionAffinity"].as_str() {
        Some("ClientIP") => SessionAffinity::ClientIp(timeout),
        _ => SessionAffinity::None,
    };
    let policy = spec["internalTrafficPolicy"].as_str().and_then(InternalTrafficPolicy::parse);
    Routing {
        session_affinity,
        internal_traffic_policy: policy.unwrap_or_default(),
        traffic_distribution: maybe(&spec["trafficDistribution"]),
    }
}

fn port(port: &Value) -> Result<ExportedPort> {
    Ok(ExportedPort {
        name: text(&port["name"]),
        protocol: protocol(port)?,
        number: number(&port["port"], "ports.port")?,
        app_protocol: maybe(&port["appProtocol"]),
    })
}

fn condition(condition: &Value) -> Result<Condition> {
    let field = |key: &str| text(&condition[key]);
    let time = |text: &str| text.parse::<Timestamp>().ok();
    let field_of_time = "status.conditions.lastTransitionTime";
    Ok(Condition {
        kind: field("type"),
        status: field("status"),
        reason: field("reason"),
        message: field("message"),
        observed_generation: condition["observedGeneration"].as_i64(),
        last_transition_time: parse(&condition["lastTransitionTime"], field_of_time, time)?,
    })
}

fn protocol(port: &Value) -> Result<Protocol> {
    if port["protocol"].is_null() {
        return Ok(Protocol::Tcp);
    }
    parse(&port["protocol"], "ports.protocol", Protocol::parse)
}

fn number(value: &Value, field: &'static str) -> Result<u16> {
    let number = value.as_u64().and_then(|number| u16::try_from(number).ok());
    number.ok_or_else(|| Unexpected { field, value: value.to_string() })
}

fn families(spec: &Value) -> Result<Vec<Family>> {
    all(&spec["ipFamilies"], |it| parse(it, "spec.ipFamilies", Family::parse))
}

/// A headless Service has the text `None` in place of an address.
fn addresses(value: &Value, field: &'static str) -> Result<Vec<IpAddr>> {
    let addresses = list(value).filter(|it| it.as_str() != Some("None"));
    addresses.map(|it| parse(it, field, |text| text.parse().ok())).collect()
}

fn all<T>(value: &Value, read: impl Fn(&Value) -> Result<T>) -> Result<Vec<T>> {
    list(value).map(read).collect()
}

fn parse<T>(
    value: &Value,
    field: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T> {
    let parsed = value.as_str().and_then(parse);
    parsed.ok_or_else(|| Unexpected { field, value: value.to_string() })
}

fn texts(value: &Value) -> Texts {
    let texts = value.as_object().into_iter().flatten();
    texts.map(|(key, value)| (key.clone(), text(value))).collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn maybe(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn text(value: &Value) -> String {
    maybe(value).unwrap_or_default()
}
