//! Clocks. The servers and the SDK have the system's time as tokio counts it on: a test that stops tokio's time has a
//! week in seconds, in which credentials and tokens expire. The function can have a clock that only a test advances.

use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant, SystemTime};

use aws_smithy_async::time::TimeSource;
use cloud_map_sync::time::Clock;
use k8s_openapi::jiff::Timestamp;

/// A moment by both clocks.
static MOMENT: LazyLock<(Instant, SystemTime)> =
    LazyLock::new(|| (Instant::now(), SystemTime::now()));

/// The time of the servers.
pub fn now() -> Timestamp {
    Timestamp::try_from(TokioTime.now()).expect("a time of these centuries")
}

/// That time as objects and answers have it.
pub fn timestamp() -> String {
    now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The system's time as tokio counts it on.
#[derive(Clone, Copy, Debug)]
pub struct TokioTime;

impl TimeSource for TokioTime {
    fn now(&self) -> SystemTime {
        let (instant, time) = *MOMENT;
        let now = tokio::time::Instant::now().into_std();
        match now.checked_duration_since(instant) {
            Some(since) => time + since,
            None => time - instant.duration_since(now),
        }
    }
}

/// The same time for the function.
pub fn tokio_clock() -> Clock {
    Clock::new(|| TokioTime.now())
}

/// The time that the function reads; clones have the same.
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
