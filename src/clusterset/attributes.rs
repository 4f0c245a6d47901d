//! The attributes of an exported instance, as AWS's controller writes them
//! (<https://github.com/aws/aws-cloud-map-mcs-controller-for-k8s>, pkg/model/types.go), so that its importers read our
//! instances and ours read its. [`write()`] makes them, without our marks, and [`read()`] reads them.
//!
//! An instance is one address, one port of the endpoint and the Service's port that leads to it. All attributes but
//! `HOSTNAME` and `NODENAME` are mandatory for the reader of AWS's controller.

#[cfg(test)]
mod aws;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::model::attributes::{AVAILABILITY_ZONE, IPV4, IPV6, PORT, REGION};
use crate::model::{
    Attributes, ClusterArn, ClusterId, ClustersetId, Endpoint, EndpointPort, Export,
    ExportedEndpoint, ExportedPort, ExportedService, Flow, ImportType, Owner, PortOfService,
    Protocol, Timestamp, is_dns_label, is_dns_subdomain, is_label_word, is_publishable,
};

const ENDPOINT_PORT_NAME: &str = "ENDPOINT_PORT_NAME";
const ENDPOINT_PROTOCOL: &str = "ENDPOINT_PROTOCOL";
/// The Service's port, where `AWS_INSTANCE_PORT` is the endpoint's.
const SERVICE_PORT: &str = "SERVICE_PORT";
const SERVICE_PORT_NAME: &str = "SERVICE_PORT_NAME";
const SERVICE_PROTOCOL: &str = "SERVICE_PROTOCOL";
const SERVICE_TARGET_PORT: &str = "SERVICE_TARGET_PORT";
const SERVICE_TYPE: &str = "SERVICE_TYPE";
/// The creation of the `ServiceExport`, in milliseconds since 1970.
const CREATED: &str = "SERVICE_EXPORT_CREATION_TIMESTAMP";
const READY: &str = "READY";
const HOSTNAME: &str = "HOSTNAME";
const NODENAME: &str = "NODENAME";
const CLUSTER_ID: &str = "CLUSTER_ID";
const CLUSTERSET_ID: &str = "CLUSTERSET_ID";

/// The attributes that a headless Service without ports lacks.
const OF_PORT: [&str; 7] = [
    PORT,
    ENDPOINT_PORT_NAME,
    ENDPOINT_PROTOCOL,
    SERVICE_PORT,
    SERVICE_PORT_NAME,
    SERVICE_PROTOCOL,
    SERVICE_TARGET_PORT,
];

/// The attributes that [`write()`] sets besides them and the address.
const OTHERS: [&str; 9] = [
    SERVICE_TYPE,
    CREATED,
    READY,
    HOSTNAME,
    NODENAME,
    CLUSTER_ID,
    CLUSTERSET_ID,
    AVAILABILITY_ZONE,
    REGION,
];

/// Whether an attribute of an exported instance of ours is repaired, besides Cloud Map's own and the marks.
pub fn is_written(key: &str) -> bool {
    OF_PORT.contains(&key) || OTHERS.contains(&key)
}

// Reads the attributes of any instance as those of an endpoint of an export. Any client of Cloud Map can register an
// instance, so one that cannot become a part of an import is skipped with the reason, and the others are imported.

/// An instance of an export: an endpoint with one of its ports, and what AWS's controller says of the export in each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportInstance {
    /// The exporting member.
    pub cluster: ClusterId,
    /// The creation of the `ServiceExport`.
    pub created: Timestamp,
    pub kind: ImportType,
    pub endpoint: ExportedEndpoint,
    /// Whether it has an exporter's mark. Then its cluster exports the Service only if it has a record of it.
    pub is_marked: bool,
    /// The cluster in its marks. Names of zones mean the same only in one account.
    pub arn: Option<ClusterArn>,
}

/// The reason why an instance of a clusterset is not imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Skipped {
    #[error("it lacks the attribute {0}")]
    Missing(&'static str),
    #[error("it has neither {IPV4} nor {IPV6}")]
    NoAddress,
    /// An attribute, and the values that are valid.
    #[error("its attribute {0} is not {1}")]
    Invalid(&'static str, &'static str),
    #[error("its address is loopback, link-local, multicast, unspecified or IPv4-mapped")]
    NotPublishable,
}

/// The instance of an export to the clusterset; `None` if it is an instance of none.
///
/// # Errors
/// Returns the reason if it belongs to the clusterset and cannot be imported.
pub fn read(
    attributes: &Attributes,
    clusterset: &ClustersetId,
) -> Result<Option<ExportInstance>, Skipped> {
    is_exported_to(attributes, clusterset).then(|| instance(attributes)).transpose()
}

/// The clusterset that an instance says it belongs to.
pub fn clusterset_of(attributes: &Attributes) -> Option<ClustersetId> {
    ClustersetId::parse(attributes.get(CLUSTERSET_ID)?)
}

/// The cluster that an instance says it is exported from.
pub fn cluster_of(attributes: &Attributes) -> Option<ClusterId> {
    ClusterId::parse(attributes.get(CLUSTER_ID)?)
}

/// Whether an instance says that it belongs to this cluster of the clusterset.
pub fn is_of(attributes: &Attributes, clusterset: &ClustersetId, cluster: &ClusterId) -> bool {
    is_exported_to(attributes, clusterset)
        && attributes.get(CLUSTER_ID).is_some_and(|id| id == cluster.as_str())
}

/// Whether an instance says that it belongs to the clusterset.
pub fn is_exported_to(attributes: &Attributes, clusterset: &ClustersetId) -> bool {
    attributes.get(CLUSTERSET_ID).is_some_and(|id| id == clusterset.as_str())
}

/// Whether an attribute is a valid age of an export. Our importers take the age from the record of the export, so an export
/// that is made again needs no rewrite of all its instances: each gets the new age with its next change.
pub fn is_age_of_export(key: &str, attributes: &Attributes) -> bool {
    key == CREATED && attributes.get(key).and_then(timestamp).is_some()
}

/// Whether an instance says that it belongs to any clusterset.
pub fn is_of_a_clusterset(attributes: &Attributes) -> bool {
    attributes.contains_key(CLUSTERSET_ID)
}

fn instance(attributes: &Attributes) -> Result<ExportInstance, Skipped> {
    let is_marked = Flow::Exports.has_marked(attributes);
    let kind = parse(attributes, SERVICE_TYPE, "ClusterSetIP or Headless", ImportType::parse)?;
    let is_portless = is_marked
        && kind == ImportType::Headless
        && !OF_PORT.iter().any(|key| attributes.contains_key(key));
    let port = if is_portless { None } else { Some(port(attributes)?) };
    Ok(ExportInstance {
        cluster: parse(attributes, CLUSTER_ID, "a cluster id", ClusterId::parse)?,
        created: parse(attributes, CREATED, "a time in milliseconds", timestamp)?,
        kind,
        endpoint: endpoint(attributes, port)?,
        is_marked,
        arn: Owner::of(attributes).map(|owner| owner.cluster),
    })
}

fn endpoint(
    attributes: &Attributes,
    port: Option<EndpointPort>,
) -> Result<ExportedEndpoint, Skipped> {
    let address = address(attributes)?;
    if !is_publishable(address) {
        return Err(Skipped::NotPublishable);
    }
    // Kubernetes would refuse the whole EndpointSlice for one invalid name, and an endpoint serves without it.
    let name = |key, is_valid: fn(&str) -> bool| {
        attributes.get(key).filter(|text| is_valid(text)).map(str::to_owned)
    };
    Ok(ExportedEndpoint {
        address,
        port,
        ready: parse(attributes, READY, "true or false", |text| text.parse().ok())?,
        is_leaving: false,
        hostname: name(HOSTNAME, is_dns_label),
        node: name(NODENAME, is_dns_subdomain),
        zone: name(AVAILABILITY_ZONE, is_label_word),
        region: name(REGION, is_dns_label),
    })
}

/// The Service's port that an instance of ours leads to. `None` without a valid one, as after an edit by hand.
pub fn service_port(attributes: &Attributes) -> Option<PortOfService> {
    let protocol = Protocol::parse(attributes.get(SERVICE_PROTOCOL)?)?;
    Some(PortOfService { protocol, name: attributes.get(SERVICE_PORT_NAME)?.to_owned() })
}

/// The IPv4 address of an instance with both, as AWS's controller reads it.
fn address(attributes: &Attributes) -> Result<IpAddr, Skipped> {
    let v4 = |text: &str| Some(IpAddr::V4(text.parse::<Ipv4Addr>().ok()?));
    let v6 = |text: &str| Some(IpAddr::V6(text.parse::<Ipv6Addr>().ok()?));
    match (attributes.get(IPV4), attributes.get(IPV6)) {
        (Some(text), _) => v4(text).ok_or(Skipped::Invalid(IPV4, "an IPv4 address")),
        (None, Some(text)) => v6(text).ok_or(Skipped::Invalid(IPV6, "an IPv6 address")),
        (None, None) => Err(Skipped::NoAddress),
    }
}

fn port(attributes: &Attributes) -> Result<EndpointPort, Skipped> {
    let number = |key| parse(attributes, key, "a port from 1 to 65535", port_number);
    let protocol = |key| parse(attributes, key, "TCP, UDP or SCTP", Protocol::parse);
    // The other names are used in no object of Kubernetes.
    let port_name = |text: &str| (text.is_empty() || is_dns_label(text)).then(|| text.to_owned());
    Ok(EndpointPort {
        name: text(attributes, ENDPOINT_PORT_NAME)?.to_owned(),
        protocol: protocol(ENDPOINT_PROTOCOL)?,
        number: number(PORT)?,
        service_name: parse(attributes, SERVICE_PORT_NAME, "the name of a port", port_name)?,
        service_protocol: protocol(SERVICE_PROTOCOL)?,
        service_number: number(SERVICE_PORT)?,
        target: text(attributes, SERVICE_TARGET_PORT)?.to_owned(),
    })
}

/// Digits alone: AWS's controller refuses a sign.
fn port_number(text: &str) -> Option<u16> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| is_number && *port > 0)
}

fn timestamp(text: &str) -> Option<Timestamp> {
    Timestamp::from_millisecond(text.parse().ok()?).ok()
}

fn text<'a>(attributes: &'a Attributes, key: &'static str) -> Result<&'a str, Skipped> {
    attributes.get(key).ok_or(Skipped::Missing(key))
}

fn parse<T>(
    attributes: &Attributes,
    key: &'static str,
    expected: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, Skipped> {
    parse(text(attributes, key)?).ok_or(Skipped::Invalid(key, expected))
}

// Writes the attributes of an exported instance.

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

// The endpoints of a Service as those of its export: one for each address and each port of the Service.

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
