//! The fate of one endpoint under a name: its condition in Kubernetes, and its registration in Cloud Map as the plan
//! has it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{printable, shorten};
use crate::model::Endpoint;
use crate::publish::plan::Fate;

/// One endpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EndpointLine {
    /// Its pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// Its condition in Kubernetes.
    pub condition: Condition,
    /// Its fate in Cloud Map.
    pub fate: EndpointFate,
    /// The fate in a sentence.
    pub detail: String,
}

/// The condition of an endpoint in Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition {
    /// Its pod is ready.
    #[serde(rename = "ready")]
    Ready,
    /// Its pod is not ready.
    #[serde(rename = "not ready")]
    NotReady,
    /// Its pod is being deleted.
    #[serde(rename = "terminating")]
    Terminating,
}

/// The fate of an endpoint in Cloud Map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndpointFate {
    /// It is registered without drift.
    Registered,
    /// It is registered, and the next sync changes its instance.
    Changes,
    /// The next sync registers it.
    ToRegister,
    /// It stays out of Cloud Map.
    NotRegistered,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ready => "ready",
            Self::NotReady => "not ready",
            Self::Terminating => "terminating",
        })
    }
}

impl From<(Endpoint, Fate)> for EndpointLine {
    fn from((endpoint, fate): (Endpoint, Fate)) -> Self {
        let condition = match &endpoint {
            Endpoint { terminating: true, .. } => Condition::Terminating,
            Endpoint { ready: true, .. } => Condition::Ready,
            _ => Condition::NotReady,
        };
        let detail = fate.to_string();
        let fate = match fate {
            Fate::Registered(_) => EndpointFate::Registered,
            Fate::Changes { .. } => EndpointFate::Changes,
            Fate::ToRegister(_) => EndpointFate::ToRegister,
            Fate::Terminating | Fate::NotReady | Fate::HeldBack => EndpointFate::NotRegistered,
        };
        let malformed = endpoint.malformed.as_deref().map(|text| printable(&shorten(text)));
        let addresses = endpoint.addresses().map(|address| address.to_string());
        let addresses = addresses.chain(malformed).collect();
        Self { addresses, pod: endpoint.pod, condition, fate, detail }
    }
}
