//! The outcome of the imports of a cluster in one run. Imports of which an object has changed since it was read are apart:
//! they get a second look, whose outcome is added, or what became of them counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::apply::{Made, apply};
use super::guard::Note;
use super::observe::Objects;
use super::plan::{HeldBack, OwnerLabel, Plan, Present};
use crate::clusterset::merge::Merged;
use crate::guard::GuardStatus;
use crate::kubernetes::Kubernetes;
use crate::model::clusterset::RefusedField;
use crate::model::{Notice, Outcome, Selection, ServiceRef, Timestamp};
use crate::time::Deadline;

/// The outcome of imports of a cluster in one run.
#[derive(Debug, Default)]
pub struct Imported {
    /// The number of imports that the cluster has or shall have.
    pub imports: usize,
    /// The merged exports of the names that the cluster exports itself.
    pub merged: BTreeMap<ServiceRef, Arc<Merged>>,
    /// The number of ready endpoints in them.
    pub endpoints: usize,
    pub made: Vec<Made>,
    pub held_back: Vec<HeldBack>,
    /// The notices about imports whose IP changed.
    pub notices: Vec<Notice>,
    /// The imports of which an object cannot be read.
    pub unreadable: Vec<(ServiceRef, String)>,
    /// Whether Cloud Map lacks the record of this cluster although it has imports: it may be another account's.
    pub is_unfamiliar: bool,
    /// The imports with a change left that a retry can make.
    pub unfinished: BTreeSet<ServiceRef>,
    /// The verdict of the guard, if a loss is past its limits.
    pub guard: Option<Arc<GuardStatus>>,
    /// What becomes of the sighting on the cluster's record.
    pub note: Option<Note>,
    /// The imports of which an object has changed since it was read, so that the rest of them was not written. They are
    /// not in the other fields.
    pub(super) outdated: BTreeMap<ServiceRef, Outdated>,
}

/// The outcome of an import of which an object has changed since it was read.
#[derive(Debug)]
pub(super) struct Outdated {
    pub imported: Imported,
    /// Whether the guard holds what would leave it.
    pub is_held: bool,
}

impl Imported {
    /// Adds the outcome of other imports.
    pub(super) fn add(&mut self, other: Self) {
        self.imports += other.imports;
        self.merged.extend(other.merged);
        self.endpoints += other.endpoints;
        self.made.extend(other.made);
        self.held_back.extend(other.held_back);
        self.notices.extend(other.notices);
        self.unreadable.extend(other.unreadable);
        self.is_unfamiliar |= other.is_unfamiliar;
        self.unfinished.extend(other.unfinished);
        self.guard = self.guard.take().or(other.guard);
        self.outdated.extend(other.outdated);
    }

    /// Whether every change was made.
    pub(super) fn is_complete(&self) -> bool {
        self.unreadable.is_empty()
            && self.outdated.is_empty()
            && self.made.iter().all(|made| made.result == Outcome::Applied)
    }

    /// The same outcome of one import, of which an object has changed since it was read.
    pub(super) fn of_outdated(self, name: ServiceRef, is_held: bool) -> Self {
        let outdated = Outdated { imported: self, is_held };
        Self { outdated: BTreeMap::from([(name, outdated)]), ..Self::default() }
    }

    /// The imports to look at again, at most `most`: an object has changed since it was read. `None` if there are none.
    pub fn outdated(&self, most: usize) -> Option<Selection> {
        let outdated = || self.outdated.iter().take(most);
        let held = outdated().filter(|(_, it)| it.is_held).map(|(name, _)| name.clone());
        let selection = Selection::Only {
            namespaces: BTreeSet::new(),
            services: outdated().map(|(name, _)| name.clone()).collect(),
            held: held.collect(),
        };
        Some(selection).filter(|_| !self.outdated.is_empty())
    }

    /// Takes over a second look at outdated imports, and then the outcome of all others.
    pub fn looked_again(&mut self, again: Option<(&Selection, Self)>) {
        for (name, Outdated { mut imported, .. }) in std::mem::take(&mut self.outdated) {
            if again.as_ref().is_some_and(|(selection, _)| selection.contains(&name)) {
                imported.made.retain(|made| made.result == Outcome::Applied);
                self.made.extend(imported.made);
                self.notices.extend(imported.notices);
            } else {
                self.unfinished.insert(name);
                self.add(imported);
            }
        }
        if let Some((_, mut again)) = again {
            again.looked_again(None);
            self.add(again);
        }
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
        let Self { kubernetes, owner, objects, writes, now, deadline } = *self;
        let mut all = Imported::default();
        for name in objects.names(owner) {
            let mut present = match objects.present(&name) {
                Ok(present) => present,
                Err(problem) => {
                    all.unreadable.push((name, problem.to_string()));
                    continue;
                }
            };
            loop {
                let refused = kubernetes.refused_fields(now);
                let Plan { changes, held_back } = decide(&name, &present, &refused);
                if !writes {
                    all.held_back.extend(held_back);
                    all.made.extend(changes.into_iter().map(Made::planned));
                    break;
                }
                let applied = apply(kubernetes, &name, &mut present, changes, deadline).await;
                let has_learnt = applied.refused.iter().any(|field| !refused.contains(field));
                kubernetes.remember_refused(applied.refused, now);
                let made = applied.made.into_iter();
                all.made.extend(made.filter(|made| !has_learnt || made.result == Outcome::Applied));
                if !has_learnt {
                    all.held_back.extend(held_back);
                    break;
                }
            }
        }
        all
    }
}
