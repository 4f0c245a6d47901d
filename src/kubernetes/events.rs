//! Creates Events on the Services of which something is held back or instances changed, and on the ServiceExports of
//! which a condition turned bad. They are optional, so a refused one does not fail the run.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, PostParams};

use super::{Error, Kubernetes};
use crate::model::{Notice, REPORTER};

/// How long a warm process does not create an Event again. The API server deletes Events after about an hour; a notice
/// that still holds then becomes a new Event.
const REPEAT_AFTER: Duration = Duration::from_mins(15);

/// The longest note that the API server accepts: its message speaks of characters, and it counts bytes.
const LONGEST_NOTE: usize = 1024;

/// The Events that this process created or was refused, with the time. A lost entry costs one refused call.
#[derive(Debug, Default)]
pub(super) struct RecentEvents(Mutex<BTreeMap<String, SystemTime>>);

impl RecentEvents {
    fn contains(&self, name: &str, now: SystemTime) -> bool {
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events.retain(|_, at| now.duration_since(*at).is_ok_and(|age| age < REPEAT_AFTER));
        events.contains_key(name)
    }

    fn insert(&self, name: String, now: SystemTime) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name, now);
    }
}

impl Kubernetes {
    /// Whether Events were not refused in this process lately: a cluster without the right refuses them in every run.
    pub fn is_first_refusal(&self) -> bool {
        let (name, now) = ("refused".to_owned(), SystemTime::now());
        let is_first = !self.recent_events.contains(&name, now);
        if is_first {
            self.recent_events.insert(name, now);
        }
        is_first
    }

    /// Creates the Event of a notice if it does not exist. One that the cluster refuses is tried again after a while.
    ///
    /// # Errors
    /// Returns an error if the cluster refuses it.
    pub async fn create_event(&self, notice: &Notice) -> Result<(), Error> {
        let (name, now) = (notice.name(), SystemTime::now());
        let key = format!("{}/{name}", notice.service.namespace);
        if self.recent_events.contains(&key, now) {
            return Ok(());
        }
        let api: Api<Event> = Api::namespaced(self.client.clone(), &notice.service.namespace);
        let action = || format!("create an Event about {} {}", notice.about.kind(), notice.service);
        let created = match api.create(&PostParams::default(), &event(name, notice)).await {
            // 409: the Event exists.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            created => created.map(drop).map_err(|error| Error::new(action(), error)),
        };
        if created.as_ref().err().is_none_or(Error::is_permanent) {
            self.recent_events.insert(key, now);
        }
        created
    }
}

fn event(name: String, notice: &Notice) -> Event {
    let namespace = Some(notice.service.namespace.clone());
    Event {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: namespace.clone(),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(Timestamp::now())),
        regarding: Some(ObjectReference {
            api_version: Some(notice.about.api_version().to_owned()),
            kind: Some(notice.about.kind().to_owned()),
            namespace,
            name: Some(notice.service.name.clone()),
            uid: Some(notice.uid.clone()),
            ..ObjectReference::default()
        }),
        type_: Some(notice.tone.as_str().to_owned()),
        reason: Some(notice.reason.clone()),
        note: Some(notice.note[..notice.note.floor_char_boundary(LONGEST_NOTE)].to_owned()),
        action: Some("Sync".to_owned()),
        reporting_controller: Some(REPORTER.to_owned()),
        reporting_instance: Some("cloud-map-sync".to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_not_created_again_for_a_quarter_of_an_hour() {
        let (recent, now) = (RecentEvents::default(), SystemTime::now());
        assert!(!recent.contains("shop/web.1", now));
        recent.insert("shop/web.1".to_owned(), now);
        assert!(recent.contains("shop/web.1", now) && !recent.contains("shop/web.2", now));
        assert!(!recent.contains("shop/web.1", now + REPEAT_AFTER));
    }
}
