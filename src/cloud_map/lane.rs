//! The calls of one kind that wait for the rate: the first of each urgency asks, the others stand behind, and the turns
//! that have not begun come last.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as Queue, Notify};
use tokio::time::{Instant, timeout};

use super::bucket::Bucket;
use super::quota::Urgency;

/// A call that the rate allows, kept while it is decided whether it is made.
#[derive(Debug)]
pub struct Gate(Arc<Lane>);

/// A call that waits for something else than its rate.
#[derive(Debug)]
pub struct Planned<'a>(
    #[expect(dead_code, reason = "it is counted until it is dropped")] Waiting<'a>,
);

impl Gate {
    /// The gate of a lane in which a call was let through.
    pub(super) fn new(lane: Arc<Lane>) -> Self {
        Self(lane)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.0.bucket().give_back();
        self.0.more.notify_waiters();
    }
}

/// A bucket and who waits at it: of each urgency the first one asks, the others stand behind.
#[derive(Debug)]
pub(super) struct Lane {
    bucket: Mutex<Bucket>,
    urgent: Queue<()>,
    bulk: Queue<()>,
    urgent_waiting: AtomicUsize,
    bulk_waiting: AtomicUsize,
    /// How many calls are planned and do not wait at the bucket yet.
    planned: AtomicUsize,
    gates: [Queue<()>; 2],
    /// Tells those who wait that there may be a token earlier than they thought.
    more: Notify,
}

impl Lane {
    pub(super) fn new(bucket: Bucket) -> Self {
        let (urgent, bulk) = (Queue::default(), Queue::default());
        let (urgent_waiting, bulk_waiting) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (bucket, planned) = (Mutex::new(bucket), AtomicUsize::new(0));
        let (gates, more) = (Default::default(), Notify::new());
        Self { bucket, urgent, bulk, urgent_waiting, bulk_waiting, planned, gates, more }
    }

    pub(super) async fn take(&self, urgency: Urgency) {
        let _waiting = Waiting::new(match urgency {
            Urgency::Urgent => &self.urgent_waiting,
            Urgency::Bulk => &self.bulk_waiting,
        });
        let _first = match urgency {
            Urgency::Urgent => self.urgent.lock().await,
            Urgency::Bulk => self.bulk.lock().await,
        };
        let gives_way = || urgency == Urgency::Bulk && is_any(&self.urgent_waiting);
        self.take_unless(gives_way).await;
    }

    /// Counts a call that waits for something else first.
    pub(super) fn plan(&self) -> Planned<'_> {
        Planned(Waiting::new(&self.planned))
    }

    /// Takes a token after all calls of the same or of a higher urgency that wait, and those that are planned.
    pub(super) async fn enter(&self, urgency: Urgency) {
        let _first = self.gates[usize::from(urgency == Urgency::Bulk)].lock().await;
        let gives_way = || {
            let is_bulk = urgency == Urgency::Bulk;
            let before = [&self.urgent_waiting, &self.planned];
            before.into_iter().any(is_any) || is_bulk && is_any(&self.bulk_waiting)
        };
        self.take_unless(gives_way).await;
    }

    /// Waits for a token, and lets those go by for which others come first.
    async fn take_unless(&self, gives_way: impl Fn() -> bool) {
        loop {
            let more = self.more.notified();
            let taken = {
                let mut bucket = self.bucket();
                if gives_way() { Err(bucket.time_to_next()) } else { bucket.take(Instant::now()) }
            };
            let Err(wait) = taken else { return };
            _ = timeout(wait, more).await;
        }
    }

    pub(super) fn passed(&self) {
        self.bucket().passed(Instant::now());
        self.more.notify_waiters();
    }

    pub(super) fn bucket(&self) -> MutexGuard<'_, Bucket> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_any(count: &AtomicUsize) -> bool {
    count.load(Ordering::Relaxed) > 0
}

/// Counts a caller until it goes on, or gives up.
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
