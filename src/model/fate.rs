//! The fate of an endpoint as the action `explain` reports it: under a name in Cloud Map, or in the import of a name.
//! `publish` and `import` read it off what they decide from.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use super::words::join;

/// What became of an endpoint, or becomes of it by the next sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It is registered without drift, or in the import.
    Present,
    /// It is registered, and the next sync changes its instance.
    Changes,
    /// It stays in the import, since its cluster was not read.
    Kept,
    /// The next sync adds it.
    ToAdd,
    /// The next sync removes it from the import.
    ToRemove,
    /// It is meant to stay out: its pod is not ready, or is terminating.
    NotReady,
    /// It stays out although it takes traffic.
    LeftOut,
}

/// One endpoint with its fate.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointLine {
    /// The member of the clusterset that it is in. Those under a name in Cloud Map are of this cluster.
    pub member: Option<String>,
    pub addresses: Vec<String>,
    /// The ports of an exported endpoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
    pub pod: Option<String>,
    /// Its condition in Kubernetes: `ready`, `not ready` or `terminating`.
    pub condition: Option<String>,
    pub fate: Fate,
    /// The fate in a sentence.
    pub detail: String,
}

impl Display for EndpointLine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sign = match self.fate {
            Fate::Present => '=',
            Fate::Changes | Fate::Kept => '~',
            Fate::ToAdd => '+',
            Fate::ToRemove | Fate::NotReady => '-',
            Fate::LeftOut => '!',
        };
        write!(f, "{sign} endpoint   {}", join(&self.addresses, " "))?;
        if !self.ports.is_empty() {
            write!(f, " port {}", join(&self.ports, " "))?;
        }
        self.member.iter().try_for_each(|member| write!(f, " of {member}"))?;
        let pod = join(self.pod.iter().chain(&self.condition), ", ");
        if !pod.is_empty() {
            write!(f, " ({pod})")?;
        }
        write!(f, ": {}", self.detail)
    }
}
