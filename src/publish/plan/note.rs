//! What is to be known of a Cloud Map service and neither fails nor holds anything back: it is in the report alone.

/// What is to be known of a Cloud Map service and neither fails nor holds anything back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Note {
    /// The function may not read it.
    #[error("{0}; no Service claims it, and no instance of ours was seen in it")]
    Unread(String),
    /// Other clusters have a say in the TTL.
    #[error(
        "ttl {wanted} is requested, and the records have {present}: other clusters also have instances under this name ({}); the smallest TTL that any of the clusters requests applies, and a run that has not read all of them only lowers it", others.join(", ")
    )]
    TtlWaits {
        /// The TTL that this cluster asks for.
        wanted: u32,
        /// The TTL that the records have after this run.
        present: String,
        /// The names of the other clusters.
        others: Vec<String>,
    },
}

impl Note {
    /// The word that it begins with in a report.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unread(_) => "not read",
            Self::TtlWaits { .. } => "waits",
        }
    }
}
