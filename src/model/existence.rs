//! The existence of a cluster that the marks of our instances name. `eks` finds it out. Orphans of a
//! cluster that exists are never deregistered automatically.

/// The existence of a cluster in EKS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Existence {
    Exists,
    /// Not found in the cluster's own account and Region.
    Gone,
    /// Unknown, for this reason.
    Unknown(String),
    /// Not requested, since no decision depends on it.
    NotAsked,
}
