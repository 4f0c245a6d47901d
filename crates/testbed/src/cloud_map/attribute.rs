//! The rules for the attributes of an instance: those that a service requires, those that exclude each other, and the
//! limits. All are checked before RegisterInstance is accepted.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::error::ApiError;
use super::id;
use super::pattern;
use super::resource::{NamespaceKind, RecordType, Service};

const CUSTOM_ATTRIBUTES: usize = 30;
const TOTAL_LENGTH: usize = 5000;
const ALIAS: &str = "AWS_ALIAS_DNS_NAME";
const CNAME: &str = "AWS_INSTANCE_CNAME";
const EC2_INSTANCE: &str = "AWS_EC2_INSTANCE_ID";
const HEALTH: &str = "AWS_INIT_HEALTH_STATUS";
const IPV4: &str = "AWS_INSTANCE_IPV4";
const IPV6: &str = "AWS_INSTANCE_IPV6";
const PORT: &str = "AWS_INSTANCE_PORT";

type Attributes = BTreeMap<String, String>;

/// Checks the attributes of a registration; gives back what the service stores.
pub(super) fn check(
    attributes: Attributes,
    service: &Service,
    kind: NamespaceKind,
) -> Result<Attributes, ApiError> {
    check_sizes(&attributes)?;
    check_values(&attributes)?;
    // Assumed (first_status_without_a_check): AWS_INIT_HEALTH_STATUS is refused, where it could be ignored.
    if attributes.contains_key(HEALTH) && !service.custom_health {
        return refuse(format!("{HEALTH} needs a service with HealthCheckCustomConfig"));
    }
    if attributes.contains_key(EC2_INSTANCE) {
        return with_address_of_ec2(attributes, kind);
    }
    if attributes.contains_key(ALIAS) {
        check_alias(&attributes, service)
    } else {
        check_records(&attributes, service)
    }?;
    Ok(attributes)
}

/// Assumed (reserved_attributes_are_not_counted): a key that begins with AWS_ does not count as custom.
fn check_sizes(attributes: &Attributes) -> Result<(), ApiError> {
    for (key, value) in attributes {
        if !pattern::is_attribute_key(key) {
            return refuse(format!(
                "The attribute key '{key}' must be 1 to 255 printable ASCII characters"
            ));
        }
        if !pattern::is_attribute_value(value) {
            return refuse(format!(
                "The value of the attribute {key} must be at most 1024 printable ASCII characters"
            ));
        }
    }
    let custom = attributes.keys().filter(|key| !key.starts_with("AWS_")).count();
    if custom > CUSTOM_ATTRIBUTES {
        return refuse(format!("{custom} custom attributes are more than {CUSTOM_ATTRIBUTES}"));
    }
    let total: usize = attributes.iter().map(|(key, value)| key.len() + value.len()).sum();
    if total > TOTAL_LENGTH {
        return refuse(format!(
            "All keys and values have {total} characters, more than {TOTAL_LENGTH}"
        ));
    }
    Ok(())
}

/// Assumed (malformed_reserved_attributes): a reserved attribute means something in every service.
/// Assumed (unknown_reserved_attribute): another key that begins with AWS_ is refused, which keeps a client from
/// inventing one.
fn check_values(attributes: &Attributes) -> Result<(), ApiError> {
    for (key, value) in attributes.iter().filter(|(key, _)| key.starts_with("AWS_")) {
        let valid = match key.as_str() {
            IPV4 => value.parse::<Ipv4Addr>().is_ok(),
            IPV6 => value.parse::<Ipv6Addr>().is_ok(),
            PORT if !value.parse::<u16>().is_ok_and(|port| port > 0) => {
                return refuse("A valid port number must be supplied.");
            }
            HEALTH => value == "HEALTHY" || value == "UNHEALTHY",
            ALIAS | CNAME | EC2_INSTANCE => !value.is_empty(),
            PORT => true,
            _ => return refuse(format!("The attribute {key} is reserved and unknown")),
        };
        if !valid {
            return refuse(format!("The value '{value}' of the attribute {key} is not valid"));
        }
    }
    Ok(())
}

fn check_records(attributes: &Attributes, service: &Service) -> Result<(), ApiError> {
    let has = |record| service.dns.as_ref().is_some_and(|dns| dns.has(record));
    let needs = [
        (has(RecordType::A), IPV4),
        (has(RecordType::Aaaa), IPV6),
        (has(RecordType::Cname), CNAME),
        (has(RecordType::Srv) || service.health_check.is_some(), PORT),
    ];
    for (needed, key) in needs {
        if needed && !attributes.contains_key(key) {
            return refuse(format!("The service's settings require the attribute {key}"));
        }
    }
    if has(RecordType::Srv) && ![IPV4, IPV6].iter().any(|key| attributes.contains_key(*key)) {
        return refuse(format!("An SRV record requires {IPV4}, {IPV6} or both"));
    }
    Ok(())
}

fn check_alias(attributes: &Attributes, service: &Service) -> Result<(), ApiError> {
    let fits = service.dns.as_ref().is_some_and(|dns| {
        dns.routing_policy == "WEIGHTED" && (dns.has(RecordType::A) || dns.has(RecordType::Aaaa))
    });
    if !fits {
        return refuse(format!(
            "{ALIAS} needs an A or AAAA record and the routing policy WEIGHTED"
        ));
    }
    match attributes.keys().find(|key| key.starts_with("AWS_INSTANCE_")) {
        Some(key) => refuse(format!("{ALIAS} excludes {key}")),
        None => Ok(()),
    }
}

/// The service looks the address up itself, so what is read differs from what was written.
fn with_address_of_ec2(
    mut attributes: Attributes,
    kind: NamespaceKind,
) -> Result<Attributes, ApiError> {
    if kind != NamespaceKind::Http {
        return refuse(format!("{EC2_INSTANCE} is allowed in HTTP namespaces only"));
    }
    if let Some(key) = attributes.keys().find(|key| *key != EC2_INSTANCE && *key != HEALTH) {
        return refuse(format!("{EC2_INSTANCE} excludes {key}"));
    }
    let [.., second, third, fourth] = id::hash(&attributes[EC2_INSTANCE]).to_be_bytes();
    attributes.insert(IPV4.to_owned(), Ipv4Addr::new(10, second, third, fourth).to_string());
    Ok(attributes)
}

fn refuse<T>(message: impl Into<String>) -> Result<T, ApiError> {
    Err(ApiError::invalid(message))
}
