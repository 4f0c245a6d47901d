//! What every write of a client goes through before it is stored: the object is decoded, completed and checked, as the
//! strategy of its kind does on a real server.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::resource::{ENDPOINT_SLICES, Resource, SERVICES};
use super::service::client_defaults;
use super::status::Failure;
use super::world::World;
use super::{metadata, schema, schema_check, service_rules, slice_rules};

/// The object as it would be stored, or why it cannot be. `strict` is the client's wish to be told of unknown fields.
pub fn complete(
    world: &mut World,
    resource: &Resource,
    object: Value,
    before: Option<&Value>,
    strict: bool,
) -> Result<Value, Failure> {
    let (mut object, unknown) = decode(world, resource, object)?;
    if strict && !unknown.is_empty() {
        let fields = unknown.iter().map(|field| format!("unknown field \"{field}\""));
        let fields = fields.collect::<Vec<_>>().join(", ");
        return Err(unreadable(resource, &format!("strict decoding error: {fields}")));
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if *resource == SERVICES {
        client_defaults(&mut object);
        let causes = world.addresses.complete(&mut object, before);
        if !causes.is_empty() {
            return Err(Failure::invalid(resource, &name, &causes));
        }
    }
    let mut causes = metadata::causes(resource, &object["metadata"]);
    causes.extend(kind_causes(world, resource, &object, before));
    if causes.is_empty() { Ok(object) } else { Err(Failure::invalid(resource, &name, &causes)) }
}

fn kind_causes(
    world: &World,
    resource: &Resource,
    object: &Value,
    before: Option<&Value>,
) -> Vec<String> {
    if *resource == SERVICES {
        return service_rules::causes(object, before, world.minor);
    }
    if *resource == ENDPOINT_SLICES {
        return slice_rules::causes(object, before);
    }
    let schema = schema::of(resource, world.multi_cluster.declares_slice_objects);
    schema.map(|schema| schema_check::causes(object, &schema)).unwrap_or_default()
}

/// Drops what the kind does not declare and refuses values of other types.
fn decode(
    world: &World,
    resource: &Resource,
    mut object: Value,
) -> Result<(Value, Vec<String>), Failure> {
    if *resource == SERVICES {
        return Ok((typed::<Service>(resource, &object)?, Vec::new()));
    }
    if *resource == ENDPOINT_SLICES {
        let mut slice = typed::<EndpointSlice>(resource, &object)?;
        complete_slice(&mut slice);
        return Ok((slice, Vec::new()));
    }
    let _: ObjectMeta = serde_json::from_value(object["metadata"].clone())
        .map_err(|error| unreadable(resource, &error.to_string()))?;
    let schema = schema::of(resource, world.multi_cluster.declares_slice_objects);
    let unknown = schema.map(|schema| schema_check::prune(&mut object, &schema));
    Ok((object, unknown.unwrap_or_default()))
}

fn typed<T: Serialize + DeserializeOwned>(
    resource: &Resource,
    object: &Value,
) -> Result<Value, Failure> {
    let decoded: T = serde_json::from_value(object.clone())
        .map_err(|error| unreadable(resource, &error.to_string()))?;
    let mut decoded = serde_json::to_value(decoded).expect("JSON of a typed object");
    decoded["metadata"] = object["metadata"].clone();
    Ok(decoded)
}

fn unreadable(resource: &Resource, why: &str) -> Failure {
    let (kind, version) = (resource.kind, resource.versions[0]);
    let text = format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}");
    Failure::bad_request(text)
}

/// The server's defaults of ports; empty lists come back from etcd as null.
fn complete_slice(slice: &mut Value) {
    for port in slice["ports"].as_array_mut().into_iter().flatten() {
        for (key, default) in [("name", ""), ("protocol", "TCP")] {
            if port[key].is_null() {
                port[key] = default.into();
            }
        }
    }
    for key in ["endpoints", "ports"] {
        if slice[key].as_array().is_none_or(Vec::is_empty) {
            slice[key] = Value::Null;
        }
    }
}
