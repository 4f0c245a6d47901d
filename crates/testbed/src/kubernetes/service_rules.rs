//! What the API server refuses of a Service (k8s.io/kubernetes pkg/apis/core/validation).

use std::net::IpAddr;

use serde_json::{Value, json};

use super::allocation::is_headless;
use super::names::{is_label, is_qualified_name};

/// What is wrong with a Service, and with its change if there was one before. A server before 1.33 has one value for the distribution of traffic.
pub fn causes(service: &Value, before: Option<&Value>, minor: u32) -> Vec<String> {
    let spec = &service["spec"];
    let mut causes = Vec::new();
    let distributions = ["PreferClose", "PreferSameNode", "PreferSameZone"];
    let distributions = if minor < 33 { &distributions[..1] } else { &distributions };
    let choices: [(&str, &[&str]); 6] = [
        ("type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]),
        ("sessionAffinity", &["ClientIP", "None"]),
        ("internalTrafficPolicy", &["Cluster", "Local"]),
        ("ipFamilyPolicy", &["PreferDualStack", "RequireDualStack", "SingleStack"]),
        ("trafficDistribution", distributions),
        ("externalTrafficPolicy", &["Cluster", "Local"]),
    ];
    for (field, known) in choices {
        causes.extend(choice_cause(&format!("spec.{field}"), &spec[field], known));
    }
    if spec["type"] == "ExternalName" && spec["externalName"].as_str().is_none_or(str::is_empty) {
        causes.push("spec.externalName: Required value".to_owned());
    }
    causes.extend(affinity_cause(spec));
    causes.extend(ports_causes(service));
    causes.extend(address_causes(spec));
    if let Some(before) = before {
        causes.extend(change_causes(service, before));
    }
    causes
}

/// The cause of a text that is none of those known.
pub fn choice_cause(path: &str, value: &Value, known: &[&str]) -> Option<String> {
    let value = value.as_str().filter(|value| !known.contains(value))?;
    let known: Vec<String> = known.iter().map(|known| format!("\"{known}\"")).collect();
    let known = known.join(", ");
    Some(format!("{path}: Unsupported value: \"{value}\": supported values: {known}"))
}

fn affinity_cause(spec: &Value) -> Option<String> {
    if spec["sessionAffinity"] != "ClientIP" {
        return None;
    }
    let config = &spec["sessionAffinityConfig"];
    let path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
    let seconds = config["clientIP"]["timeoutSeconds"].as_i64().unwrap_or_default();
    let text = "must be greater than 0 and less than 86400";
    (!(1..=86400).contains(&seconds)).then(|| format!("{path}: Invalid value: {seconds}: {text}"))
}

fn ports_causes(service: &Value) -> Vec<String> {
    let ports = service["spec"]["ports"].as_array().map_or(&[][..], Vec::as_slice);
    let mut causes = Vec::new();
    if ports.is_empty() && !is_headless(service) && service["spec"]["type"] != "ExternalName" {
        causes.push("spec.ports: Required value".to_owned());
    }
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        let earlier = &ports[..index];
        causes.extend(name_cause(port, earlier, ports.len() > 1, &path));
        causes.extend(number_causes(port, &path));
        let same =
            |other: &&Value| other["protocol"] == port["protocol"] && other["port"] == port["port"];
        if earlier.iter().any(|other| same(&other)) {
            let key = json!({"protocol": port["protocol"], "port": port["port"]});
            causes.push(format!("{path}: Duplicate value: {key}"));
        }
    }
    causes
}

fn name_cause(port: &Value, earlier: &[Value], required: bool, path: &str) -> Option<String> {
    let name = port["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        return required.then(|| format!("{path}.name: Required value"));
    }
    if !is_label(name) {
        return Some(format!(
            "{path}.name: Invalid value: \"{name}\": a lowercase RFC 1123 label must consist of \
             lower case alphanumeric characters or '-', and must start and end with an \
             alphanumeric character"
        ));
    }
    let known = earlier.iter().any(|other| other["name"] == name);
    known.then(|| format!("{path}.name: Duplicate value: \"{name}\""))
}

fn number_causes(port: &Value, path: &str) -> Vec<String> {
    let mut causes = Vec::new();
    for field in ["port", "targetPort"] {
        let number = port[field].as_i64();
        if number.is_some_and(|number| !(1..=65535).contains(&number)) {
            let number = number.unwrap_or_default();
            let text = "must be between 1 and 65535, inclusive";
            causes.push(format!("{path}.{field}: Invalid value: {number}: {text}"));
        }
    }
    causes.extend(choice_cause(&format!("{path}.protocol"), &port["protocol"], &PROTOCOLS));
    causes.extend(app_protocol_cause(port, path));
    causes
}

/// The protocols of ports.
pub const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// The cause of an appProtocol that is no qualified name.
pub fn app_protocol_cause(port: &Value, path: &str) -> Option<String> {
    let value = port["appProtocol"].as_str().filter(|value| !is_qualified_name(value))?;
    Some(format!(
        "{path}.appProtocol: Invalid value: \"{value}\": name part must consist of alphanumeric \
         characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    ))
}

/// Families and addresses, each by itself and against the other.
fn address_causes(spec: &Value) -> Vec<String> {
    let empty = Vec::new();
    let families = spec["ipFamilies"].as_array().unwrap_or(&empty);
    let mut causes = Vec::new();
    for (index, family) in families.iter().enumerate() {
        let path = format!("spec.ipFamilies[{index}]");
        causes.extend(choice_cause(&path, family, &["IPv4", "IPv6"]));
        if families[..index].contains(family) {
            causes.push(format!("{path}: Duplicate value: {family}"));
        }
    }
    let ips = spec["clusterIPs"].as_array().unwrap_or(&empty);
    for (index, ip) in ips.iter().enumerate().filter(|(_, ip)| *ip != "None") {
        let path = format!("spec.clusterIPs[{index}]");
        let Some(address) = ip.as_str().and_then(|ip| ip.parse::<IpAddr>().ok()) else {
            causes.push(format!("{path}: Invalid value: {ip}: must be a valid IP address"));
            continue;
        };
        let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
        if let Some(wanted) = families.get(index).filter(|wanted| *wanted != family) {
            let wanted = wanted.as_str().unwrap_or_default();
            causes.push(format!(
                "{path}: Invalid value: {ip}: expected an {wanted} value as indicated by \
                 `ipFamilies[{index}]`"
            ));
        }
    }
    causes
}

/// The first address and family of a Service stay; headless ones have none, but stay headless.
fn change_causes(service: &Value, before: &Value) -> Vec<String> {
    let external = |service: &Value| service["spec"]["type"] == "ExternalName";
    let mut causes = Vec::new();
    if external(service) || external(before) || is_headless(service) && is_headless(before) {
        return causes;
    }
    for key in ["clusterIPs", "ipFamilies"] {
        let (now, then) = (&service["spec"][key], &before["spec"][key]);
        let kept = then.as_array().map_or(0, Vec::len).min(now.as_array().map_or(0, Vec::len));
        let changed = (0..kept.max(1)).find(|index| now[*index] != then[*index]);
        if let Some(index) = changed.filter(|_| !then.is_null()) {
            causes.push(format!(
                "spec.{key}[{index}]: Invalid value: {now}: may not change once set"
            ));
        }
    }
    causes
}
