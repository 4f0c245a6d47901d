//! Decides. [`plan`] compares what a cluster asks for with what Cloud Map holds and answers with
//! changes and with what is held back, each with its reason. It is pure: no clock, client or log, so
//! every rule of the reconcile is a table of cases here, and applying a plan needs no opinion.
//!
//! ```text
//! Desired ──> claim (who holds a name) ──> wanted (which instances) ──┐
//! Registry ─> ownership (whose is it) ──────────────────────────────┴─> compare ──> removal ──> Plan
//! ```
//!
//! What a plan takes out is decided twice: once to know what to look at again, and once on a second
//! read made after all registrations of the same Service are done. Only the second plan's removals
//! that wait for nothing are carried out.

mod adopt;
mod affected;
mod change;
mod claim;
mod compare;
mod comparison;
mod fate;
mod guard;
mod health;
mod held_back;
mod identity;
mod limits;
mod mark;
mod maximum;
mod name_policy;
mod narrow;
mod new_name;
mod orphans;
mod ownership;
mod part;
mod party;
mod place;
mod policy;
mod present;
mod purge;
mod removal;
mod rewrite;
mod room;
mod rules;
mod service;
mod shape;
mod sharing;
mod subset;
#[cfg(test)]
mod tests;
mod turns;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use comparison::Comparison;

use crate::model::{Desired, Owner, Registry, ServiceKey, ServiceRef, Timestamp};

pub use adopt::{Adoption, Former, NotAdopted, adopt};
pub use affected::affected;
pub use change::{Because, Change, Difference, Stage, WaitsFor};
pub use claim::Holders;
pub use fate::{Fate, Found, Remark, found};
pub use guard::{Extent, Guard, Losing, Stand, Told, is_quiet, loses};
pub use health::health_needed;
pub use held_back::{HeldBack, Reason, Setting};
pub use limits::{Limits, registrations};
pub use name_policy::{Denial, Glob, NamePolicy, Permit, Range, Rule};
pub use narrow::Again;
pub use orphans::{Orphans, Step, marked_clusters};
pub use ownership::Foreign;
pub use part::{claimed, lacks_namespace, marks, stand_alone};
pub use party::{Parties, Party, parties};
pub use place::Place;
pub use policy::Policy;
pub use purge::purge;
pub use room::{Peak, peaks};
pub use rules::Rules;
pub use service::{
    Claimed, Leaving, NewService, ServiceUpdate, Verdict, deletable, tags_needed, verdict,
};
pub use turns::in_turns;

/// All that a plan is made from.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Whose instances are ours.
    pub owner: Owner,
    /// What the installation allows.
    pub rules: Arc<Rules>,
    /// When it was made.
    pub now: Timestamp,
    /// How much of the cluster the plan is about.
    pub extent: Extent,
    /// What the cluster asks for.
    pub desired: Desired,
    /// What Cloud Map holds.
    pub registry: Registry,
}

/// What to do, and what not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The changes of each Kubernetes Service, by Cloud Map service and stage.
    pub changes: BTreeMap<ServiceRef, Vec<Change>>,
    /// What was asked for and is not done, with the reason.
    pub held_back: Vec<HeldBack>,
    /// What stays as it is, by Cloud Map service.
    pub standing: BTreeMap<Place, Standing>,
    /// What the guard says, where a loss is past its limits.
    pub guard: Option<Arc<Told>>,
}

/// What stays as it is in one Cloud Map service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Instances of ours that are as they should be.
    pub unchanged: usize,
    /// Instances of others, by kind of owner.
    pub foreign: BTreeMap<Foreign, usize>,
    /// Instances of anybody before the plan.
    pub present: usize,
    /// Why nothing is known of it, where it was to be looked at whoever claims it.
    pub unreadable: Option<String>,
}

/// Compares desired and actual state of the `affected` Services. Their endpoints must have been read, and
/// those of all who share a name with them.
pub fn plan(observation: &Observation, affected: &BTreeSet<ServiceRef>) -> Plan {
    let holders = Holders::decide(observation);
    let mut plan = Plan { held_back: holders.held_back(observation, affected), ..Plan::default() };
    let mut matched = BTreeMap::new();
    for key in holders.keys() {
        let place = Place::of(key, &observation.registry);
        let asking = holders.asking(key, affected);
        if asking.is_empty() {
            continue;
        }
        match wanted::wanted(observation, key, holders.holders(key)) {
            Ok(wanted) => {
                let mut compared = compare::compare(observation, key, wanted);
                compare::create_once(&mut compared, &asking);
                for service in asking {
                    plan.take(&place, service, &compared[service]);
                }
                matched.insert(key.clone(), compared);
            }
            Err(reason) => {
                for service in asking {
                    plan.hold_back(service, &place, reason.clone());
                }
            }
        }
    }
    removal::removals(observation, &holders, &matched, affected, &mut plan);
    plan.note_foreign(observation, &holders, affected);
    observation.rules.policy.restrict(&mut plan);
    guard::restrain(observation, affected, &mut plan);
    limits::keep_within(observation, &matched, &mut plan);
    if observation.extent.is_whole() {
        orphans::take_notes_back(observation, &mut plan);
    }
    plan.note_present(&observation.registry);
    plan.add_namespaces();
    plan.in_order()
}

impl Plan {
    /// Adds what was found to be held back while the plan was carried out.
    pub fn add_held_back(&mut self, held_back: Vec<HeldBack>) {
        self.held_back.extend(held_back);
        self.held_back.sort();
        self.held_back.dedup();
    }

    fn take(&mut self, place: &Place, holder: &ServiceRef, comparison: &Comparison) {
        self.standing.entry(place.clone()).or_default().unchanged += comparison.unchanged.len();
        let changes = comparison.changes(place);
        if !changes.is_empty() {
            self.changes.entry(holder.clone()).or_default().extend(changes);
        }
        for reason in comparison.held_back.clone() {
            self.hold_back(holder, place, reason);
        }
    }

    fn hold_back(&mut self, service: &ServiceRef, place: &Place, reason: Reason) {
        let place = Some(place.clone());
        self.held_back.push(HeldBack { service: service.clone(), place, reason });
    }

    /// Counts what belongs to others in every Cloud Map service that this plan looked into.
    fn note_foreign(
        &mut self,
        observation: &Observation,
        holders: &Holders,
        affected: &BTreeSet<ServiceRef>,
    ) {
        let claimed = holders.held().filter(|(_, holder)| affected.contains(*holder));
        let claimed: BTreeSet<&ServiceKey> = claimed.map(|(key, _)| key).collect();
        let changed = self.changes.values().flatten().map(|change| change.place().key.clone());
        let keys: BTreeSet<ServiceKey> = claimed.into_iter().cloned().chain(changed).collect();
        for key in keys {
            let place = Place::of(&key, &observation.registry);
            let standing = self.standing.entry(place).or_default();
            for (id, attributes) in observation.registry.instances(&key) {
                if let Some(foreign) = ownership::foreign(id, attributes, &observation.owner) {
                    *standing.foreign.entry(foreign).or_default() += 1;
                }
            }
        }
    }

    /// Counts what is registered where something is changed or stays.
    fn note_present(&mut self, registry: &Registry) {
        for change in self.changes.values().flatten() {
            self.standing.entry(change.place().clone()).or_default();
        }
        for (place, standing) in &mut self.standing {
            standing.present = registry.instances(&place.key).count();
        }
    }

    fn in_order(mut self) -> Self {
        for changes in self.changes.values_mut() {
            changes.sort_by(|a, b| a.order().cmp(&b.order()));
        }
        self.changes.retain(|_, changes| !changes.is_empty());
        self.add_held_back(Vec::new());
        self
    }
}
