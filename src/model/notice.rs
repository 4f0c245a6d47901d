//! A warning about a Service or its ServiceExport, which becomes an Event on the object. Its name is a hash of its
//! content, so that every run gives the same notice the same name.

use super::{ServiceRef, fingerprint};

/// A Warning about a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub about: About,
    /// The name of the object.
    pub service: ServiceRef,
    /// The UID of the object: one that is recreated gets a new Event.
    pub uid: String,
    /// The stable name of the reason.
    pub reason: String,
    /// A message with a remedy.
    pub note: String,
}

/// The object that a notice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    Service,
    ServiceExport,
}

impl About {
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Service => "v1",
            Self::ServiceExport => "multicluster.x-k8s.io/v1beta1",
        }
    }

    pub fn kind(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::ServiceExport => "ServiceExport",
        }
    }
}

impl Notice {
    /// The name of the Event. The same notice always has the same name, so that its Event is created once.
    pub fn name(&self) -> String {
        let digits = fingerprint::<8>(&[&self.reason, &self.note, &self.uid]);
        format!("{}.{digits}", self.service.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(reason: &str, note: &str, uid: &str) -> Notice {
        let (about, service) = (About::Service, ServiceRef::new("shop", "web"));
        Notice { about, service, uid: uid.into(), reason: reason.into(), note: note.into() }
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
