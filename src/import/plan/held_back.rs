//! The reasons for which an import or a part of it is held back. Each has one sentence that names the cause and, if
//! there is one, the solution.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::change::ObjectRef;
use super::input::FailedWrite;
use super::ownership::OWNER_LABEL;
use crate::clusterset::attributes::Skipped;
use crate::guard::GuardStatus;
use crate::model::{ClusterId, Family, join_first, join_or};

/// The number of addresses or instances that a sentence names.
const NAMED: usize = 3;
/// The code of [`Reason::NamespaceExcluded`]. The admission policy's message contains the same word if it refuses a
/// write in an excluded namespace.
pub const EXCLUDED: &str = "NamespaceExcluded";
/// The code of [`Reason::AdmissionDenied`].
const DENIED: &str = "AdmissionDenied";

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
    /// An object without our label, whose first manager is this function. Its deletion would cost the import its IPs.
    #[error(
        "{object} has lost the label {OWNER_LABEL}; if this installation made it: \
         kubectl label {} {} --namespace {} {OWNER_LABEL}={owner}",
        object.kind.resource(),
        object.name,
        object.namespace
    )]
    LostLabel { object: ObjectRef, owner: String },
    /// An object with the label of another `OWNER_ID`. All such objects of a cluster share one line of the report.
    #[error("{object} has the label of the OWNER_ID {owner}")]
    OtherOwner { object: ObjectRef, owner: String },
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
    /// An existing import in the namespace is not changed either, so its endpoints become stale.
    #[error(
        "the cluster's admission policy excludes this namespace: nothing is created or changed there. \
         To import into it, take it out of excludedNamespaces in the policy of deploy/multi-cluster"
    )]
    NamespaceExcluded,
    /// A quota or an admission rule of the importing cluster refuses an object of the import.
    #[error("{message}")]
    AdmissionDenied { message: String },
    /// The guard keeps endpoints of other clusters, or the import itself.
    #[error("{}: {status}", kept(*.endpoints))]
    Guard { endpoints: usize, status: Arc<GuardStatus> },
    #[error(
        "{} not imported from cluster {cluster}, since NAME_POLICY does not allow them for the Kubernetes namespace: {}",
        count(addresses.len(), "address", "es"),
        some(addresses)
    )]
    AddressNotAllowed { cluster: ClusterId, addresses: Vec<IpAddr> },
    /// Instances of the clusterset that cannot be made endpoints. Any client of Cloud Map can register them.
    #[error("{} not imported: {}", count(instances.len(), "instance", "s"), some(&texts(instances)))]
    Skipped { instances: Vec<(String, Skipped)> },
    /// A record that a later release wrote, or another client broke.
    #[error("{record}; the part of its cluster stays in the import as it is")]
    UnusableRecord { record: String },
}

impl Reason {
    pub fn code(&self) -> &'static str {
        match self {
            Self::ForeignObject { .. } | Self::LostLabel { .. } => "ForeignObject",
            Self::OtherOwner { .. } => "OtherOwner",
            Self::IpFamilyNotSupported { .. } => "IPFamilyNotSupported",
            Self::ImpossibleName => "ImpossibleName",
            Self::NamespaceExcluded => EXCLUDED,
            Self::AdmissionDenied { .. } => DENIED,
            Self::Guard { .. } => "Guard",
            Self::AddressNotAllowed { .. } => "AddressNotAllowed",
            Self::Skipped { .. } => "Skipped",
            Self::UnusableRecord { .. } => "UnusableRecord",
        }
    }
}

impl FailedWrite {
    /// The reason of the condition `Ready` of an import with this failure.
    pub(super) fn code(&self) -> &'static str {
        if self.is_denied { DENIED } else { "Pending" }
    }
}

/// Returns one reason for each kind of object with a denied change. Other objects of that kind exceed the same limit.
pub(super) fn denied(failures: &[FailedWrite]) -> Vec<Reason> {
    let mut kinds = BTreeSet::new();
    let mut denied = Vec::new();
    for failure in failures {
        if failure.is_denied && kinds.insert(failure.object.kind) {
            denied.push(Reason::AdmissionDenied { message: failure.message.clone() });
        }
    }
    denied
}

/// The reason why an endpoint cannot be in an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Absent {
    #[error("its pod is not ready")]
    NotReady,
    #[error("its pod is terminating")]
    Terminating,
    #[error("it has none of the ports of its Service")]
    NoPort,
    #[error("no port of the import leads to it")]
    OtherPort,
    #[error("the import has no {}", .0.as_str())]
    OtherFamily(Family),
    #[error("NAME_POLICY does not allow its address")]
    NotAllowed,
    #[error("its cluster has no record of the export")]
    NotExported,
    #[error("its cluster has it no more")]
    Gone,
    #[error(transparent)]
    Skipped(#[from] Skipped),
}

fn families(families: &[Family]) -> String {
    join_or(families, " and ", "no IP family")
}

fn kept(endpoints: usize) -> String {
    match endpoints {
        0 => "the import stays".to_owned(),
        1 => "1 endpoint stays".to_owned(),
        _ => format!("{endpoints} endpoints stay"),
    }
}

fn count(count: usize, noun: &str, plural: &str) -> String {
    if count == 1 { format!("1 {noun} is") } else { format!("{count} {noun}{plural} are") }
}

fn some(items: &[impl std::fmt::Display]) -> String {
    join_first(items, NAMED)
}

fn texts(instances: &[(String, Skipped)]) -> Vec<String> {
    instances.iter().map(|(id, skipped)| format!("{id} ({skipped})")).collect()
}
