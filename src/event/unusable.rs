//! Why one message names no place to look. No variant holds anything of the message but a checked
//! kind, so that each can be logged and counted as it is.

/// Why a message cannot be used. A retry cannot help any of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The body, or the text inside an envelope, is no JSON.
    #[error("the message, or the content of its envelope, is not JSON")]
    NotJson,
    /// JSON of no sender that we know.
    #[error("the message has none of the known shapes")]
    UnknownShape,
    /// More envelopes inside each other than anybody makes by intent.
    #[error("the message is wrapped in more than {limit} envelopes")]
    TooDeep {
        /// How many are opened.
        limit: usize,
    },
    /// An object whose changes mean nothing to us.
    #[error("objects of kind {kind} are not followed")]
    UnknownKind {
        /// The kind, with its API group behind a dot where it has one.
        kind: String,
    },
    /// An action that exists, but not for everybody who may send a message.
    #[error("{action} is only allowed by direct invocation")]
    ActionNotAllowed {
        /// The action.
        action: &'static str,
    },
    /// An action that does not exist.
    #[error("the message's action is unknown; a message may only ask for sync")]
    UnknownAction,
    /// Part of the name is absent.
    #[error("the {missing} is missing")]
    IncompleteScope {
        /// What is absent.
        missing: &'static str,
    },
    /// A text that stands where a name belongs.
    #[error("the {field} is not a valid name: expected {expected}")]
    InvalidName {
        /// What it should name.
        field: &'static str,
        /// What would be right.
        expected: &'static str,
    },
}

impl Unusable {
    /// A stable word for metrics and log filters.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotJson => "not_json",
            Self::UnknownShape => "unknown_shape",
            Self::TooDeep { .. } => "too_deep",
            Self::UnknownKind { .. } => "unknown_kind",
            Self::ActionNotAllowed { .. } => "action_not_allowed",
            Self::UnknownAction => "unknown_action",
            Self::IncompleteScope { .. } => "incomplete_scope",
            Self::InvalidName { .. } => "invalid_name",
        }
    }
}
