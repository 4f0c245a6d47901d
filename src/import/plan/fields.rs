//! The fields that a ServiceImport and a Service have in common, as JSON. Empty ones are left out, as the API server
//! returns them.

use serde_json::{Map, Value, json};

use super::present::Routing;
use crate::model::Family;
use crate::model::clusterset::{ClustersetService, ExportedPort, SessionAffinity};

/// `spec` with the ports, families and properties.
pub(super) fn spec(ports: &[ExportedPort], families: &[Family], routing: &Routing) -> Value {
    let affinity = routing.session_affinity;
    let mut spec = Map::from_iter([
        ("ports".to_owned(), ports.iter().map(port).collect()),
        ("sessionAffinity".to_owned(), json!(affinity.as_str())),
        ("internalTrafficPolicy".to_owned(), json!(routing.internal_traffic_policy.as_str())),
    ]);
    if !families.is_empty() {
        let families: Vec<&str> = families.iter().map(|family| family.as_str()).collect();
        spec.insert("ipFamilies".to_owned(), json!(families));
    }
    if let SessionAffinity::ClientIp(Some(seconds)) = affinity {
        let config = json!({"clientIP": {"timeoutSeconds": seconds}});
        spec.insert("sessionAffinityConfig".to_owned(), config);
    }
    if let Some(distribution) = &routing.traffic_distribution {
        spec.insert("trafficDistribution".to_owned(), json!(distribution));
    }
    Value::Object(spec)
}

fn port(port: &ExportedPort) -> Value {
    let mut value = json!({"protocol": port.protocol.as_str(), "port": port.number});
    if !port.name.is_empty() {
        value["name"] = json!(port.name);
    }
    if let Some(protocol) = &port.app_protocol {
        value["appProtocol"] = json!(protocol);
    }
    value
}

/// The ports as a person reads them: `http:80/TCP`.
pub(super) fn describe_ports(ports: &[ExportedPort]) -> String {
    let describe = |port: &ExportedPort| {
        let colon = if port.name.is_empty() { "" } else { ":" };
        format!("{}{colon}{}/{}", port.name, port.number, port.protocol.as_str())
    };
    let texts: Vec<String> = ports.iter().map(describe).collect();
    if texts.is_empty() { "no ports".to_owned() } else { texts.join(" ") }
}

pub(super) fn describe_families(families: &[Family]) -> String {
    let texts: Vec<&str> = families.iter().map(|family| family.as_str()).collect();
    texts.join(" ")
}

/// The properties of a service that both objects have.
pub(super) fn routing(service: &ClustersetService) -> Routing {
    let properties = &service.properties;
    Routing {
        session_affinity: properties.session_affinity,
        internal_traffic_policy: properties.internal_traffic_policy,
        traffic_distribution: properties.traffic_distribution.clone(),
    }
}
