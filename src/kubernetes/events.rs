//! Creates Events on the Services of which something is held back or instances changed, and on the ServiceExports of
//! which a condition turned bad. They are optional, so a refused one does not fail the run.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams};

use super::remembered::recent;
use super::{Error, Kubernetes};
use crate::model::{Notice, REPORTER, SignedDuration, Timestamp};

/// How long a warm process does not create an Event again. The API server deletes Events after about an hour; a notice
/// that still holds then becomes a new Event.
const REPEAT_AFTER: SignedDuration = SignedDuration::from_mins(15);

/// The longest note that the API server accepts: its message speaks of characters, and it counts bytes.
const LONGEST_NOTE: usize = 1024;

impl Kubernetes {
    /// Whether Events were not refused in this process lately: a cluster without the right refuses them in every run.
    pub fn is_first_refusal(&self) -> bool {
        let now = Timestamp::now();
        let mut events = recent(&self.remembered.events, now, REPEAT_AFTER);
        let is_first = !events.contains_key("refused");
        if is_first {
            events.insert("refused".to_owned(), now);
        }
        is_first
    }

    /// Creates the Event of a notice if it does not exist. One that the cluster refuses is tried again after a while.
    ///
    /// # Errors
    /// Returns an error if the cluster refuses it.
    pub async fn create_event(&self, notice: &Notice) -> Result<(), Error> {
        let (name, now) = (notice.name(), Timestamp::now());
        let key = format!("{}/{name}", notice.service.namespace);
        if recent(&self.remembered.events, now, REPEAT_AFTER).contains_key(&key) {
            return Ok(());
        }
        let api: Api<Event> = Api::namespaced(self.client.clone(), &notice.service.namespace);
        let action =
            || format!("create an Event about {} {}", notice.about.as_str(), notice.service);
        let created = match api.create(&PostParams::default(), &event(name, notice)).await {
            // 409: the Event exists.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            created => created.map(drop).map_err(|error| Error::new(action(), error)),
        };
        if created.as_ref().err().is_none_or(Error::is_permanent) {
            recent(&self.remembered.events, now, REPEAT_AFTER).insert(key, now);
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
            kind: Some(notice.about.as_str().to_owned()),
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
    use super::super::remembered::Times;
    use super::*;

    #[test]
    fn an_event_is_not_created_again_for_a_quarter_of_an_hour() {
        let (events, now) = (Times::default(), Timestamp::UNIX_EPOCH);
        let has = |name: &str, now| recent(&events, now, REPEAT_AFTER).contains_key(name);
        assert!(!has("shop/web.1", now));
        recent(&events, now, REPEAT_AFTER).insert("shop/web.1".to_owned(), now);
        assert!(has("shop/web.1", now) && !has("shop/web.2", now));
        assert!(!has("shop/web.1", now + REPEAT_AFTER));
    }
}
