//! Decides. [`plan`] compares the claims of a cluster with the contents of Cloud Map and returns the changes and the
//! requests that are held back, each with its reason. It is pure: no clock, client or log, so every rule of the
//! reconcile is a table of cases here, and applying a plan needs no decision.
//!
//! ```text
//! Desired ──> claims (holders of a name) ──> wanted, present ──> compare ──> removals
//! Registry ───────────────────────────────────────┘                             │
//!         Plan <── guard (mass deletions) <── capacity (Cloud Map limits) <── rules
//! ```
//!
//! - Input: `observation` is one read of a cluster and of Cloud Map, with the `rules` of the installation.
//! - Names: `claims` with the `namespaces` that they are in and the `name_policy` that limits them.
//! - Instances: `shape` makes them of endpoints, `wanted` is all of one holder, each `instance` has an identity and a
//!   `health`; `present` are ours in Cloud Map; `compare` finds the differences.
//! - Cloud Map services: `services` creates them, `ttl` updates them, `unused_services` deletes them.
//! - Output: a `result` of `change`s and of requests that are held back for a `reason`; `turns` are the Services that are
//!   carried out together, `part` plans for some of them, and `refusals` are changes that are not tried again yet.
//! - No claim requests the changes of `adopt`, `orphans` (with the purge), `records` and `mark` (notes for later runs).
//! - For people: the `fate` of each endpoint, and the `ownership` of instances.
//!
//! Removals are decided twice: once to find the instances to read again, and once on a second read made after all
//! registrations of the same Service are done. Only the second plan's removals that wait for nothing are carried out.

mod adopt;
mod capacity;
mod change;
mod claims;
mod compare;
mod fate;
mod guard;
mod health;
mod instance;
mod loss;
mod mark;
mod name_policy;
mod namespaces;
mod observation;
mod orphans;
mod ownership;
mod part;
mod present;
mod reason;
mod records;
mod refusals;
mod removals;
mod rests;
mod result;
mod rules;
mod services;
mod shape;
#[cfg(test)]
mod tests;
mod ttl;
mod turns;
mod unused_services;
mod wanted;

use adopt::must_be_adopted;
use compare::{Compared, Comparison, compare};
use removals::removals;
use services::fits;
use wanted::wanted;

use crate::model::{CloudMapService, Owner, Place, ServiceRef};

pub use crate::guard::{Extent, Guard, GuardStatus, ServiceLoss};
pub use crate::model::Policy;
pub use adopt::{
    Adoption, ExportAdoption, Former, NotAdopted, adopt, adopt_exports, adopt_former, to_adopt,
};
pub use capacity::{DEFAULT_NAMESPACE_QUOTA, Peak, Quota, ServiceLimit, peaks};
pub use change::{Change, Difference, Stage};
pub use claims::Holders;
pub use fate::{Fate, Found, found};
pub use guard::{Judged, is_quiet, would_lose};
pub use health::health_needed;
pub use mark::services_for_notes;
pub use name_policy::{Denial, Glob, NamePolicy, Permit, Range, Rule};
pub use observation::{Basis, Observation, Observed};
pub use orphans::{Orphans, Step, marked_owners, not_shown, purge};
pub use ownership::likely_owner;
pub use part::{
    Missing, RereadScope, affected, claimed_namespaces, hold_names_exclusively, lacks_namespace,
};
pub use reason::{HeldBack, MendedBy, Reason};
pub use records::{Records, no_service};
pub use refusals::{Refusals, Refused};
pub use removals::{DeregisterReason, Exchange, WaitsFor};
pub use rests::to_read;
pub use result::{Note, Plan, Unchanged, seen_as_ours, tags_of_unread, unread_keys};
pub use rules::{Rules, SetBy};
pub use services::{is_clear, tags_needed, ttls_asked};
pub use turns::{InTurn, in_turns};
pub use unused_services::{Claimed, Leaving, Verdict, deletable, verdict};

/// Compares desired and actual state of the affected Services. Their endpoints must have been read, and those of all
/// Services that share a name with them. Nothing is planned on instances that were read before this run.
pub fn plan(basis: Basis<'_>) -> Plan {
    let mut plan = plan_on_any_age(basis);
    plan.leave_out_old(basis);
    plan.note_present(&basis.observation.registry);
    plan.add_namespaces();
    plan.in_order()
}

/// The same on all that is known of Cloud Map, so that the guard judges every loss.
fn plan_on_any_age(basis: Basis<'_>) -> Plan {
    let Basis { observation, holders, affected } = basis;
    let mut plan = Plan { held_back: holders.held_back(observation, affected), ..Plan::default() };
    let compared = plan.add_names(basis);
    removals(basis, &compared, &mut plan);
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
    plan.changes.retain(|_, changes| !changes.is_empty());
    plan
}

impl Plan {
    /// Compares every name that an affected Service holds, and adds all changes except the removals.
    fn add_names(&mut self, basis: Basis<'_>) -> Compared {
        let Basis { observation, holders, affected } = basis;
        let mut all = Compared::default();
        for key in holders.keys() {
            let asking = holders.asking(key, affected);
            if asking.is_empty() {
                continue;
            }
            if observation.registry.services.get(key).is_some_and(CloudMapService::is_never_read) {
                continue;
            }
            let place = Place::of(key, &observation.registry);
            let ready = asking.iter().try_for_each(|it| must_be_adopted(observation, key, it));
            let ready = ready.and_then(|()| fits(observation, key, holders));
            match ready.and_then(|()| wanted(observation, key, holders.holders(key))) {
                Ok(wanted) => {
                    let mut compared = compare(observation, key, wanted);
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
}

/// The purpose of changes.
#[derive(Clone, Copy, Debug)]
pub enum Intent<'a> {
    /// Cloud Map is made to match the cluster.
    Sync,
    /// What the cluster has and Cloud Map lacks is registered, and nothing else is changed.
    Additions,
    /// Names that several clusters share get the TTL that all of them ask for, and nothing else is changed.
    SharedTtls,
    /// Instances of other owners become ours.
    Adopt(&'a Adoption),
    /// Instances of AWS's controller become those of our exports.
    AdoptExports(&'a ExportAdoption),
    /// Exports of a former `OWNER_ID` become ours.
    AdoptFormer(&'a Owner),
    /// All our instances of a cluster are deregistered; the cluster may be gone.
    Purge(&'a DeregisterReason),
    /// As `Purge`, or a note for a later run, for a cluster that is not kept in sync any more.
    Orphans(Step),
    /// The records of a member become those that are wanted.
    Records(&'a Records),
}

impl Intent<'_> {
    /// The plan for an observation that was just made.
    pub fn plan(self, basis: Basis<'_>) -> Plan {
        match self {
            Self::Sync => plan(basis),
            Self::Additions => plan(basis).additions_alone(),
            Self::SharedTtls => plan(basis).updates_alone(),
            Self::Adopt(adoption) => adopt(basis, adoption),
            Self::AdoptExports(adoption) => adopt_exports(basis, adoption),
            Self::AdoptFormer(former) => adopt_former(basis.observation, former),
            Self::Purge(because) => purge(basis.observation, because),
            Self::Orphans(step) => step.plan(basis.observation),
            Self::Records(records) => records.plan(basis),
        }
    }

    /// The plan for the data that was read again after a part of the changes was made.
    pub fn plan_again(self, basis: Basis<'_>) -> Plan {
        let mut planned = self.plan(basis);
        if let Self::Adopt(_) = self {
            planned.add_duplicates(plan(basis), |_| true);
        }
        planned
    }
}
