//! Compares the exports of a name, property by property. An export is compared only in properties that it states, and
//! only if the property has an effect in the merged service.

use std::collections::{BTreeMap, BTreeSet};

use super::conflict::{Conflict, ConflictReason, Disagreement};
use super::families::states_families;
use super::ports;
use super::precedence::Exports;
use crate::model::Family;
use crate::model::clusterset::{
    ClustersetService, Export, ExportedPort, ImportType, Properties, SessionAffinity,
};

/// The timeout of a Service with the affinity `ClientIP` for which none is set: the default of the API server.
const DEFAULT_AFFINITY_SECONDS: u32 = 10_800;

/// All conflicts of the exports, in the order of the API's constants.
pub(super) fn find(exports: &Exports<'_>, service: &ClustersetService) -> Vec<Conflict> {
    let conflicts = [
        compare_ports(exports, service),
        compare_type(exports),
        compare_session_affinity(exports),
        compare_affinity_timeout(exports),
        compare_labels(exports),
        compare_annotations(exports),
        compare_traffic_policy(exports),
        compare_traffic_distribution(exports),
        compare_families(exports),
    ];
    conflicts.into_iter().flatten().collect()
}

fn compare_ports(exports: &Exports<'_>, service: &ClustersetService) -> Option<Conflict> {
    let values = exports.iter().map(|export| (export, export));
    let found = Disagreement::find(values, |first, other| ports::differ(service, first, other))?;
    let all: Vec<String> = service.ports.iter().map(ExportedPort::to_string).collect();
    let used = format!("\"{}\", with precedence to those", all.join(", "));
    Some(found.into_conflict(ConflictReason::Port, "ports", &used, exports.count()))
}

fn compare_type(exports: &Exports<'_>) -> Option<Conflict> {
    let values = exports.iter().map(|export| (export, export.kind.as_str()));
    let found = Disagreement::find(values, PartialEq::ne)?;
    let used = quoted(found.used);
    Some(found.into_conflict(ConflictReason::Type, "type", &used, exports.count()))
}

/// The exports that are compared in affinity, policy and distribution, none if the import is headless: these
/// properties say how a virtual IP leads to endpoints.
fn with_effect<'a>(exports: &Exports<'a>) -> impl Iterator<Item = (&'a Export, &'a Properties)> {
    let has_ip = exports.kind() == ImportType::ClusterSetIp;
    exports.with_routing().filter(move |_| has_ip)
}

fn compare_session_affinity(exports: &Exports<'_>) -> Option<Conflict> {
    let values = with_effect(exports).map(|(export, it)| (export, it.session_affinity.as_str()));
    let found = Disagreement::find(values, PartialEq::ne)?;
    let used = quoted(found.used);
    let reason = ConflictReason::SessionAffinity;
    Some(found.into_conflict(reason, "session affinity", &used, exports.count()))
}

/// The timeouts of the exports with the affinity `ClientIP`, if the merged service has it. Another affinity is a
/// conflict of its own.
fn compare_affinity_timeout(exports: &Exports<'_>) -> Option<Conflict> {
    let (_, deciding) = with_effect(exports).next()?;
    timeout(deciding)?;
    let values = with_effect(exports).filter_map(|(export, it)| Some((export, timeout(it)?)));
    let found = Disagreement::find(values, PartialEq::ne)?;
    let used = format!("\"{}s\"", found.used);
    let reason = ConflictReason::SessionAffinityConfig;
    Some(found.into_conflict(reason, "session affinity timeout", &used, exports.count()))
}

fn timeout(properties: &Properties) -> Option<u32> {
    match properties.session_affinity {
        SessionAffinity::None => None,
        SessionAffinity::ClientIp(seconds) => Some(seconds.unwrap_or(DEFAULT_AFFINITY_SECONDS)),
    }
}

fn compare_labels(exports: &Exports<'_>) -> Option<Conflict> {
    let values = exports.with_record().map(|(export, it)| (export, &it.labels));
    let found = Disagreement::find(values, PartialEq::ne)?;
    let subject = format!("labels {}", differing_keys(&found));
    Some(found.into_conflict(ConflictReason::Labels, &subject, "those", exports.count()))
}

fn compare_annotations(exports: &Exports<'_>) -> Option<Conflict> {
    let values = exports.with_record().map(|(export, it)| (export, &it.annotations));
    let found = Disagreement::find(values, PartialEq::ne)?;
    let subject = format!("annotations {}", differing_keys(&found));
    Some(found.into_conflict(ConflictReason::Annotations, &subject, "those", exports.count()))
}

/// The keys with another value than the one in use, or without one on one side. The values of annotations can be long.
fn differing_keys(found: &Disagreement<'_, &BTreeMap<String, String>>) -> String {
    let mut keys = BTreeSet::new();
    for (_, other) in &found.others {
        let all = found.used.keys().chain(other.keys());
        keys.extend(all.filter(|key| found.used.get(*key) != other.get(*key)));
    }
    let keys: Vec<String> = keys.into_iter().map(|key| quoted(key)).collect();
    keys.join(", ")
}

fn compare_traffic_policy(exports: &Exports<'_>) -> Option<Conflict> {
    let values =
        with_effect(exports).map(|(export, it)| (export, it.internal_traffic_policy.as_str()));
    let found = Disagreement::find(values, PartialEq::ne)?;
    let used = quoted(found.used);
    let reason = ConflictReason::InternalTrafficPolicy;
    Some(found.into_conflict(reason, "internal traffic policy", &used, exports.count()))
}

fn compare_traffic_distribution(exports: &Exports<'_>) -> Option<Conflict> {
    let values =
        with_effect(exports).map(|(export, it)| (export, it.traffic_distribution.as_deref()));
    let found = Disagreement::find(values, PartialEq::ne)?;
    let used = found.used.map_or_else(|| "none".to_owned(), quoted);
    let reason = ConflictReason::TrafficDistribution;
    Some(found.into_conflict(reason, "traffic distribution", &used, exports.count()))
}

/// The exporters without a family of the import: their endpoints cannot serve its virtual IP of that family. DNS
/// answers for a headless service with the addresses that there are.
fn compare_families(exports: &Exports<'_>) -> Option<Conflict> {
    if exports.kind() == ImportType::Headless {
        return None;
    }
    let stating = exports.iter().filter(|export| states_families(export));
    let values = stating.map(|export| (export, export.families.as_slice()));
    let lacks_one = |used: &&[Family], other: &&[Family]| used.iter().any(|it| !other.contains(it));
    let found = Disagreement::find(values, lacks_one)?;
    let used: Vec<&str> = found.used.iter().map(|it| family_text(*it)).collect();
    let used = quoted(&used.join(", "));
    Some(found.into_conflict(ConflictReason::IpFamily, "IP families", &used, exports.count()))
}

fn family_text(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}
