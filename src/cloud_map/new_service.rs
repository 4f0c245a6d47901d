//! The Cloud Map services that an invocation has created, so that the turns of several clusters that need the same one
//! create it once: an account may create five a second, and each refused creation costs reads besides.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::model::{NewService, ServiceKey, ServiceKind, ServiceName};

/// The ARN of the namespace, the name and the owner in the tag.
type Key = (String, ServiceName, String);

/// The services of an invocation.
#[derive(Debug, Default)]
pub struct NewServices {
    creations: Mutex<BTreeMap<Key, Arc<OnceCell<Created>>>>,
    /// The ids of services that exist although a plan creates them.
    existing: Mutex<BTreeMap<ServiceKey, String>>,
}

/// A service that was created.
#[derive(Clone, Debug)]
pub struct Created {
    pub arn: String,
    service: NewService,
    at: Instant,
}

impl NewServices {
    /// The creation of a service, which the first turn that needs it makes. A service that a later read than its creation
    /// has not found was deleted meanwhile, and is created anew: `read` is the start of the read without it.
    pub fn creation(
        &self,
        namespace: &str,
        name: &ServiceName,
        owner: &str,
        read: Instant,
    ) -> Arc<OnceCell<Created>> {
        let mut creations = self.creations.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (namespace.to_owned(), name.clone(), owner.to_owned());
        let creation = creations.entry(key).or_default();
        if creation.get().is_some_and(|created| created.at < read) {
            *creation = Arc::default();
        }
        creation.clone()
    }

    /// A service exists already, as the refusal of its creation says.
    pub fn note_existing(&self, key: &ServiceKey, id: String) {
        self.existing.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), id);
    }

    /// The id of a service that exists already.
    pub fn existing(&self, key: &ServiceKey) -> Option<String> {
        self.existing.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }
}

impl Created {
    /// A service that has just been created as it was wanted.
    pub fn now(arn: String, wanted: &NewService) -> Self {
        Self { arn, service: wanted.clone(), at: Instant::now() }
    }

    /// Whether another turn that wanted this would have created the same.
    pub fn is_as(&self, wanted: &NewService) -> bool {
        let settings = |service: &NewService| {
            let of_records = match service.kind {
                ServiceKind::Dns(_) => Some((service.ttl, service.routing_policy)),
                ServiceKind::Http => None,
            };
            (service.kind, service.custom_health, of_records)
        };
        settings(&self.service) == settings(wanted)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{Namespace, RoutingPolicy};

    fn web() -> ServiceName {
        ServiceName::parse("web").expect("a name")
    }

    fn wanted(ttl: u32, custom_health: bool) -> NewService {
        NewService {
            namespace: Namespace::missing("prod"),
            name: web(),
            kind: ServiceKind::Http,
            ttl,
            routing_policy: RoutingPolicy::Multivalue,
            custom_health,
        }
    }

    #[test]
    fn turn_that_wants_other_settings_does_not_take_the_service_for_its_own() {
        let created = Created::now("arn".to_owned(), &wanted(60, false));
        // The TTL is of records, which an HTTP service has not.
        assert!(created.is_as(&wanted(60, false)) && created.is_as(&wanted(5, false)));
        assert!(!created.is_as(&wanted(60, true)));
    }

    #[tokio::test(start_paused = true)]
    async fn service_is_created_once_until_a_later_read_has_not_found_it() {
        let services = NewServices::default();
        let creation = |owner: &str, read| services.creation("arn", &web(), owner, read);
        let (read, made) = (Instant::now(), Created::now("web".to_owned(), &wanted(60, false)));
        assert!(creation("one", read).set(made).is_ok());
        assert!(creation("one", read).get().is_some());
        assert!(creation("another", read).get().is_none());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(creation("one", Instant::now()).get().is_none());
    }
}
