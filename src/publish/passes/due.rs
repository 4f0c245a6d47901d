//! The choice of the open changes of a turn that are made next.

use super::Turn;
use crate::model::attributes::SIGHTING;
use crate::publish::plan::{Change, Stage};

impl Turn<'_> {
    /// Removes and returns the changes that are made next: those of the first stage that has any.
    pub(super) fn take_due(&mut self) -> Option<Vec<Change>> {
        let is_contested = |stage| self.contested.iter().any(|change| change.stage() == stage);
        if is_contested(Stage::Create) {
            // The registrations there are planned again, on the instances that exist now.
            return None;
        }
        let (record, pass) = (&self.record, self.pass);
        let registers = |change: &Change, other: &Change| {
            other.stage() == Stage::Register && other.place() == change.place()
        };
        // A cluster without an instance in a Cloud Map service must not set its TTL. So after a refused registration
        // the next plan decides about the TTL.
        let is_refused =
            |change: &Change| self.refused.iter().any(|refused| refused.place() == change.place());
        let all = &self.open;
        // A note that does not go with the instances goes after them.
        let is_left = record.has_failed_removal()
            || all.iter().any(|change| change.stage() == Stage::Deregister);
        let is_due = |change: &Change| match change {
            _ if record.is_settled(change) => false,
            Change::CreateService { .. } => all.iter().any(|other| registers(change, other)),
            Change::UpdateService { .. } => !is_refused(change),
            Change::NoteOnService { text: None, .. } => !is_left,
            Change::Deregister { waits_for, .. } => pass > 1 && waits_for.is_none(),
            _ => pass > 1 || change.exchange().is_none(),
        };
        let mut due: Vec<bool> = self.open.iter().map(is_due).collect();
        let first = |(change, due): (&Change, &bool)| due.then(|| change.stage());
        let stage = self.open.iter().zip(&due).filter_map(first).min()?;
        self.leave_notes_for_last(stage, &mut due);
        if !due.contains(&true) {
            return None;
        }
        let mut due = due.into_iter();
        let taken = self
            .open
            .extract_if(.., |change| due.next().unwrap_or(false) && change.stage() == stage);
        Some(taken.collect())
    }

    /// An instance with the guard's note is removed after all others: if one of them is left, so is the note.
    fn leave_notes_for_last(&self, stage: Stage, due: &mut [bool]) {
        let is_noted = |change: &Change| {
            let instance = change.instance().unwrap_or_default();
            let present = self.observation.registry.instance(&change.place().key, instance);
            present.is_some_and(|it| it.contains_key(SIGHTING))
        };
        let is_other = |(change, due): (&Change, &bool)| {
            *due && change.stage() == Stage::Deregister && !is_noted(change)
        };
        let others_go = self.open.iter().zip(&*due).any(is_other);
        if stage == Stage::Deregister && (others_go || self.record.has_failed_removal()) {
            for (change, due) in self.open.iter().zip(due) {
                *due &= !is_noted(change);
            }
        }
    }
}
