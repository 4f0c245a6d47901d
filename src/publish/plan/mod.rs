//! Decides. [`plan`] compares the claims of a cluster with the contents of Cloud Map and returns the changes and the
//! requests that are held back, each with its reason. It is pure: no clock, client or log, so every rule of the
//! reconcile is a table of cases here, and applying a plan needs no decision.
//!
//! ```text
//! Desired ──> claim (holder of a name) ──> instances (wanted, present, compared) ──> order (removals)
//! Registry ────────────────────────────────────┘                                          │
//!         Plan <── guard (mass deletions) <── capacity (Cloud Map limits) <── policy <────┘
//! ```
//!
//! `name_policy` limits the names that a Service may claim, `service` plans changes to Cloud Map services themselves,
//! `change` and `held_back` are the parts of a plan. `adopt`, `purge` and `orphans` plan changes that no claim
//! requests, and `records` those of exports; `part` plans for some Services, and again; `refusals` are changes that are
//! not tried again yet; `explain` describes a plan for people.
//!
//! Removals are decided twice: once to find the instances to read again, and once on a second read made after all
//! registrations of the same Service are done. Only the second plan's removals that wait for nothing are carried out.

mod adopt;
mod basis;
mod capacity;
mod change;
mod claim;
mod explain;
mod guard;
mod held_back;
mod instances;
mod intent;
mod mark;
mod maximum;
mod name_policy;
mod note;
mod observation;
mod order;
mod orphans;
mod ownership;
mod part;
mod policy;
mod progress;
mod purge;
mod records;
mod refusals;
mod rules;
mod service;
#[cfg(test)]
mod tests;
mod unchanged;
mod unread;

use std::collections::BTreeMap;
use std::sync::Arc;

use adopt::exports::must_be_adopted;
use instances::diff::{Compared, Comparison};
use instances::{compare, endpoints};
use order::removal;
use service::fits;

use crate::model::{Foreign, NewService, Place, ServiceRef, ServiceUpdate};

pub use crate::guard::{Extent, Guard, GuardStatus, ServiceLoss};
pub use adopt::{
    Adoption, ExportAdoption, Former, NotAdopted, adopt, adopt_exports, adopt_former, to_adopt,
};
pub use basis::{Basis, Observed};
pub use capacity::ServiceLimit;
pub use change::{Change, DeregisterReason, Difference, Exchange, Stage, WaitsFor};
pub use claim::Holders;
pub use explain::fate::{Fate, Found, Remark, found};
pub use explain::party::{Parties, Party, parties};
pub use explain::peaks::{DEFAULT_NAMESPACE_QUOTA, Peak, Quota, peaks};
pub use guard::{Judged, is_quiet, would_lose};
pub use held_back::{HeldBack, Reason, Setting};
pub use instances::health::health_needed;
pub use intent::Intent;
pub use mark::services_for_notes;
pub use maximum::SetBy;
pub use name_policy::{Denial, Glob, NamePolicy, Permit, Range, Rule};
pub use note::Note;
pub use observation::Observation;
pub use order::turns::{InTurn, in_turns};
pub use orphans::{Orphans, Step, marked_owners, not_shown};
pub use part::affected::affected;
pub use part::first::Missing;
pub use part::narrow::RereadScope;
pub use part::rest::{claimed_namespaces, hold_names_exclusively, lacks_namespace};
pub use policy::Policy;
pub use purge::purge;
pub use records::{Records, no_service};
pub use refusals::{Refusals, Refused};
pub use rules::Rules;
pub use service::{
    Claimed, Leaving, Verdict, deletable, is_clear, tags_needed, ttls_asked, verdict,
};
pub use unchanged::Unchanged;
pub use unread::{seen_as_ours, tags_of_unread, unread_keys};

/// The changes to make, and the requests that are held back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The changes of each Kubernetes Service, by Cloud Map service and stage.
    pub changes: BTreeMap<ServiceRef, Vec<Change>>,
    /// The requests that are not carried out, each with its reason.
    pub held_back: Vec<HeldBack>,
    /// The instances that stay as they are, by Cloud Map service.
    pub unchanged: BTreeMap<Place, Unchanged>,
    /// The status of the guard, if a loss is past its limits.
    pub guard: Option<Arc<GuardStatus>>,
}

/// Compares desired and actual state of the affected Services. Their endpoints must have been read, and those of all
/// Services that share a name with them.
pub fn plan(basis: Basis<'_>) -> Plan {
    let Basis { observation, holders, affected } = basis;
    let mut plan = Plan { held_back: holders.held_back(observation, affected), ..Plan::default() };
    let compared = plan.add_names(basis);
    removal::removals(basis, &compared, &mut plan);
    plan.note_foreign(basis);
    observation.rules.policy.restrict(&mut plan);
    capacity::fit(observation, &compared, &mut plan);
    plan.create_once(holders);
    plan.leave_ttls_to_others(observation);
    guard::restrain(basis, &mut plan);
    if observation.extent != Extent::Remainder {
        plan.note_unread(observation, holders);
    }
    if observation.extent.is_whole() {
        orphans::take_notes_back(observation, &mut plan);
    }
    plan.note_present(&observation.registry);
    plan.add_namespaces();
    plan.in_order()
}

impl Plan {
    /// Adds the reasons that were found while the plan was carried out.
    pub fn add_held_back(&mut self, held_back: Vec<HeldBack>) {
        self.held_back.extend(held_back);
        self.held_back.sort();
        self.held_back.dedup();
    }

    /// Compares every name that an affected Service holds, and adds all changes except the removals.
    fn add_names(&mut self, basis: Basis<'_>) -> Compared {
        let Basis { observation, holders, affected } = basis;
        let mut all = Compared::default();
        for key in holders.keys() {
            let asking = holders.asking(key, affected);
            if asking.is_empty() {
                continue;
            }
            let place = Place::of(key, &observation.registry);
            let ready = asking.iter().try_for_each(|it| must_be_adopted(observation, key, it));
            let ready = ready.and_then(|()| fits(observation, key, holders));
            match ready.and_then(|()| endpoints::wanted(observation, key, holders.holders(key))) {
                Ok(wanted) => {
                    let mut compared = compare::compare(observation, key, wanted);
                    for service in asking {
                        if let Some(comparison) = compared.get_mut(service) {
                            self.add_comparison(&place, service, comparison);
                        }
                    }
                    all.insert(key.clone(), compared);
                }
                Err(reason) => {
                    for service in asking {
                        self.hold_back(service, &place, reason.clone());
                    }
                }
            }
        }
        all
    }

    fn add_comparison(&mut self, place: &Place, holder: &ServiceRef, comparison: &mut Comparison) {
        let unchanged = self.unchanged.entry(place.clone()).or_default();
        unchanged.ours += comparison.unchanged();
        unchanged.notes.extend(comparison.note.clone());
        let changes = comparison.take_changes(place);
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

    fn in_order(mut self) -> Self {
        for changes in self.changes.values_mut() {
            changes.sort_by(|a, b| a.order().cmp(&b.order()));
        }
        self.changes.retain(|_, changes| !changes.is_empty());
        self.add_held_back(Vec::new());
        self
    }
}
