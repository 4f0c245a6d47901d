//! An age as kubectl prints it: in the largest unit that fits, rounded down.

use crate::model::Timestamp;

/// The age of something since `since`, such as `45s`, `12m`, `3h` or `9d`. A time to come has the age 0.
pub fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(since.as_second()).max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_is_in_the_largest_unit_of_which_there_are_two() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let cases = [
            (-5, "0s"),
            (119, "119s"),
            (120, "2m"),
            (7_199, "119m"),
            (7_200, "2h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (86_400 * 400, "400d"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(age(at(1_000), at(1_000 + seconds)), expected);
        }
    }
}
