//! How long an invocation may go on starting things.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// The least time kept for finishing what is under way and for answering.
const RESERVE: Duration = Duration::from_secs(3);
/// No invocation is given more.
const LONGEST_INVOCATION: Duration = Duration::from_hours(2);
/// The time kept for answering alone.
const ANSWERING: Duration = Duration::from_secs(1);

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
