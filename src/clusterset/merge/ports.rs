//! The ports of an import, and the exporters whose endpoints serve them.

use std::collections::BTreeSet;
use std::iter::once;

use super::precedence::Exports;
use crate::model::clusterset::{
    ClustersetService, EndpointPort, Export, ExportedPort, ImportType, Protocol,
};

/// The union of the ports of all exports. A Service must not repeat a name, also the empty one, or a pair of protocol
/// and number, so a port is added only if neither is there.
pub(super) fn union(exports: &Exports<'_>) -> Vec<ExportedPort> {
    let mut ports: Vec<ExportedPort> = Vec::new();
    for (rank, export) in exports.iter().enumerate() {
        for port in &export.ports {
            if !ports.iter().any(|it| it.name == port.name || key(it) == key(port)) {
                let app_protocol = app_protocol(exports.iter().skip(rank), key(port));
                ports.push(ExportedPort { app_protocol, ..port.clone() });
            }
        }
    }
    name_unnamed_port(&mut ports);
    ports
}

/// The protocol and number of a port, which identify it in a Service.
fn key(port: &ExportedPort) -> (Protocol, u16) {
    (port.protocol, port.number)
}

/// The port of an export with this protocol and number.
pub(super) fn find<'a>(export: &'a Export, like: &ExportedPort) -> Option<&'a ExportedPort> {
    export.ports.iter().find(|port| key(port) == key(like))
}

/// The application protocol of a port, from the first of the exports that have the port and a record: only the record
/// states it.
fn app_protocol<'a>(
    exports: impl Iterator<Item = &'a Export>,
    key_of_port: (Protocol, u16),
) -> Option<String> {
    let mut ports = exports.filter(|it| it.properties.is_some()).flat_map(|it| &it.ports);
    ports.find(|port| key(port) == key_of_port)?.app_protocol.clone()
}

/// Names the unnamed port of several after its protocol and number, since a Service accepts an unnamed port only as its
/// single one. An exporter may call another port the same, so a number may follow.
fn name_unnamed_port(ports: &mut [ExportedPort]) {
    let unnamed = ports.iter().position(|port| port.name.is_empty());
    let Some(unnamed) = unnamed.filter(|_| ports.len() > 1) else { return };
    let (protocol, number) = key(&ports[unnamed]);
    let name = format!("{}-{number}", protocol.as_str().to_lowercase());
    let numbered = (2..).map(|suffix| format!("{name}-{suffix}"));
    let is_free = |name: &String| ports.iter().all(|port| port.name != *name);
    if let Some(free) = once(name.clone()).chain(numbered).find(is_free) {
        ports[unnamed].name = free;
    }
}

/// Whether the ports of an export differ from those of the first one, in any order. Only a record states application
/// protocols, so those are compared with the merged ones.
pub(super) fn differ(service: &ClustersetService, first: &Export, other: &Export) -> bool {
    let has_other_protocol = |port: &ExportedPort| {
        let same = find(other, port).filter(|_| other.properties.is_some());
        same.is_some_and(|it| it.app_protocol != port.app_protocol)
    };
    identities(first) != identities(other) || service.ports.iter().any(has_other_protocol)
}

fn identities(export: &Export) -> BTreeSet<(&str, Protocol, u16)> {
    export.ports.iter().map(|it| (it.name.as_str(), it.protocol, it.number)).collect()
}

/// The ports of the merged service that the endpoints of an exporter serve: those that the exporter has by protocol and
/// number, whatever it calls them. Another port under the same name would lead clients to the wrong process.
pub fn served_ports<'a>(
    service: &'a ClustersetService,
    export: &Export,
) -> impl Iterator<Item = &'a ExportedPort> {
    service.ports.iter().filter(move |port| find(export, port).is_some())
}

/// Whether an endpoint of an exporter takes part in the merged service with one of its ports. DNS leads clients of a
/// headless one to every endpoint; an IP leads them only to a port that both the exporter and the service have.
pub fn serves(service: &ClustersetService, export: &Export, port: Option<&EndpointPort>) -> bool {
    let mut served = served_ports(service, export).map(key);
    service.kind == ImportType::Headless
        || match port {
            Some(port) => served.any(|it| it == (port.service_protocol, port.service_number)),
            None => served.next().is_none(),
        }
}
