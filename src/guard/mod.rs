//! The rules of the guard against mass deletion, for both flows: the limits of a loss ([`Guard`], from the settings),
//! the loss of each name ([`Losses`]), the memory of a loss as one line of text ([`Sighting`]), and the verdict
//! ([`Measure::judge`]) with its sentence ([`GuardStatus`]). Pure, and without a word about changes: `publish::plan`
//! counts the instances that a plan would deregister, `import` the endpoints that would leave the imports, and each
//! takes the held ones out of its plan. The time is a value here, so every case is a row of a table.

mod status;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use crate::model::{
    ClusterArn, GuardState, Selection, ServiceRef, SignedDuration, Timestamp, fingerprint,
};

pub use crate::model::Guard;
pub use status::{GuardStatus, LossSubject};

/// The part of a cluster that a plan covers; it decides the rules of the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The whole cluster: a full sync.
    Everything,
    /// The whole cluster, and a person has confirmed every loss.
    Confirmed,
    /// The Services that an event names.
    Part,
    /// The changes that a judged plan has left open.
    Remainder,
}

impl Extent {
    /// That of a run over these Services; `is_confirmed`: a person has confirmed what a full sync loses.
    pub fn of(selection: &Selection, is_confirmed: bool) -> Self {
        match selection {
            Selection::Everything if is_confirmed => Self::Confirmed,
            Selection::Everything => Self::Everything,
            Selection::Only { .. } => Self::Part,
        }
    }

    pub fn is_whole(self) -> bool {
        matches!(self, Self::Everything | Self::Confirmed)
    }
}

/// The circumstances of a run that a verdict depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Circumstances {
    pub guard: Guard,
    pub now: Timestamp,
    /// The cluster that would lose something.
    pub cluster: ClusterArn,
    /// What it would lose.
    pub subject: LossSubject,
}

/// The loss of one Service or import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    /// The number of instances or endpoints lost.
    pub lost: usize,
    /// The number of those left.
    pub left: usize,
    /// Whether this run read that the name itself still stands, so that its loss is no accident of a read.
    pub was_read: bool,
    /// Whether the first look of this run held the loss of the name.
    pub was_held: bool,
}

/// Every Service or import that would lose something.
pub type Losses = BTreeMap<ServiceRef, Loss>;

/// The number lost by all together.
pub fn total(losses: &Losses) -> usize {
    losses.values().map(|loss| loss.lost).sum()
}

/// Whether a single name loses something and was itself read in this run. Then a read error is not the cause, and
/// no other name is concerned.
fn is_of_one_that_was_read(losses: &Losses) -> bool {
    losses.len() == 1 && losses.values().all(|loss| loss.was_read)
}

/// The verdict on a loss.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Verdict {
    /// The reason for the verdict.
    pub state: GuardState,
    /// The Services that keep their instances for now.
    pub held: Losses,
    /// The Services that lose their instances although the limits are exceeded.
    pub passed: Losses,
    /// The instances that the limits were measured on.
    pub instances: usize,
    /// The number of instances that could not be read, if the verdict depends on them.
    pub unread: usize,
    /// The time at which the loss was first seen.
    pub first_seen: Option<Timestamp>,
    /// Whether the sighting is to be stored.
    pub is_new: bool,
}

/// The quantities that a loss is measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// The part of the cluster that the run covers.
    pub extent: Extent,
    /// The number of instances when the run began.
    pub instances: usize,
    /// The number of instances that could not be read.
    pub unread: usize,
    /// In a targeted sync: whether a full sync may have stored a sighting that was not read.
    pub may_be_noted: bool,
}

impl Measure {
    /// Whether a loss exceeds the limits. A single Service that was read may lose all its instances.
    pub fn is_past(self, run: &Circumstances, losses: &Losses) -> bool {
        let excused = match self.extent {
            Extent::Part => losses.len() <= 1,
            _ => is_of_one_that_was_read(losses),
        };
        run.guard.is_passed_by(total(losses), self.instances) && !excused
    }

    /// Whether a loss exceeds the limits, or would if all instances that could not be read were lost too.
    fn may_be_past(self, run: &Circumstances, losses: &Losses) -> bool {
        let (lost, unread) = (total(losses), self.unread);
        let together = run.guard.is_passed_by(lost + unread, self.instances + unread);
        self.is_past(run, losses) || lost > 0 && unread > 0 && together
    }

    /// The verdict on a loss. In a full sync, if a loss that was seen before is let pass, the rest is judged by itself.
    /// Instances that could not be read may be lost as well: they are added if another loss exists.
    pub fn judge(
        self,
        run: &Circumstances,
        losses: &Losses,
        sighting: Option<&Sighting>,
    ) -> Option<Verdict> {
        if self.extent == Extent::Part {
            return self.of_a_part(run, losses, sighting);
        }
        let instances = self.instances;
        if !self.may_be_past(run, losses) {
            return None;
        }
        let first_seen = sighting.map(|sighting| sighting.first_seen);
        let of_all = |state| Verdict::new(state, losses.clone(), instances, first_seen);
        if self.extent == Extent::Confirmed {
            return Some(of_all(GuardState::Confirmed));
        }
        let aged = sighting.map(|sighting| (sighting, sighting.age(run.guard, run.now)));
        let (seen, new) = match aged {
            Some((_, Age::Early)) if self.is_past(run, losses) => {
                return Some(of_all(GuardState::Held));
            }
            Some((sighting, Age::Ripe)) => losses
                .clone()
                .into_iter()
                .partition(|(service, loss)| sighting.has_seen(service, *loss)),
            _ => (Losses::default(), losses.clone()),
        };
        let rest = Self { instances: instances.saturating_sub(total(&seen)), ..self };
        if rest.is_past(run, &new) {
            let held = Verdict::new(GuardState::Held, new, rest.instances, Some(run.now));
            return Some(Verdict { passed: seen, is_new: true, ..held });
        }
        if rest.may_be_past(run, &new) {
            // No sighting: the complete loss is unknown, so a later look could not recognize it.
            let held = Verdict::new(GuardState::HeldUntilRead, new, rest.instances, None);
            return Some(Verdict { passed: seen, unread: self.unread, ..held });
        }
        Some(of_all(GuardState::Lifted))
    }

    /// The verdict on a targeted sync. Several Services together may not exceed the limits. No Service may lose an
    /// instance that a full sync holds, by its sighting or in this run, which may not have written it yet.
    ///
    /// The limits alone are not enough: if a full sync holds the loss of 200 Services, 200 messages about one of them each
    /// would carry it out, since a message about a single Service may remove all that it has.
    fn of_a_part(
        self,
        run: &Circumstances,
        losses: &Losses,
        sighting: Option<&Sighting>,
    ) -> Option<Verdict> {
        let instances = self.instances;
        if self.is_past(run, losses) || self.may_be_noted && total(losses) > 0 {
            return Some(Verdict::new(GuardState::LeftToFullSync, losses.clone(), instances, None));
        }
        let sighting = sighting.filter(|sighting| sighting.age(run.guard, run.now) != Age::Stale);
        let mut held = losses.clone();
        held.retain(|service, loss| loss.was_held || sighting.is_some_and(|it| it.has(service)));
        let first_seen = sighting.map(|sighting| sighting.first_seen);
        let verdict = Verdict::new(GuardState::HeldByFullSync, held, instances, first_seen);
        (!verdict.held.is_empty()).then_some(verdict)
    }
}

impl Verdict {
    fn new(
        state: GuardState,
        losses: Losses,
        instances: usize,
        first_seen: Option<Timestamp>,
    ) -> Self {
        let none = Losses::default();
        let (held, passed) = if state.holds() { (losses, none) } else { (none, losses) };
        Self { state, held, passed, instances, unread: 0, first_seen, is_new: false }
    }

    /// The losses that the state is about.
    pub fn losses(&self) -> &Losses {
        if self.state.holds() { &self.held } else { &self.passed }
    }

    /// The verdict for people.
    pub fn status(self, run: Circumstances) -> GuardStatus {
        let later_look = self.first_seen.is_some_and(|first_seen| first_seen < run.now);
        GuardStatus { run, verdict: self, later_look, no_note: None }
    }
}

// A loss as the guard stores it, in one line of text: the time it was first seen, and the number of instances that
// each losing Service would have been left with. The line fits into one attribute of Cloud Map.
//
// ```text
// 2026-11-21T10:51:00Z 3fa9c1 88d0e2+5
// ```
//
// Each Service is written as six hexadecimal digits of a hash, followed by the number of instances left if that is not
// zero.

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
    if left > 0 { format!(" {hash}+{left}") } else { format!(" {hash}") }
}

impl Display for Sighting {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.first_seen.fmt(f)?;
        self.left.iter().try_for_each(|(hash, left)| f.write_str(&entry(hash, *left)))
    }
}

#[cfg(test)]
mod sighting_tests {
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
        assert_eq!(sighting.left.len(), 143);
        let seen = many.iter().filter(|(service, loss)| sighting.has_seen(service, **loss));
        let least = seen.map(|(_, loss)| loss.lost).min();
        assert_eq!(least, Some(400 - 142));
    }
}
