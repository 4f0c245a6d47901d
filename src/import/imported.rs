//! The outcome of the imports of a cluster in one run. Imports of which an object has changed since it was read are apart:
//! they get a second look, whose outcome is added, or what became of them counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::apply::{Made, Outcome};
use super::guard::Note;
use super::one::{One, Rest};
use super::plan::HeldBack;
use crate::clusterset::merge::Merged;
use crate::guard::GuardStatus;
use crate::model::{Notice, Selection, ServiceRef};

/// The imports of a cluster in one run.
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
    /// The imports of which an object has changed since it was read. They are not in the other fields.
    pub(super) outdated: BTreeMap<ServiceRef, One>,
}

impl Imported {
    pub(super) fn add(&mut self, name: ServiceRef, one: One) {
        self.unfinished.extend((one.rest != Rest::None).then_some(name));
        self.imports += usize::from(one.is_import);
        self.merged.extend(one.merged);
        self.endpoints += one.endpoints;
        self.made.extend(one.made);
        self.held_back.extend(one.held_back.into_iter().chain(one.remarks));
        self.notices.extend(one.notice);
        self.unreadable.extend(one.unreadable);
    }

    /// The imports to look at again, at most `most`: an object has changed since it was read. `None` if there are none.
    pub fn outdated(&self, most: usize) -> Option<Selection> {
        let outdated = || self.outdated.iter().take(most);
        let held = outdated().filter(|(_, one)| one.is_held).map(|(name, _)| name.clone());
        let selection = Selection::Only {
            namespaces: BTreeSet::new(),
            services: outdated().map(|(name, _)| name.clone()).collect(),
            held: held.collect(),
        };
        Some(selection).filter(|_| !self.outdated.is_empty())
    }

    /// Takes over a second look at outdated imports, and then the outcome of all others.
    pub fn looked_again(&mut self, again: Option<(&Selection, Self)>) {
        for (name, mut one) in std::mem::take(&mut self.outdated) {
            if again.as_ref().is_some_and(|(selection, _)| selection.contains(&name)) {
                one.made.retain(|made| made.outcome == Outcome::Applied);
                self.made.extend(one.made);
                self.notices.extend(one.notice);
            } else {
                self.add(name, one);
            }
        }
        if let Some((_, mut again)) = again {
            again.looked_again(None);
            self.imports += again.imports;
            self.merged.extend(again.merged);
            self.endpoints += again.endpoints;
            self.made.extend(again.made);
            self.held_back.extend(again.held_back);
            self.notices.extend(again.notices);
            self.unreadable.extend(again.unreadable);
            self.unfinished.extend(again.unfinished);
            self.is_unfamiliar |= again.is_unfamiliar;
            self.guard = self.guard.take().or(again.guard);
        }
    }
}
