//! The rate limits of an account: one token bucket for each kind of call, shared by all clients of that account and
//! Region in this process. The calls of a sync are served in order, and before reads that only refresh the mirror. Each
//! call takes a token and a [`CallSlot`], which it holds while it is in flight. A group of Services waits for
//! [`AdmissionSlots`] before it reads again and makes its changes, so that the read is recent when the changes get
//! their tokens. The SDK's retries and throttles are counted and reported to the buckets.
//!
//! AWS publishes no limits of the control plane. The limits here are the defaults of AWS's own MCS controller
//! (aws-cloud-map-mcs-controller-for-k8s, pkg/cloudmap/ratelimiter.go). A call that is not listed there has the limit
//! of the most similar call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_servicediscovery::config::{ConfigBag, Intercept, RuntimeComponents, interceptors};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::orchestrator::{HttpResponse, Metadata};
use aws_smithy_runtime_api::client::retries::RequestAttempts;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::bucket::{Bucket, Priority, RateLimiter};
use crate::model::{Traffic, words};

words! {
    /// A kind of call, named after its operation in Cloud Map's API.
    pub enum Call {
        ListNamespaces = "ListNamespaces",
        ListServices = "ListServices",
        ListInstances = "ListInstances",
        ListTagsForResource = "ListTagsForResource",
        GetNamespace = "GetNamespace",
        GetService = "GetService",
        GetInstance = "GetInstance",
        GetOperation = "GetOperation",
        DiscoverInstances = "DiscoverInstances",
        CreateHttpNamespace = "CreateHttpNamespace",
        CreateService = "CreateService",
        UpdateService = "UpdateService",
        RegisterInstance = "RegisterInstance",
        DeregisterInstance = "DeregisterInstance",
    }
}

/// A rate limit: the sustained calls per second, and the calls that may be made at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    pub per_second: f64,
    pub burst: f64,
}

impl Rate {
    /// Returns the minimum time that `calls` calls take under this limit after a pause.
    pub fn forced_time(self, calls: usize) -> Duration {
        let calls = f64::from(u32::try_from(calls).unwrap_or(u32::MAX));
        Duration::from_secs_f64(((calls - self.burst) / self.per_second).max(0.0))
    }
}

impl Call {
    /// Returns the limit of an account in one Region.
    pub fn rate(self) -> Rate {
        let (per_second, burst) = match self {
            Self::ListNamespaces | Self::CreateHttpNamespace => (0.5, 5.0),
            Self::ListServices => (2.0, 10.0),
            Self::ListInstances
            | Self::ListTagsForResource
            | Self::GetNamespace
            | Self::GetService
            | Self::GetInstance => (50.0, 50.0),
            Self::GetOperation => (100.0, 200.0),
            // The only limit that AWS publishes: it is a quota.
            Self::DiscoverInstances => (1000.0, 2000.0),
            Self::CreateService | Self::UpdateService => (5.0, 50.0),
            Self::RegisterInstance | Self::DeregisterInstance => (50.0, 100.0),
        };
        Rate { per_second, burst }
    }
}

/// The limit of concurrent calls of all kinds. Each call has its own connection, and a Lambda function has 1,024 file
/// descriptors.
pub(super) const MAX_CONCURRENCY: usize = 64;
/// A rate that no caller reaches.
const UNLIMITED: Rate = Rate { per_second: 1e6, burst: 1e6 };

/// The share of an account's rate limits that this process may use, rounded to thousandths. Above 1 there is no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuotaShare(f64);

impl QuotaShare {
    /// Returns `None` if the share is not from 0.001 to 1,000,000, where 1 is the whole limit.
    pub fn new(share: f64) -> Option<Self> {
        let share = (share * 1000.0).round() / 1000.0;
        (0.001..=1e6).contains(&share).then_some(Self(share))
    }

    /// Returns the number of calls of one kind that `time` allows without the burst. A share above 1 counts as 1.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a rate is not negative"
    )]
    pub fn calls_in(self, call: Call, time: Duration) -> usize {
        let rate = Self(self.0.min(1.0)).apply_to(call.rate());
        (rate.per_second * time.as_secs_f64()).round() as usize
    }

    /// Returns the share of a rate limit.
    pub fn apply_to(self, rate: Rate) -> Rate {
        if self.0 > 1.0 {
            return UNLIMITED;
        }
        Rate { per_second: rate.per_second * self.0, burst: rate.burst * self.0 }
    }
}

impl Default for QuotaShare {
    /// One half: the limits are the account's, and other clients such as ECS use them too.
    fn default() -> Self {
        Self(0.5)
    }
}

/// The rate limits of one account in one Region.
#[derive(Debug)]
pub struct Quotas {
    limiters: BTreeMap<Call, RateLimiter>,
    admission_limits: BTreeMap<Call, AdmissionLimit>,
    concurrency: Semaphore,
    /// The calls since the start of the process, including the SDK's retries. The traffic of one invocation is the
    /// difference of two reads.
    calls: AtomicUsize,
    throttles: AtomicUsize,
}

/// Limits the calls of one kind that are planned and wait for a token. Without it, 1,000 groups would read and plan at
/// once, and the plan of the last group would be stale for most of the run.
#[derive(Debug)]
struct AdmissionLimit {
    slots: Arc<Semaphore>,
    size: u32,
}

/// The size of an admission limit, as the time in which that number of calls get their tokens.
const ADMISSION_TIME: Duration = Duration::from_millis(500);

impl AdmissionLimit {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is not negative, and the size is limited"
    )]
    fn new(rate: Rate) -> Self {
        let size = (rate.per_second * ADMISSION_TIME.as_secs_f64()).clamp(1.0, 10_000.0) as u32;
        Self { slots: Arc::new(Semaphore::new(size as usize)), size }
    }

    async fn admit(&self, calls: usize) -> AdmissionSlots {
        let calls = u32::try_from(calls).unwrap_or(u32::MAX).clamp(1, self.size);
        // The semaphore is never closed, so there is no error to handle.
        AdmissionSlots(self.slots.clone().acquire_many_owned(calls).await.ok())
    }
}

/// The slots of admitted calls, freed on drop. A caller drops a slot when the call has its token.
#[derive(Debug, Default)]
pub struct AdmissionSlots(Option<OwnedSemaphorePermit>);

impl AdmissionSlots {
    /// Splits off the slot of one call; empty if the limit was smaller than the number of calls.
    #[must_use]
    pub fn split(&mut self) -> Self {
        Self(self.0.as_mut().and_then(|slots| slots.split(1)))
    }
}

/// One of the `MAX_CONCURRENCY` slots for calls in flight. Hold it until the call has ended.
#[derive(Debug)]
pub struct CallSlot<'a> {
    _held: Option<SemaphorePermit<'a>>,
}

impl Quotas {
    pub fn new(share: QuotaShare) -> Self {
        let now = Instant::now();
        let rate = |call: Call| share.apply_to(call.rate());
        let limiter = |call| (call, RateLimiter::new(Bucket::new(rate(call), now)));
        let admission_limit = |call| (call, AdmissionLimit::new(rate(call)));
        let (calls, throttles) = Default::default();
        Self {
            limiters: Call::ALL.into_iter().map(limiter).collect(),
            admission_limits: Call::ALL.into_iter().map(admission_limit).collect(),
            concurrency: Semaphore::new(MAX_CONCURRENCY),
            calls,
            throttles,
        }
    }

    /// Waits for a token of the rate limit and a slot of the concurrency limit.
    pub(super) async fn acquire(&self, call: Call, priority: Priority) -> CallSlot<'_> {
        let limiter = &self.limiters[&call];
        CallSlot { _held: limiter.take_token_and_slot(priority, &self.concurrency).await }
    }

    /// Waits only for the rate limit, for a call that is made in the slot of another.
    pub(super) async fn wait_for_rate(&self, call: Call) {
        self.limiters[&call].take_token(Priority::InFlight).await;
    }

    /// Waits until `calls` calls of this kind are admitted, or as many as the limit allows at once.
    pub(super) async fn admit(&self, call: Call, calls: usize) -> AdmissionSlots {
        self.admission_limits[&call].admit(calls).await
    }

    /// Returns the calls and throttles since the start of this process.
    pub fn traffic(&self) -> Traffic {
        let [calls, throttles] =
            [&self.calls, &self.throttles].map(|counter| counter.load(Ordering::Relaxed));
        Traffic { calls, throttles }
    }

    pub(super) fn record_success(&self, call: Call) {
        self.limiters[&call].lock_bucket().record_success(Instant::now());
        self.limiters[&call].tokens_added.notify_waiters();
    }

    pub(super) fn record_throttle(&self, call: Call) {
        self.throttles.fetch_add(1, Ordering::Relaxed);
        self.limiters[&call].lock_bucket().record_throttle(Instant::now());
    }
}

/// Cloud Map's error codes for throttling. The SDK models them only for discovery.
pub(super) const THROTTLES: [&str; 3] =
    ["ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException"];

/// Reports every attempt of every call to the token buckets. The SDK's backoff delays only the retried call; the
/// buckets slow down the calls that follow.
#[derive(Debug)]
pub(super) struct AttemptObserver(pub(super) Arc<Quotas>);

impl Intercept for AttemptObserver {
    fn name(&self) -> &'static str {
        "CloudMapQuotas"
    }

    fn read_before_attempt(
        &self,
        _: &interceptors::BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.calls.fetch_add(1, Ordering::Relaxed);
        let is_retry =
            config.load::<RequestAttempts>().is_some_and(|attempts| attempts.attempts() > 1);
        if let Some(call) = call(config).filter(|_| is_retry) {
            self.0.limiters[&call].lock_bucket().overdraw(Instant::now());
        }
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &interceptors::FinalizerInterceptorContextRef<'_>,
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::time::sleep;

    use super::*;

    /// Returns the seconds until the last of `calls` calls has its slot.
    async fn seconds(share: QuotaShare, call: Call, calls: usize) -> u64 {
        let quotas = Quotas::new(share);
        let start = Instant::now();
        let all = (0..calls).map(|_| async {
            drop(quotas.acquire(call, Priority::Sync).await);
            quotas.record_success(call);
        });
        futures_util::future::join_all(all).await;
        start.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn calls_go_at_the_account_s_rate_times_the_share() {
        let share = |share| QuotaShare::new(share).expect("a share");
        // 90 at once and then 50 a second; 45 and 25; all at once.
        assert_eq!(seconds(share(1.0), Call::RegisterInstance, 1090).await, 20);
        assert_eq!(seconds(QuotaShare::default(), Call::RegisterInstance, 1045).await, 40);
        assert_eq!(seconds(share(1.001), Call::RegisterInstance, 100_000).await, 0);
        assert_eq!(seconds(share(1.0), Call::ListNamespaces, 14).await, 19);
    }

    #[tokio::test(start_paused = true)]
    async fn call_of_a_sync_is_served_before_reads_that_wait_to_refresh() {
        let quotas = Arc::new(Quotas::new(QuotaShare(1.0)));
        let order = Arc::new(Mutex::new(Vec::new()));
        let spawn_call = |name: &'static str, priority: Priority| {
            let quotas = quotas.clone();
            let order = order.clone();
            tokio::spawn(async move {
                drop(quotas.acquire(Call::ListInstances, priority).await);
                quotas.record_success(Call::ListInstances);
                order.lock().expect("no panic").push(name);
            })
        };
        let mut calls: Vec<_> = (0..60).map(|_| spawn_call("refresh", Priority::Refresh)).collect();
        sleep(Duration::from_millis(1)).await;
        calls.push(spawn_call("sync", Priority::Sync));
        for task in calls {
            task.await.expect("no panic");
        }
        let order = order.lock().expect("no panic");
        // The first three tokens were taken before the call of the sync arrived.
        assert_eq!(order.iter().position(|name| *name == "sync"), Some(3), "{order:?}");
        assert_eq!(order.len(), 61);
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_call_delays_no_other() {
        let quotas = Quotas::new(QuotaShare(1.0));
        let wait = Duration::from_millis(10);
        for priority in [Priority::Sync, Priority::Refresh] {
            while tokio::time::timeout(wait, quotas.acquire(Call::ListServices, priority))
                .await
                .is_ok()
            {}
        }
        let start = Instant::now();
        drop(quotas.acquire(Call::ListServices, Priority::Refresh).await);
        assert!(start.elapsed() <= Duration::from_millis(500));
    }

    /// Takes all slots, as calls that hang do.
    fn hanging_calls(quotas: &Quotas) -> Vec<SemaphorePermit<'_>> {
        std::iter::from_fn(|| quotas.concurrency.try_acquire().ok()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_waited_for_a_slot_go_at_the_rate() {
        let quotas = Quotas::new(QuotaShare(1.0));
        let hanging = hanging_calls(&quotas);
        let free_slots = async {
            sleep(Duration::from_secs(10)).await;
            drop(hanging);
            Instant::now()
        };
        let call = |_| async { drop(quotas.acquire(Call::RegisterInstance, Priority::Sync).await) };
        let calls = futures_util::future::join_all((0..200).map(call));
        let freed = futures_util::future::join(free_slots, calls).await.0;
        // 90 at once and then 50 a second.
        assert_eq!(freed.elapsed().as_secs(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn call_in_the_slot_of_another_waits_for_no_call_without_a_slot() {
        let quotas = Quotas::new(QuotaShare(1.0));
        let _hanging = hanging_calls(&quotas);
        let without_slot = quotas.acquire(Call::GetInstance, Priority::Sync);
        let mut without_slot = std::pin::pin!(without_slot);
        let wait = Duration::from_secs(1);
        assert!(tokio::time::timeout(wait, without_slot.as_mut()).await.is_err());
        let in_slot = quotas.wait_for_rate(Call::GetInstance);
        assert!(tokio::time::timeout(wait, in_slot).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn calls_of_half_a_second_are_admitted_at_once() {
        let quotas = Quotas::new(QuotaShare::default());
        let wait = Duration::from_millis(10);
        let admit = |calls| tokio::time::timeout(wait, quotas.admit(Call::RegisterInstance, calls));
        let mut all = admit(1000).await.expect("as many as fit");
        assert!(admit(1).await.is_err());
        let one = all.split();
        assert!(admit(1).await.is_err(), "the slot is not freed yet");
        drop(one);
        assert!(admit(1).await.is_ok());
        assert!(admit(2).await.is_err());
    }
}
