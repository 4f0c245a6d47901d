//! The rules of the guard against mass deletion, for both flows: the limits of a loss ([`Guard`], from the settings),
//! the loss of each name ([`Losses`]), the memory of a loss as one line of text ([`Sighting`]), and the verdict
//! ([`Measure::judge`]) with its sentence ([`GuardStatus`]). Pure, and without a word about changes: `publish::plan`
//! counts the instances that a plan would deregister, `import` the endpoints that would leave the imports, and each
//! takes the held ones out of its plan. The time is a value here, so every case is a row of a table.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use crate::model::{
    ClusterArn, GuardState, Selection, ServiceRef, Timestamp, fingerprint, join_first,
};

pub use crate::model::Guard;

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
        by_loss.sort_by_key(|(_, loss)| std::cmp::Reverse(loss.lost));
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

// The status of the guard for people: the Services that would lose instances or the imports that would lose endpoints,
// the limits that are exceeded, since when, and the condition that lets the loss pass. The report has it as numbers,
// every held-back line as a sentence.

/// The number of Services that a sentence names.
const NAMED: usize = 3;

/// What a cluster would lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LossSubject {
    /// Instances of its Services in Cloud Map.
    Instances,
    /// Ready endpoints of other clusters in its imports.
    Endpoints,
}

/// The words about a loss.
struct Words {
    noun: &'static str,
    /// The verb for all of them together.
    leave: &'static str,
    owner: &'static str,
    /// The part that could not be read beside the loss.
    unread: &'static str,
    /// The meaning of a name that was not read.
    absent: &'static str,
}

impl LossSubject {
    fn words(self) -> Words {
        match self {
            Self::Instances => Words {
                noun: "instances",
                leave: "are deregistered",
                owner: "Service",
                unread: "Cloud Map services",
                absent: "which is not in the cluster",
            },
            Self::Endpoints => Words {
                noun: "imported endpoints",
                leave: "leave the imports",
                owner: "import",
                unread: "clusters",
                absent: "which no cluster exports any more",
            },
        }
    }
}

/// The status of the guard in one run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GuardStatus {
    pub run: Circumstances,
    pub verdict: Verdict,
    /// Whether an earlier run saw the loss first.
    pub later_look: bool,
    /// The reason why no later run can know of this one, if it left no note.
    pub no_note: Option<String>,
}

impl GuardStatus {
    /// The status of a loss of which nothing can be noted: only a person lets it pass. `problem` is the error that keeps
    /// a Cloud Map service from having the note.
    #[must_use]
    pub fn without_note(self, problem: Option<&str>) -> Self {
        let problem = problem.map(|problem| format!(" ({problem})")).unwrap_or_default();
        let no_note = format!(
            "no instance of the cluster has room for a note of the time, and no Cloud Map service that carries our tag has it{problem}"
        );
        let verdict = Verdict { first_seen: None, ..self.verdict };
        Self { verdict, later_look: true, no_note: Some(no_note), ..self }
    }

    /// The names of the Services or imports, at most [`NAMED`] of them.
    fn who(&self) -> String {
        let Words { owner, absent, .. } = self.run.subject.words();
        let losses = self.verdict.losses();
        let names = join_first(losses.keys(), NAMED);
        match losses.len() {
            1 if is_of_one_that_was_read(losses) => format!("{owner} {names}"),
            1 => format!("{owner} {names}, {absent},"),
            _ => format!("{owner}s {names}"),
        }
    }

    /// Whether the loss exceeds the limits.
    pub fn is_past(&self) -> bool {
        self.run.guard.is_passed_by(total(self.verdict.losses()), self.verdict.instances)
    }

    /// The time from which a full sync that sees the same loss lets it pass.
    pub fn lifts_from(&self) -> Option<Timestamp> {
        let wait = self.run.guard.wait;
        let lifts_from = |seen: Timestamp| seen.saturating_add(wait).unwrap_or(Timestamp::MAX);
        self.verdict.first_seen.map(lifts_from)
    }

    fn limits(&self) -> String {
        let (loss, instances) = (total(self.verdict.losses()), self.verdict.instances);
        let Guard { share, minimum, .. } = self.run.guard;
        let noun = self.run.subject.words().noun;
        format!(
            "{loss} of {instances} {noun} at once, past GUARD_SHARE ({share} %) and GUARD_MINIMUM ({minimum})"
        )
    }

    /// Since when the loss is held, and the condition that ends it.
    fn until(&self) -> String {
        let cluster = &self.run.cluster;
        let confirm = format!("{{\"action\":\"confirm\",\"cluster\":\"{cluster}\"}}");
        if let (Some(first_seen), Some(lifts_from)) = (self.verdict.first_seen, self.lifts_from()) {
            return format!(
                "first seen {first_seen}; the full sync lets the same loss pass from {lifts_from} on, {confirm} at once"
            );
        }
        let no_note = self.no_note.as_ref().map(|why| format!("{why}, so ")).unwrap_or_default();
        format!("{no_note}they stay until {confirm}")
    }
}

impl Display for GuardStatus {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (who, limits) = (self.who(), self.limits());
        let Words { noun, leave, unread: parts, .. } = self.run.subject.words();
        let loss = total(self.verdict.losses());
        let Verdict { state, instances, unread, first_seen, .. } = self.verdict;
        let Guard { share, minimum, .. } = self.run.guard;
        match state {
            GuardState::Held => write!(f, "{who} would lose {limits}; {}", self.until()),
            GuardState::Lifted => {
                write!(
                    f,
                    "{who} would lose {limits}; the same loss was seen before, so they {leave}"
                )
            }
            GuardState::Confirmed => {
                write!(f, "{who} would lose {limits}; the loss is confirmed, so they {leave}")
            }
            GuardState::LeftToFullSync if self.is_past() => write!(
                f,
                "{who} would lose {limits}; this targeted sync leaves it to the full sync"
            ),
            GuardState::LeftToFullSync => write!(
                f,
                "{who} would lose {loss} of {instances} {noun}; this targeted sync, which has not read all of Cloud Map, leaves it to the full sync"
            ),
            GuardState::HeldUntilRead => write!(
                f,
                "{who} would lose {loss} of {instances} {noun}, and {parts} with {unread} more could not be read: together past GUARD_SHARE ({share} %) and GUARD_MINIMUM ({minimum}); they stay until a full sync has read those"
            ),
            GuardState::HeldByFullSync => {
                write!(f, "{who} would lose {loss} {noun} that the full sync holds")?;
                match first_seen {
                    Some(_) => write!(f, "; {}", self.until()),
                    None => Ok(()),
                }
            }
        }
    }
}

#[cfg(test)]
mod sighting_tests {
    use super::*;
    use crate::model::SignedDuration;

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
