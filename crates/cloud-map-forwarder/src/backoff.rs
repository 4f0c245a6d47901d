//! The backoff between attempts: pauses double with each failure, up to a maximum. `watch` and `pending` use it.

use std::time::Duration;

use kube::runtime::utils::Backoff;
use tokio::time::Instant;

/// The pause after a number of consecutive failures.
pub(super) fn pause(failures: u32, first: Duration, longest: Duration) -> Duration {
    let doubled = first * 2_u32.pow(failures.saturating_sub(1).min(10));
    doubled.min(longest)
}

/// The backoff of one watch. kube resets a backoff after each successful response, and a watch that cannot list starts
/// with one each time. So the count of failures is kept until a quiet time without any.
#[derive(Debug, Default)]
pub(super) struct WatchBackoff {
    failures: u32,
    last: Option<Instant>,
}

impl WatchBackoff {
    const FIRST: Duration = Duration::from_millis(250);
    const LONGEST: Duration = Duration::from_secs(5);
    /// Longer than the longest pause and the connect timeout.
    const QUIET: Duration = Duration::from_secs(20);
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        if self.last.is_some_and(|last| last.elapsed() > Self::QUIET) {
            self.failures = 0;
        }
        self.failures += 1;
        self.last = Some(Instant::now());
        Some(pause(self.failures, Self::FIRST, Self::LONGEST))
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_double_up_to_the_maximum_until_a_quiet_time() {
        let mut backoff = WatchBackoff::default();
        let mut pauses = Vec::new();
        for _ in 0..7 {
            let pause = backoff.next().expect("it never gives up");
            pauses.push(pause.as_millis());
            backoff.reset();
            tokio::time::advance(pause + Duration::from_secs(5)).await;
        }
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 5000, 5000]);
        tokio::time::advance(WatchBackoff::QUIET).await;
        assert_eq!(backoff.next(), Some(WatchBackoff::FIRST));
    }
}
