//! What the owner of an object reads on it: the conditions of its status, each a [`Condition`], and notices,
//! which become Events. A notice is a warning about a Service, its `ServiceExport` or its `ServiceImport`, or the news that
//! its instances changed. Its name is a hash of its content, so that every run gives the same notice the same name.

use super::words::words;
use super::{Kind, ServiceRef, Timestamp, fingerprint};

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The name under which this function reports Events. Forwarders may send these back, and they ask for no sync.
pub const REPORTER: &str = "cloud-map-sync";

/// A notice for the owner of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The kind of the object.
    pub about: Kind,
    pub tone: Tone,
    /// The name of the object.
    pub service: ServiceRef,
    /// The UID of the object: one that is recreated gets a new Event.
    pub uid: String,
    /// The stable name of the reason.
    pub reason: String,
    /// A message with a remedy.
    pub note: String,
}

/// The type of the Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// A state that lasts: one Event, however many runs see it.
    Warning,
    /// A change at this time. The API server keeps an Event for about an hour, and the same change may be made again
    /// before.
    News(Timestamp),
}

impl Tone {
    /// The type of the Event in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "Warning",
            Self::News(_) => "Normal",
        }
    }
}

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
    pub fn has(self, tone: Tone) -> bool {
        match self {
            Self::All => true,
            Self::Warnings => tone == Tone::Warning,
            Self::None => false,
        }
    }
}

impl Notice {
    /// The name of the Event. The same notice always has the same name, so that its Event is created once: of news, once
    /// a minute.
    pub fn name(&self) -> String {
        let mut parts = vec![self.reason.clone(), self.note.clone(), self.uid.clone()];
        if let Tone::News(at) = self.tone {
            parts.push(at.strftime("%Y-%m-%dT%H:%M").to_string());
        }
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let digits = fingerprint::<8>(&parts);
        format!("{}.{digits}", self.service.name)
    }
}

/// The statuses of a condition.
pub const TRUE: &str = "True";
pub const FALSE: &str = "False";
pub const UNKNOWN: &str = "Unknown";

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(reason: &str, note: &str, uid: &str) -> Notice {
        let (about, tone, service) = (Kind::Service, Tone::Warning, ServiceRef::new("shop", "web"));
        let (uid, reason, note) = (uid.into(), reason.into(), note.into());
        Notice { about, tone, service, uid, reason, note }
    }

    #[test]
    fn news_of_a_minute_have_one_name_and_those_of_the_next_another() {
        let at = |second: i64| {
            let tone = Tone::News(Timestamp::from_second(second).expect("a time"));
            Notice { tone, ..notice("Registered", "1 registered", "1") }.name()
        };
        assert_eq!(at(1_800_000_000), at(1_800_000_030));
        assert_ne!(at(1_800_000_000), at(1_800_000_060));
        assert_ne!(at(1_800_000_000), notice("Registered", "1 registered", "1").name());
    }

    #[test]
    fn a_notice_has_one_name_and_another_notice_another() {
        let web = notice("DomainConflict", "note", "1");
        assert_eq!(web.name(), notice("DomainConflict", "note", "1").name());
        for other in [
            notice("ServiceConnect", "note", "1"),
            notice("DomainConflict", "another", "1"),
            notice("DomainConflict", "note", "2"),
            notice("DomainConflictn", "ote", "1"),
        ] {
            assert_ne!(web.name(), other.name(), "{other:?}");
        }
        assert!(web.name().starts_with("web.") && web.name().len() == "web.".len() + 16);
    }
}
