//! Reads the objects of an import from their JSON, as an API server has them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::Value;

use crate::import::plan::{
    Condition, DerivedService, Identity, ImportSpec, ImportStatus, Metadata, OwnerReference,
    Routing, ServiceImport, ServiceSpec, Slice, SliceEndpoint, SlicePort, Texts,
};
use crate::model::Family;
use crate::model::clusterset::{
    ExportedPort, ImportType, InternalTrafficPolicy, Protocol, SessionAffinity,
};

pub fn import(object: &Value) -> ServiceImport {
    let spec = &object["spec"];
    let status = &object["status"];
    ServiceImport {
        metadata: metadata(object),
        spec: ImportSpec {
            kind: ImportType::parse(&text(&spec["type"])).expect("a type"),
            ports: list(&spec["ports"]).map(port).collect(),
            ips: addresses(&spec["ips"]),
            families: families(spec),
            routing: routing(spec),
        },
        status: ImportStatus {
            clusters: list(&status["clusters"]).map(|it| text(&it["cluster"])).collect(),
            conditions: list(&status["conditions"]).map(condition).collect(),
            endpoint_slice_objects: maybe(&status["endpointSliceObjects"]),
        },
    }
}

pub fn service(object: &Value) -> DerivedService {
    let spec = &object["spec"];
    DerivedService {
        metadata: metadata(object),
        spec: ServiceSpec {
            kind: text(&spec["type"]),
            selector: texts(&spec["selector"]),
            ports: list(&spec["ports"]).map(port).collect(),
            families: families(spec),
            family_policy: maybe(&spec["ipFamilyPolicy"]),
            routing: routing(spec),
        },
        cluster_ips: addresses(&spec["clusterIPs"]),
    }
}

pub fn slice(object: &Value) -> Slice {
    let port = |port: &Value| SlicePort {
        name: text(&port["name"]),
        protocol: protocol(port),
        number: number(&port["port"]),
        app_protocol: maybe(&port["appProtocol"]),
    };
    Slice {
        metadata: metadata(object),
        family: Family::parse(&text(&object["addressType"])).expect("a family"),
        ports: list(&object["ports"]).map(port).collect(),
        endpoints: list(&object["endpoints"]).map(endpoint).collect(),
    }
}

fn endpoint(endpoint: &Value) -> SliceEndpoint {
    let conditions = &endpoint["conditions"];
    SliceEndpoint {
        addresses: list(&endpoint["addresses"]).map(text).collect(),
        ready: conditions["ready"].as_bool(),
        serving: conditions["serving"].as_bool(),
        terminating: conditions["terminating"].as_bool(),
        hostname: maybe(&endpoint["hostname"]),
        node: maybe(&endpoint["nodeName"]),
        zone: maybe(&endpoint["zone"]),
        hints: list(&endpoint["hints"]["forZones"]).map(|it| text(&it["name"])).collect(),
    }
}

fn metadata(object: &Value) -> Metadata {
    let metadata = &object["metadata"];
    let owner = |owner: &Value| OwnerReference {
        api_version: text(&owner["apiVersion"]),
        kind: text(&owner["kind"]),
        name: text(&owner["name"]),
        uid: text(&owner["uid"]),
        controller: owner["controller"].as_bool(),
        block_owner_deletion: owner["blockOwnerDeletion"].as_bool(),
    };
    Metadata {
        name: text(&metadata["name"]),
        identity: Identity {
            uid: text(&metadata["uid"]),
            resource_version: text(&metadata["resourceVersion"]),
        },
        labels: texts(&metadata["labels"]),
        annotations: texts(&metadata["annotations"]),
        owner_references: list(&metadata["ownerReferences"]).map(owner).collect(),
        manager: maybe(&metadata["managedFields"][0]["manager"]),
        is_terminating: !metadata["deletionTimestamp"].is_null(),
    }
}

fn routing(spec: &Value) -> Routing {
    let timeout = &spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
    let timeout = timeout.as_u64().map(|seconds| u32::try_from(seconds).expect("seconds"));
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

fn port(port: &Value) -> ExportedPort {
    ExportedPort {
        name: maybe(&port["name"]).unwrap_or_default(),
        protocol: protocol(port),
        number: number(&port["port"]),
        app_protocol: maybe(&port["appProtocol"]),
    }
}

fn condition(condition: &Value) -> Condition {
    let field = |key: &str| text(&condition[key]);
    Condition {
        kind: field("type"),
        status: field("status"),
        reason: field("reason"),
        message: field("message"),
        observed_generation: condition["observedGeneration"].as_i64(),
        last_transition_time: field("lastTransitionTime").parse().expect("a time"),
    }
}

fn protocol(port: &Value) -> Protocol {
    Protocol::parse(&text(&port["protocol"])).expect("a protocol")
}

fn number(value: &Value) -> u16 {
    value.as_u64().and_then(|number| u16::try_from(number).ok()).expect("a port")
}

fn families(spec: &Value) -> Vec<Family> {
    list(&spec["ipFamilies"]).map(|it| Family::parse(&text(it)).expect("a family")).collect()
}

fn addresses(value: &Value) -> Vec<IpAddr> {
    list(value).map(|it| text(it).parse().expect("an address")).collect()
}

fn texts(value: &Value) -> Texts {
    let texts = value.as_object().into_iter().flatten();
    texts.map(|(key, value)| (key.clone(), text(value))).collect::<BTreeMap<_, _>>()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn maybe(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn text(value: &Value) -> String {
    maybe(value).expect("a text")
}
