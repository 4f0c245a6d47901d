//! Parses the value of each annotation. An error describes the expected form.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::shorten;
use crate::model::attributes::{self, AVAILABILITY_ZONE, MARK_PREFIX, REGION};
use crate::model::{
    Attributes, Claim, HealthSource, NamespaceReference, PortReference, RoutingPolicy, ServiceName,
};

/// Cloud Map's limit is 30 custom attributes; our marks, the zone and the Region take the others.
const MAX_ATTRIBUTES: usize = 20;

/// Each pod is an instance for each port, under each of its Service's names.
const MAX_PORTS: usize = 20;

/// The most mistakes of one annotation that are reported.
const MAX_MISTAKES: usize = 5;

/// Cloud Map's limit, in seconds.
const MAX_TTL: u32 = 2_147_483_647;

/// Names of Cloud Map services, separated by commas.
pub fn parse_names(value: &str) -> Result<Vec<ServiceName>, String> {
    let (mut names, mut seen) = (Vec::new(), BTreeSet::new());
    for text in value.split(',').map(str::trim) {
        let name = ServiceName::parse(text).map_err(|problem| {
            format!("{:?} is not a valid Cloud Map service name: {problem}", shorten(text))
        })?;
        if seen.insert(name.clone()) {
            names.push(name);
        }
    }
    Ok(names)
}

pub fn parse_namespace(value: &str) -> Result<NamespaceReference, String> {
    let problem = "it must be the name, id or ARN of a Cloud Map namespace";
    NamespaceReference::parse(value).ok_or_else(|| problem.to_owned())
}

pub fn parse_ttl(value: &str) -> Result<u32, String> {
    let seconds: Option<u32> = value.parse().ok().filter(|seconds| *seconds <= MAX_TTL);
    seconds.ok_or_else(|| format!("it must be whole seconds from 0 to {MAX_TTL}"))
}

pub fn parse_routing_policy(value: &str) -> Result<RoutingPolicy, String> {
    let found = RoutingPolicy::ALL.into_iter().find(|policy| policy.to_string() == value);
    found.ok_or_else(|| "it must be MULTIVALUE or WEIGHTED".to_owned())
}

/// Ports of the Service, separated by commas.
pub fn parse_ports(value: &str) -> Result<Vec<PortReference>, String> {
    let mut ports = Vec::new();
    let count = value.split(',').count();
    if count > MAX_PORTS {
        return Err(format!("it names {count} ports; the limit is {MAX_PORTS}"));
    }
    for text in value.split(',').map(str::trim) {
        let port = parse_port(text).ok_or_else(|| {
            let text = shorten(text);
            format!("{text:?} is neither a port number from 1 to 65535 nor a port's name")
        })?;
        if !ports.contains(&port) {
            ports.push(port);
        }
    }
    Ok(ports)
}

/// Digits are a port number: Kubernetes requires at least one letter in a port's name.
fn parse_port(text: &str) -> Option<PortReference> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().filter(|port| *port > 0).map(PortReference::Number);
    }
    let inner = text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    (inner && text.len() <= 63).then(|| PortReference::Name(text.to_owned()))
}

pub fn parse_boolean(value: &str) -> Result<bool, String> {
    parse_choice(value, "false", "true")
}

/// `membership` or `custom`.
pub fn parse_health(value: &str) -> Result<HealthSource, String> {
    let custom = parse_choice(value, "membership", "custom")?;
    Ok(if custom { HealthSource::Custom } else { HealthSource::Membership })
}

/// `exclusive` or `shared`.
pub fn parse_claim(value: &str) -> Result<Claim, String> {
    let shared = parse_choice(value, "exclusive", "shared")?;
    Ok(if shared { Claim::Shared } else { Claim::Exclusive })
}

/// Whether terminating pods stay registered: `drop` or `keep-serving`.
pub fn parse_keeps_serving(value: &str) -> Result<bool, String> {
    parse_choice(value, "drop", "keep-serving")
}

/// Whether a name keeps its last instances if no endpoint is ready: `empty` or `keep`.
pub fn parse_keeps_last(value: &str) -> Result<bool, String> {
    parse_choice(value, "empty", "keep")
}

/// Whether the value is `yes`, if it must be `no` or `yes`.
fn parse_choice(value: &str, no: &str, yes: &str) -> Result<bool, String> {
    let known = value == no || value == yes;
    known.then_some(value == yes).ok_or_else(|| format!("it must be {no:?} or {yes:?}"))
}

/// A number of instances up to 1,000, Cloud Map's limit for a service.
pub fn parse_maximum(value: &str) -> Result<usize, String> {
    let number = value.parse().ok().filter(|number| (1..=1000).contains(number));
    number.ok_or_else(|| "it must be a whole number from 1 to 1000".to_owned())
}

/// Attributes for every instance, `key=value` separated by commas. Cloud Map's limits are checked here, so that every
/// mistake is reported by its key, and none comes back as a refused registration.
pub fn parse_attributes(value: &str) -> Result<Attributes, String> {
    let (mut all, mut mistakes) = (BTreeMap::new(), Vec::new());
    for pair in value.split(',').map(str::trim) {
        match attribute(pair) {
            Ok((key, value)) if all.insert(key, value).is_none() => {}
            Ok((key, _)) => mistakes.push(format!("the key {key:?} occurs twice")),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    let keys: usize = all.keys().map(|key| key.len() + 1).sum();
    if all.len() > MAX_ATTRIBUTES || keys > 1024 {
        mistakes.push(format!(
            "it has {} keys with {keys} characters in total; the limits are {MAX_ATTRIBUTES} keys and 1,024 characters",
            all.len()
        ));
    }
    if mistakes.is_empty() { Ok(all.into_iter().collect()) } else { Err(joined(mistakes)) }
}

/// The first mistakes: an object has up to 256 KB of annotations, and each comma in them can be a mistake.
fn joined(mut mistakes: Vec<String>) -> String {
    let others = mistakes.len().saturating_sub(MAX_MISTAKES);
    mistakes.truncate(MAX_MISTAKES);
    let others = (others > 0).then(|| format!("{others} more mistakes"));
    mistakes.into_iter().chain(others).collect::<Vec<_>>().join("; ")
}

fn attribute(pair: &str) -> Result<(&str, &str), String> {
    let (key, value) = pair.split_once('=').ok_or_else(|| not_a_pair(pair))?;
    check_key(key)?;
    check_value(key, value)?;
    Ok((key, value))
}

fn not_a_pair(pair: &str) -> String {
    format!("{:?} is not of the form key=value", shorten(pair))
}

fn check_key(key: &str) -> Result<(), String> {
    let printable = key.bytes().all(|byte| (b'!'..=b'~').contains(&byte));
    if !(1..=255).contains(&key.len()) || !printable {
        let key = shorten(key);
        return Err(format!("the key {key:?} must be 1 to 255 printable ASCII characters"));
    }
    let reserved = ["ECS_", MARK_PREFIX].iter().any(|prefix| key.starts_with(prefix));
    if reserved || attributes::is_of_aws(key) || [AVAILABILITY_ZONE, REGION].contains(&key) {
        return Err(format!("the key {key:?} is reserved"));
    }
    Ok(())
}

fn check_value(key: &str, value: &str) -> Result<(), String> {
    let printable = value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte));
    if value.len() > 1024 || !printable || value.starts_with([' ', '\t']) {
        return Err(format!(
            "the value of {key:?} must be at most 1,024 printable ASCII characters and must not begin with a space or a tab"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_pairs_within_cloud_maps_limits() {
        let long_key = format!("{}=x", "k".repeat(256));
        let long_value = format!("k={}", "v".repeat(1025));
        let many: Vec<String> = (1..=21).map(|number| format!("{number}=x")).collect();
        let many = many.join(",");
        let cases = [
            ("team=a,tier=", Ok(2)),
            ("url=http://a=b", Ok(1)),
            ("team", Err("\"team\" is not of the form key=value")),
            ("", Err("\"\" is not of the form key=value")),
            ("=a", Err("the key \"\" must be 1 to 255 printable ASCII characters")),
            ("te am=a", Err("the key \"te am\" must be 1 to 255 printable ASCII characters")),
            ("a=1,a=2", Err("the key \"a\" occurs twice")),
            (
                "AWS_A=1,team,b=2,REGION=x",
                Err(
                    "the key \"AWS_A\" is reserved; \"team\" is not of the form key=value; the key \"REGION\" is reserved",
                ),
            ),
            ("AWS_INSTANCE_IPV4=1", Err("the key \"AWS_INSTANCE_IPV4\" is reserved")),
            ("aws_instance_ipv4=1", Err("the key \"aws_instance_ipv4\" is reserved")),
            ("Aws_team=1", Err("the key \"Aws_team\" is reserved")),
            ("aws-team=1,my_aws_team=1", Ok(2)),
            ("ECS_SERVICE_NAME=1", Err("the key \"ECS_SERVICE_NAME\" is reserved")),
            (
                &many,
                Err(
                    "it has 21 keys with 54 characters in total; the limits are 20 keys and 1,024 characters",
                ),
            ),
            (
                "a,b,c,d,e,f,g",
                Err(
                    "\"a\" is not of the form key=value; \"b\" is not of the form key=value; \"c\" is not of the form key=value; \"d\" is not of the form key=value; \"e\" is not of the form key=value; 2 more mistakes",
                ),
            ),
            ("REGION=1", Err("the key \"REGION\" is reserved")),
            ("cloud-map-sync/owner=1", Err("the key \"cloud-map-sync/owner\" is reserved")),
        ];
        for (value, expected) in cases {
            let found = parse_attributes(value).map(|attributes| attributes.len());
            assert_eq!(found, expected.map_err(str::to_owned), "{value}");
        }
        for value in [long_key.as_str(), &long_value, "k= x", "k=\u{e9}", "k=a\nb"] {
            assert!(parse_attributes(value).is_err(), "{value:?}");
        }
    }

    #[test]
    fn ports_are_limited_as_they_are_listed() {
        let listed = |count: usize| vec!["80"; count].join(",");
        assert_eq!(parse_ports(&listed(20)), Ok(vec![PortReference::Number(80)]));
        assert_eq!(parse_ports(&listed(21)), Err("it names 21 ports; the limit is 20".into()));
    }

    #[test]
    fn a_maximum_is_a_number_of_instances() {
        for (value, expected) in [("1", Some(1)), ("1000", Some(1000)), ("0", None), ("x", None)] {
            assert_eq!(parse_maximum(value).ok(), expected);
        }
    }
}
