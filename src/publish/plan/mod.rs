//! The rules of a sync. [`plan`] compares the claims of a cluster with the contents of Cloud Map and returns the
//! changes and the requests that are held back, each with its reason. It is pure: no clock, client or log, so every
//! rule of the reconcile is a table of cases here, and applying a plan needs no decision.
//!
//! ```text
//! Desired ──> claims (holders of a name) ──> wanted ──> compare ──> removals
//! Registry ─────────────────────────────────────┘                      │
//! Plan <── guard (mass deletions) <── capacity (Cloud Map limits) <── policy
//! ```
//!
//! - Input and output: an [`Observation`] is one read of a cluster and of Cloud Map, with the rules of the
//!   installation. A [`Plan`] has the `change`s, and the requests that are held back for a `reason`.
//! - Names: `claims` decides the holder of each name, `names` whether a Service may claim it, and `namespaces` which
//!   namespace it is in.
//! - Instances: `instance_template` derives instances from endpoints. `wanted` has all instances that the holder of a
//!   name wants, and matches ours with them by `identity`. `compare` finds the differences.
//! - Cloud Map services: `services` creates and updates them. A service that is `unread` is never treated as empty.
//! - Instances of other owners: `neighbours` compares ours with them.
//! - Removals: `removals` decides which instances to remove, with the reason and the wait of each removal. `permit` has
//!   the instances that a run may remove or adopt.
//! - `group` finds the Services whose changes are made together. `refusals` remembers the permanent refusals of Cloud
//!   Map.
//! - `orphans` counts the instances of clusters that are not configured.
//! - `guard` judges the `loss` of each Service, and remembers a held loss by `notes`.
//! - `aws` detects the names that belong to AWS's controller.
//! - `adopt`, `purge` and `records` plan changes that no claim requests.
//! - Explanations: `fate` records why each endpoint is registered or not.
//!
//! Every removal is decided twice. First, the comparison of all Services of a run gives [`Permits`] for the removals
//! that the guard lets pass. Then each group plans again, on a read after its additions have ended. A removal is made
//! if it has a permit, and if this second plan has it as well, without a wait.

mod adopt;
mod aws;
mod capacity;
mod change;
mod claims;
mod compare;
mod fate;
mod group;
mod guard;
mod identity;
mod instance_template;
mod loss;
mod names;
pub mod namespaces;
mod neighbours;
mod notes;
mod observation;
mod orphans;
mod permit;
mod purge;
mod reason;
mod records;
mod refusals;
mod removals;
pub mod services;
#[cfg(test)]
mod tests;
pub mod unread;
mod wanted;

use aws::check_not_of_aws;
use compare::{Compared, Comparison, compare};
use fate::Fates;
use services::check_records_fit;
use wanted::WantedInstances;

use crate::model::{Place, ServiceRef};

pub use crate::guard::{Extent, GuardStatus};
pub use crate::model::{Guard, NamePolicy, Policy, Rule, Rules, ServiceLimit};
pub use adopt::{Adopted, Adoption, Former, NotAdopted};
pub use aws::place_of_aws;
pub use capacity::{DEFAULT_NAMESPACE_QUOTA, Peak, peaks};
pub use change::{Change, ChangesByService, Difference, Stage};
pub use claims::Holders;
pub use fate::{NameWithFates, names_with_fates};
pub use group::{RereadScope, additions_from_memory, holds_names_exclusively, in_groups};
pub use guard::depends_on_additions;
pub use loss::Baseline;
pub use names::rule;
pub use notes::{removes_note, with_note};
pub use observation::{Observation, Plan, PlanPhase, Unchanged};
pub use orphans::Orphans;
pub use permit::Permits;
use purge::purge;
pub use reason::{HeldBack, Reason, ResolvedBy};
pub use records::{WantedRecords, no_service};
pub use refusals::Refusals;
pub use removals::{DeregisterReason, Exchange, WaitsFor};

/// Compares the desired and the actual state of the affected Services, whose endpoints must have been read.
pub fn plan(observation: &Observation) -> Plan {
    plan_with(observation, None)
}

/// Returns the same plan as [`plan`], and records the fate of each endpoint of one Service.
pub fn plan_with_fates(observation: &Observation, service: &ServiceRef) -> Plan {
    plan_with(observation, Some(Fates::of(service)))
}

fn plan_with(observation: &Observation, fates: Option<Fates>) -> Plan {
    let mut plan = plan_before_guard(observation, fates);
    guard::apply_guard(observation, &mut plan);
    if observation.phase != PlanPhase::Group {
        plan.add_unread(observation);
    }
    plan.changes.retain(|_, changes| !changes.is_empty());
    plan.count_present(&observation.registry);
    plan.add_namespaces();
    plan.in_order()
}

/// Returns the plan before the guard judges it.
fn plan_before_guard(observation: &Observation, fates: Option<Fates>) -> Plan {
    let held_back = observation.holders.held_back(observation);
    let mut plan = Plan { held_back, fates, ..Plan::default() };
    for service in &observation.left_to_full_sync {
        let service = service.clone();
        let reason = Reason::LeftToFullSync;
        plan.held_back.push(HeldBack { service, place: None, reason });
    }
    let compared = plan.add_names(observation);
    removals::removals(observation, &compared, &mut plan);
    plan.count_foreign(observation);
    plan.restrict(observation.rules.policy);
    capacity::apply_capacity(observation, &compared, &mut plan);
    plan.create_services(observation);
    plan.keep_ttls_without_instances(observation);
    plan
}

impl Plan {
    /// Compares every name that an affected Service holds, and adds all changes except the removals.
    fn add_names(&mut self, observation: &Observation) -> Compared {
        let mut all = Compared::new();
        for (key, holder) in observation.holders.held_clearly_by(&observation.affected) {
            if observation.registry.is_never_read(key) {
                continue;
            }
            let place = Place::of(key, &observation.registry);
            let checked = check_not_of_aws(observation, key, holder);
            let checked = checked.and_then(|()| check_records_fit(observation, key, holder));
            match checked.and_then(|()| WantedInstances::of(observation, key, holder)) {
                Ok(mut wanted) => {
                    let fates = self.fates.as_ref();
                    wanted.fates = fates.and_then(|fates| fates.new_record(holder));
                    let mut comparison = compare(observation, key, wanted);
                    self.add_settings(observation, &place, holder, &mut comparison);
                    self.add_comparison(&place, holder, &mut comparison);
                    all.insert(key.clone(), comparison);
                }
                Err(reason) => self.hold_back(holder, &place, reason),
            }
        }
        all
    }

    fn add_comparison(&mut self, place: &Place, holder: &ServiceRef, comparison: &mut Comparison) {
        let unchanged = self.unchanged.entry(place.clone()).or_default();
        unchanged.ours += comparison.unchanged;
        self.record(place, comparison.endpoint_fates.take());
        self.changes.entry(holder.clone()).or_default().extend(comparison.take_changes());
        for reason in comparison.reasons() {
            self.hold_back(holder, place, reason.clone());
        }
    }
}

/// The purpose of a plan.
#[derive(Clone, Copy, Debug)]
pub enum Task<'a> {
    /// Makes Cloud Map match the cluster.
    Sync,
    /// Adopts instances of other owners.
    Adopt(&'a Adoption),
    /// Deregisters all our instances of a cluster, which need not exist any more.
    Purge(&'a DeregisterReason),
    /// Writes and removes records of a member, so that they equal the wanted ones.
    Records(&'a WantedRecords),
}

impl Task<'_> {
    pub fn is_sync(&self) -> bool {
        matches!(self, Self::Sync)
    }

    pub fn plan(self, observation: &Observation) -> Plan {
        match self {
            Self::Sync => plan(observation),
            Self::Adopt(adoption) => adoption.plan(observation),
            Self::Purge(because) => purge(observation, because),
            Self::Records(records) => records.plan(observation),
        }
    }
}
