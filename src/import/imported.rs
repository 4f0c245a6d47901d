//! The outcome of the imports of a cluster in one run. Imports of which an object has changed since it was read get a
//! second look, whose outcome counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::apply::{Made, apply};
use super::guard::Note;
use super::observe::Objects;
use super::plan::{OwnerLabel, Plan, Present, Reason, Sources, Unexpected};
use crate::clusterset::merge::Merged;
use crate::guard::GuardStatus;
use crate::kubernetes::Kubernetes;
use crate::model::{Notice, Outcome, RefusedField, Selection, ServiceRef, Timestamp};
use crate::time::Deadline;

/// The outcome of the imports of a cluster in one run.
#[derive(Debug, Default)]
pub struct Imported {
    pub imports: BTreeMap<ServiceRef, ImportOutcome>,
    /// Whether Cloud Map lacks the record of this cluster although it has imports: it may be another account's.
    pub is_unfamiliar: bool,
    /// The problem of each Cloud Map service that could not be read: what rests on it stays.
    pub unread: BTreeSet<String>,
    /// The verdict of the guard, if a loss is past its limits.
    pub guard: Option<Arc<GuardStatus>>,
    /// What becomes of the sighting on the cluster's record.
    pub note: Option<Note>,
}

/// The outcome of one import.
#[derive(Debug, Default)]
pub struct ImportOutcome {
    /// Whether the cluster has it or shall have it.
    pub exists: bool,
    /// The merged exports of the name, if the cluster exports it itself.
    pub merged: Option<Arc<Merged>>,
    /// The number of ready endpoints in it.
    pub endpoints: usize,
    /// The sources on which the last plan rests; `None` if there was none.
    pub sources: Option<Sources>,
    pub made: Vec<Made>,
    pub held_back: Vec<Reason>,
    /// The notices that its IP changed.
    pub notices: Vec<Notice>,
    /// The problem of an object that cannot be read.
    pub unreadable: Option<String>,
    /// Whether a change is left that a retry can make.
    pub is_unfinished: bool,
    /// Whether an object has changed since it was read, so that the rest of it was not written. It is unfinished, too.
    pub is_outdated: bool,
}

impl ImportOutcome {
    pub(super) fn unreadable(problem: &Unexpected) -> Self {
        Self { unreadable: Some(problem.to_string()), ..Self::default() }
    }

    /// Whether the guard holds what would leave it.
    fn is_held(&self) -> bool {
        self.held_back.iter().any(|reason| matches!(reason, Reason::Guard { .. }))
    }

    fn is_complete(&self) -> bool {
        let is_made = self.made.iter().all(|made| made.result == Outcome::Applied);
        is_made && self.unreadable.is_none()
    }
}

impl Imported {
    /// Whether every change was made.
    pub(super) fn is_complete(&self) -> bool {
        self.imports.values().all(ImportOutcome::is_complete)
    }

    /// The imports to look at again, at most `most`: an object has changed since it was read. `None` if there are none.
    pub fn outdated(&self, most: usize) -> Option<Selection> {
        let outdated = || self.imports.iter().filter(|(_, it)| it.is_outdated).take(most);
        let held =
            outdated().filter(|(_, it)| it.is_held()).map(|(name, _)| name.clone()).collect();
        let services: BTreeSet<ServiceRef> = outdated().map(|(name, _)| name.clone()).collect();
        let is_any = !services.is_empty();
        is_any.then(|| Selection::Only { namespaces: BTreeSet::new(), services, held })
    }

    /// Takes over a second look at these imports. What became of the others counts, as does what the first look wrote.
    pub fn looked_again(&mut self, selection: &Selection, mut again: Self) {
        for (name, first) in self.imports.iter_mut().filter(|(name, _)| selection.contains(name)) {
            let mut second = again.imports.remove(name).unwrap_or_default();
            first.made.retain(|made| made.result == Outcome::Applied);
            second.made.splice(..0, first.made.drain(..));
            second.notices.splice(..0, first.notices.drain(..));
            *first = second;
        }
        self.is_unfamiliar |= again.is_unfamiliar;
        self.unread.extend(again.unread);
        self.guard = self.guard.take().or(again.guard);
    }
}

// Changes of all imports of an owner, each without a look at the exports: a purge takes out the ServiceImports, and with
// them their Services and slices, and an adoption takes them over.

/// The imports of an owner.
pub struct EachImport<'a> {
    pub kubernetes: &'a Kubernetes,
    pub owner: &'a OwnerLabel,
    pub objects: &'a Objects,
    /// Whether the plans are carried out.
    pub writes: bool,
    pub now: Timestamp,
    pub deadline: Deadline,
}

impl EachImport<'_> {
    /// Decides about each, and again if its API server refuses a field that the next plan does without.
    pub async fn run(
        &self,
        decide: impl Fn(&ServiceRef, &Present, &BTreeSet<RefusedField>) -> Plan,
    ) -> Imported {
        let mut imported = Imported::default();
        let names = self.objects.names(self.owner);
        for name in names.iter().chain(&self.objects.beside(&names)) {
            let outcome = match self.objects.present(name) {
                Ok(present) => self.one(name, present, &decide).await,
                Err(problem) => ImportOutcome::unreadable(&problem),
            };
            imported.imports.insert(name.clone(), outcome);
        }
        imported
    }

    async fn one(
        &self,
        name: &ServiceRef,
        mut present: Present,
        decide: &impl Fn(&ServiceRef, &Present, &BTreeSet<RefusedField>) -> Plan,
    ) -> ImportOutcome {
        let Self { kubernetes, now, deadline, .. } = *self;
        let mut outcome = ImportOutcome::default();
        loop {
            let refused = kubernetes.refused_fields(now);
            let Plan { changes, held_back } = decide(name, &present, &refused);
            outcome.held_back = held_back;
            if !self.writes {
                outcome.made = changes.into_iter().map(Made::planned).collect();
                return outcome;
            }
            let applied = apply(kubernetes, name, &mut present, changes, deadline).await;
            let has_learnt = applied.refused.iter().any(|field| !refused.contains(field));
            kubernetes.remember_refused(applied.refused, now).await;
            let made = applied.made.into_iter();
            outcome.made.extend(made.filter(|it| !has_learnt || it.result == Outcome::Applied));
            if !has_learnt {
                return outcome;
            }
        }
    }
}
