//! How much is asked of Cloud Map: every try of every call, also those that the SDK repeats by itself, and
//! how many of them are throttled. Counted for as long as the process lives; what one invocation asked is
//! the difference.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::model::Traffic;

/// The counts of one account in one Region.
#[derive(Debug, Default)]
pub(super) struct Meter {
    calls: AtomicUsize,
    throttles: AtomicUsize,
}

impl Meter {
    pub(super) fn call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn throttle(&self) {
        self.throttles.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Traffic {
        let [calls, throttles] =
            [&self.calls, &self.throttles].map(|it| it.load(Ordering::Relaxed));
        Traffic { calls, throttles }
    }
}
