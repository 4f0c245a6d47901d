//! Waits for operations. Cloud Map accepts a registration or deregistration first and carries it out later, when it can
//! still fail.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_sdk_servicediscovery::types::{Operation, OperationStatus, OperationTargetType};
use tokio::sync::{Mutex as FairMutex, MutexGuard as FairMutexGuard};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{Call, CallSlot, CloudMap, Error};
use crate::model::NamespaceKind;

/// The longest time to wait for one operation.
const MAX_WAIT: Duration = Duration::from_mins(1);

/// The timing of operations by call and kind of namespace: writing records to Route 53 takes longer than an instance of
/// an HTTP namespace.
#[derive(Debug, Default)]
pub(super) struct Timings(Mutex<BTreeMap<(Call, NamespaceKind), Arc<OperationTiming>>>);

impl Timings {
    fn get(&self, call: Call, kind: NamespaceKind) -> Arc<OperationTiming> {
        let mut timings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        timings.entry((call, kind)).or_default().clone()
    }
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitResult {
    Success {
        /// The id of the operation's namespace, if Cloud Map returned it.
        namespace: Option<String>,
    },
    Fail {
        /// Cloud Map's error code, such as `INVALID_CHANGE_BATCH`.
        code: String,
        message: String,
    },
    /// The operation had not ended when the wait ended.
    Pending,
}

impl CloudMap {
    /// Waits for the end of an operation that `call` started in a namespace of this kind, at most 60 seconds and not
    /// past `until`. `owner` is the account of a shared namespace, without which Cloud Map does not find the operation.
    ///
    /// # Errors
    /// Returns an error if `GetOperation` fails.
    pub async fn wait(
        &self,
        operation: &str,
        (call, kind): (Call, NamespaceKind),
        owner: Option<&str>,
        until: Instant,
    ) -> Result<WaitResult, Error> {
        let until = until.min(Instant::now() + MAX_WAIT);
        let timing = self.timings.get(call, kind);
        let ended = async {
            let start = Instant::now();
            let _probe = timing.first_poll(start).await;
            loop {
                // Boxed to keep this future small: thousands of futures wait here for a slot at once.
                let slot = self.acquire(Call::GetOperation).await;
                let polled = Box::pin(self.poll(slot, operation, owner)).await?;
                if let Some((ended, duration)) = polled {
                    timing.record(duration.unwrap_or(start.elapsed()));
                    return Ok(ended);
                }
                sleep_until(start + timing.next_poll(start.elapsed())).await;
            }
        };
        timeout_at(until, ended).await.unwrap_or(Ok(WaitResult::Pending))
    }

    /// Returns the result and the duration of an operation, or `None` if it has not ended.
    async fn poll(
        &self,
        _slot: CallSlot<'_>,
        operation: &str,
        owner: Option<&str>,
    ) -> Result<Option<(WaitResult, Option<Duration>)>, Error> {
        let request = self.client.get_operation().operation_id(operation);
        let answer = request.set_owner_account(owner.map(str::to_owned)).send().await;
        let answer =
            answer.map_err(|error| Error::new(format!("get the operation {operation}"), &error));
        let answer = self.recorded(Call::GetOperation, answer)?;
        let Some(operation) = answer.operation else { return Ok(None) };
        let duration = duration(&operation);
        let ended = match operation.status {
            Some(OperationStatus::Success) => {
                let mut targets = operation.targets.unwrap_or_default();
                WaitResult::Success { namespace: targets.remove(&OperationTargetType::Namespace) }
            }
            Some(OperationStatus::Fail) => WaitResult::Fail {
                code: operation.error_code.unwrap_or_else(|| "UNKNOWN".to_owned()),
                message: operation.error_message.unwrap_or_else(|| "no message".to_owned()),
            },
            _ => return Ok(None),
        };
        Ok(Some((ended, duration)))
    }
}

/// Returns the time from acceptance to end by Cloud Map's clock, which excludes the delay until the poll.
fn duration(operation: &Operation) -> Option<Duration> {
    let accepted = operation.create_date?;
    let ended = operation.update_date?;
    Duration::try_from_secs_f64(ended.as_secs_f64() - accepted.as_secs_f64()).ok()
}

// Decides when to poll an operation: when it has probably ended, judging by the durations of recent operations of its
// kind. This takes less than two polls on average. If no duration is known, one operation is polled early, and the
// others wait for its result.

/// The number of durations that are kept: few enough to follow a change of Cloud Map's speed.
const MAX_DURATIONS: usize = 20;
/// The number of durations from which on `FIRST_POLL_MAX` does not limit the median.
const MIN_DURATIONS: usize = 10;
/// The longest wait for a first poll while fewer than `MIN_DURATIONS` durations are known.
const FIRST_POLL_MAX: Duration = Duration::from_secs(5);
/// The wait before the first poll of the operation that is polled early.
const PROBE_DELAY: Duration = Duration::from_millis(100);
/// The shortest wait for a first poll if durations are known: about the time of one call.
const FIRST_POLL_MIN: Duration = Duration::from_millis(20);
/// The factor that moves a poll after the expected end, since durations vary.
const MARGIN: f64 = 1.1;
/// The ages at which an operation is polled that takes longer than all recent ones.
const SLOW_POLL_AGES: [Duration; 6] = [
    Duration::from_secs(1),
    FIRST_POLL_MAX,
    Duration::from_secs(10),
    Duration::from_secs(20),
    Duration::from_secs(40),
    LAST,
];
/// The age of the last poll: the caller gives up after a minute.
const LAST: Duration = Duration::from_secs(57);

/// The timing of one kind of operation.
#[derive(Debug, Default)]
pub(super) struct OperationTiming {
    /// Oldest first, each multiplied by `MARGIN`.
    durations: Mutex<VecDeque<Duration>>,
    probe: FairMutex<()>,
}

impl OperationTiming {
    /// Waits until the first poll of an operation that was accepted at `start`. If no duration is known, the operation
    /// that gets the lock is the probe; the others wait until it has ended, at most `FIRST_POLL_MAX`.
    pub(super) async fn first_poll(&self, start: Instant) -> Option<FairMutexGuard<'_, ()>> {
        let due = start + FIRST_POLL_MAX;
        while self.median().is_none() {
            let Ok(probe) = timeout_at(due, self.probe.lock()).await else { return None };
            if self.median().is_none() {
                sleep_until(start + PROBE_DELAY).await;
                return Some(probe);
            }
        }
        // The median may change while this waits, because other operations end.
        loop {
            let median = self.median().unwrap_or(FIRST_POLL_MAX);
            sleep_until(start + median).await;
            if self.median().is_none_or(|median| Instant::now() >= start + median) {
                return None;
            }
        }
    }

    /// Returns the age for the next poll of an operation that had not ended at `age`: the median of the longer
    /// durations, when half of such operations have ended. A single slow operation delays the poll by at most `age` or
    /// `FIRST_POLL_MAX`, whichever is longer.
    pub(super) fn next_poll(&self, age: Duration) -> Duration {
        let soonest = age.mul_f64(MARGIN);
        let longer: Vec<Duration> =
            self.sorted().into_iter().filter(|duration| *duration > soonest).collect();
        let next = match median(&longer) {
            Some(expected) => Some(expected.min(age + age.max(FIRST_POLL_MAX))),
            None => SLOW_POLL_AGES.into_iter().find(|later| *later > age.mul_f64(1.5)),
        };
        let last = if soonest < LAST { LAST } else { age + FIRST_POLL_MAX };
        next.map_or(last, |next| next.min(last))
    }

    pub(super) fn record(&self, duration: Duration) {
        let mut durations = self.durations();
        if durations.len() == MAX_DURATIONS {
            durations.pop_front();
        }
        durations.push_back(duration.mul_f64(MARGIN));
    }

    /// Returns the wait for a first poll, or `None` if no duration is known.
    fn median(&self) -> Option<Duration> {
        let sorted = self.sorted();
        let longest = if sorted.len() < MIN_DURATIONS { FIRST_POLL_MAX } else { Duration::MAX };
        median(&sorted).map(|median| median.clamp(FIRST_POLL_MIN, longest))
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

/// Returns the median of sorted durations: the upper one of two.
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

    /// Polls operations of these durations, all started at once. Returns the polls and the time of the last one.
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
            (vec![0.01; 20], 0.02),
        ] {
            let timing = after(&durations);
            let start = Instant::now();
            assert!(timing.first_poll(start).await.is_none(), "nothing is left to find out");
            let late = start.elapsed().abs_diff(secs(expected));
            assert!(late < Duration::from_millis(2), "{:?} after {durations:?}", start.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn operation_that_hangs_delays_no_other_by_more_than_five_seconds() {
        let timing = OperationTiming::default();
        let slow = [secs(900.0)];
        let fast = [secs(0.5); 5];
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
            // Slower than all recent ones: polled again after one second and after five.
            (vec![0.1; 20], 3.0, 3, 5.0),
            // Durations of two groups: this operation is of the slow one.
            ([vec![0.1; 12], vec![3.0; 8]].concat(), 3.0, 2, 3.3),
            // A single slow operation does not predict another one.
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
