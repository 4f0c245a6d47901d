//! What a plan is made for. It decides what is read and how that is planned; everything else about carrying a plan
//! out is the same.

use std::collections::BTreeSet;

use super::{Adoption, Because, Observation, Plan, Step, adopt, plan, purge};
use crate::model::ServiceRef;

/// What changes are made for.
#[derive(Clone, Copy, Debug)]
pub enum Intent<'a> {
    /// Cloud Map shall match the cluster.
    Sync,
    /// Instances of others shall become ours.
    Adopt(&'a Adoption),
    /// No instance of ours shall be left of a cluster, which may be gone.
    Purge(&'a Because),
    /// The same, or a note for later, for a cluster that is not kept in step any more.
    Orphans(Step),
}

impl Intent<'_> {
    /// The plan for an observation that was just made.
    pub fn plan(self, observation: &Observation, affected: &BTreeSet<ServiceRef>) -> Plan {
        match self {
            Self::Sync => plan(observation, affected),
            Self::Adopt(adoption) => adopt(observation, affected, adoption),
            Self::Purge(because) => purge(observation, because),
            Self::Orphans(step) => step.plan(observation),
        }
    }

    /// The plan for what was read again when a part of the changes was made.
    pub fn plan_again(self, observation: &Observation, services: &BTreeSet<ServiceRef>) -> Plan {
        let mut plan = self.plan(observation, services);
        if let Self::Adopt(_) = self {
            plan.add_duplicates(observation, services, |_| true);
        }
        plan
    }
}
