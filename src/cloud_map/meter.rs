//! Counts the calls to Cloud Map, including the retries of the SDK, and how many of them are throttled. The counters
//! never reset while the process lives; the traffic of one invocation is a difference of two reads.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::model::Traffic;

/// The counters of one account in one Region.
#[derive(Debug, Default)]
pub(super) struct Meter {
    calls: AtomicUsize,
    throttles: AtomicUsize,
}

impl Meter {
    pub(super) fn count_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_throttle(&self) {
        self.throttles.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Traffic {
        let [calls, throttles] =
            [&self.calls, &self.throttles].map(|it| it.load(Ordering::Relaxed));
        Traffic { calls, throttles }
    }
}
