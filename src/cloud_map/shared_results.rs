//! The results of calls that all groups of an invocation share.
//!
//! - The namespaces that the invocation has created or found, each at most once.
//! - The Cloud Map services that the invocation has created. Groups of several clusters that need one service create it
//!   once: the rate limit is five creations a second, and each refused creation costs further reads.
//! - The namespaces that a refusal has shown to be full. No API reports their free capacity, and a refused call counts
//!   against the account's rate limit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::Error;
use crate::model::{NewService, ServiceKey, ServiceKind, ServiceName};

/// The results of calls that all groups of an invocation share.
#[derive(Debug, Default)]
pub struct SharedResults {
    /// The namespaces that clusters need and that were missing.
    pub namespaces: EnsuredNamespaces,
    /// The services that were created, or that other clients had created.
    pub services: EnsuredServices,
    /// The namespaces that have refused an instance.
    pub full_namespaces: FullNamespaces,
}

type CreatedNamespace = OnceCell<Result<String, Arc<Error>>>;

/// For each namespace name, the namespace's id or the error of its creation.
#[derive(Debug, Default)]
pub struct EnsuredNamespaces(Mutex<BTreeMap<String, Arc<CreatedNamespace>>>);

impl EnsuredNamespaces {
    pub(super) fn cell(&self, name: &str) -> Arc<CreatedNamespace> {
        let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cells.entry(name.to_owned()).or_default().clone()
    }

    /// Returns the id of a namespace that this invocation created or found. Cloud Map accepts the id in place of the
    /// ARN.
    pub fn reference(&self, name: &str) -> Option<String> {
        self.cell(name).get()?.as_ref().ok().cloned()
    }
}

/// The namespace's ARN, the service's name, and the owner in its tag.
type Key = (String, ServiceName, String);

/// The services that this invocation created or found to exist.
#[derive(Debug, Default)]
pub struct EnsuredServices {
    creations: Mutex<BTreeMap<Key, Arc<OnceCell<Created>>>>,
    /// The ids of services whose creation Cloud Map refused because they already exist.
    already_existing: Mutex<BTreeMap<ServiceKey, String>>,
}

/// A service that this invocation created.
#[derive(Clone, Debug)]
pub struct Created {
    pub arn: String,
    service: NewService,
    at: Instant,
}

impl EnsuredServices {
    /// Returns the cell of a service to create. The first group that needs the service fills the cell.
    /// `read_started_at` is the start of the caller's read, which did not find the service. If the service was created
    /// before that, it has been deleted since, and the cell is reset.
    pub fn creation(
        &self,
        namespace: &str,
        name: &ServiceName,
        owner: &str,
        read_started_at: Instant,
    ) -> Arc<OnceCell<Created>> {
        let mut creations = self.creations.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (namespace.to_owned(), name.clone(), owner.to_owned());
        let creation = creations.entry(key).or_default();
        if creation.get().is_some_and(|created| created.at < read_started_at) {
            *creation = Arc::default();
        }
        creation.clone()
    }

    /// Records the id of a service whose creation was refused because it already exists.
    pub fn record_already_existing(&self, key: &ServiceKey, id: String) {
        self.already_existing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key.clone(), id);
    }

    /// Returns the id of a service whose creation was refused because it already exists.
    pub fn already_existing(&self, key: &ServiceKey) -> Option<String> {
        self.already_existing.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }
}

impl Created {
    /// A service that has just been created with the settings of `wanted`.
    pub fn new(arn: String, wanted: &NewService) -> Self {
        Self { arn, service: wanted.clone(), at: Instant::now() }
    }

    /// Whether the created service has the settings of `wanted`, so that another group can use it. The TTL and routing
    /// policy count only for a service with DNS records.
    pub fn matches(&self, wanted: &NewService) -> bool {
        let settings = |service: &NewService| {
            let dns_settings = match service.kind {
                ServiceKind::Dns(_) => Some((service.ttl, service.routing_policy)),
                ServiceKind::Http => None,
            };
            (service.kind, dns_settings)
        };
        settings(&self.service) == settings(wanted)
    }
}

/// The namespaces, by id, that have refused an instance in this invocation, each with Cloud Map's message.
#[derive(Debug, Default)]
pub struct FullNamespaces(Mutex<BTreeMap<String, String>>);

impl FullNamespaces {
    pub fn note(&self, namespace: &str, message: &str) {
        let mut full = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        full.entry(namespace.to_owned()).or_insert_with(|| message.to_owned());
    }

    /// Returns Cloud Map's message if the namespace is full.
    pub fn refusal(&self, namespace: &str) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(namespace).cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{Namespace, Records, RoutingPolicy};

    fn web() -> ServiceName {
        ServiceName::parse("web").expect("a name")
    }

    fn wanted(kind: ServiceKind, ttl: u32) -> NewService {
        NewService {
            namespace: Namespace::missing("prod"),
            name: web(),
            kind,
            ttl,
            routing_policy: RoutingPolicy::Multivalue,
        }
    }

    #[test]
    fn turn_that_wants_other_settings_does_not_take_the_service_for_its_own() {
        let with_records = ServiceKind::Dns(Records { a: true, ..Records::default() });
        let created = Created::new("arn".to_owned(), &wanted(ServiceKind::Http, 60));
        // The TTL belongs to DNS records, which an HTTP service does not have.
        assert!(created.matches(&wanted(ServiceKind::Http, 60)));
        assert!(created.matches(&wanted(ServiceKind::Http, 5)));
        assert!(!created.matches(&wanted(with_records, 60)));
    }

    #[tokio::test(start_paused = true)]
    async fn service_is_created_once_until_a_later_read_has_not_found_it() {
        let services = EnsuredServices::default();
        let creation = |owner: &str, read| services.creation("arn", &web(), owner, read);
        let read = Instant::now();
        let made = Created::new("web".to_owned(), &wanted(ServiceKind::Http, 60));
        assert!(creation("one", read).set(made).is_ok());
        assert!(creation("one", read).get().is_some());
        assert!(creation("another", read).get().is_none());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(creation("one", Instant::now()).get().is_none());
    }
}
