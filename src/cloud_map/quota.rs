//! Permits to make calls within the rate limits of an account: one token bucket for each kind of call, shared by all
//! clients of that account and Region in this process. Urgent calls come first; otherwise calls are served in order.
//! The SDK's retries and throttles are reported to the buckets, and counted.
//!
//! AWS publishes no limits of the control plane: these are the default limits of its own MCS controller
//! (aws-cloud-map-mcs-controller-for-k8s, pkg/cloudmap/ratelimiter.go). A call that is not listed there has the limit of the
//! most similar call.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_sdk_servicediscovery::config::interceptors::{
    BeforeTransmitInterceptorContextRef, FinalizerInterceptorContextRef,
};
use aws_sdk_servicediscovery::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::orchestrator::{HttpResponse, Metadata};
use aws_smithy_runtime_api::client::retries::RequestAttempts;
use tokio::sync::{Mutex as FairMutex, Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

use crate::model::{Traffic, words};

words! {
    /// One kind of call, by the name of its operation in Cloud Map.
    pub enum Call {
        ListNamespaces = "ListNamespaces",
        ListServices = "ListServices",
        ListInstances = "ListInstances",
        ListTagsForResource = "ListTagsForResource",
        GetNamespace = "GetNamespace",
        GetService = "GetService",
        GetInstance = "GetInstance",
        GetInstancesHealthStatus = "GetInstancesHealthStatus",
        GetServiceAttributes = "GetServiceAttributes",
        GetOperation = "GetOperation",
        DiscoverInstances = "DiscoverInstances",
        CreateHttpNamespace = "CreateHttpNamespace",
        CreateService = "CreateService",
        UpdateService = "UpdateService",
        UpdateServiceAttributes = "UpdateServiceAttributes",
        DeleteServiceAttributes = "DeleteServiceAttributes",
        DeleteService = "DeleteService",
        RegisterInstance = "RegisterInstance",
        DeregisterInstance = "DeregisterInstance",
        UpdateInstanceCustomHealthStatus = "UpdateInstanceCustomHealthStatus",
    }
}

/// A rate limit: calls per second over time, and at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    pub per_second: f64,
    pub burst: f64,
}

impl Rate {
    /// The time that the limit alone forces on a number of calls after a pause.
    pub fn forced_time(self, calls: usize) -> Duration {
        let calls = f64::from(u32::try_from(calls).unwrap_or(u32::MAX));
        Duration::from_secs_f64(((calls - self.burst) / self.per_second).max(0.0))
    }
}

impl Call {
    /// The limit of an account in one Region.
    pub fn rate(self) -> Rate {
        let (per_second, burst) = match self {
            Self::ListNamespaces | Self::CreateHttpNamespace => (0.5, 5.0),
            Self::ListServices => (2.0, 10.0),
            Self::ListInstances
            | Self::ListTagsForResource
            | Self::GetNamespace
            | Self::GetService
            | Self::GetInstance
            | Self::GetInstancesHealthStatus
            | Self::GetServiceAttributes => (50.0, 50.0),
            Self::GetOperation => (100.0, 200.0),
            // The only limit that AWS publishes, as a quota.
            Self::DiscoverInstances => (1000.0, 2000.0),
            Self::CreateService
            | Self::UpdateService
            | Self::UpdateServiceAttributes
            | Self::DeleteServiceAttributes
            | Self::DeleteService => (5.0, 50.0),
            Self::RegisterInstance
            | Self::DeregisterInstance
            | Self::UpdateInstanceCustomHealthStatus => (50.0, 100.0),
        };
        Rate { per_second, burst }
    }
}

/// The concurrency limit of all calls together. Each has its own connection, and a function on Lambda has 1,024 file
/// descriptors.
pub(super) const MAX_CONCURRENCY: usize = 64;
/// A rate beyond reach.
const UNLIMITED: Rate = Rate { per_second: 1e6, burst: 1e6 };

/// The share of an account's rate limits that this process may use, in whole thousandths. Above 1 there is no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuotaShare(f64);

impl QuotaShare {
    /// Returns `None` if the share is not from 0.001 to 1,000,000, where 1 is the whole limit.
    pub fn new(share: f64) -> Option<Self> {
        let share = (share * 1000.0).round() / 1000.0;
        (0.001..=1e6).contains(&share).then_some(Self(share))
    }

    /// The number of calls of one kind in a time, over a longer time: at most those that the account allows.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a rate is not negative"
    )]
    pub fn calls_in(self, call: Call, time: Duration) -> usize {
        let rate = Self(self.0.min(1.0)).apply_to(call.rate());
        (rate.per_second * time.as_secs_f64()).round() as usize
    }

    fn apply_to(self, rate: Rate) -> Rate {
        if self.0 > 1.0 {
            return UNLIMITED;
        }
        Rate { per_second: rate.per_second * self.0, burst: rate.burst * self.0 }
    }
}

impl Default for QuotaShare {
    /// One half: the limits are those of the account, and ECS uses them too.
    fn default() -> Self {
        Self(0.5)
    }
}

/// The priority of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// A targeted sync, or a full sync with few changes.
    Urgent,
    /// A full sync with many changes.
    Bulk,
    /// Reads by which a full sync finds what it does not know of.
    Rest,
}

impl Urgency {
    pub(super) const PRIORITIES: usize = 6;

    /// The priority of the first call of a turn. A turn ends before the next one begins: the plan of a turn that has begun
    /// grows old, and other runs meet it.
    pub(super) fn first_call(self) -> usize {
        2 * self as usize + 1
    }

    /// The priority of all other calls.
    pub(super) fn later_calls(self) -> usize {
        2 * self as usize
    }
}

/// The rate limits of one account in one Region.
#[derive(Debug)]
pub struct Quotas {
    pub(super) queues: BTreeMap<Call, Arc<PriorityQueue>>,
    concurrency: Semaphore,
    /// The calls since the start of the process, including the retries of the SDK; the traffic of one invocation is a
    /// difference of two reads.
    calls: AtomicUsize,
    throttles: AtomicUsize,
}

/// A permit to make one call; held until the call has ended.
#[derive(Debug)]
pub struct Permit<'a> {
    _held: Option<SemaphorePermit<'a>>,
}

impl Quotas {
    pub fn new(share: QuotaShare) -> Self {
        let now = Instant::now();
        let queue = |call: Call| {
            (call, Arc::new(PriorityQueue::new(Bucket::new(share.apply_to(call.rate()), now))))
        };
        let queues = Call::ALL.into_iter().map(queue).collect();
        let (calls, throttles) = Default::default();
        Self { queues, concurrency: Semaphore::new(MAX_CONCURRENCY), calls, throttles }
    }

    /// The permit for a call that has its token.
    pub(super) async fn permit_with(&self, token: Token) -> Permit<'_> {
        // The semaphore is never closed, so there is no error to handle.
        let held = self.concurrency.acquire().await.ok();
        token.spend();
        Permit { _held: held }
    }

    /// Waits for the rate limit only, not for the concurrency limit.
    pub(super) async fn token(&self, call: Call, priority: usize) -> Token {
        let queue = self.queues[&call].clone();
        queue.take_token(priority).await;
        Token(Some(queue))
    }

    /// The calls of this process since its start.
    pub fn traffic(&self) -> Traffic {
        let [calls, throttles] =
            [&self.calls, &self.throttles].map(|it| it.load(Ordering::Relaxed));
        Traffic { calls, throttles }
    }

    pub(super) fn record_success(&self, call: Call) {
        self.queues[&call].lock_bucket().record_success(Instant::now());
        self.queues[&call].tokens_added.notify_waiters();
    }

    pub(super) fn record_throttle(&self, call: Call) {
        self.throttles.fetch_add(1, Ordering::Relaxed);
        self.queues[&call].lock_bucket().record_throttle(Instant::now());
    }
}

/// Cloud Map's error codes of throttling. The SDK models them for discovery only.
pub(super) const THROTTLES: [&str; 3] =
    ["ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException"];

/// Reports every attempt of every call to the token buckets. The SDK's backoff delays one call; the buckets slow down
/// the calls that follow.
#[derive(Debug)]
pub(super) struct AttemptObserver(pub(super) Arc<Quotas>);

impl Intercept for AttemptObserver {
    fn name(&self) -> &'static str {
        "CloudMapQuotas"
    }

    fn read_before_attempt(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.calls.fetch_add(1, Ordering::Relaxed);
        let is_retry = config.load::<RequestAttempts>().is_some_and(|it| it.attempts() > 1);
        if let Some(call) = call(config).filter(|_| is_retry) {
            self.0.queues[&call].lock_bucket().overdraw(Instant::now());
        }
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        match (call(config), context.response()) {
            (Some(call), Some(response)) if is_throttle(response) => self.0.record_throttle(call),
            (Some(call), Some(_)) => self.0.record_success(call),
            _ => {}
        }
        Ok(())
    }
}

fn call(config: &ConfigBag) -> Option<Call> {
    Call::parse(config.load::<Metadata>()?.name())
}

fn is_throttle(response: &HttpResponse) -> bool {
    let has_code = |text: &str| THROTTLES.iter().any(|throttle| text.contains(throttle));
    !response.status().is_success()
        && response.body().bytes().is_some_and(|body| has_code(&String::from_utf8_lossy(body)))
}

// The token bucket of one kind of call. It refills at a rate up to a burst, and each call takes a token.
//
// A new process does not know how much of the account's burst is left. It starts with a few tokens and calls at twice
// the rate until it has used the burst or is throttled. Other clients of the account can cause a throttle too: the
// first one discards the assumed burst, later ones halve the rate, which then recovers.
//
// Before the bucket is a priority queue. Urgent calls come before bulk calls, these before the reads of the rest, and of
// each urgency the calls of turns that have begun before the first calls of others. Within a priority, calls are served
// in order of arrival: the first one polls the bucket and the others wait for its lock.

/// The part of the burst that is used. Calls arrive closer together than they are sent, so a reserve is needed.
const BURST_SHARE: f64 = 0.9;
/// The tokens of a new bucket. The replies to these calls show whether more of the burst is left.
const INITIAL_TOKENS: f64 = 2.0;
/// How many assumed tokens of the burst a successful call releases. With one half, calls go at twice the rate, and few
/// are in flight when a throttle ends the burst.
const TOKENS_PER_SUCCESS: f64 = 0.5;
/// The resolution of tokio's timers.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
/// Concurrent calls are throttled for the same cause, so throttles within this time count once.
const THROTTLE_WINDOW: Duration = Duration::from_secs(1);
/// The rate never falls below this part of the full rate.
const MIN_RATE_SHARE: f64 = 1.0 / 16.0;
/// The time in which the rate recovers from zero to the full rate.
const RECOVERY_TIME: Duration = Duration::from_secs(20);

#[derive(Debug)]
struct Bucket {
    full_rate: Rate,
    per_second: f64,
    tokens: f64,
    /// Tokens of the burst that are left if no other client of the account has used them.
    unproven: f64,
    refilled: Instant,
    last_throttle: Option<Instant>,
}

impl Bucket {
    /// Assumes a full burst, of which the first calls have to show that it is left.
    fn new(rate: Rate, now: Instant) -> Self {
        let full_rate = Rate { burst: (rate.burst * BURST_SHARE).max(1.0), ..rate };
        let (per_second, tokens) = (full_rate.per_second, full_rate.burst.min(INITIAL_TOKENS));
        let unproven = full_rate.burst - tokens;
        Self { full_rate, per_second, tokens, unproven, refilled: now, last_throttle: None }
    }

    /// # Errors
    /// Returns the time until the next token if there is none.
    fn take_token(&mut self, now: Instant) -> Result<(), Duration> {
        self.refill(now);
        let missing = 1.0 - self.tokens;
        if missing > 0.0 {
            let wait = Duration::from_secs_f64(missing / self.per_second);
            return Err(wait.max(SHORTEST_WAIT));
        }
        self.tokens -= 1.0;
        Ok(())
    }

    fn time_to_next(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.per_second).max(SHORTEST_WAIT)
    }

    /// Takes a token for a call that does not wait for one, such as a retry of the SDK. The balance may become
    /// negative.
    fn overdraw(&mut self, now: Instant) {
        self.refill(now);
        self.tokens -= 1.0;
    }

    /// Returns a token that was taken and not used.
    fn return_token(&mut self) {
        self.tokens = (self.tokens + 1.0).min(self.full_rate.burst);
    }

    /// A call was not throttled, so more of the burst may be left.
    fn record_success(&mut self, now: Instant) {
        self.refill(now);
        let proven = self.unproven.min(TOKENS_PER_SUCCESS);
        self.unproven -= proven;
        self.tokens += proven;
    }

    /// A call was throttled. If tokens were left, other clients of the account have used them; if none were, the rate
    /// is too high.
    fn record_throttle(&mut self, now: Instant) {
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

/// A token, which is returned when this is dropped without a call.
#[derive(Debug)]
pub struct Token(Option<Arc<PriorityQueue>>);

impl Token {
    /// A call is made with it.
    pub(super) fn spend(mut self) {
        self.0 = None;
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        if let Some(queue) = &self.0 {
            queue.lock_bucket().return_token();
            queue.tokens_added.notify_waiters();
        }
    }
}

/// A token bucket with the calls that wait for it.
#[derive(Debug)]
pub(super) struct PriorityQueue {
    bucket: Mutex<Bucket>,
    /// By priority, the highest first.
    queues: [FairMutex<()>; Urgency::PRIORITIES],
    waiting: [AtomicUsize; Urgency::PRIORITIES],
    /// Notifies waiting calls of a token that arrives before the time that they computed.
    tokens_added: Notify,
}

impl PriorityQueue {
    fn new(bucket: Bucket) -> Self {
        let (queues, waiting) = Default::default();
        Self { bucket: Mutex::new(bucket), queues, waiting, tokens_added: Notify::new() }
    }

    /// Counts a call of this priority that waits for something else first.
    pub(super) fn plan(&self, priority: usize) -> Waiting<'_> {
        self.waiting[priority].fetch_add(1, Ordering::Relaxed);
        Waiting(&self.waiting[priority])
    }

    /// Waits for a token. While calls of a higher priority wait, one of them is served first.
    async fn take_token(&self, priority: usize) {
        let _waiting = self.plan(priority);
        let _first = self.queues[priority].lock().await;
        loop {
            let tokens_added = self.tokens_added.notified();
            let taken = {
                let mut bucket = self.lock_bucket();
                if self.waiting[..priority].iter().any(|it| it.load(Ordering::Relaxed) > 0) {
                    Err(bucket.time_to_next())
                } else {
                    bucket.take_token(Instant::now())
                }
            };
            let Err(wait) = taken else { return };
            _ = timeout(wait, tokens_added).await;
        }
    }

    fn lock_bucket(&self) -> MutexGuard<'_, Bucket> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a call until this is dropped: when it has its token, or is cancelled.
#[derive(Debug)]
pub struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    /// The seconds until the last of this number of calls has its permit.
    async fn seconds(share: QuotaShare, call: Call, calls: usize) -> u64 {
        let (quotas, start) = (Quotas::new(share), Instant::now());
        let all = (0..calls).map(|_| async {
            let token = quotas.token(call, Urgency::Bulk.later_calls()).await;
            drop(quotas.permit_with(token).await);
            quotas.record_success(call);
        });
        futures_util::future::join_all(all).await;
        start.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn calls_go_at_the_account_s_rate_times_the_share() {
        let share = |share| QuotaShare::new(share).expect("a share");
        // 90 at once and 50 a second; 45 and 25; all at once.
        assert_eq!(seconds(share(1.0), Call::RegisterInstance, 1090).await, 20);
        assert_eq!(seconds(QuotaShare::default(), Call::RegisterInstance, 1045).await, 40);
        assert_eq!(seconds(share(1.001), Call::RegisterInstance, 100_000).await, 0);
        assert_eq!(seconds(share(1.0), Call::ListNamespaces, 14).await, 19);
    }

    #[tokio::test(start_paused = true)]
    async fn urgent_call_is_served_before_waiting_bulk_calls() {
        let quotas = Arc::new(Quotas::new(QuotaShare(1.0)));
        let order = Arc::new(Mutex::new(Vec::new()));
        let spawn_call = |name: &'static str, urgency: Urgency| {
            let (quotas, order) = (quotas.clone(), order.clone());
            tokio::spawn(async move {
                quotas.token(Call::CreateService, urgency.later_calls()).await.spend();
                quotas.record_success(Call::CreateService);
                order.lock().expect("no panic").push(name);
            })
        };
        let mut calls: Vec<_> = (0..60).map(|_| spawn_call("bulk", Urgency::Bulk)).collect();
        sleep(std::time::Duration::from_millis(1)).await;
        calls.push(spawn_call("urgent", Urgency::Urgent));
        for task in calls {
            task.await.expect("no panic");
        }
        let order = order.lock().expect("no panic");
        // The first tokens were taken before it arrived.
        assert_eq!(order.iter().position(|name| *name == "urgent"), Some(3), "{order:?}");
        assert_eq!(order.len(), 61);
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_call_delays_no_other() {
        let quotas = Quotas::new(QuotaShare(1.0));
        let wait = std::time::Duration::from_millis(10);
        for urgency in [Urgency::Urgent, Urgency::Bulk] {
            while let Ok(token) =
                tokio::time::timeout(wait, quotas.token(Call::ListServices, urgency.later_calls()))
                    .await
            {
                token.spend();
            }
        }
        let start = Instant::now();
        quotas.token(Call::ListServices, Urgency::Bulk.later_calls()).await.spend();
        assert!(start.elapsed() <= std::time::Duration::from_millis(500));
    }

    const TEN_A_SECOND: Rate = Rate { per_second: 10.0, burst: 20.0 };

    /// The number of calls that a bucket allows in `seconds` from `start`, with a try every millisecond.
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

    /// Takes all tokens.
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
