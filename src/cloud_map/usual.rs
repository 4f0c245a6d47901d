//! How long operations usually take, learnt from those that have ended, so that an operation is asked for when it
//! has probably ended and not before. Until one has ended, one is looked at for all that wait.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as Queue, MutexGuard as Scout};
use tokio::time::{Instant, sleep_until};

/// The first look where nothing is known.
const FIRST_LOOK: Duration = Duration::from_millis(100);
/// How much later to look again where nothing is known.
const AGAIN: f64 = 1.5;
/// The longest pause between two looks.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How far the usual time follows an operation that took longer, and one that took less: three quarters of them
/// end within it.
const LONGER: f64 = 0.3;
const SHORTER: f64 = 0.1;
/// A look comes so much later than the usual time.
const MARGIN: f64 = 1.1;

/// What is known of one kind of operation.
#[derive(Debug)]
pub(super) struct Usual {
    known: Mutex<Known>,
    scout: Queue<()>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    /// The usual time; where none has ended, what they take at least.
    time: Duration,
    is_learnt: bool,
}

impl Default for Usual {
    fn default() -> Self {
        let known = Known { time: FIRST_LOOK, is_learnt: false };
        Self { known: Mutex::new(known), scout: Queue::default() }
    }
}

impl Usual {
    /// Waits until an operation that was accepted at `start` has probably ended. Whoever gets a guard looks for all
    /// others, who wait for what comes of it.
    pub(super) async fn first_look(&self, start: Instant) -> Option<Scout<'_, ()>> {
        loop {
            sleep_until(start + self.now_known().time).await;
            let known = self.now_known();
            let is_due = |known: Known| Instant::now() >= start + known.time;
            if known.is_learnt && is_due(known) {
                return None;
            }
            if !known.is_learnt {
                let scout = self.scout.lock().await;
                let known = self.now_known();
                if !known.is_learnt && is_due(known) {
                    return Some(scout);
                }
            }
        }
    }

    /// The pause until the look that comes after look number `looks`.
    pub(super) fn pause(&self, looks: i32) -> Duration {
        let quarter = self.now_known().time.as_secs_f64() / 4.0 * AGAIN.powi(looks - 1);
        Duration::from_secs_f64(quarter).clamp(FIRST_LOOK, LONGEST_PAUSE)
    }

    /// An operation has ended after this time.
    pub(super) fn ended(&self, took: Duration) {
        let took = took.mul_f64(MARGIN);
        let mut known = self.known();
        let (longer, shorter) = (took.saturating_sub(known.time), known.time.saturating_sub(took));
        known.time = if known.is_learnt {
            (known.time + longer.mul_f64(LONGER)).saturating_sub(shorter.mul_f64(SHORTER))
        } else {
            took
        };
        known.is_learnt = true;
    }

    /// An operation has not ended after this time. One that hangs tells nothing of the others, so this counts only
    /// while nothing else is known.
    pub(super) fn pending(&self, age: Duration) {
        let mut known = self.known();
        if !known.is_learnt {
            let longer = age.mul_f64(AGAIN).min(age + LONGEST_PAUSE);
            known.time = known.time.max(longer);
        }
    }

    fn now_known(&self) -> Known {
        *self.known()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::*;

    /// Follows operations that take these times, all begun at once, and counts the looks.
    async fn looks(usual: &Usual, times: &[Duration]) -> i32 {
        let follow = |took: Duration| async move {
            let start = Instant::now();
            for looks in 1.. {
                let scout = usual.first_look(start).await;
                if start.elapsed() >= took {
                    usual.ended(took);
                    return looks;
                }
                usual.pending(start.elapsed());
                if scout.is_none() {
                    tokio::time::sleep(usual.pause(looks)).await;
                }
            }
            0
        };
        join_all(times.iter().map(|took| follow(*took))).await.into_iter().sum()
    }

    #[tokio::test(start_paused = true)]
    async fn one_operation_is_looked_at_for_all_until_it_is_known_how_long_they_take() {
        let usual = Usual::default();
        let all = looks(&usual, &[Duration::from_secs(5); 500]).await;
        assert!((500..=512).contains(&all), "{all} looks at 500 operations");
        assert_eq!(looks(&usual, &[Duration::from_secs(5)]).await, 1, "the first look is right");
    }

    #[tokio::test(start_paused = true)]
    async fn operations_of_changing_length_are_looked_at_less_than_twice() {
        let usual = Usual::default();
        // Between half a second and eight, in no order, every length for a while.
        let lengths = (0..300_u64).map(|index| match index / 100 {
            0 => 500 + index * 37 % 500,
            1 => 3000 + index * 61 % 5000,
            _ => 1000 + index * 43 % 700,
        });
        let mut all = 0;
        for length in lengths {
            all += looks(&usual, &[Duration::from_millis(length)]).await;
        }
        assert!(all < 600, "{all} looks at 300 operations");
    }

    #[tokio::test(start_paused = true)]
    async fn an_operation_that_hangs_makes_nobody_else_wait() {
        let usual = Usual::default();
        usual.ended(Duration::from_secs(1));
        for age in 2..60 {
            usual.pending(Duration::from_secs(age));
        }
        let start = Instant::now();
        drop(usual.first_look(start).await);
        assert!(start.elapsed() < Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_comes_soon_after_the_end() {
        let usual = Usual::default();
        for _ in 0..50 {
            usual.ended(Duration::from_secs(2));
        }
        for took in [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)] {
            let start = Instant::now();
            looks(&usual, &[took]).await;
            let late = start.elapsed().saturating_sub(took.max(Duration::from_secs(2)));
            assert!(late < Duration::from_millis(1200), "{late:?} after {took:?}");
        }
    }
}
