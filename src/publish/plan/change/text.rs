//! Changes as text for people: a phrase with the verb, the instance and the Cloud Map service, and a phrase with the
//! details.

use std::fmt;

use super::{Change, Difference, Exchange};
use crate::model::attributes::{
    EXPORT, HEARTBEAT, INITIAL_HEALTH, IPV4, IPV6, MARK_PREFIX, POD, PORT,
};
use crate::model::{Attributes, Health, Owner, RoutingPolicy, ServiceKind};
use crate::publish::plan::NewService;

impl Change {
    /// Details of the change: address and pod, differences, or the reason of a removal.
    pub fn detail(&self) -> String {
        match self {
            Self::CreateNamespace { name, .. } => format!("{name}, an HTTP namespace"),
            Self::CreateService { service, .. } => service.to_string(),
            Self::UpdateService { update, .. } => update.to_string(),
            Self::NoteOnService { difference, .. } => difference.to_string(),
            Self::Register { attributes, .. } => {
                let health = attributes.get(INITIAL_HEALTH).map(|health| format!(", {health}"));
                format!("{}{}", describe(attributes), health.unwrap_or_default())
            }
            Self::Rewrite { attributes, exchange: Some(exchange), .. } => {
                let Exchange { address, because, .. } = &**exchange;
                format!("{} in place of {address}: {because}", describe(attributes))
            }
            Self::Rewrite { differences, .. } => listed(differences),
            Self::Adopt { present, attributes, former, .. } => {
                let mut differences = Difference::between(present, attributes);
                differences.retain(|it| !it.attribute.starts_with(MARK_PREFIX));
                let changed = if differences.is_empty() { "" } else { "; " };
                format!("{}: {former}{changed}{}", describe(present), listed(&differences))
            }
            Self::Health { address, present, wanted, .. } => {
                let ready = if *wanted == Health::Healthy { "ready" } else { "not ready" };
                format!("{address}: {present} -> {wanted}, since it is {ready}")
            }
            Self::Deregister { address, because, waits_for: None, .. } => {
                format!("{address}: {because}")
            }
            Self::Deregister { address, because, waits_for: Some(wait), .. } => {
                format!("{address}: {because}; stays {wait}")
            }
        }
    }
}

fn listed(differences: &[Difference]) -> String {
    let texts: Vec<String> = differences.iter().map(Difference::to_string).collect();
    texts.join(", ")
}

/// Address, port and pod of an instance, in one phrase.
pub fn describe(attributes: &Attributes) -> String {
    let addresses = [IPV4, IPV6].into_iter().filter_map(|key| attributes.get(key));
    let addresses: Vec<&str> = addresses.collect();
    if let (true, Some(record)) = (addresses.is_empty(), describe_record(attributes)) {
        return record;
    }
    let mut text = addresses.join(" and ");
    if let Some(port) = attributes.get(PORT) {
        text = format!("{text} port {port}");
    }
    match attributes.get(POD) {
        Some(pod) => format!("{text} (pod {pod})"),
        None => text,
    }
}

/// A record, which has no address; `None` for any other instance.
fn describe_record(attributes: &Attributes) -> Option<String> {
    let text = |key| attributes.get(key).unwrap_or_default();
    if attributes.contains_key(HEARTBEAT) {
        return Some(format!("the record of the cluster, synced at {}", text(HEARTBEAT)));
    }
    let service = Owner::of(attributes)?.service_of(attributes)?;
    attributes.contains_key(EXPORT[0]).then(|| format!("the record of the export {service}"))
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self {
            Self::Health { .. } => "report the health of",
            _ => self.verb().as_str(),
        };
        let place = self.place();
        match self.instance() {
            Some(instance) => write!(f, "{verb} {instance} in {place}"),
            None => write!(f, "{verb} {place}"),
        }
    }
}

impl fmt::Display for NewService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ServiceKind::Http => write!(f, "an HTTP service")?,
            records @ ServiceKind::Dns(_) => {
                write!(f, "a DNS service of {records} records, TTL {} s", self.ttl)?;
                if self.routing_policy == RoutingPolicy::Weighted {
                    f.write_str(", WEIGHTED")?;
                }
            }
        }
        f.write_str(if self.custom_health { ", with a custom health check" } else { "" })
    }
}
