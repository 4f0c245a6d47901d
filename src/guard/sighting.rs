//! A loss as the guard stores it, in one line of text: the time it was first seen, and the number of instances that
//! each losing Service would have been left with. The line fits into one attribute of Cloud Map.
//!
//! ```text
//! 2026-11-21T10:51:00Z 3fa9c1 88d0e2+5
//! ```
//!
//! Each Service is written as six hexadecimal digits of a hash, followed by the number of instances left if that is not
//! zero.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter, Write as _};

use super::{Guard, Loss, Losses};
use crate::model::{ServiceRef, SignedDuration, Timestamp, fingerprint};

/// The longest value of an attribute. If the Services do not all fit, those that lose most are stored; the others
/// follow in a later sighting.
const LONGEST: usize = 1024;
/// The age at which a sighting expires, in waits or in periods of the schedule: the longer of the two. With waits alone
/// no full sync of a slow schedule would come in time, and each would hold the loss anew.
const FORGOTTEN_AFTER: i32 = 6;
const FORGOTTEN_AFTER_PERIODS: i32 = 3;

/// A loss at the time it was first seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    pub first_seen: Timestamp,
    /// The number of instances that each Service would have been left with, by the Service's hash.
    left: BTreeMap<String, usize>,
}

/// The effect of a sighting on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// The wait is not over.
    Early,
    /// A loss that is still the same is let pass.
    Ripe,
    /// The sighting has expired, or the clocks do not agree.
    Stale,
}

impl Sighting {
    /// The sighting of the present losses.
    pub fn of(losses: &Losses, first_seen: Timestamp) -> Self {
        let mut by_loss: Vec<(&ServiceRef, &Loss)> = losses.iter().collect();
        by_loss.sort_by_key(|(_, loss)| Reverse(loss.lost));
        let mut sighting = Self { first_seen, left: BTreeMap::new() };
        let mut length = sighting.to_string().len();
        for (service, loss) in by_loss {
            let (hash, left) = (hash(service), loss.left);
            length += entry(&hash, left).len();
            if length > LONGEST {
                break;
            }
            sighting.left.insert(hash, left);
        }
        sighting
    }

    /// Reads the text of a sighting; `None` if it is not valid.
    pub fn parse(text: &str) -> Option<Self> {
        let (first_seen, services) = text.split_once(' ').unwrap_or((text, ""));
        let left = services.split_ascii_whitespace().map(|entry| {
            let (hash, left) = entry.split_once('+').unwrap_or((entry, "0"));
            Some((hash.to_owned(), left.parse().ok()?))
        });
        Some(Self { first_seen: first_seen.parse().ok()?, left: left.collect::<Option<_>>()? })
    }

    /// The age of the sighting. Another machine may have written it, so a time in the near future does not start a new
    /// sighting.
    pub fn age(&self, guard: Guard, now: Timestamp) -> Age {
        let wait = guard.wait;
        let age = now.duration_since(self.first_seen);
        if age < -wait || age > guard.forgotten_after() {
            Age::Stale
        } else if age < wait {
            Age::Early
        } else {
            Age::Ripe
        }
    }

    /// Whether the Service was among those that lost.
    pub fn has(&self, service: &ServiceRef) -> bool {
        self.left.contains_key(&hash(service))
    }

    /// Whether this loss was seen then: the Service lost instances, and was left with no more than now. The number lost
    /// is not compared: a held Service keeps old instances while its new pods are registered, so that number grows.
    pub fn has_seen(&self, service: &ServiceRef, loss: Loss) -> bool {
        self.left.get(&hash(service)).is_some_and(|left| loss.left >= *left)
    }

    #[cfg(test)]
    pub fn services(&self) -> usize {
        self.left.len()
    }
}

impl Guard {
    /// The time from which a loss first seen at `first_seen` is let pass.
    pub fn lifts_from(self, first_seen: Timestamp) -> Timestamp {
        first_seen.saturating_add(self.wait).unwrap_or(Timestamp::MAX)
    }

    /// The age up to which a loss is let pass if it is seen again.
    fn forgotten_after(self) -> SignedDuration {
        (self.wait * FORGOTTEN_AFTER).max(self.period * FORGOTTEN_AFTER_PERIODS)
    }

    /// The warning for a `GUARD_WAIT` that is too short for the schedule: no full sync comes within six waits.
    pub fn mismatch(self) -> Option<String> {
        let (wait, period, after) = (self.wait, self.period, self.forgotten_after());
        let is_off = self.share >= 100;
        (!is_off && period > wait * FORGOTTEN_AFTER).then(|| {
            format!(
                "GUARD_WAIT ({wait:#}) and SCHEDULE_MINUTES ({}) do not go together: no full sync comes between one and \
                 six times GUARD_WAIT, so the next full sync lets the held loss pass, if it comes within {after:#}",
                period.as_mins()
            )
        })
    }
}

fn hash(service: &ServiceRef) -> String {
    fingerprint::<3>(&[&service.namespace, &service.name])
}

fn entry(hash: &str, left: usize) -> String {
    let mut entry = format!(" {hash}");
    if left > 0 {
        // Writing to a string cannot fail.
        let _ = write!(entry, "+{left}");
    }
    entry
}

impl Display for Sighting {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.first_seen.fmt(f)?;
        self.left.iter().try_for_each(|(hash, left)| f.write_str(&entry(hash, *left)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss((lost, left): (usize, usize)) -> Loss {
        Loss { lost, left, was_read: true, was_held: false }
    }

    fn losses(count: usize, counts: impl Fn(usize) -> (usize, usize)) -> Losses {
        let service = |index| ServiceRef::new("shop", format!("web-{index}"));
        (0..count).map(|index| (service(index), loss(counts(index)))).collect()
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let first_seen = "2026-11-21T10:51:00Z".parse().expect("a time");
        let sighting = Sighting::of(&losses(2, |index| (3, index)), first_seen);
        assert_eq!(sighting.to_string(), "2026-11-21T10:51:00Z 4ffac5+1 885ac1");
        assert_eq!(Sighting::parse(&sighting.to_string()), Some(sighting));
        for text in ["", "soon", "2026-11-21T10:51:00Z 3fa9c1+x", "3fa9c1"] {
            assert_eq!(Sighting::parse(text), None, "{text}");
        }
    }

    #[test]
    fn loss_was_seen_if_its_service_was_left_with_no_more_then() {
        let sighting = Sighting::of(&losses(1, |_| (3, 2)), Timestamp::UNIX_EPOCH);
        let cases = [
            ("web-0", 2, (true, true)),
            ("web-0", 3, (true, true)),
            ("web-0", 1, (true, false)),
            ("web-1", 2, (false, false)),
        ];
        for (name, left, expected) in cases {
            let service = ServiceRef::new("shop", name);
            let seen = (sighting.has(&service), sighting.has_seen(&service, loss((9, left))));
            assert_eq!(seen, expected, "{name} {left}");
        }
    }

    #[test]
    fn sighting_is_ripe_after_the_wait_until_it_expires() {
        let guard = |wait, period| Guard {
            wait: SignedDuration::from_mins(wait),
            period: SignedDuration::from_mins(period),
            ..Guard::default()
        };
        let sighting = Sighting { first_seen: Timestamp::UNIX_EPOCH, left: BTreeMap::new() };
        let second = SignedDuration::from_secs(1);
        // Six waits, or three periods if these are longer.
        for (wait, period, expires) in [(10, 1, 60), (10, 20, 60), (10, 30, 90)] {
            let guard = guard(wait, period);
            let [wait, expires] = [wait, expires].map(SignedDuration::from_mins);
            let ages = [
                (-wait - second, Age::Stale),
                (-wait, Age::Early),
                (wait - second, Age::Early),
                (wait, Age::Ripe),
                (expires, Age::Ripe),
                (expires + second, Age::Stale),
            ];
            for (after, expected) in ages {
                let now = sighting.first_seen.checked_add(after).expect("a time");
                assert_eq!(sighting.age(guard, now), expected, "{period} {after}");
            }
        }
    }

    #[test]
    fn of_too_many_services_those_that_lose_most_are_remembered() {
        let many = losses(400, |index| (index + 1, 0));
        let sighting = Sighting::of(&many, Timestamp::UNIX_EPOCH);
        let text = sighting.to_string();
        assert!((1018..=1024).contains(&text.len()), "{}", text.len());
        assert_eq!(sighting.services(), 143);
        let seen = many.iter().filter(|(service, loss)| sighting.has_seen(service, **loss));
        let least = seen.map(|(_, loss)| loss.lost).min();
        assert_eq!(least, Some(400 - 142));
    }
}
