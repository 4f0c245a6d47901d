//! The order in which the turns of a run begin. It needs no memory between runs, only the clock: runs that are cut
//! short do not leave the same Services for last, and overlapping runs are seldom at the same one.

use crate::model::Timestamp;

/// The golden ratio and the square root of two, each less one: their multiples do not stay close to each other for
/// long.
const STARTS: f64 = 0.618_033_988_749_895;
const STRIDES: f64 = 0.414_213_562_373_095;

/// The first turn of a run and the stride from one turn to the next, each as a part of their count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Order {
    start: f64,
    stride: f64,
}

impl Order {
    /// The order of a run that begins at this time. A run in the next minute has another one.
    #[expect(clippy::cast_precision_loss, reason = "the minutes of millennia fit")]
    pub fn at(now: Timestamp) -> Self {
        let minute = (now.as_second() / 60) as f64;
        let part = |of: f64| (minute * of).fract().abs();
        Self { start: part(STARTS), stride: part(STRIDES) }
    }

    /// Puts turns into the order.
    pub fn put<T>(self, turns: Vec<T>) -> Vec<T> {
        let count = turns.len();
        let (start, stride) = (share(self.start, count), coprime(share(self.stride, count), count));
        let mut turns: Vec<Option<T>> = turns.into_iter().map(Some).collect();
        let places = (0..count).map(|index| (start + index * stride) % count);
        places.filter_map(|place| turns[place].take()).collect()
    }
}

/// A part of a count.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a place among the turns"
)]
fn share(part: f64, count: usize) -> usize {
    ((part * count as f64) as usize).min(count.saturating_sub(1))
}

/// The next number that has no divisor in common with `count`: strides of that length reach every place.
fn coprime(from: usize, count: usize) -> usize {
    let mut all = from.max(1)..;
    all.find(|number| greatest_common_divisor(*number, count) == 1).unwrap_or(1)
}

fn greatest_common_divisor(one: usize, other: usize) -> usize {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(minute: i64, count: usize) -> Vec<usize> {
        let now = Timestamp::from_second(minute * 60).expect("a time");
        Order::at(now).put((0..count).collect())
    }

    #[test]
    fn every_turn_begins_once_whatever_the_minute() {
        for count in [0, 1, 2, 3, 7, 12, 80, 97, 1000] {
            for minute in 29_000_000..29_000_050 {
                let mut places = order(minute, count);
                places.sort_unstable();
                assert_eq!(places, (0..count).collect::<Vec<_>>(), "{count} turns in {minute}");
            }
        }
    }

    #[test]
    fn runs_of_successive_minutes_are_seldom_at_the_same_turn() {
        let runs: Vec<Vec<usize>> = (29_000_000..29_000_020).map(|it| order(it, 200)).collect();
        let last: std::collections::BTreeSet<usize> = runs.iter().map(|run| run[199]).collect();
        assert!(last.len() > 15, "{last:?} are last");
        for runs in runs.windows(2) {
            // The one a quarter ahead of the other, as if it had begun earlier.
            for ahead in [0, 50, 100, 150] {
                let pairs = runs[0].iter().cycle().skip(ahead).zip(&runs[1]);
                let same = pairs.take(200).filter(|(one, other)| one == other).count();
                assert!(same < 20, "{same} of 200 at the same time");
            }
        }
    }
}
