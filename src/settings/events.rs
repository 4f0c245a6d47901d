//! The Events that are created in the clusters.

use crate::model::Tone;
use crate::model::words::words;

words! {
    /// `EVENTS`: all, warnings alone, or none.
    #[derive(Default)]
    pub enum Events {
        #[default]
        All = "all",
        Warnings = "warnings",
        None = "none",
    }
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
