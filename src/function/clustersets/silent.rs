//! The clusters that have just not answered. A change of another cluster's exports does not wait for them again: they
//! import it in their next full sync, as if they had failed in this run. Only this process knows of them, for some
//! minutes, and no plan rests on that.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::report::Obstacle;

/// A failure that takes less time is no delay: a cluster that denies a right is asked in each run.
const LONG: Duration = Duration::from_secs(2);
/// The time after which such a cluster is asked again if no full sync has asked it before.
const ASKED_AGAIN_AFTER: Duration = Duration::from_mins(5);

/// When each of them failed, by the cluster's index in the settings.
#[derive(Debug, Default)]
pub(in crate::function) struct Silent(Mutex<BTreeMap<usize, Instant>>);

impl Silent {
    /// Notes that a cluster answered, or failed, after it was asked at `asked`.
    pub(super) fn note(&self, index: usize, asked: Instant, has_failed: bool) {
        let mut silent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if has_failed && asked.elapsed() >= LONG {
            silent.insert(index, Instant::now());
        } else {
            silent.remove(&index);
        }
    }

    /// The reason not to ask a cluster now.
    pub(super) fn obstacle(&self, index: usize) -> Option<Obstacle> {
        let silent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ago = silent.get(&index)?.elapsed();
        (ago < ASKED_AGAIN_AFTER).then(|| Obstacle {
            reason: "Unreadable".into(),
            detail: format!(
                "it did not answer {} s ago; it is asked again by its full sync, or after {} minutes",
                ago.as_secs(),
                ASKED_AGAIN_AFTER.as_secs() / 60
            ),
            failed: true,
        })
    }
}
