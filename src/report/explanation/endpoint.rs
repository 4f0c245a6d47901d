//! What becomes of one endpoint under a name.

use serde::{Deserialize, Serialize};

use crate::model::Endpoint;
use crate::plan::Fate;
use crate::report::Word;

/// One endpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EndpointLine {
    /// Its pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// `ready`, `not ready` or `terminating`.
    pub condition: Word,
    /// `registered`, `changes`, `to_register` or `not_registered`.
    pub fate: Word,
    /// The same in a sentence.
    pub detail: String,
}

impl From<(Endpoint, Fate)> for EndpointLine {
    fn from((endpoint, fate): (Endpoint, Fate)) -> Self {
        let condition = match &endpoint {
            Endpoint { terminating: true, .. } => "terminating",
            Endpoint { ready: true, .. } => "ready",
            _ => "not ready",
        };
        let word = match &fate {
            Fate::Registered(_) => "registered",
            Fate::Changes { .. } => "changes",
            Fate::ToRegister(_) => "to_register",
            Fate::Terminating | Fate::NotReady | Fate::HeldBack => "not_registered",
        };
        Self {
            addresses: endpoint.addresses().map(|address| address.to_string()).collect(),
            pod: endpoint.pod,
            condition: condition.into(),
            fate: word.into(),
            detail: fate.to_string(),
        }
    }
}
