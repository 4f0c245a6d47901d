//! The Events of a run: a warning for each Service and reason of the items that are held back, and news for each Service
//! and name whose instances the run changed.

use std::collections::BTreeMap;

use crate::model::{About, Desired, Notice, Timestamp, Tone, Verb};
use crate::publish::plan::{HeldBack, MendedBy};
use crate::report::{ChangeResult, ServiceReport};

/// The notices about held-back items, as far as the owner of a Service can do something about them.
pub fn notices(held_back: &[HeldBack], desired: &Desired) -> Vec<Notice> {
    let mut notices = BTreeMap::new();
    for HeldBack { service, reason, .. } in held_back {
        let Some(annotated) = desired.services.get(service) else { continue };
        if reason.mended_by() != MendedBy::Owner {
            continue;
        }
        notices.entry((service.clone(), reason.code())).or_insert_with(|| Notice {
            about: About::Service,
            tone: Tone::Warning,
            service: service.clone(),
            uid: annotated.uid.clone(),
            reason: reason.code().to_owned(),
            note: reason.to_string(),
        });
    }
    notices.into_values().collect()
}

/// The notices about instances that a run at `now` registered or deregistered.
pub fn news(services: &[ServiceReport], desired: &Desired, now: Timestamp) -> Vec<Notice> {
    let mut news = Vec::new();
    for ServiceReport { namespace, name, changes, .. } in services {
        let mut counts: BTreeMap<_, (usize, usize)> = BTreeMap::new();
        for line in changes.iter().filter(|line| line.result == ChangeResult::Applied) {
            let (registered, deregistered) = counts.entry(&line.service).or_default();
            match line.change {
                Verb::Register | Verb::Adopt => *registered += 1,
                Verb::Deregister => *deregistered += 1,
                _ => {}
            }
        }
        news.extend(counts.into_iter().filter_map(|(service, (registered, deregistered))| {
            let counted = [(registered, "registered"), (deregistered, "deregistered")];
            let counted: Vec<String> = counted
                .iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, verb)| format!("{count} {verb}"))
                .collect();
            let reason = if registered > 0 { "Registered" } else { "Deregistered" };
            // A Service that is gone has no Events.
            let uid = desired.services.get(service).filter(|_| !counted.is_empty())?.uid.clone();
            Some(Notice {
                about: About::Service,
                tone: Tone::News(now),
                service: service.clone(),
                uid,
                reason: reason.to_owned(),
                note: format!("{} under {namespace}/{name}", counted.join(", ")),
            })
        }));
    }
    news
}
