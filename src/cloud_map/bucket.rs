//! The token bucket of one kind of call. It fills at a rate, up to a burst; a call takes a token. A new process does
//! not know what others, or the process before it, have left of the account's burst: it begins with a few tokens, and
//! goes at twice the rate until it has used the burst or is throttled. Where Cloud Map throttles all the same, since
//! others make calls too, first the burst is taken for gone, and then the rate is halved and grows back.

use std::time::Duration;

use tokio::time::Instant;

use super::call::Rate;

/// So much of the burst is used. Calls arrive closer together than they were sent; what is left makes up for it.
const USED: f64 = 0.9;
/// With so many tokens a new bucket begins: their answers tell whether there are more.
const FIRST: f64 = 2.0;
/// So many more an answer tells of. At a half, calls go at twice the rate, and few are under way when a throttle ends it.
const MORE: f64 = 0.5;
/// Timers tell no shorter times apart.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
/// A throttle tells of others, and calls that are under way tell of the same: it counts once in this time.
const COUNTED_ONCE_IN: Duration = Duration::from_secs(1);
/// The rate is never less than this part of the whole.
const LEAST: f64 = 1.0 / 16.0;
/// The time in which the whole rate would grow back from nothing.
const RECOVERY: Duration = Duration::from_secs(20);

/// The tokens of one kind of call.
#[derive(Debug)]
pub(super) struct Bucket {
    whole: Rate,
    per_second: f64,
    tokens: f64,
    /// Tokens of the burst that are there if nobody else has used them.
    unproven: f64,
    filled: Instant,
    throttled: Option<Instant>,
}

impl Bucket {
    /// A bucket that may be full.
    pub(super) fn new(rate: Rate, now: Instant) -> Self {
        let whole = Rate { burst: (rate.burst * USED).max(1.0), ..rate };
        let (per_second, tokens) = (whole.per_second, whole.burst.min(FIRST));
        let unproven = whole.burst - tokens;
        Self { whole, per_second, tokens, unproven, filled: now, throttled: None }
    }

    /// Takes a token.
    ///
    /// # Errors
    /// Where there is none, the time until there may be one.
    pub(super) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        self.fill(now);
        let missing = 1.0 - self.tokens;
        if missing > 0.0 {
            let wait = Duration::from_secs_f64(missing / self.per_second);
            return Err(wait.max(SHORTEST_WAIT));
        }
        self.tokens -= 1.0;
        Ok(())
    }

    /// The time until there may be a token.
    pub(super) fn time_to_next(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.per_second).max(SHORTEST_WAIT)
    }

    /// Takes a token for a call that is made in any case; the next ones wait the longer.
    pub(super) fn owe(&mut self, now: Instant) {
        self.fill(now);
        self.tokens -= 1.0;
    }

    /// Gives a token back that was taken for a call and not used.
    pub(super) fn give_back(&mut self) {
        self.tokens = (self.tokens + 1.0).min(self.whole.burst);
    }

    /// A call was let pass: there was a token, and there may be more.
    pub(super) fn passed(&mut self, now: Instant) {
        self.fill(now);
        let more = self.unproven.min(MORE);
        self.unproven -= more;
        self.tokens += more;
    }

    /// A call was throttled. Where tokens were left, others have used them; where none were, the rate is too high.
    pub(super) fn throttled(&mut self, now: Instant) {
        self.fill(now);
        if self.throttled.is_some_and(|throttled| now - throttled < COUNTED_ONCE_IN) {
            return;
        }
        self.throttled = Some(now);
        if self.tokens + self.unproven < 1.0 {
            self.per_second = (self.per_second / 2.0).max(self.whole.per_second * LEAST);
        }
        self.unproven = 0.0;
        self.tokens = self.tokens.min(self.whole.burst * (1.0 - 1.0 / USED));
    }

    fn fill(&mut self, now: Instant) {
        let time = now.saturating_duration_since(self.filled);
        self.filled = self.filled.max(now);
        self.tokens = (self.tokens + time.as_secs_f64() * self.per_second).min(self.whole.burst);
        self.unproven = self.unproven.min(self.whole.burst - self.tokens);
        let grown = self.whole.per_second * time.as_secs_f64() / RECOVERY.as_secs_f64();
        self.per_second = (self.per_second + grown).min(self.whole.per_second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN_A_SECOND: Rate = Rate { per_second: 10.0, burst: 20.0 };

    /// How many calls a bucket allows in so many seconds from `start`, asked for every millisecond.
    fn allowed(bucket: &mut Bucket, start: Instant, seconds: u64) -> usize {
        let moments = (1..=seconds * 1000).map(|ms| start + Duration::from_millis(ms));
        moments.map(|now| std::iter::from_fn(|| bucket.take(now).ok()).count()).sum()
    }

    /// A bucket all of whose burst is known to be there.
    fn full(start: Instant) -> Bucket {
        let mut bucket = Bucket::new(TEN_A_SECOND, start);
        (0..100).for_each(|_| bucket.passed(start));
        bucket
    }

    /// Takes all that there is.
    fn drain(bucket: &mut Bucket, now: Instant) -> usize {
        std::iter::from_fn(|| bucket.take(now).ok()).count()
    }

    /// A bucket all of whose burst was there, and was taken.
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
        assert!(bucket.take(start + Duration::from_secs(10)).is_err());
    }

    #[test]
    fn a_new_bucket_goes_at_twice_the_rate_until_it_has_used_its_burst() {
        let start = Instant::now();
        let mut bucket = Bucket::new(TEN_A_SECOND, start);
        assert_eq!(drain(&mut bucket, start), 2);
        let mut calls = 2;
        let mut after = |ms: u64| {
            // What was taken is answered at the next moment.
            let now = start + Duration::from_millis(ms);
            (0..std::mem::take(&mut calls)).for_each(|_| bucket.passed(now));
            calls = drain(&mut bucket, now);
            calls
        };
        let first: usize = (1..=1000).map(&mut after).sum();
        assert!((19..=21).contains(&first), "{first} in the first second");
        let all = 2 + first + (1001..=10_000).map(&mut after).sum::<usize>();
        assert!((116..=118).contains(&all), "{all} in ten seconds");
    }

    #[test]
    fn burst_that_others_have_used_is_waited_for_and_the_rate_stays() {
        let start = Instant::now();
        let mut bucket = Bucket::new(TEN_A_SECOND, start);
        for _ in 0..50 {
            bucket.throttled(start);
        }
        bucket.passed(start);
        let all = allowed(&mut bucket, start, 2);
        assert!((17..=18).contains(&all), "{all} calls in two seconds");
    }

    #[test]
    fn a_throttle_halves_the_rate_once_however_many_calls_it_meets_and_it_grows_back() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut bucket = empty(start);
        for _ in 0..50 {
            bucket.throttled(start);
        }
        let first = allowed(&mut bucket, start, 2);
        assert!((8..=9).contains(&first), "{first} calls in the first two seconds");
        allowed(&mut bucket, after(2), 8);
        let recovered = allowed(&mut bucket, after(10), 2);
        assert!((19..=20).contains(&recovered), "{recovered} in two seconds, ten seconds later");
    }

    #[test]
    fn a_rate_that_is_halved_again_and_again_never_ends() {
        let start = Instant::now();
        let mut bucket = empty(start);
        for second in 0..100 {
            let now = start + Duration::from_secs(second);
            drain(&mut bucket, now);
            bucket.throttled(now);
        }
        let least = bucket.take(start + Duration::from_secs(100));
        assert!(least.is_err_and(|wait| wait < Duration::from_secs(5)));
    }

    #[test]
    fn what_is_owed_the_next_calls_wait_for() {
        let start = Instant::now();
        let mut bucket = Bucket::new(Rate { per_second: 1.0, burst: 1.0 }, start);
        bucket.take(start).expect("the first");
        bucket.owe(start);
        assert_eq!(bucket.take(start), Err(Duration::from_secs(2)));
    }
}
