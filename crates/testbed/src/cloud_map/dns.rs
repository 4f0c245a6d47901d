//! The DNS and health settings of a service, and the kinds of namespace that accept them.

use serde_json::{Value, json};

use super::input::{Input, absent};
use super::resource::{DnsConfig, NamespaceKind, RecordType};
use super::wire::{ApiError, Checked};

const LONGEST_TTL: i64 = 2_147_483_647;

/// What a CreateService request says about DNS and health.
pub struct Settings {
    pub dns: Option<DnsConfig>,
    pub health_check: Option<Value>,
    pub custom_health: bool,
}

impl Settings {
    /// Reads the settings of a new service in a namespace of this kind.
    pub fn read(input: Input<'_>, kind: NamespaceKind) -> Checked<Self> {
        let by_api_alone = input.choice("Type", &["HTTP"])?.is_some();
        let dns = input.object("DnsConfig")?.map(dns_config).transpose()?;
        let health_check = input.object("HealthCheckConfig")?.map(health_check).transpose()?;
        let custom = input.object("HealthCheckCustomConfig")?;
        if let Some(custom) = custom {
            custom.integer("FailureThreshold", 1..=10)?;
        }
        // The words of a refusal are those that badmintoncryer/cdk-preflight recorded (pf-servicediscovery-service-*).
        // Assumed (service_without_records): a DNS namespace refuses it, where it could be of the type HTTP.
        match (kind, by_api_alone, &dns) {
            (NamespaceKind::Http, _, Some(_)) => refuse(
                "When you create a service using a namespace that has a type of HTTP, you can't include a DnsConfig element.",
            ),
            (NamespaceKind::DnsPrivate | NamespaceKind::DnsPublic, false, None) => {
                refuse("In a DNS namespace a service needs DnsConfig, or the type HTTP")
            }
            (_, true, Some(_)) => refuse("A service of the type HTTP cannot have DnsConfig"),
            _ => Ok(()),
        }?;
        if health_check.is_some() && custom.is_some() {
            refuse("HealthCheckConfig and HealthCheckCustomConfig exclude each other")?;
        }
        refuse_health_check(health_check.as_ref(), kind, dns.as_ref())?;
        Ok(Self { dns, health_check, custom_health: custom.is_some() })
    }
}

/// A Route 53 health check can reach neither a private address nor stand behind a CNAME.
pub fn refuse_health_check(
    health_check: Option<&Value>,
    kind: NamespaceKind,
    dns: Option<&DnsConfig>,
) -> Checked<()> {
    if health_check.is_some() && kind == NamespaceKind::DnsPrivate {
        return refuse("Health check config cannot be applied to a service with private namespace");
    }
    if health_check.is_some() && dns.is_some_and(|dns| dns.has(RecordType::Cname)) {
        return refuse("Health check config is not supported for CNAME");
    }
    Ok(())
}

fn dns_config(input: Input<'_>) -> Checked<DnsConfig> {
    let routing_policy = input
        .choice("RoutingPolicy", &["MULTIVALUE", "WEIGHTED"])?
        .unwrap_or("MULTIVALUE")
        .to_owned();
    let records = dns_records(input)?;
    if records.iter().any(|(kind, _)| *kind == RecordType::Cname) && routing_policy != "WEIGHTED" {
        refuse("WEIGHTED routing policy must be used with DNS Record Type CNAME")?;
    }
    Ok(DnsConfig { routing_policy, records })
}

/// The records of a DnsConfig: A, AAAA, A and AAAA, SRV, or CNAME.
pub fn dns_records(input: Input<'_>) -> Checked<Vec<(RecordType, i64)>> {
    let words = RecordType::WORDS.map(|(word, _)| word);
    let mut records = Vec::new();
    for record in input.objects("DnsRecords")? {
        let word = record.choice("Type", &words)?.ok_or_else(|| absent("Type"))?;
        let ttl = record.integer("TTL", 0..=LONGEST_TTL)?.ok_or_else(|| absent("TTL"))?;
        records.extend(
            RecordType::WORDS
                .iter()
                .filter(|(known, _)| *known == word)
                .map(|(_, kind)| (*kind, ttl)),
        );
    }
    let mut kinds: Vec<RecordType> = records.iter().map(|(kind, _)| *kind).collect();
    kinds.sort();
    if let Some([twice, _]) = kinds.windows(2).find(|two| two[0] == two[1]) {
        let word = twice.word();
        return refuse(&format!(
            "Duplicate resource record type{word}in DNS config is not expected"
        ));
    }
    match kinds.as_slice() {
        [_] | [RecordType::A, RecordType::Aaaa] => Ok(records),
        [] => Err(absent("DnsRecords")),
        kinds if kinds.contains(&RecordType::Cname) => {
            refuse("DnsRecord Type CNAME cannot be combined with other types")
        }
        _ => refuse("The records must be A, AAAA, A and AAAA, SRV, or CNAME"),
    }
}

/// A Route 53 health check as the API takes and shows it.
pub fn health_check(input: Input<'_>) -> Checked<Value> {
    let kind = input.choice("Type", &["HTTP", "HTTPS", "TCP"])?.ok_or_else(|| absent("Type"))?;
    let path = input.optional_text("ResourcePath", 255)?;
    let threshold = input.integer("FailureThreshold", 1..=10)?.unwrap_or(1);
    let mut check = json!({ "Type": kind, "FailureThreshold": threshold });
    match (kind, path) {
        ("TCP", Some(_)) => refuse("TCP health checks must not have a resource path specified.")?,
        ("TCP", None) => {}
        (_, path) => check["ResourcePath"] = json!(path.unwrap_or("/")),
    }
    Ok(check)
}

fn refuse<T>(message: &str) -> Checked<T> {
    Err(ApiError::invalid(message))
}
