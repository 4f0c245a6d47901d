//! The health of instances, which Cloud Map keeps apart from their attributes: a registration sets it, and reports
//! change it.

use std::collections::BTreeMap;
use std::fmt;

/// The health of one instance. A client that requests healthy instances gets unhealthy ones only if there is no healthy
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    Healthy,
    Unhealthy,
}

impl Health {
    pub fn when(is: bool) -> Self {
        if is { Self::Healthy } else { Self::Unhealthy }
    }

    /// Returns `None` for any other value, such as `UNKNOWN`.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Healthy, Self::Unhealthy].into_iter().find(|health| health.as_str() == text)
    }

    /// The value in Cloud Map's API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "HEALTHY",
            Self::Unhealthy => "UNHEALTHY",
        }
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The health of a service's instances, as far as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KnownHealth {
    #[default]
    Unread,
    /// By instance id. An instance that was registered a moment ago may be missing.
    Read(BTreeMap<String, Health>),
    /// The error of the read.
    Unreadable(String),
}
