//! Time: a clock, and the deadline of an invocation. Decisions are given the time as a value. It comes from the system's
//! clock, or in tests from one that stands still until it is put forward.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::model::Timestamp;

/// The least time kept for finishing what is under way and for answering.
const RESERVE: Duration = Duration::from_secs(3);
/// No invocation is given more.
const LONGEST_INVOCATION: Duration = Duration::from_hours(2);
/// The time kept for answering alone.
const ANSWERING: Duration = Duration::from_secs(1);

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

/// The moment after which nothing new is started: the end of the time given, less 15 % of it and at
/// least three seconds. Lambda ends a function that is late in the middle of whatever it does.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    stop: Instant,
    end: Instant,
}

impl Deadline {
    /// The deadline of an invocation that was given `time` from now on.
    pub fn after(time: Duration) -> Self {
        let reserve = RESERVE.max(time * 15 / 100);
        let now = Instant::now();
        let end = now + time.saturating_sub(ANSWERING);
        Self { stop: now + time.saturating_sub(reserve), end }
    }

    /// Whether something new may be started.
    pub fn is_open(&self) -> bool {
        Instant::now() < self.stop
    }

    /// The last moment to wait for the answer to what was started: after it only the answer of the
    /// invocation itself is left.
    pub fn end(&self) -> Instant {
        self.end
    }

    /// The last moment to start or to wait for anything.
    pub fn stop(&self) -> Instant {
        self.stop
    }
}

/// The time until a deadline as Lambda gives it, by wall clock. `cargo lambda watch` gives the time
/// that is left in its place (600,000 ms), which would be a deadline in 1970.
pub fn time_left(deadline: SystemTime, now: SystemTime) -> Duration {
    let since_1970 = deadline.duration_since(UNIX_EPOCH).unwrap_or_default();
    if since_1970 < LONGEST_INVOCATION {
        return since_1970;
    }
    deadline.duration_since(now).unwrap_or_default()
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn time_left_is_told_by_wall_clock_or_by_an_emulator_in_itself() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let now = 1_795_000_000;
        for (deadline, left) in [(now + 300, 300), (now, 0), (now - 5, 0), (600, 600), (0, 0)] {
            assert_eq!(time_left(at(deadline), at(now)), Duration::from_secs(left));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_reserve_is_fifteen_per_cent_and_at_least_three_seconds() {
        for (given, left) in [(300, 255), (10, 7), (2, 0)] {
            let deadline = Deadline::after(Duration::from_secs(given));
            assert_eq!(deadline.stop() - Instant::now(), Duration::from_secs(left));
            assert_eq!(deadline.is_open(), left > 0);
        }
    }
}
