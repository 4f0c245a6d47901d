//! The attributes of an exported instance, in the format of AWS's controller
//! (<https://github.com/aws/aws-cloud-map-mcs-controller-for-k8s>, pkg/model/types.go): its importers read our
//! instances, and ours read its instances. [`write()`] makes the attributes, without our marks, and [`read()`] reads
//! them.
//!
//! An instance is one address, one port of the endpoint and the Service's port that leads to it. The reader of AWS's
//! controller requires all attributes except `HOSTNAME` and `NODENAME`.

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
/// The Service's port. The endpoint's port is `AWS_INSTANCE_PORT`.
const SERVICE_PORT: &str = "SERVICE_PORT";
const SERVICE_PORT_NAME: &str = "SERVICE_PORT_NAME";
const SERVICE_PROTOCOL: &str = "SERVICE_PROTOCOL";
const SERVICE_TARGET_PORT: &str = "SERVICE_TARGET_PORT";
const SERVICE_TYPE: &str = "SERVICE_TYPE";
/// The creation time of the `ServiceExport`, in milliseconds since 1970.
const CREATED: &str = "SERVICE_EXPORT_CREATION_TIMESTAMP";
const READY: &str = "READY";
const HOSTNAME: &str = "HOSTNAME";
const NODENAME: &str = "NODENAME";
const CLUSTER_ID: &str = "CLUSTER_ID";
const CLUSTERSET_ID: &str = "CLUSTERSET_ID";

/// The attributes about ports. A headless Service without ports has none of them.
const OF_PORT: [&str; 7] = [
    PORT,
    ENDPOINT_PORT_NAME,
    ENDPOINT_PROTOCOL,
    SERVICE_PORT,
    SERVICE_PORT_NAME,
    SERVICE_PROTOCOL,
    SERVICE_TARGET_PORT,
];

/// The other attributes that [`write()`] sets, except the address.
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

/// Whether [`write()`] sets an attribute, so that a sync repairs it. Addresses and marks are not included.
pub fn is_written(key: &str) -> bool {
    OF_PORT.contains(&key) || OTHERS.contains(&key)
}

// Reads the attributes of an instance as an endpoint of an export. Any client of Cloud Map can register instances, so
// an instance that cannot be imported is skipped with the reason, and the others are imported.

/// An instance of an export: one endpoint with one of its ports, and the properties of the export that AWS's controller
/// repeats in each instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportInstance {
    /// The exporting member.
    pub cluster: ClusterId,
    /// The creation time of the `ServiceExport`.
    pub created: Timestamp,
    pub kind: ImportType,
    pub endpoint: ExportedEndpoint,
    /// Whether the instance has an exporter's mark. Its cluster then exports the Service only if it also has a record
    /// of the export.
    pub is_marked: bool,
    /// The cluster in its marks, if it has marks. Zone names have the same meaning only within one account.
    pub arn: Option<ClusterArn>,
}

/// The reason why an instance of a clusterset is not imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Skipped {
    #[error("it lacks the attribute {0}")]
    Missing(&'static str),
    #[error("it has neither {IPV4} nor {IPV6}")]
    NoAddress,
    /// The attribute, and the values that are valid.
    #[error("its attribute {0} is not {1}")]
    Invalid(&'static str, &'static str),
    #[error("its address is loopback, link-local, multicast, unspecified or IPv4-mapped")]
    NotPublishable,
}

/// Reads an instance that is exported to the clusterset. Returns `None` if the instance does not belong to it.
///
/// # Errors
/// Returns the reason if the instance belongs to the clusterset but cannot be imported.
pub fn read(
    attributes: &Attributes,
    clusterset: &ClustersetId,
) -> Result<Option<ExportInstance>, Skipped> {
    is_exported_to(attributes, clusterset).then(|| instance(attributes)).transpose()
}

/// The clusterset in an instance's attributes.
pub fn clusterset_of(attributes: &Attributes) -> Option<ClustersetId> {
    ClustersetId::parse(attributes.get(CLUSTERSET_ID)?)
}

/// The exporting cluster in an instance's attributes.
pub fn cluster_of(attributes: &Attributes) -> Option<ClusterId> {
    ClusterId::parse(attributes.get(CLUSTER_ID)?)
}

/// Whether an instance's attributes name this cluster of this clusterset.
pub fn is_of(attributes: &Attributes, clusterset: &ClustersetId, cluster: &ClusterId) -> bool {
    is_exported_to(attributes, clusterset)
        && attributes.get(CLUSTER_ID).is_some_and(|id| id == cluster.as_str())
}

/// Whether an instance's attributes name this clusterset.
pub fn is_exported_to(attributes: &Attributes, clusterset: &ClustersetId) -> bool {
    attributes.get(CLUSTERSET_ID).is_some_and(|id| id == clusterset.as_str())
}

/// Whether an attribute is a valid creation time of an export. A sync does not compare it, since our importers read the
/// time from the export record. A recreated export thus needs no rewrite of all its instances: each gets the new time
/// with its next change.
pub fn is_age_of_export(key: &str, attributes: &Attributes) -> bool {
    key == CREATED && attributes.get(key).and_then(timestamp).is_some()
}

/// Whether an instance's attributes name any clusterset.
pub fn is_of_a_clusterset(attributes: &Attributes) -> bool {
    attributes.contains_key(CLUSTERSET_ID)
}

fn instance(attributes: &Attributes) -> Result<ExportInstance, Skipped> {
    let is_marked = Flow::Exports.has_mark_on(attributes);
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
    // Kubernetes would refuse the whole EndpointSlice for one invalid name. The endpoint works without the name.
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

/// The Service's port that an instance of ours belongs to. `None` if the attributes have no valid one, for example
/// after a manual edit.
pub fn service_port(attributes: &Attributes) -> Option<PortOfService> {
    let protocol = Protocol::parse(attributes.get(SERVICE_PROTOCOL)?)?;
    Some(PortOfService { protocol, name: attributes.get(SERVICE_PORT_NAME)?.to_owned() })
}

/// The address of an instance. If it has both families, the IPv4 address counts, as for AWS's controller.
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
    // Only this name is written to Kubernetes objects, so the other names are not validated.
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

/// Returns the port of the endpoint, which `AWS_INSTANCE_PORT` and `ENDPOINT_PROTOCOL` state; `None` if it has none.
pub fn endpoint_port_of(attributes: &Attributes) -> Option<(Protocol, u16)> {
    let number = port_number(attributes.get(PORT)?)?;
    let protocol = Protocol::parse(attributes.get(ENDPOINT_PROTOCOL)?)?;
    Some((protocol, number))
}

/// Parses a port number of digits alone. AWS's controller accepts no sign.
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

/// Returns the attributes of one endpoint of an export, without marks. `K8S_CONTROLLER` is left out: it is the name of
/// AWS's controller, and a version in it would cause a rewrite of every instance at each release.
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
    let ports = endpoint.port.iter().flat_map(port_attributes);
    let all = always.into_iter().chain(ports).chain(optional);
    all.map(|(key, text)| (key.to_owned(), text)).collect()
}

fn port_attributes(port: &EndpointPort) -> [(&'static str, String); 7] {
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

// The exported endpoints of a Service: one for each address and each port of the Service.

/// Returns the exported endpoints of one endpoint: one for each address and each port of the Service. A port that the
/// endpoint lacks is left out, since the endpoint gets no traffic for that port in its own cluster either. For a
/// Service without ports, returns one exported endpoint for each address.
pub fn endpoints_of(
    exported: &ExportedService,
    endpoint: &Endpoint,
    region: &str,
) -> Vec<ExportedEndpoint> {
    let addresses = endpoint.addresses().filter(|address| is_publishable(*address));
    let endpoints = addresses.flat_map(|address| {
        let with_port = move |port: Option<EndpointPort>| ExportedEndpoint {
            address,
            port,
            // Only ready endpoints are registered, since a plain client of Cloud Map does not read this attribute.
            ready: true,
            is_leaving: false,
            hostname: endpoint.hostname.clone(),
            node: endpoint.node.clone(),
            zone: endpoint.zone.clone(),
            region: Some(region.to_owned()),
        };
        let ports = exported.export.ports.iter();
        let without = exported.export.ports.is_empty().then(|| with_port(None));
        let ports = ports.filter_map(|port| endpoint_port(exported, port, endpoint));
        without.into_iter().chain(ports.map(move |port| with_port(Some(port)))).collect::<Vec<_>>()
    });
    endpoints.collect()
}

/// Returns the port of the endpoint that a port of the Service leads to: both have the same name and protocol.
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
