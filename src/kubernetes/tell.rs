//! Tells a cluster what is held back, as Events on the Services concerned. The only thing that is
//! ever written to a cluster, and never needed: a refusal fails nothing.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, PostParams};

use super::{Error, Kubernetes};
use crate::model::Notice;

/// How long a warm process does not repeat itself. The API server forgets Events after an hour or so,
/// and then a notice that still holds is told again.
const QUIET: Duration = Duration::from_mins(15);

/// Which Events this process has told, and when. Losing it costs one refused call each.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<BTreeMap<String, SystemTime>>);

impl Told {
    fn is_fresh(&self, name: &str, now: SystemTime) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|_, at| now.duration_since(*at).is_ok_and(|age| age < QUIET));
        told.contains_key(name)
    }

    fn note(&self, name: String, now: SystemTime) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name, now);
    }
}

impl Kubernetes {
    /// Creates the Event of a notice, where it is not there already.
    ///
    /// # Errors
    /// Where the cluster refuses it.
    pub async fn tell(&self, notice: &Notice) -> Result<(), Error> {
        let (name, now) = (notice.name(), SystemTime::now());
        let key = format!("{}/{name}", notice.service.namespace);
        if self.told.is_fresh(&key, now) {
            return Ok(());
        }
        let api: Api<Event> = Api::namespaced(self.client.clone(), &notice.service.namespace);
        match api.create(&PostParams::default(), &event(name, notice)).await {
            Ok(_) => {}
            // 409: somebody has told it before.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => {
                let action = format!("create an Event about Service {}", notice.service);
                return Err(Error::new(action, error));
            }
        }
        self.told.note(key, now);
        Ok(())
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
            api_version: Some("v1".to_owned()),
            kind: Some("Service".to_owned()),
            namespace,
            name: Some(notice.service.name.clone()),
            uid: Some(notice.uid.clone()),
            ..ObjectReference::default()
        }),
        type_: Some("Warning".to_owned()),
        reason: Some(notice.reason.to_owned()),
        note: Some(notice.note.clone()),
        action: Some("Sync".to_owned()),
        reporting_controller: Some("cloud-map-sync".to_owned()),
        reporting_instance: Some("cloud-map-sync".to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_not_told_again_for_a_quarter_of_an_hour() {
        let (told, now) = (Told::default(), SystemTime::now());
        assert!(!told.is_fresh("shop/web.1", now));
        told.note("shop/web.1".to_owned(), now);
        assert!(told.is_fresh("shop/web.1", now) && !told.is_fresh("shop/web.2", now));
        assert!(!told.is_fresh("shop/web.1", now + QUIET));
    }
}
