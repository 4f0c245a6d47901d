//! The reader of AWS's controller, for tests: `NewEndpointFromInstance` of its pkg/model/types.go, at its last commit
//! of October 2024. The tests use it to check that its importers accept our instances, and which values they read.

use super::{
    CLUSTER_ID, CLUSTERSET_ID, CREATED, ENDPOINT_PORT_NAME, ENDPOINT_PROTOCOL, READY, SERVICE_PORT,
    SERVICE_PORT_NAME, SERVICE_PROTOCOL, SERVICE_TARGET_PORT, SERVICE_TYPE,
};
use crate::model::Attributes;
use crate::model::attributes::{IPV4, IPV6, PORT};

/// An endpoint as the importers of AWS's controller read it.
#[derive(Debug, PartialEq, Eq)]
pub struct AwsEndpoint {
    /// Any text, even an empty one.
    pub address: String,
    pub port: u16,
    pub service_port: u16,
    pub ready: bool,
    pub created: i64,
    pub cluster: String,
}

/// Reads an instance as AWS's controller does.
///
/// # Errors
/// Returns the first attribute that is missing or cannot be parsed.
pub fn read_as_aws(attributes: &Attributes) -> Result<AwsEndpoint, &'static str> {
    let text = |key: &'static str| attributes.get(key).ok_or(key);
    let address = attributes.get(IPV4).or(attributes.get(IPV6)).unwrap_or_default().to_owned();
    text(ENDPOINT_PORT_NAME)?;
    let port = unsigned(text(PORT)?).ok_or(PORT)?;
    text(ENDPOINT_PROTOCOL)?;
    text(SERVICE_TARGET_PORT)?;
    text(SERVICE_PORT_NAME)?;
    let service_port = unsigned(text(SERVICE_PORT)?).ok_or(SERVICE_PORT)?;
    text(SERVICE_PROTOCOL)?;
    text(SERVICE_TYPE)?;
    let cluster = text(CLUSTER_ID)?.to_owned();
    text(CLUSTERSET_ID)?;
    let ready = boolean(text(READY)?).ok_or(READY)?;
    let created = text(CREATED)?.parse().map_err(|_| CREATED)?;
    Ok(AwsEndpoint { address, port, service_port, ready, created, cluster })
}

/// Go's `strconv.ParseUint(text, 10, 16)`, which accepts no sign.
fn unsigned(text: &str) -> Option<u16> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

/// Go's `strconv.ParseBool`.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}
