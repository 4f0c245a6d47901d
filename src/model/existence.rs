//! Whether a cluster that instances of ours carry is still there.

/// What EKS says of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Existence {
    /// It is there.
    Exists,
    /// There is none such, and the cluster's own account and Region were asked.
    Gone,
    /// It cannot be told, for this reason.
    Unknown(String),
    /// It was not asked, since nothing depends on it.
    NotAsked,
}
