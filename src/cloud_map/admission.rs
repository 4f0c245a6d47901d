//! Admits registrations of new instances to namespaces. No API reports the remaining capacity of a namespace, and a
//! refused call counts against the rate limit of the account. So the first registration in a namespace is made alone,
//! each accepted one raises the concurrency by three, and after a refusal this invocation makes no more.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slots that an accepted registration adds: with its own it makes room for four. Their number
/// needs no limit, since the quotas limit all calls.
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
            Arc::new(NamespaceAdmission { slots, refused })
        };
        all.entry(id.to_owned()).or_insert_with(new).clone()
    }
}

impl Admission {
    pub fn accepted(self) {
        self.namespace.slots.add_permits(MORE);
    }

    /// Cloud Map refused the registration because the namespace is full.
    pub fn refused(self, message: &str) {
        self.namespace.refused.get_or_init(|| message.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

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
    async fn a_call_that_fails_otherwise_lets_the_next_one_try() {
        let admissions = Admissions::default();
        drop(admissions.admit("ns-1").await.expect("admitted"));
        assert!(admissions.admit("ns-1").now_or_never().is_some_and(|it| it.is_ok()));
    }
}
