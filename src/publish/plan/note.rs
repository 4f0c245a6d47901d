//! Remarks on a Cloud Map service. They are in the report alone: nothing failed, and nothing is held back.

/// A remark on a Cloud Map service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Note {
    /// The function has no right to read it.
    #[error(
        "{problem}; no Service claims it, and {}",
        match tags_problem {
            None => "it does not carry our tag".to_owned(),
            Some(problem) => format!(
                "whether instances of an ended claim are in it is unknown, since its tags cannot be read either: {problem}"
            ),
        }
    )]
    Unread {
        problem: String,
        /// The error if its tags could not be read either.
        tags_problem: Option<String>,
    },
    /// Other clusters also decide the TTL.
    #[error(
        "ttl {wanted} is requested, and the records have {present}: other clusters also have instances under this name ({}); the smallest TTL that any of the clusters requests applies, and a run that has not read all of them only lowers it", others.join(", ")
    )]
    TtlWaits {
        /// The TTL that this cluster requests.
        wanted: u32,
        /// The TTL of the records after this run.
        present: String,
        /// The names of the other clusters.
        others: Vec<String>,
    },
}

impl Note {
    /// Its first word in a report.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unread { .. } => "not read",
            Self::TtlWaits { .. } => "waits",
        }
    }
}
