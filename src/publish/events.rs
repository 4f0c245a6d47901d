//! The Events of a run, made from the items that are held back: one for each Service and reason.

use std::collections::BTreeMap;

use crate::model::{About, Desired, Notice};
use crate::publish::plan::HeldBack;

/// The longest note that the API server accepts, in characters.
pub const LONGEST_NOTE: usize = 1024;

/// The notices about held-back items, as far as the owner of a Service can do something about them.
pub fn notices(held_back: &[HeldBack], desired: &Desired) -> Vec<Notice> {
    let mut notices = BTreeMap::new();
    for HeldBack { service, reason, .. } in held_back {
        let Some(annotated) = desired.services.get(service) else { continue };
        if !reason.concerns_owner() {
            continue;
        }
        notices.entry((service.clone(), reason.code())).or_insert_with(|| Notice {
            about: About::Service,
            service: service.clone(),
            uid: annotated.uid.clone(),
            reason: reason.code().to_owned(),
            note: reason.to_string().chars().take(LONGEST_NOTE).collect(),
        });
    }
    notices.into_values().collect()
}
