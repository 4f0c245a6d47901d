//! The clock, and the deadline of an invocation. Decisions take the time as a value. The clock is the system's. Tests
//! use a clock that they advance.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::{Instant, Timeout, timeout, timeout_at};

use crate::model::Timestamp;

/// The least time that is reserved for the calls under way and the answer.
const MIN_RESERVE: Duration = Duration::from_secs(3);
/// An upper bound of Lambda's timeouts.
const MAX_INVOCATION: Duration = Duration::from_hours(2);
/// The time that is reserved for the answer alone.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// A clock. Its clones share its time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    pub fn system() -> Self {
        Self::new(SystemTime::now)
    }

    pub fn new(read: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// Returns the present time in whole seconds, the precision of every stored timestamp.
    pub fn now(&self) -> Timestamp {
        let since_1970 = (self.0)().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX);
        Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
    }
}

/// The end of the time in which an invocation may work. No work is started in the last 15 % of the invocation's time,
/// or in the last three seconds if that is longer: Lambda kills a late function in the middle of its work.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    /// The latest time to start work.
    pub stop: Instant,
    /// The latest time to wait for started work. The time after it is for the answer of the invocation.
    end: Instant,
}

impl Deadline {
    /// Returns the deadline of an invocation that has `time` left.
    pub fn after(time: Duration) -> Self {
        let reserve = MIN_RESERVE.max(time * 15 / 100);
        let now = Instant::now();
        let end = now + time.saturating_sub(ANSWER_TIME);
        Self { stop: now + time.saturating_sub(reserve), end }
    }

    /// Limits work to the time in which new work may be started. Later the result is an error.
    pub fn until_stop<W: Future>(&self, work: W) -> Timeout<W> {
        timeout_at(self.stop, work)
    }

    /// Limits started work to the invocation's time less the second that is reserved for the answer. Later the result
    /// is an error.
    pub fn until_end<W: Future>(&self, work: W) -> Timeout<W> {
        timeout_at(self.end, work)
    }

    /// Limits work to half of the time until `stop`. Later the result is an error. So a peer that does not answer
    /// leaves the other half for the work after it.
    pub fn half<W: Future>(&self, work: W) -> Timeout<Pin<Box<W>>> {
        timeout(self.left() / 2, Box::pin(work))
    }

    /// Returns the time in which new work may still be started.
    pub fn left(&self) -> Duration {
        self.stop.saturating_duration_since(Instant::now())
    }

    /// Whether new work may be started.
    pub fn is_open(&self) -> bool {
        Instant::now() < self.stop
    }
}

/// Returns the pause after a number of failures in a row: `first`, then twice as long after each failure, at most
/// `longest`.
pub fn backoff(failures: u32, first: Duration, longest: Duration) -> Duration {
    longest.min(first * 2_u32.pow(failures.saturating_sub(1).min(16)))
}

/// Returns the time until Lambda's deadline, which is a wall clock time. `cargo lambda watch` sends the remaining time
/// instead (600,000 ms), which as a deadline would be in 1970.
pub fn time_left(deadline: SystemTime, now: SystemTime) -> Duration {
    let since_1970 = deadline.duration_since(UNIX_EPOCH).unwrap_or_default();
    if since_1970 < MAX_INVOCATION {
        return since_1970;
    }
    deadline.duration_since(now).unwrap_or_default()
}

/// Returns the age of something since `since`, such as `45s`, `12m`, `3h` or `9d`. A future time has the age `0s`.
pub fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(since.as_second()).max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_returns_whole_seconds_at_any_time() {
        let cases = [
            (Duration::from_millis(1_795_258_260_900), "2026-11-21T10:51:00Z"),
            (Duration::ZERO, "1970-01-01T00:00:00Z"),
            (Duration::from_secs(u64::MAX >> 2), "9999-12-30T22:00:00.999999999Z"),
        ];
        for (since_1970, expected) in cases {
            let clock = Clock::new(move || SystemTime::UNIX_EPOCH + since_1970);
            assert_eq!(clock.now().to_string(), expected);
        }
        let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(Clock::new(move || before_1970).now(), Timestamp::UNIX_EPOCH);
    }

    #[test]
    fn deadline_is_wall_clock_or_the_remaining_time_of_an_emulator() {
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
            assert_eq!(deadline.stop - Instant::now(), Duration::from_secs(left));
            assert_eq!(deadline.is_open(), left > 0);
        }
    }

    #[test]
    fn age_is_in_the_largest_unit_of_which_there_are_two() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let cases = [
            (-5, "0s"),
            (119, "119s"),
            (120, "2m"),
            (7_199, "119m"),
            (7_200, "2h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (86_400 * 400, "400d"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(age(at(1_000), at(1_000 + seconds)), expected);
        }
    }
}
