//! The health of instances, which Cloud Map keeps beside their attributes: what a registration says at
//! first, and what is reported of it later.

use std::collections::BTreeMap;
use std::fmt;

/// What Cloud Map knows of one instance. Clients that ask for healthy instances do not find the others,
/// as long as there is a healthy one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// To be found.
    Healthy,
    /// Registered, and not to be found.
    Unhealthy,
}

impl Health {
    /// Healthy where `is` holds.
    pub fn when(is: bool) -> Self {
        if is { Self::Healthy } else { Self::Unhealthy }
    }

    /// Reads Cloud Map's word; `None` for any other, such as `UNKNOWN`.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Healthy, Self::Unhealthy].into_iter().find(|health| health.as_str() == text)
    }

    /// Cloud Map's word.
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

/// What was read of the health of a service's instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KnownHealth {
    /// Nothing: nobody asked.
    #[default]
    Unread,
    /// By instance. One that was registered a moment ago may be missing.
    Read(BTreeMap<String, Health>),
    /// Nothing, and why.
    Unreadable(String),
}
