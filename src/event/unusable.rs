//! The reason that a message has no scope. The only text of the message in a variant is a checked kind, so each variant
//! can be logged and counted as it is.

/// The reason that a message is unusable. A retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The body, or the text inside an envelope, is not JSON.
    #[error("the message, or the content of its envelope, is not JSON")]
    NotJson,
    /// JSON in the format of no known sender.
    #[error("the message has none of the known shapes")]
    UnknownShape,
    /// More nested envelopes than any sender makes intentionally.
    #[error("the message is wrapped in more than {limit} envelopes")]
    TooDeep {
        /// The number of envelopes that are opened.
        limit: usize,
    },
    /// An object of a kind that is not followed.
    #[error("objects of kind {kind} are not followed")]
    UnknownKind {
        /// The kind, with its API group after a dot if it has one.
        kind: String,
    },
    /// An object that this function wrote for an import. Such a message is not reported.
    #[error("the object belongs to an import")]
    Imported,
    /// An Event that this function created. Such a message is not reported.
    #[error("the Event is one of this function")]
    OwnEvent,
    /// An event of Cloud Map that records no successful change.
    #[error("the event is no recorded change of Cloud Map")]
    UnknownCall,
    /// An action that only a direct invocation may request.
    #[error("{action} is only allowed by direct invocation")]
    ActionNotAllowed {
        /// The action.
        action: &'static str,
    },
    /// An action that does not exist.
    #[error("the message's action is unknown; a message may only request sync")]
    UnknownAction,
    /// A part of the scope is absent.
    #[error("the {missing} is missing")]
    IncompleteScope {
        /// The absent field.
        missing: &'static str,
    },
    /// A text that is not a valid name.
    #[error("the {field} is not a valid name: expected {expected}")]
    InvalidName {
        /// The field.
        field: &'static str,
        /// The expected value.
        expected: &'static str,
    },
}

impl Unusable {
    /// The reason's stable code, for metrics and log filters.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotJson => "not_json",
            Self::UnknownShape => "unknown_shape",
            Self::TooDeep { .. } => "too_deep",
            Self::UnknownKind { .. } => "unknown_kind",
            Self::Imported => "imported",
            Self::OwnEvent => "own_event",
            Self::UnknownCall => "unknown_call",
            Self::ActionNotAllowed { .. } => "action_not_allowed",
            Self::UnknownAction => "unknown_action",
            Self::IncompleteScope { .. } => "incomplete_scope",
            Self::InvalidName { .. } => "invalid_name",
        }
    }
}
