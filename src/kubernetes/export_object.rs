//! The fields of a `ServiceExport` and of its Service that are read for an export. The Services of annotated names are
//! read with fewer fields, in [`super::object`].

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Deserialize;

use super::object::{from_object, null_is_empty};

#[derive(Clone, Debug, Deserialize)]
pub struct ExportObject {
    #[serde(deserialize_with = "from_object")]
    pub metadata: ExportMetadata,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub spec: ExportSpec,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub status: ExportStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExportMetadata {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub generation: i64,
    pub creation_timestamp: Option<Time>,
    pub deletion_timestamp: Option<Time>,
    #[serde(deserialize_with = "null_is_empty")]
    pub finalizers: Vec<String>,
    #[serde(deserialize_with = "null_is_empty")]
    pub labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExportSpec {
    #[serde(deserialize_with = "null_is_empty")]
    pub exported_labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_empty")]
    pub exported_annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ExportStatus {
    #[serde(deserialize_with = "null_is_empty")]
    pub conditions: Vec<ConditionObject>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionObject {
    pub r#type: String,
    pub status: String,
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub message: String,
    pub observed_generation: Option<i64>,
    pub last_transition_time: Option<Time>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct ExportedServiceObject {
    #[serde(deserialize_with = "from_object")]
    pub metadata: ExportMetadata,
    #[serde(deserialize_with = "from_object")]
    pub spec: ExportedServiceSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExportedServiceSpec {
    pub r#type: String,
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Option<String>,
    #[serde(deserialize_with = "null_is_empty")]
    pub ports: Vec<ExportedPortObject>,
    #[serde(rename = "ipFamilies", deserialize_with = "null_is_empty")]
    pub ip_families: Vec<String>,
    pub session_affinity: Option<String>,
    pub session_affinity_config: Option<AffinityConfig>,
    pub internal_traffic_policy: Option<String>,
    pub traffic_distribution: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportedPortObject {
    #[serde(default, deserialize_with = "null_is_empty")]
    pub name: String,
    pub protocol: Option<String>,
    pub port: u16,
    pub app_protocol: Option<String>,
    pub target_port: Option<IntOrString>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct AffinityConfig {
    #[serde(rename = "clientIP")]
    pub client_ip: Option<ClientIp>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientIp {
    pub timeout_seconds: Option<u32>,
}
