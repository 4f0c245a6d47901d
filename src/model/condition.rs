//! A condition of an object's status, as `metav1.Condition` has it.

use super::Timestamp;

/// A condition, of any controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The API's field `type`.
    pub kind: String,
    pub status: ConditionStatus,
    pub reason: String,
    pub message: String,
    /// The `metadata.generation` that the condition is about.
    pub observed_generation: Option<i64>,
    /// The last change of the status.
    pub last_transition_time: Timestamp,
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

impl ConditionStatus {
    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::True, Self::False, Self::Unknown].into_iter().find(|it| it.as_str() == text)
    }
}
