//! What time it is. Decisions are given the time as a value; this is where it comes from: the system's
//! clock, or in tests one that stands still until it is put forward.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use crate::model::Timestamp;

/// A clock; clones tell the same time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self::new(SystemTime::now)
    }

    /// A clock that is read by `read`.
    pub fn new(read: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// The present time in whole seconds, which is all that is ever written down of it.
    pub fn now(&self) -> Timestamp {
        let since_1970 = (self.0)().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX);
        Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock at {}", self.now())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_tells_whole_seconds_whatever_it_is_set_to() {
        let cases = [
            (Duration::from_millis(1_795_258_260_900), "2026-11-21T10:51:00Z"),
            (Duration::ZERO, "1970-01-01T00:00:00Z"),
            (Duration::from_secs(u64::MAX >> 2), "9999-12-30T22:00:00.999999999Z"),
        ];
        for (since_1970, told) in cases {
            let clock = Clock::new(move || SystemTime::UNIX_EPOCH + since_1970);
            assert_eq!(clock.now().to_string(), told);
        }
        let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(Clock::new(move || before_1970).now(), Timestamp::UNIX_EPOCH);
    }
}
