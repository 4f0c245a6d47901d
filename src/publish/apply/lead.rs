//! The first registration of a Service. The others wait for its answer: another run may be at the Service.

use tokio::sync::watch;

/// The answer to the first registration.
#[derive(Debug)]
pub(super) struct Lead(watch::Sender<Option<bool>>);

impl Default for Lead {
    fn default() -> Self {
        Self(watch::channel(None).0)
    }
}

impl Lead {
    /// Records the answer to the first registration; `is_free` is whether no other run was at the same instance.
    pub(super) fn answer(&self, is_free: bool) {
        self.0.send_replace(Some(is_free));
    }

    /// Ends the wait of the others if there was no answer.
    pub(super) fn settle(&self) {
        self.0.send_if_modified(|answer| answer.is_none() && answer.replace(true).is_none());
    }

    /// Waits for the answer.
    pub(super) async fn is_free(&self) -> bool {
        let mut answers = self.0.subscribe();
        let answer = answers.wait_for(Option::is_some).await;
        answer.is_ok_and(|answer| *answer == Some(true))
    }
}
