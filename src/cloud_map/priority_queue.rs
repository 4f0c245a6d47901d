//! A priority queue before the token bucket of one kind of call. Urgent calls come before bulk calls, these before the
//! reads of the rest, and of each urgency the calls of turns that have begun before the first calls of others. Within a
//! priority, calls are served in order of arrival: the first one polls the bucket and the others wait for its lock.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as FairMutex, Notify};
use tokio::time::{Instant, timeout};

use super::bucket::Bucket;
use super::quota::Urgency;

/// A token, which is returned when this is dropped without a call.
#[derive(Debug)]
pub struct Token(Option<Arc<PriorityQueue>>);

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
    /// By priority, the highest first.
    queues: [FairMutex<()>; Urgency::PRIORITIES],
    waiting: [AtomicUsize; Urgency::PRIORITIES],
    /// Notifies waiting calls of a token that arrives before the time that they computed.
    tokens_added: Notify,
}

impl PriorityQueue {
    pub(super) fn new(bucket: Bucket) -> Self {
        let (queues, waiting) = Default::default();
        Self { bucket: Mutex::new(bucket), queues, waiting, tokens_added: Notify::new() }
    }

    /// Counts a call of this priority that waits for something else first.
    pub(super) fn plan(&self, priority: usize) -> Waiting<'_> {
        Waiting::new(&self.waiting[priority])
    }

    /// Waits for a token. While calls of a higher priority wait, one of them is served first.
    pub(super) async fn take_token(&self, priority: usize) {
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

    pub(super) fn record_success(&self) {
        self.lock_bucket().record_success(Instant::now());
        self.tokens_added.notify_waiters();
    }

    pub(super) fn lock_bucket(&self) -> MutexGuard<'_, Bucket> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a call until this is dropped: when it has its token, or is cancelled.
#[derive(Debug)]
pub struct Waiting<'a>(&'a AtomicUsize);

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
