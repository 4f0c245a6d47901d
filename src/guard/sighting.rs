//! The loss of a name as an earlier run saw it ([`Sighting`]), and the note that stores it ([`SightingNote`]).

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use super::{Loss, Losses};
use crate::model::{Guard, ServiceRef, Timestamp, fingerprint};

/// The loss of one name as an earlier run saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The time at which the loss was first seen.
    pub first_seen: Timestamp,
    /// The number of instances that the name would have been left with.
    pub left: usize,
}

/// The sighting of each name that has one.
pub type Sightings = BTreeMap<ServiceRef, Sighting>;

/// The effect of a sighting on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// The wait is not over.
    Early,
    /// The wait is over: the guard lets the same loss pass.
    Ripe,
    /// The sighting has expired, or the clocks do not agree.
    Stale,
}

impl Sighting {
    /// Returns the age of the sighting. Another machine may have written it, so a time in the near future counts as
    /// early and does not start a new sighting.
    pub fn age(self, guard: Guard, now: Timestamp) -> Age {
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

    /// Returns how much of a loss passes: the name may fall to the number of instances that the sighting has left. The
    /// lost instances are not compared, because their number grows: a held Service keeps its old instances while its
    /// new pods are registered.
    pub(super) fn passing_part(self, loss: Loss) -> usize {
        (loss.left + loss.lost).saturating_sub(self.left).min(loss.lost)
    }
}

/// The longest value of an attribute. If not all names fit, the names that lose most are noted; the others follow in a
/// later note.
const LONGEST: usize = 1024;

/// The stored form of the sightings of one time, as one line of text: the time, and for each name six hexadecimal
/// digits of its hash, followed by the number of instances left if that is not zero. The line fits into one attribute
/// of Cloud Map. A line with one name has less than 40 characters.
///
/// ```text
/// 2026-11-21T10:51:00Z 3fa9c1 88d0e2+5
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SightingNote {
    first_seen: Timestamp,
    /// The number of instances that each name would have been left with, by the name's hash.
    left: BTreeMap<String, usize>,
}

impl SightingNote {
    /// Returns the note of these losses.
    pub fn of(losses: &Losses, first_seen: Timestamp) -> Self {
        let mut by_loss: Vec<(&ServiceRef, &Loss)> = losses.iter().collect();
        by_loss.sort_by_key(|(_, loss)| std::cmp::Reverse(loss.lost));
        let mut note = Self { first_seen, left: BTreeMap::new() };
        let mut length = note.to_string().len();
        for (service, loss) in by_loss {
            let hash = hash(service);
            length += entry(&hash, loss.left).len();
            if length > LONGEST {
                break;
            }
            note.left.insert(hash, loss.left);
        }
        note
    }

    /// Reads the text of a note; `None` if it is not valid.
    pub fn parse(text: &str) -> Option<Self> {
        let (first_seen, services) = text.split_once(' ').unwrap_or((text, ""));
        let left = services.split_ascii_whitespace().map(|entry| {
            let (hash, left) = entry.split_once('+').unwrap_or((entry, "0"));
            Some((hash.to_owned(), left.parse().ok()?))
        });
        Some(Self { first_seen: first_seen.parse().ok()?, left: left.collect::<Option<_>>()? })
    }

    /// The sighting of a name; `None` if the note has none.
    pub fn sighting(&self, service: &ServiceRef) -> Option<Sighting> {
        let left = *self.left.get(&hash(service))?;
        Some(Sighting { first_seen: self.first_seen, left })
    }

    /// Returns the sightings of those `services` that the note has.
    pub fn sightings<'a>(&self, services: impl Iterator<Item = &'a ServiceRef>) -> Sightings {
        services.filter_map(|service| Some((service.clone(), self.sighting(service)?))).collect()
    }
}

fn hash(service: &ServiceRef) -> String {
    fingerprint::<3>(&[&service.namespace, &service.name])
}

fn entry(hash: &str, left: usize) -> String {
    if left > 0 { format!(" {hash}+{left}") } else { format!(" {hash}") }
}

impl Display for SightingNote {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.first_seen.fmt(f)?;
        self.left.iter().try_for_each(|(hash, left)| f.write_str(&entry(hash, *left)))
    }
}
