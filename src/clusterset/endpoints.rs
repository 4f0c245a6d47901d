//! The endpoints of a Service as those of its export: one for each address and each port of the Service.

use crate::model::Endpoint;
use crate::model::clusterset::{EndpointPort, ExportedEndpoint, ExportedPort, ExportedService};
use crate::model::is_publishable;

/// The exported endpoints of one endpoint. An endpoint that lacks a port of the Service has none for it, as it has no
/// traffic for it in its own cluster. A Service without ports has one for each address.
pub fn endpoints_of(
    exported: &ExportedService,
    endpoint: &Endpoint,
    region: &str,
) -> Vec<ExportedEndpoint> {
    let addresses = endpoint.addresses().filter(|address| is_publishable(*address));
    let of_address = addresses.flat_map(|address| {
        let of = move |port: Option<EndpointPort>| ExportedEndpoint {
            address,
            port,
            // Only ready endpoints are registered: a client of Cloud Map alone does not read the attribute.
            ready: true,
            is_leaving: false,
            hostname: endpoint.hostname.clone(),
            node: endpoint.node.clone(),
            zone: endpoint.zone.clone(),
            region: Some(region.to_owned()),
        };
        let ports = exported.export.ports.iter();
        let without = exported.export.ports.is_empty().then(|| of(None));
        let ports = ports.filter_map(|port| endpoint_port(exported, port, endpoint));
        without.into_iter().chain(ports.map(move |port| of(Some(port)))).collect::<Vec<_>>()
    });
    of_address.collect()
}

/// The port of the endpoint that a port of the Service leads to. Both have the same name and protocol.
fn endpoint_port(
    exported: &ExportedService,
    port: &ExportedPort,
    endpoint: &Endpoint,
) -> Option<EndpointPort> {
    let number = *endpoint.ports.get(&port.name)?;
    let target = exported.targets.get(&port.name).cloned();
    Some(EndpointPort {
        name: port.name.clone(),
        protocol: port.protocol,
        number,
        service_name: port.name.clone(),
        service_protocol: port.protocol,
        service_number: port.number,
        target: target.unwrap_or_else(|| number.to_string()),
    })
}
