//! Admits registrations of new instances to namespaces. No API reports how many instances a namespace takes, and each
//! refused call counts against the account's rates: so the first registration in a namespace goes alone, each accepted
//! one lets one more go at the same time, and after a refusal none is made in this invocation.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many go at the same time at most; more calls than these are never under way.
const MOST: usize = 64;

/// The namespaces of one invocation.
#[derive(Debug, Default)]
pub struct Admissions {
    namespaces: Mutex<BTreeMap<String, Arc<Namespace>>>,
    met_another: AtomicBool,
}

/// One namespace.
#[derive(Debug)]
struct Namespace {
    slots: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    width: usize,
    refused: Option<String>,
}

/// Leave to register one instance; dropped when the call is answered.
#[derive(Debug)]
pub struct Admission {
    namespace: Arc<Namespace>,
    _slot: Option<OwnedSemaphorePermit>,
}

impl Admissions {
    /// Waits until an instance may be registered in the namespace with this id.
    ///
    /// # Errors
    /// Returns Cloud Map's words if it has refused one there in this invocation.
    pub async fn admit(&self, namespace: &str) -> Result<Admission, String> {
        let namespace = self.namespace(namespace);
        // The semaphore is never closed, so the error, which would only mean that, is no slot and no harm.
        let slot = namespace.slots.clone().acquire_owned().await.ok();
        if let Some(refusal) = &namespace.state().refused {
            return Err(refusal.clone());
        }
        Ok(Admission { namespace, _slot: slot })
    }

    /// This invocation was at the same instance or service as another writer.
    pub fn meet_another(&self) {
        self.met_another.store(true, Ordering::Relaxed);
    }

    /// Whether this invocation was at the same instance or service as another writer.
    pub fn met_another(&self) -> bool {
        self.met_another.load(Ordering::Relaxed)
    }

    fn namespace(&self, id: &str) -> Arc<Namespace> {
        let mut all = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || {
            let (slots, state) = (Arc::new(Semaphore::new(1)), State { width: 1, refused: None });
            Arc::new(Namespace { slots, state: Mutex::new(state) })
        };
        all.entry(id.to_owned()).or_insert_with(new).clone()
    }
}

impl Admission {
    /// Cloud Map accepted the registration.
    pub fn accepted(self) {
        let mut state = self.namespace.state();
        if state.width < MOST {
            state.width += 1;
            self.namespace.slots.add_permits(1);
        }
    }

    /// Cloud Map takes no more, and says so.
    pub fn refused(self, message: &str) {
        self.namespace.state().refused.get_or_insert_with(|| message.to_owned());
    }
}

impl Namespace {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let (one, other) = (admit().expect("two go"), admit().expect("two go"));
        assert!(admit().is_none());
        one.expect("admitted").refused("the namespace is full");
        assert_eq!(admit().expect("at once").expect_err("refused"), "the namespace is full");
        // A call that was under way may still be accepted: it was not new to Cloud Map.
        other.expect("admitted").accepted();
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
