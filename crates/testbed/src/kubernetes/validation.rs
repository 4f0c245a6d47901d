//! Completes the objects that clients write, as the strategy of their kind does on a real server, and refuses what the
//! function reacts to: families and addresses that the cluster does not have, and a value that is newer than the
//! server. An end-to-end test has a real server check the rest (`recorded`).

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::resource::{ENDPOINT_SLICES, Resource, SERVICE_IMPORTS, SERVICES};
use super::service::client_defaults;
use super::status::Failure;
use super::world::World;

/// The object as it would be stored.
pub fn complete(
    world: &mut World,
    resource: &Resource,
    mut object: Value,
    before: Option<&Value>,
) -> Result<Value, Failure> {
    if *resource == SERVICES {
        let mut service = typed::<Service>(resource, &object)?;
        client_defaults(&mut service);
        let mut causes = world.addresses.complete(&mut service, before);
        causes.extend(distribution_cause(&service, world.minor));
        let name = service["metadata"]["name"].as_str().unwrap_or_default();
        return if causes.is_empty() {
            Ok(service)
        } else {
            Err(Failure::invalid(resource, name, &causes))
        };
    }
    if *resource == ENDPOINT_SLICES {
        let mut slice = typed::<EndpointSlice>(resource, &object)?;
        complete_slice(&mut slice);
        return Ok(slice);
    }
    if *resource == SERVICE_IMPORTS
        && !world.multi_cluster.declares_slice_objects
        && let Some(status) = object["status"].as_object_mut()
    {
        status.remove("endpointSliceObjects");
    }
    Ok(object)
}

/// A server before 1.33 knows one value.
fn distribution_cause(service: &Value, minor: u32) -> Option<String> {
    let known = ["PreferClose", "PreferSameNode", "PreferSameZone"];
    let known = if minor < 33 { &known[..1] } else { &known };
    let value = service["spec"]["trafficDistribution"].as_str();
    let value = value.filter(|value| !known.contains(value))?;
    let known: Vec<String> = known.iter().map(|known| format!("\"{known}\"")).collect();
    let known = known.join(", ");
    Some(format!(
        "spec.trafficDistribution: Unsupported value: \"{value}\": supported values: {known}"
    ))
}

/// Only the fields of the kind.
fn typed<T: Serialize + DeserializeOwned>(
    resource: &Resource,
    object: &Value,
) -> Result<Value, Failure> {
    let decoded = serde_json::from_value::<T>(object.clone()).map_err(|error| {
        let kind = resource.kind;
        let version = resource.versions[0];
        let text =
            format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {error}");
        Failure::bad_request(text)
    })?;
    let mut decoded = serde_json::to_value(decoded).expect("JSON of a typed object");
    decoded["metadata"] = object["metadata"].clone();
    Ok(decoded)
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
