//! The Events that are created in the clusters.

use crate::model::Tone;

/// `EVENTS`: all, warnings alone, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Events {
    #[default]
    All,
    Warnings,
    None,
}

impl Events {
    /// Whether an Event of this type is created.
    #[must_use]
    pub fn has(self, tone: Tone) -> bool {
        match self {
            Self::All => true,
            Self::Warnings => tone == Tone::Warning,
            Self::None => false,
        }
    }
}
