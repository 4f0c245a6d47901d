//! What the API server refuses of an EndpointSlice (k8s.io/kubernetes pkg/apis/discovery/validation).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use super::names::{is_label, is_subdomain};
use super::service_rules::{PROTOCOLS, app_protocol_cause, choice_cause};

const MOST_ENDPOINTS: usize = 1000;
const MOST_ADDRESSES: usize = 100;
const MOST_ZONES: usize = 8;

/// What is wrong with a slice, and with its change if there was one before.
pub fn causes(slice: &Value, before: Option<&Value>) -> Vec<String> {
    let mut causes = Vec::new();
    let family = slice["addressType"].as_str().unwrap_or_default();
    if family.is_empty() {
        causes.push("addressType: Required value".to_owned());
    }
    causes.extend(choice_cause("addressType", &slice["addressType"], &["FQDN", "IPv4", "IPv6"]));
    causes.extend(port_causes(list(&slice["ports"])));
    causes.extend(endpoints_causes(list(&slice["endpoints"]), family));
    if before.is_some_and(|before| before["addressType"] != slice["addressType"]) {
        causes.push(format!("addressType: Invalid value: \"{family}\": field is immutable"));
    }
    causes
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn port_causes(ports: &[Value]) -> Vec<String> {
    let mut causes = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let path = format!("ports[{index}]");
        let name = port["name"].as_str().unwrap_or_default();
        if !name.is_empty() && !is_label(name) {
            causes.push(invalid(&format!("{path}.name"), name, LABEL));
        }
        if ports[..index].iter().any(|other| other["name"] == port["name"]) {
            causes.push(format!("{path}.name: Duplicate value: \"{name}\""));
        }
        causes.extend(choice_cause(&format!("{path}.protocol"), &port["protocol"], &PROTOCOLS));
        causes.extend(app_protocol_cause(port, &path));
    }
    causes
}

fn endpoints_causes(endpoints: &[Value], family: &str) -> Vec<String> {
    if endpoints.len() > MOST_ENDPOINTS {
        return vec![too_many("endpoints", endpoints.len(), MOST_ENDPOINTS)];
    }
    let mut causes = Vec::new();
    for (index, endpoint) in endpoints.iter().enumerate() {
        let path = format!("endpoints[{index}]");
        causes.extend(addresses_causes(list(&endpoint["addresses"]), family, &path));
        if let Some(node) = endpoint["nodeName"].as_str().filter(|node| !is_subdomain(node)) {
            causes.push(invalid(&format!("{path}.nodeName"), node, SUBDOMAIN));
        }
        if let Some(host) = endpoint["hostname"].as_str().filter(|host| !is_label(host)) {
            causes.push(invalid(&format!("{path}.hostname"), host, LABEL));
        }
        let zones = list(&endpoint["hints"]["forZones"]);
        if zones.len() > MOST_ZONES {
            causes.push(too_many(&format!("{path}.hints.forZones"), zones.len(), MOST_ZONES));
        }
        for (number, zone) in zones.iter().enumerate() {
            if zones[..number].contains(zone) {
                let path = format!("{path}.hints.forZones[{number}].name");
                causes.push(format!("{path}: Duplicate value: {}", zone["name"]));
            }
        }
    }
    causes
}

fn addresses_causes(addresses: &[Value], family: &str, path: &str) -> Vec<String> {
    let path = format!("{path}.addresses");
    if addresses.is_empty() {
        return vec![format!("{path}: Required value: must contain at least 1 address")];
    }
    if addresses.len() > MOST_ADDRESSES {
        return vec![too_many(&path, addresses.len(), MOST_ADDRESSES)];
    }
    let texts = addresses.iter().filter_map(Value::as_str).enumerate();
    let causes = texts.filter_map(|(index, address)| {
        let why = address_cause(address, family)?;
        Some(invalid(&format!("{path}[{index}]"), address, why))
    });
    causes.collect()
}

fn address_cause(address: &str, family: &str) -> Option<&'static str> {
    let parsed = address.parse::<IpAddr>();
    match (family, parsed) {
        ("FQDN", _) => (!is_subdomain(address)).then_some(SUBDOMAIN),
        (_, Err(_)) => Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        ("IPv4", Ok(IpAddr::V6(_))) => Some("must be an IPv4 address"),
        ("IPv6", Ok(IpAddr::V4(_))) => Some("must be an IPv6 address"),
        (_, Ok(IpAddr::V6(parsed))) if parsed.to_string() != address => {
            Some("must be in canonical form")
        }
        (_, Ok(IpAddr::V4(parsed))) => range_cause_v4(parsed),
        (_, Ok(IpAddr::V6(parsed))) => range_cause_v6(parsed),
    }
}

fn range_cause_v4(address: Ipv4Addr) -> Option<&'static str> {
    match address {
        it if it.is_unspecified() => Some("may not be unspecified (0.0.0.0 or ::)"),
        it if it.is_loopback() => Some("may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        it if it.is_link_local() => {
            Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
        }
        it if it.octets()[..3] == [224, 0, 0] => {
            Some("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
        }
        _ => None,
    }
}

fn range_cause_v6(address: Ipv6Addr) -> Option<&'static str> {
    match address {
        it if it.is_unspecified() => Some("may not be unspecified (0.0.0.0 or ::)"),
        it if it.is_loopback() => Some("may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        it if it.segments()[0] & 0xffc0 == 0xfe80 => {
            Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
        }
        it if it.segments()[0] & 0xff0f == 0xff02 => {
            Some("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
        }
        _ => None,
    }
}

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
                     or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                         characters, '-' or '.', and must start and end with an alphanumeric \
                         character";

fn invalid(path: &str, value: &str, why: &str) -> String {
    format!("{path}: Invalid value: \"{value}\": {why}")
}

fn too_many(path: &str, number: usize, most: usize) -> String {
    format!("{path}: Too many: {number}: must have at most {most} items")
}
