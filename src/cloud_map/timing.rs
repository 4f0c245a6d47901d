//! How long the operations of one kind take, learnt from those that ended lately: an operation is polled when it
//! has probably ended, twice on average. If nothing is known yet, one operation is polled early for all.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as Queue, MutexGuard as Probe};
use tokio::time::{Instant, sleep_until, timeout_at};

/// How many durations are remembered: few enough to follow Cloud Map when it gets slower or faster.
const REMEMBERED: usize = 20;
/// From so many durations on, their median is relied on.
const ENOUGH: usize = 10;
/// Until then no operation waits longer for its first poll.
const UNKNOWN: Duration = Duration::from_secs(5);
/// The least time before the first poll, and the first poll of an operation that is polled for all.
const SHORTEST: Duration = Duration::from_millis(100);
/// A poll comes so much later than expected, since durations vary a little.
const MARGIN: f64 = 1.1;
/// When an operation is polled that has outlasted all that are remembered.
const LATER: [Duration; 6] = [
    Duration::from_secs(1),
    UNKNOWN,
    Duration::from_secs(10),
    Duration::from_secs(20),
    Duration::from_secs(40),
    LAST,
];
/// The last poll before the caller gives up after a minute.
const LAST: Duration = Duration::from_secs(57);

/// The timing of one kind of operation.
#[derive(Debug, Default)]
pub(super) struct OperationTiming {
    /// The last durations, oldest first, each with its margin.
    durations: Mutex<VecDeque<Duration>>,
    probe: Queue<()>,
}

impl OperationTiming {
    /// Waits until an operation that was accepted at `start` should be polled for the first time. The operation that
    /// gets a guard is polled for all others, which wait until it has ended, but not longer than `UNKNOWN`.
    pub(super) async fn first_poll(&self, start: Instant) -> Option<Probe<'_, ()>> {
        let due = start + UNKNOWN;
        while self.median().is_none() {
            let Ok(probe) = timeout_at(due, self.probe.lock()).await else { return None };
            if self.median().is_none() {
                sleep_until(start + SHORTEST).await;
                return Some(probe);
            }
        }
        // What is learnt while it waits may bring the poll forward or put it off.
        loop {
            let median = self.median().unwrap_or(UNKNOWN);
            sleep_until(start + median).await;
            if self.median().is_none_or(|median| Instant::now() >= start + median) {
                return None;
            }
        }
    }

    /// At which age to poll an operation again that had not ended at this one: after the median of those that took
    /// longer still, so that half of them have ended. A single slow one may not put that off by more than the age.
    pub(super) fn next_poll(&self, age: Duration) -> Duration {
        let soonest = age.mul_f64(MARGIN);
        let longer: Vec<Duration> = self.sorted().into_iter().filter(|it| *it > soonest).collect();
        let next = match median(&longer) {
            Some(expected) => Some(expected.min(age + age.max(UNKNOWN))),
            None => LATER.into_iter().find(|later| *later > age.mul_f64(1.5)),
        };
        let last = if soonest < LAST { LAST } else { age + UNKNOWN };
        next.map_or(last, |next| next.min(last))
    }

    /// An operation has ended after this time.
    pub(super) fn record(&self, duration: Duration) {
        let mut durations = self.durations();
        if durations.len() == REMEMBERED {
            durations.pop_front();
        }
        durations.push_back(duration.mul_f64(MARGIN));
    }

    /// When to poll first; `None` if nothing is known.
    fn median(&self) -> Option<Duration> {
        let sorted = self.sorted();
        let longest = if sorted.len() < ENOUGH { UNKNOWN } else { Duration::MAX };
        median(&sorted).map(|median| median.clamp(SHORTEST, longest))
    }

    fn sorted(&self) -> Vec<Duration> {
        let mut sorted: Vec<Duration> = self.durations().iter().copied().collect();
        sorted.sort_unstable();
        sorted
    }

    fn durations(&self) -> MutexGuard<'_, VecDeque<Duration>> {
        self.durations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The median of sorted durations, the upper one of two.
fn median(sorted: &[Duration]) -> Option<Duration> {
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;
    use tokio::time::sleep_until;

    use super::*;

    fn secs(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// Follows operations of these durations, all begun at once. Returns the polls, and when the last end was seen.
    async fn follow(timing: &OperationTiming, durations: &[Duration]) -> (usize, Duration) {
        let start = Instant::now();
        let follow = async |duration: Duration| {
            let _probe = timing.first_poll(start).await;
            let mut polls = 1;
            while start.elapsed() < duration {
                sleep_until(start + timing.next_poll(start.elapsed())).await;
                polls += 1;
            }
            timing.record(duration);
            polls
        };
        let polls = join_all(durations.iter().map(|it| follow(*it))).await;
        (polls.into_iter().sum(), start.elapsed())
    }

    /// The timing after operations of these durations.
    fn after(durations: &[f64]) -> OperationTiming {
        let timing = OperationTiming::default();
        for duration in durations {
            timing.record(secs(*duration));
        }
        timing
    }

    #[tokio::test(start_paused = true)]
    async fn one_operation_is_polled_for_all_if_nothing_is_known() {
        let timing = OperationTiming::default();
        let (polls, _) = follow(&timing, &[secs(3.0); 500]).await;
        assert!((500..=505).contains(&polls), "{polls} polls of 500 operations");
        assert_eq!(follow(&timing, &[secs(3.0)]).await.0, 1, "the first poll is right");
    }

    #[tokio::test(start_paused = true)]
    async fn first_poll_comes_at_the_median_of_the_last_twenty() {
        for (durations, expected) in [
            (vec![1.0; 10], 1.1),
            ([vec![9.0; 20], vec![1.0; 11]].concat(), 1.1),
            ([vec![1.0; 11], vec![9.0; 9]].concat(), 1.1),
            (vec![9.0; 10], 9.9),
            (vec![55.0; 9], 5.0),
            (vec![55.0], 5.0),
            (vec![0.01; 20], 0.1),
        ] {
            let (timing, start) = (after(&durations), Instant::now());
            assert!(timing.first_poll(start).await.is_none(), "nothing is left to find out");
            let late = start.elapsed().abs_diff(secs(expected));
            assert!(late < Duration::from_millis(2), "{:?} after {durations:?}", start.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn operation_that_hangs_delays_no_other_by_more_than_five_seconds() {
        let timing = OperationTiming::default();
        let (slow, fast) = ([secs(900.0)], [secs(0.5); 5]);
        let hangs = tokio::time::timeout(secs(60.0), follow(&timing, &slow));
        let (hangs, (_, seen)) = tokio::join!(hangs, follow(&timing, &fast));
        assert!(hangs.is_err());
        assert!(seen <= secs(5.1), "{seen:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn operations_of_changing_duration_are_polled_less_than_twice() {
        let timing = OperationTiming::default();
        let mut polls = 0;
        for index in 0..300 {
            let milliseconds = match index / 100 {
                0 => 500 + index * 37 % 500,
                1 => 3000 + index * 61 % 5000,
                _ => 1000 + index * 43 % 700,
            };
            polls += follow(&timing, &[Duration::from_millis(milliseconds)]).await.0;
        }
        assert!(polls < 600, "{polls} polls of 300 operations");
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_is_seen_soon_after_it() {
        for (known, duration, polls, seen) in [
            // Unlike all that are remembered: once more after a second, then after five.
            (vec![0.1; 20], 3.0, 3, 5.0),
            // Like the slow ones of two sorts.
            ([vec![0.1; 12], vec![3.0; 8]].concat(), 3.0, 2, 3.3),
            // A single slow one tells nothing of another one.
            ([vec![2.0; 19], vec![55.0]].concat(), 3.0, 2, 7.2),
            (vec![2.0; 20], 4.0, 2, 5.0),
            (vec![2.0; 20], 55.0, 6, 57.0),
        ] {
            let timing = after(&known);
            let found = follow(&timing, &[secs(duration)]).await;
            let late = found.1.saturating_sub(secs(seen));
            assert!(
                found.0 <= polls && late < secs(0.01),
                "{found:?} for {duration} s after {known:?}"
            );
        }
    }
}
