//! A clock for the function that only a test advances, so that no test waits.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use cloud_map_sync::time::Clock;

/// The time that the function is told; clones tell the same.
#[derive(Clone)]
pub struct StandInClock(Arc<Mutex<SystemTime>>);

impl StandInClock {
    /// A clock that says `2026-11-21T10:51:00Z`.
    pub fn new() -> Self {
        let start = SystemTime::UNIX_EPOCH + Duration::from_mins(29_920_971);
        Self(Arc::new(Mutex::new(start)))
    }

    /// Puts it forward.
    pub fn advance(&self, time: Duration) {
        *self.0.lock().expect("no poisoned lock") += time;
    }

    /// The clock as the function reads it.
    pub fn clock(&self) -> Clock {
        let time = self.0.clone();
        Clock::new(move || *time.lock().expect("no poisoned lock"))
    }
}
