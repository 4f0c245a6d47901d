//! Writes the attributes of an exported instance.

use super::{
    CLUSTER_ID, CLUSTERSET_ID, CREATED, ENDPOINT_PORT_NAME, ENDPOINT_PROTOCOL, HOSTNAME, NODENAME,
    READY, SERVICE_PORT, SERVICE_PORT_NAME, SERVICE_PROTOCOL, SERVICE_TARGET_PORT, SERVICE_TYPE,
};
use crate::model::Attributes;
use crate::model::attributes::{AVAILABILITY_ZONE, IPV4, IPV6, PORT, REGION};
use crate::model::clusterset::{ClustersetId, EndpointPort, Export, ExportedEndpoint};

/// The attributes of one endpoint of an export, without marks. `K8S_CONTROLLER` is not among them: it is the name of
/// AWS's controller, and a version in it would rewrite every instance at each release.
pub fn write(
    export: &Export,
    clusterset: &ClustersetId,
    endpoint: &ExportedEndpoint,
) -> Attributes {
    let address = if endpoint.address.is_ipv4() { IPV4 } else { IPV6 };
    let always = [
        (address, endpoint.address.to_string()),
        (SERVICE_TYPE, export.kind.as_str().to_owned()),
        (CREATED, export.created.as_millisecond().to_string()),
        (READY, endpoint.ready.to_string()),
        (CLUSTER_ID, export.cluster.to_string()),
        (CLUSTERSET_ID, clusterset.to_string()),
    ];
    let optional = [
        (HOSTNAME, &endpoint.hostname),
        (NODENAME, &endpoint.node),
        (AVAILABILITY_ZONE, &endpoint.zone),
        (REGION, &endpoint.region),
    ];
    let optional = optional.into_iter().filter_map(|(key, text)| Some((key, text.clone()?)));
    let ports = endpoint.port.iter().flat_map(of_port);
    let all = always.into_iter().chain(ports).chain(optional);
    all.map(|(key, text)| (key.to_owned(), text)).collect()
}

fn of_port(port: &EndpointPort) -> [(&'static str, String); 7] {
    [
        (PORT, port.number.to_string()),
        (ENDPOINT_PORT_NAME, port.name.clone()),
        (ENDPOINT_PROTOCOL, port.protocol.as_str().to_owned()),
        (SERVICE_PORT, port.service_number.to_string()),
        (SERVICE_PORT_NAME, port.service_name.clone()),
        (SERVICE_PROTOCOL, port.service_protocol.as_str().to_owned()),
        (SERVICE_TARGET_PORT, port.target.clone()),
    ]
}
