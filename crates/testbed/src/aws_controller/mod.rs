//! AWS's Cloud Map MCS controller of one cluster (github.com/aws/aws-cloud-map-mcs-controller-for-k8s, its last commit of
//! October 2024), as far as others can see it: `exports` is its serviceexport_controller.go, `imports` its
//! cloudmap_controller.go. It runs when a test says so, and repeats the faults that it is known for.

mod exports;
mod imports;

use std::collections::BTreeMap;

use super::cloud_map::CloudMap;
use super::kubernetes::KubernetesServer;

/// The finalizer of its ServiceExports.
pub const FINALIZER: &str = "multicluster.k8s.aws/service-export-finalizer";
/// The annotation of its ServiceImports.
pub const ANNOTATION: &str = "multicluster.k8s.aws/derived-service";
/// The label of its Services and slices that names the import.
pub const IMPORT: &str = "multicluster.kubernetes.io/service-name";
/// Their label that names the exporting cluster.
pub const SOURCE: &str = "multicluster.kubernetes.io/source-cluster";

/// The attributes of a ready endpoint of a cluster, as the controller registers it: port 80 leads to 8080.
pub fn endpoint<'a>(
    cluster: &'a str,
    clusterset: &'a str,
    address: &'a str,
) -> [(&'static str, &'a str); 14] {
    [
        ("AWS_INSTANCE_IPV4", address),
        ("AWS_INSTANCE_PORT", "8080"),
        ("CLUSTER_ID", cluster),
        ("CLUSTERSET_ID", clusterset),
        ("ENDPOINT_PORT_NAME", "http"),
        ("ENDPOINT_PROTOCOL", "TCP"),
        ("K8S_CONTROLLER", "aws-cloud-map-mcs-controller-for-k8s 0.3.1"),
        ("READY", "true"),
        ("SERVICE_EXPORT_CREATION_TIMESTAMP", "1767225600000"),
        ("SERVICE_PORT", "80"),
        ("SERVICE_PORT_NAME", "http"),
        ("SERVICE_PROTOCOL", "TCP"),
        ("SERVICE_TARGET_PORT", "8080"),
        ("SERVICE_TYPE", "ClusterSetIP"),
    ]
}

type Attributes = BTreeMap<String, String>;

/// The controller of one cluster.
pub struct AwsController {
    pub kubernetes: KubernetesServer,
    pub cloud_map: CloudMap,
    pub cluster: String,
    pub clusterset: String,
}

impl AwsController {
    /// One round of both of its loops.
    pub fn run(&self) {
        self.export();
        self.import();
    }

    /// The instances of a Cloud Map service that its reader takes: they belong to the clusterset and have all mandatory
    /// attributes.
    fn endpoints(&self, service: &str) -> Vec<(String, Attributes)> {
        const MANDATORY: [&str; 12] = [
            "AWS_INSTANCE_PORT",
            "CLUSTER_ID",
            "CLUSTERSET_ID",
            "ENDPOINT_PORT_NAME",
            "ENDPOINT_PROTOCOL",
            "READY",
            "SERVICE_EXPORT_CREATION_TIMESTAMP",
            "SERVICE_PORT",
            "SERVICE_PORT_NAME",
            "SERVICE_PROTOCOL",
            "SERVICE_TARGET_PORT",
            "SERVICE_TYPE",
        ];
        let is_read = |attributes: &Attributes| {
            let of_set = attributes.get("CLUSTERSET_ID") == Some(&self.clusterset);
            of_set && MANDATORY.iter().all(|key| attributes.contains_key(*key))
        };
        let all = self.cloud_map.instances(service).into_iter();
        all.filter(|(_, attributes)| is_read(attributes)).collect()
    }
}
