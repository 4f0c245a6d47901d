//! The outcomes of changes as lines of the report. The changes of a turn become lines when it ends: a change with its
//! attributes is several times as large, and a first sync makes tens of thousands.

use std::collections::BTreeMap;

use crate::model::{Place, ServiceKey};
use crate::publish::passes::{Applied, Outcome};
use crate::publish::plan::{Change, HeldBack, Reason, Stage};
use crate::report::{ChangeLine, ChangeResult, Refused};

/// The lines of all changes with an outcome, by Cloud Map service.
#[derive(Debug, Default)]
pub struct Lines(BTreeMap<Place, LinesAt>);

/// The lines of one Cloud Map service.
#[derive(Debug, Default)]
pub struct LinesAt {
    changes: Vec<(Stage, ChangeLine)>,
    held_back: Vec<(Stage, Option<String>, HeldBack)>,
    /// The registrations that Cloud Map rejects as invalid.
    pub refused: Vec<Refused>,
    /// The change in the number of instances.
    pub difference: isize,
}

impl Lines {
    /// Sorts the lines of each service by stage and instance.
    pub fn sort(&mut self) {
        for LinesAt { changes, held_back, .. } in self.0.values_mut() {
            changes.sort_by(|(a, one), (b, other)| (a, &one.instance).cmp(&(b, &other.instance)));
            held_back.sort_by(|(a, one, _), (b, other, _)| (a, one).cmp(&(b, other)));
        }
    }

    /// The changes that were held back when they were made.
    pub fn held_back(&self) -> impl Iterator<Item = &HeldBack> {
        self.0.values().flat_map(|at| &at.held_back).map(|(_, _, held_back)| held_back)
    }

    /// The Cloud Map services in which an instance was registered, or may have been.
    pub fn registered(&self) -> impl Iterator<Item = &ServiceKey> {
        let registers = |(stage, line): &(Stage, ChangeLine)| {
            let was_sent =
                matches!(line.result, ChangeResult::Applied | ChangeResult::Failed { .. });
            *stage == Stage::Register && was_sent
        };
        let at = self.0.iter().filter(move |(_, at)| at.changes.iter().any(registers));
        at.map(|(place, _)| &place.key)
    }

    /// The lines of a service, if it has any.
    pub fn at(&self, place: &Place) -> Option<&LinesAt> {
        self.0.get(place)
    }

    fn add(&mut self, Applied { service, change, outcome }: Applied) {
        let at = self.0.entry(change.place().clone()).or_default();
        if matches!(outcome, Outcome::Planned | Outcome::Applied) {
            at.difference += change.difference();
        }
        let instance = change.instance().map(str::to_owned);
        match outcome.into_result() {
            Ok(result) => {
                let service = change.marked().cloned().unwrap_or(service);
                let (detail, stage) = (change.detail(), change.stage());
                let change = change.verb();
                at.changes.push((stage, ChangeLine { change, instance, service, detail, result }));
            }
            Err(reason) => {
                let registers = matches!(change, Change::Register { .. });
                if registers && matches!(reason, Reason::InvalidInput(_)) {
                    let (service, instance) = (service.clone(), instance.clone());
                    at.refused.push(Refused { service, instance });
                }
                let place = Some(change.place().clone());
                let held_back = HeldBack { service, place, reason };
                at.held_back.push((change.stage(), instance, held_back));
            }
        }
    }
}

impl LinesAt {
    /// The lines of the changes, and the changes that were held back.
    pub fn into_lines(self) -> (impl Iterator<Item = ChangeLine>, impl Iterator<Item = HeldBack>) {
        let changes = self.changes.into_iter().map(|(_, line)| line);
        (changes, self.held_back.into_iter().map(|(_, _, held_back)| held_back))
    }
}

impl Extend<Applied> for Lines {
    fn extend<I: IntoIterator<Item = Applied>>(&mut self, outcomes: I) {
        outcomes.into_iter().for_each(|it| self.add(it));
    }
}

impl FromIterator<Applied> for Lines {
    fn from_iter<I: IntoIterator<Item = Applied>>(outcomes: I) -> Self {
        let mut lines = Self::default();
        lines.extend(outcomes);
        lines
    }
}

impl IntoIterator for Lines {
    type Item = (Place, LinesAt);
    type IntoIter = std::collections::btree_map::IntoIter<Place, LinesAt>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
