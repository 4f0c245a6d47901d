//! What the owner of a Service should hear of where they look: as an Event on the Service itself. Made
//! from what is held back; one for each Service and reason.

use std::collections::BTreeMap;

use crate::model::{Desired, ServiceRef, fingerprint};
use crate::plan::HeldBack;

/// The longest note that the API server takes.
const LONGEST_NOTE: usize = 1024;

/// A Warning about a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The Service.
    pub service: ServiceRef,
    /// Its UID: a Service that is made again hears again.
    pub uid: String,
    /// The reason's stable name.
    pub reason: &'static str,
    /// What would help.
    pub note: String,
}

impl Notice {
    /// The name of the Event: the same notice has the same name, so that it is created once.
    pub fn name(&self) -> String {
        let digits = fingerprint::<8>(&[self.reason, &self.note, &self.uid]);
        format!("{}.{digits}", self.service.name)
    }
}

/// The notices that follow from what is held back, as far as the owner of a Service can do something
/// about it.
pub fn notices(held_back: &[HeldBack], desired: &Desired) -> Vec<Notice> {
    let mut notices = BTreeMap::new();
    for HeldBack { service, reason, .. } in held_back {
        let Some(annotated) = desired.services.get(service) else { continue };
        if !reason.concerns_owner() {
            continue;
        }
        notices.entry((service.clone(), reason.code())).or_insert_with(|| Notice {
            service: service.clone(),
            uid: annotated.uid.clone(),
            reason: reason.code(),
            note: reason.to_string().chars().take(LONGEST_NOTE).collect(),
        });
    }
    notices.into_values().collect()
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
