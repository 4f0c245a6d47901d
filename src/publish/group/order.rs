//! The order in which the groups of a run begin. It depends on the clock alone, not on earlier runs: runs that are cut
//! short do not leave the same Services for last, and overlapping runs seldom work on the same Service.

use crate::model::{Timestamp, fingerprint};

/// Returns groups, or clusters, in the order of a run that begins at `now`. The order is by a hash, which changes every
/// minute.
pub fn shuffle<T>(now: Timestamp, groups: Vec<T>) -> Vec<T> {
    let minute = (now.as_second() / 60).to_string();
    let hash = |index: usize| fingerprint::<8>(&[&minute, &index.to_string()]);
    let mut groups: Vec<(String, T)> =
        groups.into_iter().enumerate().map(|(index, group)| (hash(index), group)).collect();
    groups.sort_by(|(one, _), (other, _)| one.cmp(other));
    groups.into_iter().map(|(_, group)| group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(minute: i64, count: usize) -> Vec<usize> {
        let now = Timestamp::from_second(minute * 60).expect("a time");
        shuffle(now, (0..count).collect())
    }

    #[test]
    fn every_group_begins_once_whatever_the_minute() {
        for count in [0, 1, 2, 3, 7, 12, 80, 97, 1000] {
            for minute in 29_000_000..29_000_050 {
                let mut indices = order(minute, count);
                indices.sort_unstable();
                assert_eq!(indices, (0..count).collect::<Vec<_>>(), "{count} groups in {minute}");
            }
        }
    }

    #[test]
    fn runs_of_successive_minutes_are_seldom_at_the_same_group() {
        let runs: Vec<Vec<usize>> = (29_000_000..29_000_020).map(|it| order(it, 200)).collect();
        let last: std::collections::BTreeSet<usize> = runs.iter().map(|run| run[199]).collect();
        assert!(last.len() > 15, "{last:?} are last");
        for runs in runs.windows(2) {
            // One run is up to three quarters ahead of the other, as if it had begun earlier.
            for ahead in [0, 50, 100, 150] {
                let pairs = runs[0].iter().cycle().skip(ahead).zip(&runs[1]);
                let same = pairs.take(200).filter(|(one, other)| one == other).count();
                assert!(same < 20, "{same} of 200 at the same time");
            }
        }
    }
}
