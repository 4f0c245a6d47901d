//! Imports that are held back, each with one sentence that names the cause and, if there is one, the solution.

use super::change::ObjectRef;
use crate::model::{Family, ServiceRef};

/// An import that this run does not make or complete.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldBack {
    pub service: ServiceRef,
    pub reason: Reason,
}

/// The reason for which an import is held back. [`Reason::code`] is stable; the sentence may be reworded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Reason {
    /// An object of another owner has a name that the import needs.
    #[error(
        "{object} is not ours: {} created it; if it is not needed: kubectl delete {} {} --namespace {}",
        manager.as_deref().unwrap_or("another writer"),
        object.kind.resource(),
        object.name,
        object.namespace
    )]
    ForeignObject {
        object: ObjectRef,
        /// The first manager in its managed fields.
        manager: Option<String>,
    },
    /// The importing cluster cannot give the import a virtual IP.
    #[error(
        "the exports have {}, and this cluster has {}: the import has no IP",
        families(exported),
        families(available)
    )]
    IpFamilyNotSupported { exported: Vec<Family>, available: Vec<Family> },
    /// No Kubernetes object can have the name. Any client of Cloud Map can register it.
    #[error("no Kubernetes object can have this name")]
    ImpossibleName,
}

impl Reason {
    pub fn code(&self) -> &'static str {
        match self {
            Self::ForeignObject { .. } => "ForeignObject",
            Self::IpFamilyNotSupported { .. } => "IPFamilyNotSupported",
            Self::ImpossibleName => "ImpossibleName",
        }
    }
}

fn families(families: &[Family]) -> String {
    let texts: Vec<&str> = families.iter().map(|family| family.as_str()).collect();
    if texts.is_empty() { "no IP family".to_owned() } else { texts.join(" and ") }
}
