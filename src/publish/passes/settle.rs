//! The outcomes of the changes of a turn: of each that was made, and of those that are left when it ends.

use super::turn::NO_TIME;
use super::{Outcome, Turn};
use crate::model::ServiceKey;
use crate::publish::plan::{Change, DeregisterReason, Reason};

impl Turn<'_> {
    /// The outcome of a change in a Cloud Map service that does not exist.
    pub fn without_service(&self, key: &ServiceKey) -> Outcome {
        let applied = &self.record.results.applied;
        let mut made = applied.iter().filter(|made| made.change.place().key == *key);
        let held_back = made.find(|made| matches!(made.outcome, Outcome::HeldBack(_)));
        let missing = || Outcome::Undone("its Cloud Map service does not exist".to_owned());
        held_back.map_or_else(missing, |made| made.outcome.clone())
    }

    /// Fails the changes in a service that cannot be read again.
    pub(super) fn fail_unreadable(&mut self, open: Vec<Change>) {
        for change in open {
            let service = self.observation.registry.services.get(&change.place().key);
            if let Some(problem) = service.and_then(|service| service.unreadable.clone()) {
                self.settle(change, Outcome::Failed(problem));
            }
        }
    }

    /// Gives up the open changes, since the read that they rest on failed.
    pub fn fail(&mut self, outcome: &Outcome) {
        for change in self.take_open() {
            self.settle(change, outcome.clone());
        }
        self.rechecked = true;
    }

    pub(super) fn take_open(&mut self) -> Vec<Change> {
        let mut open = std::mem::take(&mut self.open);
        open.append(&mut self.contested);
        open.append(&mut self.refused);
        open
    }

    /// Ends the turn: the changes that are left are not made.
    pub(super) fn close(&mut self, has_time: bool) {
        if has_time {
            for change in std::mem::take(&mut self.contested) {
                let text = format!("cannot {change}: another writer keeps changing it");
                self.settle(change, Outcome::Failed(text));
            }
            self.settle_refused();
        }
        for change in self.take_open() {
            if self.record.is_settled(&change) {
                continue;
            }
            let outcome = match &change {
                Change::Deregister { instance, waits_for: Some(wait), .. } if has_time => {
                    let (instance, waits_for) = (instance.clone(), wait.to_string());
                    Outcome::HeldBack(Reason::Waiting { instance, waits_for })
                }
                _ if has_time => Outcome::Undone("an earlier change was not made".to_owned()),
                _ => Outcome::Undone(NO_TIME.to_owned()),
            };
            self.settle(change, outcome);
        }
    }

    /// The lines of the last plan give the reasons why these are not registered. Records have no such lines.
    fn settle_refused(&mut self) {
        for change in std::mem::take(&mut self.refused) {
            let service = self.record.service(&change);
            let is_told = self.record.results.held_back.iter().any(|line| {
                let is_here =
                    line.service == *service && line.place.as_ref() == Some(change.place());
                is_here && line.reason.is_about_capacity()
            });
            let refusal = self.observation.registry.capacity.refusal(&change.place().key);
            if let Some(message) = refusal.filter(|_| !is_told) {
                let reason = Reason::QuotaExceeded(message.to_owned());
                self.settle(change, Outcome::HeldBack(reason));
            }
        }
    }

    pub(super) fn settle(&mut self, change: Change, outcome: Outcome) {
        if outcome == Outcome::Applied {
            self.progress = true;
            let service = self.record.service(&change).clone();
            if let Change::Deregister { because: DeregisterReason::NoReadyEndpoint, .. } = &change {
                self.removed.insert(service.clone());
            }
            self.observation.note(&service, &change);
        }
        self.record.settle(change, outcome);
    }
}
