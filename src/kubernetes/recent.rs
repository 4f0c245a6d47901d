//! An answer of an API server about the APIs that it serves, kept for some minutes: definitions are installed, changed and
//! removed while a process is warm.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The time after which the server is asked again.
const TTL: Duration = Duration::from_mins(5);

#[derive(Debug, Default)]
pub(super) struct Recent<T>(Mutex<Option<(Instant, T)>>);

impl<T: Clone> Recent<T> {
    /// Whether there is an answer that counts without another request.
    pub(super) fn is_recent(&self) -> bool {
        self.get().is_some_and(|(asked, _)| asked.elapsed() < TTL)
    }

    /// The latest answer, of any age.
    pub(super) fn latest(&self) -> Option<T> {
        self.get().map(|(_, answer)| answer)
    }

    /// Keeps an answer, or forgets the one before.
    pub(super) fn set(&self, answer: Option<T>) {
        let answer = answer.map(|answer| (Instant::now(), answer));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }

    fn get(&self) -> Option<(Instant, T)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
