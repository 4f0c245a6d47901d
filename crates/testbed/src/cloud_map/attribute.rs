//! The rules for the attributes of an instance: those that a service requires, those that exclude each other, and the
//! limits. All are checked before RegisterInstance is accepted. The texts are those of live refusals.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::behaviour::Behaviour;
use super::id;
use super::resource::{NamespaceKind, RecordType, Service};
use super::wire::{ApiError, Checked};

const CUSTOM_ATTRIBUTES: usize = 30;
const TOTAL_LENGTH: usize = 5000;
const ALIAS: &str = "AWS_ALIAS_DNS_NAME";
const CNAME: &str = "AWS_INSTANCE_CNAME";
const EC2_INSTANCE: &str = "AWS_EC2_INSTANCE_ID";
const HEALTH: &str = "AWS_INIT_HEALTH_STATUS";
const IPV4: &str = "AWS_INSTANCE_IPV4";
const IPV6: &str = "AWS_INSTANCE_IPV6";
const PORT: &str = "AWS_INSTANCE_PORT";
/// The keys that mean something.
const KNOWN: [&str; 7] = [ALIAS, CNAME, EC2_INSTANCE, HEALTH, IPV4, IPV6, PORT];

const CONSTRAINTS_OF_KEYS: &str = "Map keys must satisfy constraint: [Member must have length less than or equal to 255, \
     Member must have length greater than or equal to 1, \
     Member must satisfy regular expression pattern: ^[a-zA-Z0-9!-~]+$]";
const CONSTRAINTS_OF_VALUES: &str = "Map value must satisfy constraint: [Member must have length less than or equal to 1024, \
     Member must have length greater than or equal to 0, \
     Member must satisfy regular expression pattern: ^([a-zA-Z0-9!-~][ \\ta-zA-Z0-9!-~]*){0,1}[a-zA-Z0-9!-~]{0,1}$]";

type Attributes = BTreeMap<String, String>;

/// Checks the attributes of a registration; gives back what the service stores.
/// Assumed (known_key_in_other_case): a known key in other letters is one like any other.
pub fn check(
    attributes: Attributes,
    service: &Service,
    kind: NamespaceKind,
    behaviour: &Behaviour,
) -> Checked<Attributes> {
    check_patterns(&attributes)?;
    check_sizes(&attributes)?;
    check_values(&attributes)?;
    if attributes.contains_key(EC2_INSTANCE) {
        return with_address_of_ec2(attributes, kind);
    }
    if attributes.contains_key(ALIAS) {
        check_alias(&attributes, service)
    } else {
        check_records(&attributes, service)?;
        check_health_check(&attributes, service, behaviour)
    }?;
    Ok(attributes)
}

fn check_patterns(attributes: &Attributes) -> Checked<()> {
    for (key, value) in attributes {
        let broken = match (id::is_attribute_key(key), id::is_attribute_value(value)) {
            (false, _) => CONSTRAINTS_OF_KEYS,
            (_, false) => CONSTRAINTS_OF_VALUES,
            _ => continue,
        };
        return Err(ApiError::constraint("Attributes", &format!("{{{key}={value}}}"), broken));
    }
    Ok(())
}

/// Keys with the prefix in any letter case, and whether each is a known one in some spelling.
fn reserved(attributes: &Attributes) -> impl Iterator<Item = (&String, Option<&'static str>)> {
    let reserved = attributes.keys().filter(|key| is_reserved(key));
    reserved.map(|key| (key, KNOWN.into_iter().find(|known| known.eq_ignore_ascii_case(key))))
}

fn is_reserved(key: &str) -> bool {
    key.get(..4).is_some_and(|prefix| prefix.eq_ignore_ascii_case("aws_"))
}

/// Assumed (reserved_attributes_are_not_counted): a key with the reserved prefix does not count as custom.
fn check_sizes(attributes: &Attributes) -> Checked<()> {
    let unknown: Vec<&str> =
        reserved(attributes).filter(|(_, known)| known.is_none()).map(|(key, _)| &**key).collect();
    if !unknown.is_empty() {
        return refuse(format!(
            "Invalid attribute: [{}]. [aws_] prefix is reserved for AWS attributes.",
            unknown.join(", ")
        ));
    }
    let custom: Vec<&str> =
        attributes.keys().filter(|key| !is_reserved(key)).map(String::as_str).collect();
    if custom.len() > CUSTOM_ATTRIBUTES {
        return refuse(format!(
            "Too many attributes provided: [{}]. The current limit is {CUSTOM_ATTRIBUTES}",
            custom.join(", ")
        ));
    }
    let total: usize = attributes.iter().map(|(key, value)| key.len() + value.len()).sum();
    if total > TOTAL_LENGTH {
        return refuse(format!(
            "Instance attributes too large. Maximum allowed size of all attributes is {TOTAL_LENGTH} characters."
        ));
    }
    Ok(())
}

/// Assumed (malformed_reserved_attributes): a reserved attribute means something in every service.
fn check_values(attributes: &Attributes) -> Checked<()> {
    for (key, value) in attributes {
        let valid = match key.as_str() {
            IPV4 => value.parse::<Ipv4Addr>().is_ok(),
            IPV6 => value.parse::<Ipv6Addr>().is_ok(),
            PORT if !value.parse::<u16>().is_ok_and(|port| port > 0) => {
                return refuse("A valid port number must be supplied.");
            }
            HEALTH if value != "HEALTHY" && value != "UNHEALTHY" => {
                return refuse(format!(
                    "No enum constant com.amazon.route53.autonaming.model.InitHealthStatus.{value}"
                ));
            }
            ALIAS | CNAME | EC2_INSTANCE => !value.is_empty(),
            _ => true,
        };
        if !valid {
            return refuse(format!("The value '{value}' of the attribute {key} is not valid"));
        }
    }
    Ok(())
}

fn check_records(attributes: &Attributes, service: &Service) -> Checked<()> {
    let has = |record| service.dns.as_ref().is_some_and(|dns| dns.has(record));
    let needs = [
        (RecordType::A, IPV4),
        (RecordType::Aaaa, IPV6),
        (RecordType::Cname, CNAME),
        (RecordType::Srv, PORT),
    ];
    let missing =
        needs.into_iter().filter(|(record, key)| has(*record) && !attributes.contains_key(*key));
    let missing: Vec<&str> = missing.map(|(_, key)| key).collect();
    if !missing.is_empty() {
        return refuse(format!("Required attribute(s) {} are missing.", missing.join(", ")));
    }
    if has(RecordType::Srv) && ![IPV4, IPV6].iter().any(|key| attributes.contains_key(*key)) {
        return refuse(format!("At least one of {IPV4} {IPV6} is required."));
    }
    Ok(())
}

/// What a health check of Route 53 needs of an instance, which it calls from the internet.
fn check_health_check(
    attributes: &Attributes,
    service: &Service,
    behaviour: &Behaviour,
) -> Checked<()> {
    if service.health_check.is_none() {
        return Ok(());
    }
    if !attributes.contains_key(PORT) {
        return refuse("A port must be supplied in order to register this instance.");
    }
    let address = attributes.get(IPV4).and_then(|address| address.parse::<Ipv4Addr>().ok());
    match address.filter(|address| behaviour.is_refused_by_checks(*address)) {
        Some(address) => refuse(format!("IPv4 address {address} is forbidden for healthChecks")),
        None => Ok(()),
    }
}

fn check_alias(attributes: &Attributes, service: &Service) -> Checked<()> {
    let Some(dns) = &service.dns else {
        return refuse(format!("{ALIAS} needs a service with an A or AAAA record"));
    };
    if dns.routing_policy != "WEIGHTED" {
        return refuse(
            "ALIAS instance can be registered only in services with WEIGHTED routing policy",
        );
    }
    if !dns.has(RecordType::A) && !dns.has(RecordType::Aaaa) {
        return refuse(format!("{ALIAS} needs a service with an A or AAAA record"));
    }
    match attributes.keys().find(|key| key.starts_with("AWS_INSTANCE_")) {
        Some(key) => refuse(format!("{ALIAS} excludes {key}")),
        None => Ok(()),
    }
}

/// The service looks the address up itself, so what is read differs from what was written.
fn with_address_of_ec2(mut attributes: Attributes, kind: NamespaceKind) -> Checked<Attributes> {
    let invalid = "Invalid combination of attributes received.";
    if kind != NamespaceKind::Http {
        return refuse(format!(
            "{invalid} {EC2_INSTANCE} is not supported. It is only supported in HTTP namespace"
        ));
    }
    let others = attributes.keys().filter(|key| *key != EC2_INSTANCE && *key != HEALTH);
    let others: Vec<&str> = others.map(String::as_str).collect();
    if !others.is_empty() {
        return refuse(format!(
            "{invalid} {EC2_INSTANCE} is not supported with [{}].",
            others.join(", ")
        ));
    }
    let [.., second, third, fourth] = id::hash(&attributes[EC2_INSTANCE]).to_be_bytes();
    attributes.insert(IPV4.to_owned(), Ipv4Addr::new(10, second, third, fourth).to_string());
    Ok(attributes)
}

fn refuse<T>(message: impl Into<String>) -> Checked<T> {
    Err(ApiError::invalid(message))
}
