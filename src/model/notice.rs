//! A warning about a Service, which becomes an Event on the Service. Its name is a hash of its content, so that every
//! run gives the same notice the same name.

use super::{ServiceRef, fingerprint};

/// A Warning about a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub service: ServiceRef,
    /// The UID of the Service: one that is recreated gets a new Event.
    pub uid: String,
    /// The stable name of the reason.
    pub reason: &'static str,
    /// A message with a remedy.
    pub note: String,
}

impl Notice {
    /// The name of the Event. The same notice always has the same name, so that its Event is created once.
    pub fn name(&self) -> String {
        let digits = fingerprint::<8>(&[self.reason, &self.note, &self.uid]);
        format!("{}.{digits}", self.service.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(reason: &'static str, note: &str, uid: &str) -> Notice {
        let service = ServiceRef::new("shop", "web");
        Notice { service, uid: uid.into(), reason, note: note.into() }
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
