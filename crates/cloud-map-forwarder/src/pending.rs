//! The pending messages. Changes of one Service within a short time become one message, and rejected messages are
//! retried with a backoff; a Service is pending at most once. If too many Services are pending, one message about the
//! whole cluster replaces them, which bounds the memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::backoff::pause;
use super::place::Place;

/// The time for which changes of a Service are collected before its message is sent: long enough for the slices of one
/// rollout step, short enough to send the message within a second.
const DEBOUNCE: Duration = Duration::from_millis(250);
/// The limit of pending places.
const LIMIT: usize = 10_000;
/// The pause after the first rejection; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The pending places, shared by `watch`, which adds, and `deliver`, which sends.
#[derive(Debug, Default)]
pub struct Pending {
    waiting: Mutex<Waiting>,
    added: Notify,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    pub place: Place,
    /// The time of its first change that no message has reported.
    pub since: Instant,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Each place with the time of its first change.
    places: BTreeMap<Place, Instant>,
    /// Nothing is sent before this time, since the queue rejected messages.
    pause_ends: Option<Instant>,
    refusals: u32,
}

impl Pending {
    pub fn add(&self, place: Place) {
        self.waiting().add(place, Instant::now());
        self.added.notify_one();
    }

    /// Waits until places are due, and takes at most `limit` of them, the oldest first.
    pub async fn take_due(&self, limit: usize) -> Vec<Due> {
        loop {
            let added = self.added.notified();
            let Some(next) = self.waiting().next_due() else {
                added.await;
                continue;
            };
            if next <= Instant::now() {
                return self.waiting().take_due(limit, Instant::now());
            }
            tokio::select! {
                () = sleep_until(next) => {}
                () = added => {}
            }
        }
    }

    /// Takes at most `limit` pending places, also those that are not due.
    pub fn take_all(&self, limit: usize) -> Vec<Due> {
        self.waiting().take_matching(limit, |_| true)
    }

    /// Records the result for the places that were taken. Rejected ones become pending again.
    pub fn record_result(&self, accepted: usize, refused: Vec<Due>) {
        self.waiting().record_result(accepted, refused, Instant::now());
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn add(&mut self, place: Place, since: Instant) {
        if self.places.contains_key(&Place::Cluster) {
            return;
        }
        let is_whole_cluster = place == Place::Cluster
            || self.places.len() >= LIMIT && !self.places.contains_key(&place);
        if is_whole_cluster {
            let since = self.places.values().min().copied().unwrap_or(since).min(since);
            self.places = BTreeMap::from([(Place::Cluster, since)]);
        } else {
            let known = self.places.entry(place).or_insert(since);
            *known = (*known).min(since);
        }
    }

    /// The time at which a place is due next.
    fn next_due(&self) -> Option<Instant> {
        let first = *self.places.values().min()? + DEBOUNCE;
        Some(self.pause_ends.map_or(first, |end| end.max(first)))
    }

    fn take_due(&mut self, limit: usize, now: Instant) -> Vec<Due> {
        self.take_matching(limit, |since| since + DEBOUNCE <= now)
    }

    fn take_matching(&mut self, limit: usize, is_due: impl Fn(Instant) -> bool) -> Vec<Due> {
        let due = self.places.iter().filter(|(_, since)| is_due(**since));
        let mut due: Vec<Due> =
            due.map(|(place, &since)| Due { place: place.clone(), since }).collect();
        due.sort_by_key(|due| due.since);
        due.truncate(limit);
        for Due { place, .. } in &due {
            self.places.remove(place);
        }
        due
    }

    fn record_result(&mut self, accepted: usize, refused: Vec<Due>, now: Instant) {
        let is_failure = accepted == 0 && !refused.is_empty();
        self.refusals = if is_failure { self.refusals + 1 } else { 0 };
        let pause = (!refused.is_empty()).then(|| pause(self.refusals, FIRST_PAUSE, LONGEST_PAUSE));
        self.pause_ends = pause.map(|pause| now + pause);
        for Due { place, since } in refused {
            self.add(place, since);
        }
    }
}

#[cfg(test)]
mod tests;
