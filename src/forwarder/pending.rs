//! What waits to be sent. Changes of one Service within a moment become one message, what the queue
//! refuses waits for another try, and however long that takes, no Service waits twice. Where too much
//! waits, the whole cluster takes its place, so memory has a bound.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::backoff::pause;
use super::place::Place;

/// How long a Service gathers changes before its message goes: long enough for the slices of one
/// rollout step, short enough to be sent within a second.
const GATHERING: Duration = Duration::from_millis(250);
/// How many places wait at most.
const LIMIT: usize = 10_000;
/// The pause after a first refusal; it doubles from there.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What waits; shared by who adds and who sends.
#[derive(Debug, Default)]
pub struct Pending {
    waiting: Mutex<Waiting>,
    added: Notify,
}

/// A place that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// Where to look.
    pub place: Place,
    /// When its first change was seen that no message told of yet.
    pub since: Instant,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Each place with the time of its first change.
    places: BTreeMap<Place, Instant>,
    /// Nothing is sent before, since the queue refused everything.
    pause_ends: Option<Instant>,
    refusals: u32,
}

impl Pending {
    /// Notes a change.
    pub fn add(&self, place: Place) {
        self.waiting().add(place, Instant::now());
        self.added.notify_one();
    }

    /// Waits until something is due, and takes at most `most` of it: what waits longest first.
    pub async fn due(&self, most: usize) -> Vec<Due> {
        loop {
            let added = self.added.notified();
            let Some(next) = self.waiting().next() else {
                added.await;
                continue;
            };
            if next <= Instant::now() {
                return self.waiting().take(most, Instant::now());
            }
            tokio::select! {
                () = sleep_until(next) => {}
                () = added => {}
            }
        }
    }

    /// Takes what waits, whether it is due or not.
    pub fn at_once(&self, most: usize) -> Vec<Due> {
        self.waiting().take_first(most, |_| true)
    }

    /// Says what the queue did with what was taken: it waits again where it was refused.
    pub fn settle(&self, accepted: usize, refused: Vec<Due>) {
        self.waiting().settle(accepted, refused, Instant::now());
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
        let whole = place == Place::Cluster
            || self.places.len() >= LIMIT && !self.places.contains_key(&place);
        if whole {
            let since = self.places.values().min().copied().unwrap_or(since).min(since);
            self.places = BTreeMap::from([(Place::Cluster, since)]);
        } else {
            let known = self.places.entry(place).or_insert(since);
            *known = (*known).min(since);
        }
    }

    /// When something is due next.
    fn next(&self) -> Option<Instant> {
        let first = *self.places.values().min()? + GATHERING;
        Some(self.pause_ends.map_or(first, |end| end.max(first)))
    }

    fn take(&mut self, most: usize, now: Instant) -> Vec<Due> {
        self.take_first(most, |since| since + GATHERING <= now)
    }

    fn take_first(&mut self, most: usize, is_due: impl Fn(Instant) -> bool) -> Vec<Due> {
        let due = self.places.iter().filter(|(_, since)| is_due(**since));
        let mut due: Vec<Due> =
            due.map(|(place, &since)| Due { place: place.clone(), since }).collect();
        due.sort_by_key(|due| due.since);
        due.truncate(most);
        for Due { place, .. } in &due {
            self.places.remove(place);
        }
        due
    }

    fn settle(&mut self, accepted: usize, refused: Vec<Due>, now: Instant) {
        let nothing = accepted == 0 && !refused.is_empty();
        self.refusals = if nothing { self.refusals + 1 } else { 0 };
        let pause = (!refused.is_empty()).then(|| pause(self.refusals, FIRST_PAUSE, LONGEST_PAUSE));
        self.pause_ends = pause.map(|pause| now + pause);
        for Due { place, since } in refused {
            self.add(place, since);
        }
    }
}

#[cfg(test)]
mod tests;
