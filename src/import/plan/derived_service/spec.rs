//! The spec of a derived Service: in the end, and in the transition to it. The API server refuses a port's name or number
//! that occurs twice, and another primary family, so both are made of the present Service and the merged exports.

use serde_json::{Value, json};

use crate::import::plan::basis::Basis;
use crate::import::plan::fields;
use crate::import::plan::present::{DerivedService, Routing, ServiceSpec, Texts};
use crate::model::Family;
use crate::model::clusterset::{ClustersetService, ExportedPort, SessionAffinity};

/// The API server's timeout for a Service that does not set one.
const DEFAULT_TIMEOUT: u32 = 10800;

/// The families of the service that the cluster has, as do those of the present Service. If no export names its
/// families, those of the present Service; without one the cluster's primary one, as for any Service that names none.
pub(super) fn families_of_import(
    basis: &Basis<'_>,
    service: &ClustersetService,
    present: Option<&DerivedService>,
) -> Vec<Family> {
    let present = present.map(|it| it.spec.families.as_slice()).unwrap_or_default();
    let available = with_others(present, &basis.importer.families);
    let wanted = match service.families.as_slice() {
        [] if present.is_empty() => available.get(..1).unwrap_or_default(),
        [] => present,
        families => families,
    };
    wanted.iter().filter(|family| available.contains(family)).copied().collect()
}

/// The spec at the end. The primary family of a Service cannot be changed, so it stays the first.
pub(super) fn last_spec(
    service: &ClustersetService,
    families: &[Family],
    present: Option<&DerivedService>,
) -> ServiceSpec {
    let own = present.map(|it| it.spec.families.as_slice()).unwrap_or_default();
    let kept = if families.is_empty() { own } else { own.get(..1).unwrap_or_default() };
    let families = with_others(kept, families);
    let routing = fields::routing(service);
    ServiceSpec {
        kind: "ClusterIP".to_owned(),
        selector: Texts::new(),
        ports: last_ports(service, present.map(|it| it.spec.ports.as_slice()).unwrap_or_default()),
        family_policy: Some(policy_for(&families).to_owned()),
        families,
        routing: Routing { session_affinity: with_timeout(routing.session_affinity), ..routing },
    }
}

fn last_ports(service: &ClustersetService, present: &[ExportedPort]) -> Vec<ExportedPort> {
    let is_present = are_same(present, &service.ports);
    if is_present { present.to_vec() } else { service.ports.clone() }
}

fn policy_for(families: &[Family]) -> &'static str {
    if families.len() > 1 { "PreferDualStack" } else { "SingleStack" }
}

fn with_timeout(affinity: SessionAffinity) -> SessionAffinity {
    match affinity {
        SessionAffinity::ClientIp(None) => SessionAffinity::ClientIp(Some(DEFAULT_TIMEOUT)),
        other => other,
    }
}

fn with_others(first: &[Family], others: &[Family]) -> Vec<Family> {
    let new = others.iter().filter(|family| !first.contains(family));
    first.iter().chain(new).copied().collect()
}

/// The last spec with the present ports and families besides.
pub(super) fn transition(present: &ServiceSpec, last: &ServiceSpec) -> ServiceSpec {
    let families = with_others(&present.families, &last.families);
    ServiceSpec {
        ports: ports_in_transition(&present.ports, &last.ports),
        family_policy: Some(policy_for(&families).to_owned()),
        families,
        ..last.clone()
    }
}

/// The present ports under their present names, and the new ones. A Service refuses a name, or a protocol and number,
/// that occurs twice, and an unnamed port beside others.
fn ports_in_transition(present: &[ExportedPort], last: &[ExportedPort]) -> Vec<ExportedPort> {
    let mut ports: Vec<ExportedPort> = present.to_vec();
    for port in &mut ports {
        if let Some(last) = find(last, port) {
            port.app_protocol.clone_from(&last.app_protocol);
        }
    }
    let is_new = |port: &&ExportedPort| {
        find(present, port).is_none() && present.iter().all(|it| it.name != port.name)
    };
    let new: Vec<ExportedPort> = last.iter().filter(is_new).cloned().collect();
    let has_unnamed = ports.iter().chain(&new).any(|port| port.name.is_empty());
    if ports.is_empty() || !has_unnamed {
        ports.extend(new);
    }
    if are_same(&ports, last) { last.to_vec() } else { ports }
}

/// The order of a Service's ports has no meaning.
fn are_same(ports: &[ExportedPort], others: &[ExportedPort]) -> bool {
    ports.len() == others.len() && ports.iter().all(|port| others.contains(port))
}

/// The port with the same protocol and number.
pub(super) fn find<'a>(ports: &'a [ExportedPort], like: &ExportedPort) -> Option<&'a ExportedPort> {
    ports.iter().find(|port| (port.protocol, port.number) == (like.protocol, like.number))
}

pub(super) fn json_of(labels: &Texts, spec: &ServiceSpec) -> Value {
    let mut value = spec_json(spec);
    value["metadata"] = json!({"labels": labels});
    value
}

pub(super) fn spec_json(spec: &ServiceSpec) -> Value {
    let mut value = fields::spec(&spec.ports, &spec.families, &spec.routing);
    value["type"] = json!(spec.kind);
    if let Some(policy) = &spec.family_policy {
        value["ipFamilyPolicy"] = json!(policy);
    }
    if !spec.selector.is_empty() {
        value["selector"] = json!(spec.selector);
    }
    json!({"spec": value})
}
