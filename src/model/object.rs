//! The kinds of Kubernetes objects that are followed, read or written; a reference to one object; and what the owner of
//! an object reads on it: the conditions of its status, each a [`Condition`], and notices, which become Events. A
//! notice is a warning about a Service, its `ServiceExport` or its `ServiceImport`, or the news that its instances
//! changed. The name of its Event has a hash of its content, so that every run gives the same notice the same name.

use super::{Line, ServiceRef, Timestamp, display, fingerprint, words};

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

words! {
    /// A kind of object. The order matters: if several objects of an import are foreign, a report names the first kind.
    pub enum Kind {
        Namespace = "Namespace",
        Pod = "Pod",
        ServiceExport = "ServiceExport",
        ServiceImport = "ServiceImport",
        Service = "Service",
        Endpoints = "Endpoints",
        EndpointSlice = "EndpointSlice",
    }
}

impl Kind {
    /// The version of the API that is read and written.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Namespace | Self::Pod | Self::Service | Self::Endpoints => "v1",
            Self::EndpointSlice => "discovery.k8s.io/v1",
            Self::ServiceExport | Self::ServiceImport => "multicluster.x-k8s.io/v1beta1",
        }
    }

    /// The API group; empty for the core group.
    pub fn group(self) -> &'static str {
        self.api_version().split_once('/').map_or("", |(group, _)| group)
    }

    /// The name of its resource in paths.
    pub fn plural(self) -> String {
        let name = self.as_str().to_ascii_lowercase();
        if name.ends_with('s') { name } else { name + "s" }
    }

    /// The name of its resource with its group, as kubectl accepts it.
    pub fn resource(self) -> String {
        let plural = self.plural();
        let group = self.group();
        if group.is_empty() { plural } else { format!("{plural}.{group}") }
    }
}

/// An object by kind, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
}

impl ObjectRef {
    /// An object in the namespace of a Service.
    pub fn of(service: &ServiceRef, kind: Kind, name: &str) -> Self {
        Self { kind, namespace: service.namespace.clone(), name: name.to_owned() }
    }
}

display!(ObjectRef { kind, namespace, name } => "{kind} {namespace}/{name}");

/// The name under which this function reports Events. A forwarder may send such an Event back; it starts no sync.
pub const REPORTER: &str = "cloud-map-sync";

/// A line for the owner of the Service that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The kind of the object that the notice is about. The object has the Service's name.
    pub about: Kind,
    pub tone: NoticeKind,
    /// The namespace and name of the object.
    pub service: ServiceRef,
    /// The UID of the object: a recreated object gets a new Event.
    pub uid: String,
    pub line: Line,
}

/// The type of the Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    /// A state that lasts: one Event, however many runs see it.
    Warning,
    /// A change at this time. The API server keeps an Event for about an hour, and the same change may be made again
    /// within that hour.
    News(Timestamp),
}

impl NoticeKind {
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
    pub fn has(self, tone: NoticeKind) -> bool {
        match self {
            Self::All => true,
            Self::Warnings => tone == NoticeKind::Warning,
            Self::None => false,
        }
    }
}

impl Notice {
    /// Returns the name of the Event. The same notice always has the same name, so that its Event is created once; for
    /// news, once a minute.
    pub fn name(&self) -> String {
        let minute = match self.tone {
            NoticeKind::Warning => None,
            NoticeKind::News(at) => Some(at.strftime("%Y-%m-%dT%H:%M").to_string()),
        };
        let content = [&*self.line.code, self.line.text.as_str(), self.uid.as_str()];
        let parts: Vec<&str> = content.into_iter().chain(minute.as_deref()).collect();
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
    use crate::model::Outcome;

    fn notice(code: &'static str, text: &str, uid: &str) -> Notice {
        Notice {
            about: Kind::Service,
            tone: NoticeKind::Warning,
            service: ServiceRef::new("shop", "web"),
            uid: uid.to_owned(),
            line: Line::new('!', code, text, Outcome::KeptOut),
        }
    }

    #[test]
    fn news_of_a_minute_have_one_name_and_those_of_the_next_another() {
        let at = |second: i64| {
            let tone = NoticeKind::News(Timestamp::from_second(second).expect("a time"));
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
