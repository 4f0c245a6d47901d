//! A priority queue before the token bucket of one kind of call. Urgent calls come before bulk calls, these before the
//! reads of the rest, and the first two before turns that have not begun, which wait at a gate. Within a priority,
//! calls are served in order of arrival: the first one polls the bucket and the others wait for its lock.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as FairMutex, Notify};
use tokio::time::{Instant, timeout};

use super::bucket::Bucket;
use super::quota::Urgency;

/// A token, which is returned when this is dropped without a call.
#[derive(Debug)]
pub struct Token(Option<Arc<PriorityQueue>>);

/// A call that waits for something else before it waits for its token.
#[derive(Debug)]
pub struct Planned<'a>(#[expect(dead_code, reason = "counted until it is dropped")] Waiting<'a>);

impl Token {
    pub(super) fn new(queue: Arc<PriorityQueue>) -> Self {
        Self(Some(queue))
    }

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
    /// By urgency.
    queues: [FairMutex<()>; 3],
    waiting: [AtomicUsize; 3],
    /// The number of calls that wait for something else first.
    planned: AtomicUsize,
    gates: [FairMutex<()>; 3],
    /// Notifies waiting calls of a token that arrives before the time that they computed.
    tokens_added: Notify,
}

impl PriorityQueue {
    pub(super) fn new(bucket: Bucket) -> Self {
        let (queues, waiting) = Default::default();
        let (bucket, planned) = (Mutex::new(bucket), AtomicUsize::new(0));
        let (gates, tokens_added) = (Default::default(), Notify::new());
        Self { bucket, queues, waiting, planned, gates, tokens_added }
    }

    pub(super) async fn take_token(&self, urgency: Urgency) {
        let index = urgency as usize;
        let _waiting = Waiting::new(&self.waiting[index]);
        let _first = self.queues[index].lock().await;
        self.take_token_unless(|| self.waiting[..index].iter().any(has_any)).await;
    }

    pub(super) fn plan(&self) -> Planned<'_> {
        Planned(Waiting::new(&self.planned))
    }

    /// Takes a token after all waiting calls of the same or a higher priority, and after all planned calls.
    pub(super) async fn take_token_last(&self, urgency: Urgency) {
        let index = urgency as usize;
        let _first = self.gates[index].lock().await;
        let has_to_yield = || has_any(&self.planned) || self.waiting[..=index].iter().any(has_any);
        self.take_token_unless(has_to_yield).await;
    }

    /// Waits for a token. While `has_to_yield` holds, a call of a higher priority is served first.
    async fn take_token_unless(&self, has_to_yield: impl Fn() -> bool) {
        loop {
            let tokens_added = self.tokens_added.notified();
            let taken = {
                let mut bucket = self.lock_bucket();
                if has_to_yield() {
                    Err(bucket.time_to_next())
                } else {
                    bucket.take_token(Instant::now())
                }
            };
            let Err(wait) = taken else { return };
            _ = timeout(wait, tokens_added).await;
        }
    }

    pub(super) fn record_success(&self) {
        self.lock_bucket().record_success(Instant::now());
        self.tokens_added.notify_waiters();
    }

    pub(super) fn lock_bucket(&self) -> MutexGuard<'_, Bucket> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn has_any(count: &AtomicUsize) -> bool {
    count.load(Ordering::Relaxed) > 0
}

/// Counts a call until this is dropped: when it has its token, or is cancelled.
#[derive(Debug)]
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
