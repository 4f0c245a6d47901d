//! The token bucket of one kind of call. It refills at a rate, up to a burst, and each call takes a token.
//!
//! A new process does not know how much of the account's burst is left. It starts with a few tokens and calls at twice
//! the rate until it has used the burst or is throttled. Other clients of the account can cause a throttle too: the
//! first one discards the assumed burst, later ones halve the rate, which then recovers.
//!
//! Calls are served in the order of their arrival, the calls of a sync before reads that only refresh the mirror. The
//! first call of each queue holds the lock of the queue and polls the bucket; the other calls wait for the lock. A call
//! takes its token together with a slot of the concurrency limit, so no token waits while calls in flight hang.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as FairMutex, Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

use super::quota::Rate;

/// The part of the burst that is used. Calls arrive closer together than they are sent, so a reserve is needed.
const BURST_SHARE: f64 = 0.9;
/// The tokens of a new bucket. The replies to the calls that take them show whether more of the burst is left.
const INITIAL_TOKENS: f64 = 2.0;
/// The number of assumed tokens of the burst that a successful call releases. With one half, calls go at twice the
/// rate, and few are in flight when a throttle ends the burst.
const TOKENS_PER_SUCCESS: f64 = 0.5;
/// The resolution of tokio's timers.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
/// Throttles of concurrent calls have one cause, so throttles within this time count once.
const THROTTLE_WINDOW: Duration = Duration::from_secs(1);
/// The rate never falls below this part of the full rate.
const MIN_RATE_SHARE: f64 = 1.0 / 16.0;
/// The time in which the rate recovers from zero to the full rate.
const RECOVERY_TIME: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) struct Bucket {
    full_rate: Rate,
    per_second: f64,
    tokens: f64,
    /// The tokens of the burst that are left only if no other client of the account has used them.
    unproven: f64,
    refilled: Instant,
    last_throttle: Option<Instant>,
}

impl Bucket {
    /// Assumes a full burst, which the first calls must prove.
    pub(super) fn new(rate: Rate, now: Instant) -> Self {
        let full_rate = Rate { burst: (rate.burst * BURST_SHARE).max(1.0), ..rate };
        let per_second = full_rate.per_second;
        let tokens = full_rate.burst.min(INITIAL_TOKENS);
        let unproven = full_rate.burst - tokens;
        Self { full_rate, per_second, tokens, unproven, refilled: now, last_throttle: None }
    }

    /// # Errors
    /// Returns the time until the next token if there is none.
    fn check_token(&mut self, now: Instant) -> Result<(), Duration> {
        self.refill(now);
        let missing = 1.0 - self.tokens;
        if missing > 0.0 {
            let wait = Duration::from_secs_f64(missing / self.per_second);
            return Err(wait.max(SHORTEST_WAIT));
        }
        Ok(())
    }

    /// # Errors
    /// Returns the time until the next token if there is none.
    fn take_token(&mut self, now: Instant) -> Result<(), Duration> {
        self.check_token(now)?;
        self.tokens -= 1.0;
        Ok(())
    }

    fn time_to_next(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.per_second).max(SHORTEST_WAIT)
    }

    /// Takes a token for a call that does not wait for one: a retry of the SDK. The balance may become negative.
    pub(super) fn overdraw(&mut self, now: Instant) {
        self.refill(now);
        self.tokens -= 1.0;
    }

    /// Records a call that was not throttled, so more of the burst may be left.
    pub(super) fn record_success(&mut self, now: Instant) {
        self.refill(now);
        let proven = self.unproven.min(TOKENS_PER_SUCCESS);
        self.unproven -= proven;
        self.tokens += proven;
    }

    /// Records a throttled call. If the bucket had tokens left, other clients of the account have used them; otherwise
    /// the rate is too high.
    pub(super) fn record_throttle(&mut self, now: Instant) {
        self.refill(now);
        if self.last_throttle.is_some_and(|last| now - last < THROTTLE_WINDOW) {
            return;
        }
        self.last_throttle = Some(now);
        if self.tokens + self.unproven < 1.0 {
            self.per_second =
                (self.per_second / 2.0).max(self.full_rate.per_second * MIN_RATE_SHARE);
        }
        self.unproven = 0.0;
        self.tokens = self.tokens.min(self.full_rate.burst * (1.0 - 1.0 / BURST_SHARE));
    }

    fn refill(&mut self, now: Instant) {
        let time = now.saturating_duration_since(self.refilled);
        self.refilled = self.refilled.max(now);
        self.tokens =
            (self.tokens + time.as_secs_f64() * self.per_second).min(self.full_rate.burst);
        self.unproven = self.unproven.min(self.full_rate.burst - self.tokens);
        let grown = self.full_rate.per_second * time.as_secs_f64() / RECOVERY_TIME.as_secs_f64();
        self.per_second = (self.per_second + grown).min(self.full_rate.per_second);
    }
}

/// The priority of the calls that wait for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Priority {
    /// Reads that a change makes while it holds its slot of the concurrency limit. They have a queue of their own: the
    /// first call of another queue may wait for a slot, which only the end of such a change frees.
    InFlight,
    /// Changes, and the reads that they are planned from.
    Sync,
    /// Reads that only refresh the mirror. They wait while any call of a sync waits.
    Refresh,
}

/// The rate limiter of one kind of call: a token bucket, and the calls that wait for its tokens.
#[derive(Debug)]
pub(super) struct RateLimiter {
    bucket: Mutex<Bucket>,
    /// One queue of calls for each priority: the first call of a queue holds its lock.
    queues: [FairMutex<()>; 3],
    /// The number of waiting calls of a sync.
    waiting: AtomicUsize,
    /// Wakes waiting calls when a token arrives earlier than they computed.
    pub(super) tokens_added: Notify,
}

impl RateLimiter {
    pub(super) fn new(bucket: Bucket) -> Self {
        let (queues, waiting) = Default::default();
        Self { bucket: Mutex::new(bucket), queues, waiting, tokens_added: Notify::new() }
    }

    /// Waits for a token and takes it, for a call that has a slot of the concurrency limit.
    pub(super) async fn take_token(&self, priority: Priority) {
        let _waiting = self.count_waiting(priority);
        let _first = self.queues[priority as usize].lock().await;
        while self.try_take_token(priority).is_err() {
            self.wait_for_token(priority).await;
        }
    }

    /// Waits until there are both a token and a slot of `concurrency`, and takes them at the same time. If calls took
    /// their tokens before they waited for slots, they would be sent together when slots become free, above the rate.
    pub(super) async fn take_token_and_slot<'a>(
        &self,
        priority: Priority,
        concurrency: &'a Semaphore,
    ) -> Option<SemaphorePermit<'a>> {
        let _waiting = self.count_waiting(priority);
        let _first = self.queues[priority as usize].lock().await;
        loop {
            self.wait_for_token(priority).await;
            // The semaphore is never closed, so there is no error to handle.
            let slot = concurrency.acquire().await.ok();
            // A call of another queue may have taken the token in the meantime. Then the slot is free for other calls.
            if self.try_take_token(priority).is_ok() {
                return slot;
            }
        }
    }

    fn count_waiting(&self, priority: Priority) -> Option<WaitingCall<'_>> {
        (priority != Priority::Refresh).then(|| WaitingCall::new(&self.waiting))
    }

    /// Waits until there is a token, which another call may take first.
    async fn wait_for_token(&self, priority: Priority) {
        loop {
            let tokens_added = self.tokens_added.notified();
            let Err(wait) = self.check_token(priority) else { return };
            _ = timeout(wait, tokens_added).await;
        }
    }

    fn check_token(&self, priority: Priority) -> Result<(), Duration> {
        let mut bucket = self.lock_bucket();
        if priority == Priority::Refresh && self.waiting.load(Ordering::Relaxed) > 0 {
            return Err(bucket.time_to_next());
        }
        bucket.check_token(Instant::now())
    }

    fn try_take_token(&self, priority: Priority) -> Result<(), Duration> {
        self.check_token(priority)?;
        self.lock_bucket().take_token(Instant::now())
    }

    pub(super) fn lock_bucket(&self) -> MutexGuard<'_, Bucket> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a waiting call until it has its token or is cancelled, which drops this.
struct WaitingCall<'a>(&'a AtomicUsize);

impl<'a> WaitingCall<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN_A_SECOND: Rate = Rate { per_second: 10.0, burst: 20.0 };

    /// Returns the number of calls that a bucket allows in `seconds` from `start`, with a try every millisecond.
    fn allowed(bucket: &mut Bucket, start: Instant, seconds: u64) -> usize {
        let moments = (1..=seconds * 1000).map(|ms| start + Duration::from_millis(ms));
        moments.map(|now| std::iter::from_fn(|| bucket.take_token(now).ok()).count()).sum()
    }

    /// A bucket whose full burst is proven.
    fn full(start: Instant) -> Bucket {
        let mut bucket = Bucket::new(TEN_A_SECOND, start);
        (0..100).for_each(|_| bucket.record_success(start));
        bucket
    }

    /// Takes all tokens. Returns their number.
    fn drain(bucket: &mut Bucket, now: Instant) -> usize {
        std::iter::from_fn(|| bucket.take_token(now).ok()).count()
    }

    /// A bucket whose full burst was proven and used.
    fn empty(start: Instant) -> Bucket {
        let mut bucket = full(start);
        drain(&mut bucket, start);
        bucket
    }

    #[test]
    fn a_bucket_allows_its_burst_and_then_its_rate() {
        let start = Instant::now();
        let mut bucket = full(start);
        assert_eq!(drain(&mut bucket, start), 18);
        let all = allowed(&mut bucket, start, 10);
        assert!((99..=100).contains(&all), "{all} in ten seconds");
        assert!(bucket.take_token(start + Duration::from_secs(10)).is_err());
    }

    #[test]
    fn a_new_bucket_goes_at_twice_the_rate_until_it_has_used_its_burst() {
        let start = Instant::now();
        let mut bucket = Bucket::new(TEN_A_SECOND, start);
        assert_eq!(drain(&mut bucket, start), 2);
        let mut calls = 2;
        let mut after = |ms: u64| {
            // The replies come a millisecond after the calls.
            let now = start + Duration::from_millis(ms);
            (0..std::mem::take(&mut calls)).for_each(|_| bucket.record_success(now));
            calls = drain(&mut bucket, now);
            calls
        };
        let first: usize = (1..=1000).map(&mut after).sum();
        assert!((19..=21).contains(&first), "{first} in the first second");
        let all = 2 + first + (1001..=10_000).map(&mut after).sum::<usize>();
        assert!((116..=118).contains(&all), "{all} in ten seconds");
    }

    #[test]
    fn used_burst_is_waited_for_at_the_full_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::new(TEN_A_SECOND, start);
        for _ in 0..50 {
            bucket.record_throttle(start);
        }
        bucket.record_success(start);
        let all = allowed(&mut bucket, start, 2);
        assert!((17..=18).contains(&all), "{all} calls in two seconds");
    }

    #[test]
    fn throttles_of_one_second_halve_the_rate_once_and_it_recovers() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut bucket = empty(start);
        for _ in 0..50 {
            bucket.record_throttle(start);
        }
        let first = allowed(&mut bucket, start, 2);
        assert!((8..=9).contains(&first), "{first} calls in the first two seconds");
        allowed(&mut bucket, after(2), 8);
        let recovered = allowed(&mut bucket, after(10), 2);
        assert!((19..=20).contains(&recovered), "{recovered} in two seconds, ten seconds later");
    }

    #[test]
    fn repeated_throttles_leave_a_minimum_rate() {
        let start = Instant::now();
        let mut bucket = empty(start);
        for second in 0..100 {
            let now = start + Duration::from_secs(second);
            drain(&mut bucket, now);
            bucket.record_throttle(now);
        }
        let least = bucket.take_token(start + Duration::from_secs(100));
        assert!(least.is_err_and(|wait| wait < Duration::from_secs(5)));
    }

    #[test]
    fn next_calls_wait_for_an_overdrawn_token() {
        let start = Instant::now();
        let mut bucket = Bucket::new(Rate { per_second: 1.0, burst: 1.0 }, start);
        bucket.take_token(start).expect("the first");
        bucket.overdraw(start);
        assert_eq!(bucket.take_token(start), Err(Duration::from_secs(2)));
    }
}
