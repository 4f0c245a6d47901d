//! The rules of the guard against mass deletion, for both flows: the limits of a loss ([`Guard`], from the settings),
//! the loss of each name ([`Losses`]), what an earlier run has seen of it ([`Sighting`]) and noted as one line of text
//! ([`SightingNote`]), and the verdict ([`Measure::judge`]) with its sentence ([`GuardStatus`]). Pure, and without a word about changes: `publish::plan`
//! counts the instances that a plan would deregister, `import` the endpoints that would leave the imports, and each
//! takes the held ones out of its plan. The time is a value here, so every case is a row of a table.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
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
    /// Whether something of the name has room for the guard's note.
    pub has_room: bool,
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
    /// What the names keep for now.
    pub held: Losses,
    /// What they lose although the limits are exceeded. A name may have fallen further than an earlier run has seen:
    /// then a part of its loss passes, and the rest is held.
    pub passed: Losses,
    /// The instances that the limits were measured on.
    pub instances: usize,
    /// The number of instances that could not be read, if the verdict depends on them.
    pub unread: usize,
    /// The time at which the last of the held losses was first seen, or of those that pass.
    pub first_seen: Option<Timestamp>,
    /// The held names of which this run has seen the loss first, so that it is to be noted.
    pub new: BTreeSet<ServiceRef>,
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
    /// In a targeted sync: whether something was read by an earlier run alone, so that a note may be there since.
    pub is_old: bool,
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
        sightings: &Sightings,
    ) -> Option<Verdict> {
        if self.extent == Extent::Part {
            return self.of_a_part(run, losses, sightings);
        }
        if !self.may_be_past(run, losses) {
            return None;
        }
        let instances = self.instances;
        let last_seen = |of: &Losses| {
            let seen = of.keys().filter_map(|service| sightings.get(service));
            seen.map(|sighting| sighting.first_seen).max()
        };
        if self.extent == Extent::Confirmed {
            let first_seen = last_seen(losses);
            return Some(Verdict::new(
                GuardState::Confirmed,
                losses.clone(),
                instances,
                first_seen,
            ));
        }
        let (mut passed, mut rest) = (Losses::new(), Losses::new());
        for (service, loss) in losses {
            let sighting = sightings.get(service);
            let ripe = sighting.filter(|sighting| sighting.age(run.guard, run.now) == Age::Ripe);
            let passes = ripe.map_or(0, |sighting| sighting.lets_pass(*loss));
            if passes > 0 {
                let left = loss.left + loss.lost - passes;
                passed.insert(service.clone(), Loss { lost: passes, left, ..*loss });
            }
            if passes < loss.lost {
                rest.insert(service.clone(), Loss { lost: loss.lost - passes, ..*loss });
            }
        }
        let of_rest = Self { instances: instances.saturating_sub(total(&passed)), ..self };
        if of_rest.is_past(run, &rest) {
            let is_early = |service: &&ServiceRef| {
                let sighting = sightings.get(*service);
                sighting.is_some_and(|it| it.age(run.guard, run.now) == Age::Early)
            };
            let new: BTreeSet<ServiceRef> =
                rest.keys().filter(|service| !is_early(service)).cloned().collect();
            let first_seen = if new.is_empty() { last_seen(&rest) } else { Some(run.now) };
            let held = Verdict::new(GuardState::Held, rest, of_rest.instances, first_seen);
            return Some(Verdict { passed, new, ..held });
        }
        if of_rest.may_be_past(run, &rest) {
            // It is not noted: the complete loss is unknown, so a later look could not recognize it.
            let held = Verdict::new(GuardState::HeldUntilRead, rest, of_rest.instances, None);
            return Some(Verdict { passed, unread: self.unread, ..held });
        }
        Some(Verdict::new(GuardState::Lifted, losses.clone(), instances, last_seen(losses)))
    }

    /// The verdict on a targeted sync. Several Services together may not exceed the limits. No Service may lose an
    /// instance that a full sync holds, by its note or in this run, which may not have written it yet, and none of
    /// which a full sync could note no loss.
    ///
    /// The limits alone are not enough: if a full sync holds the loss of 200 Services, 200 messages about one of them each
    /// would carry it out, since a message about a single Service may remove all that it has.
    fn of_a_part(
        self,
        run: &Circumstances,
        losses: &Losses,
        sightings: &Sightings,
    ) -> Option<Verdict> {
        let instances = self.instances;
        if self.is_past(run, losses) || self.is_old && total(losses) > 0 {
            return Some(Verdict::new(GuardState::LeftToFullSync, losses.clone(), instances, None));
        }
        let mut held = losses.clone();
        held.retain(|service, loss| {
            let sighting = sightings.get(service);
            let is_noted = sighting.is_some_and(|it| it.age(run.guard, run.now) != Age::Stale);
            loss.was_held || !loss.has_room || is_noted
        });
        let seen = held.keys().filter_map(|service| sightings.get(service));
        let first_seen = seen.map(|sighting| sighting.first_seen).max();
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
        Self { state, held, passed, instances, unread: 0, first_seen, new: BTreeSet::new() }
    }

    /// The losses that the state is about.
    pub fn losses(&self) -> &Losses {
        if self.state.holds() { &self.held } else { &self.passed }
    }

    /// The verdict for people.
    pub fn status(self, run: Circumstances) -> GuardStatus {
        GuardStatus { run, verdict: self, without_note: BTreeSet::new() }
    }
}

// A loss as an earlier run has seen it, and as it is noted.

/// What an earlier run has seen of the loss of one name.
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
    /// A loss that is still the same is let pass.
    Ripe,
    /// The sighting has expired, or the clocks do not agree.
    Stale,
}

impl Sighting {
    /// The age of the sighting. Another machine may have written it, so a time in the near future does not start a new
    /// sighting.
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

    /// The part of a loss that was seen then: the name may fall to the number that it would have been left with. The number
    /// lost is not compared: a held Service keeps old instances while its new pods are registered, so that number grows.
    fn lets_pass(self, loss: Loss) -> usize {
        (loss.left + loss.lost).saturating_sub(self.left).min(loss.lost)
    }
}

/// The longest value of an attribute. If the names do not all fit, those that lose most are noted; the others follow in a
/// later note.
const LONGEST: usize = 1024;

/// The sightings of one time as they are stored, in one line of text: the time, and for each name six hexadecimal digits of
/// a hash, followed by the number of instances left if that is not zero. The line fits into one attribute of Cloud Map; that
/// of one name has less than 40 characters.
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
    /// The note of the present losses.
    pub fn of(losses: &Losses, first_seen: Timestamp) -> Self {
        let mut by_loss: Vec<(&ServiceRef, &Loss)> = losses.iter().collect();
        by_loss.sort_by_key(|(_, loss)| std::cmp::Reverse(loss.lost));
        let mut note = Self { first_seen, left: BTreeMap::new() };
        let mut length = note.to_string().len();
        for (service, loss) in by_loss {
            let (hash, left) = (hash(service), loss.left);
            length += entry(&hash, left).len();
            if length > LONGEST {
                break;
            }
            note.left.insert(hash, left);
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

    /// What was seen of a name.
    pub fn sighting(&self, service: &ServiceRef) -> Option<Sighting> {
        let left = *self.left.get(&hash(service))?;
        Some(Sighting { first_seen: self.first_seen, left })
    }

    /// What was seen of these names.
    pub fn sightings<'a>(&self, services: impl Iterator<Item = &'a ServiceRef>) -> Sightings {
        services.filter_map(|it| Some((it.clone(), self.sighting(it)?))).collect()
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
    /// The held Services or imports of which the loss could not be noted, so that no later run can know of it.
    pub without_note: BTreeSet<ServiceRef>,
}

impl GuardStatus {
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

    /// The time at which the last of the losses was first seen; `None` if none of the held ones could be noted.
    pub fn first_seen(&self) -> Option<Timestamp> {
        let Verdict { state, held, first_seen, .. } = &self.verdict;
        let is_noted = |service| !self.without_note.contains(service);
        first_seen.filter(|_| !state.holds() || held.keys().any(is_noted))
    }

    /// Whether a person has to look: an earlier run saw the loss first, or no later one can know of it.
    pub fn is_later_look(&self) -> bool {
        let is_seen_before = self.first_seen().is_some_and(|first_seen| first_seen < self.run.now);
        is_seen_before || !self.without_note.is_empty()
    }

    /// The time from which a full sync that sees the same loss lets it pass.
    pub fn lifts_from(&self) -> Option<Timestamp> {
        let wait = self.run.guard.wait;
        let lifts_from = |seen: Timestamp| seen.saturating_add(wait).unwrap_or(Timestamp::MAX);
        self.first_seen().map(lifts_from)
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
        let mut sentences = Vec::new();
        if let (Some(first_seen), Some(lifts_from)) = (self.first_seen(), self.lifts_from()) {
            sentences.push(format!(
                "first seen {first_seen}; the full sync lets the same loss pass from {lifts_from} on, {confirm} at once"
            ));
        }
        if !self.without_note.is_empty() {
            let Words { owner, noun, .. } = self.run.subject.words();
            let names = join_first(&self.without_note, NAMED);
            let plural = if self.without_note.len() == 1 { "" } else { "s" };
            sentences.push(format!(
                "no later run can know of the loss of {owner}{plural} {names}, since it could not be noted, so these {noun} stay until {confirm}"
            ));
        }
        sentences.join("; ")
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
                write!(f, "{who} would lose {loss} {noun} that are left to the full sync")?;
                match first_seen {
                    Some(_) => write!(f, ": {}", self.until()),
                    None => Ok(()),
                }
            }
        }
    }
}
