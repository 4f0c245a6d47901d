//! The results of calls that all turns of an invocation share.
//!
//! - The namespaces that it has created or found, each at most once.
//! - The Cloud Map services that it has created, so that the turns of several clusters that need the same one create it
//!   once: an account may create five a second, and each refused creation costs reads besides.
//! - The registrations of new instances that namespaces admit. No API reports the remaining capacity of a namespace, and a
//!   refused call counts against the rate limit of the account. So the first registration in a namespace is made alone,
//!   each accepted one raises the concurrency by three, up to that of all calls, and after a refusal this invocation makes
//!   no more.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::{Error, quota};
use crate::model::{NewService, ServiceKey, ServiceKind, ServiceName};

/// The results of calls that all turns of an invocation share.
#[derive(Debug, Default)]
pub struct SharedResults {
    /// The namespaces that clusters asked for.
    pub namespaces: NewNamespaces,
    /// The services that were created.
    pub services: NewServices,
    /// The registrations that full namespaces admit.
    pub admissions: Admissions,
}

type CreatedNamespace = OnceCell<Result<String, Arc<Error>>>;

/// The results of an invocation, by namespace name.
#[derive(Debug, Default)]
pub struct NewNamespaces(Mutex<BTreeMap<String, Arc<CreatedNamespace>>>);

impl NewNamespaces {
    pub(super) fn cell(&self, name: &str) -> Arc<CreatedNamespace> {
        let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cells.entry(name.to_owned()).or_default().clone()
    }

    /// The reference of a namespace that this invocation has created or found: its id, which serves as the ARN does.
    pub fn reference(&self, name: &str) -> Option<String> {
        self.cell(name).get()?.as_ref().ok().cloned()
    }
}

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
            (service.kind, of_records)
        };
        settings(&self.service) == settings(wanted)
    }
}

/// The slots that an accepted registration adds, with its own room for four, until there are so many as calls go at once:
/// more registrations would wait there, each with its request in memory.
const MORE: usize = 3;

/// The admissions of one invocation, by namespace.
#[derive(Debug, Default)]
pub struct Admissions {
    namespaces: Mutex<BTreeMap<String, Arc<NamespaceAdmission>>>,
    met_another: AtomicBool,
}

#[derive(Debug)]
struct NamespaceAdmission {
    slots: Arc<Semaphore>,
    given: AtomicUsize,
    refused: OnceLock<String>,
}

/// A permit to register one instance; dropped when the call has ended.
#[derive(Debug)]
pub struct Admission {
    namespace: Arc<NamespaceAdmission>,
    _slot: Option<OwnedSemaphorePermit>,
}

impl Admissions {
    /// Waits until an instance may be registered in the namespace with this id.
    ///
    /// # Errors
    /// Returns the error message of Cloud Map if it has refused a registration there in this invocation.
    pub async fn admit(&self, namespace: &str) -> Result<Admission, String> {
        let namespace = self.namespace(namespace);
        // The semaphore is never closed, so there is no error to handle.
        let slot = namespace.slots.clone().acquire_owned().await.ok();
        match namespace.refused.get() {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(Admission { namespace, _slot: slot }),
        }
    }

    /// Records that another writer changed an instance or service of this invocation.
    pub fn meet_another(&self) {
        self.met_another.store(true, Ordering::Relaxed);
    }

    /// Whether another writer changed an instance or service of this invocation.
    pub fn met_another(&self) -> bool {
        self.met_another.load(Ordering::Relaxed)
    }

    fn namespace(&self, id: &str) -> Arc<NamespaceAdmission> {
        let mut all = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            let (slots, refused) = (Arc::new(Semaphore::new(1)), OnceLock::new());
            Arc::new(NamespaceAdmission { slots, given: AtomicUsize::new(1), refused })
        };
        all.entry(id.to_owned()).or_insert_with(new).clone()
    }
}

impl Admission {
    pub fn accepted(self) {
        let NamespaceAdmission { slots, given, .. } = &*self.namespace;
        let more = |it: usize| (it < quota::MAX_CONCURRENCY).then_some(it + MORE);
        if given.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok() {
            slots.add_permits(MORE);
        }
    }

    /// Cloud Map refused the registration because the namespace is full.
    pub fn refused(self, message: &str) {
        self.namespace.refused.get_or_init(|| message.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use tokio::task::unconstrained;

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
        let created = Created::now("arn".to_owned(), &wanted(ServiceKind::Http, 60));
        // The TTL is of records, which an HTTP service has not.
        assert!(created.is_as(&wanted(ServiceKind::Http, 60)));
        assert!(created.is_as(&wanted(ServiceKind::Http, 5)));
        assert!(!created.is_as(&wanted(with_records, 60)));
    }

    #[tokio::test(start_paused = true)]
    async fn service_is_created_once_until_a_later_read_has_not_found_it() {
        let services = NewServices::default();
        let creation = |owner: &str, read| services.creation("arn", &web(), owner, read);
        let (read, made) =
            (Instant::now(), Created::now("web".to_owned(), &wanted(ServiceKind::Http, 60)));
        assert!(creation("one", read).set(made).is_ok());
        assert!(creation("one", read).get().is_some());
        assert!(creation("another", read).get().is_none());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(creation("one", Instant::now()).get().is_none());
    }

    #[tokio::test]
    async fn registrations_widen_with_each_accepted_one_and_end_with_a_refusal() {
        let admissions = Admissions::default();
        let admit = || admissions.admit("ns-1").now_or_never();
        let first = admit().expect("the first goes alone").expect("admitted");
        assert!(admit().is_none());
        first.accepted();
        let mut four: Vec<_> = (0..4).map(|_| admit().expect("four go")).collect();
        assert!(admit().is_none());
        let mut next = || four.pop().expect("one of four").expect("admitted");
        next().refused("the namespace is full");
        assert_eq!(admit().expect("at once").expect_err("refused"), "the namespace is full");
        // A concurrent call may still be accepted, for instance if it replaces an instance.
        next().accepted();
        assert!(admit().expect("at once").is_err());
        assert!(admissions.admit("ns-2").now_or_never().is_some_and(|it| it.is_ok()));
    }

    #[tokio::test]
    async fn no_more_registrations_are_admitted_than_calls_go_at_once() {
        let admissions = Admissions::default();
        for _ in 0..quota::MAX_CONCURRENCY {
            admissions.admit("ns-1").await.expect("admitted").accepted();
        }
        // The runtime's budget for one poll would end the loop, too.
        let admit = |_| unconstrained(admissions.admit("ns-1")).now_or_never();
        assert_eq!((0..2 * quota::MAX_CONCURRENCY).map_while(admit).collect::<Vec<_>>().len(), 64);
    }

    #[tokio::test]
    async fn a_call_that_fails_otherwise_lets_the_next_one_try() {
        let admissions = Admissions::default();
        drop(admissions.admit("ns-1").await.expect("admitted"));
        assert!(admissions.admit("ns-1").now_or_never().is_some_and(|it| it.is_ok()));
    }
}
