//! The attributes of an exported instance, as AWS's controller writes them
//! (<https://github.com/aws/aws-cloud-map-mcs-controller-for-k8s>, pkg/model/types.go), so that its importers read our
//! instances and ours read its. [`write()`] makes them, without our marks, and [`read()`] reads them.
//!
//! An instance is one address, one port of the endpoint and the Service's port that leads to it. All attributes but
//! `HOSTNAME` and `NODENAME` are mandatory for the reader of AWS's controller.

#[cfg(test)]
mod aws;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use read::{
    ExportInstance, Skipped, cluster_of, clusterset_of, is_exported_to, is_of, is_of_a_clusterset,
    read, service_port,
};
pub use write::write;

use crate::model::attributes::{AVAILABILITY_ZONE, PORT, REGION};

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

/// The attributes that [`write()`] sets, besides Cloud Map's own.
const WRITTEN: [&str; 15] = [
    ENDPOINT_PORT_NAME,
    ENDPOINT_PROTOCOL,
    SERVICE_PORT,
    SERVICE_PORT_NAME,
    SERVICE_PROTOCOL,
    SERVICE_TARGET_PORT,
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
    WRITTEN.contains(&key)
}
