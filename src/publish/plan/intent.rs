//! What a plan is made for. It decides what is read and how that is planned; everything else about carrying a plan
//! out is the same.

use super::{Adoption, Basis, DeregisterReason, Plan, Step, adopt, plan, purge};

/// What changes are made for.
#[derive(Clone, Copy, Debug)]
pub enum Intent<'a> {
    /// Cloud Map shall match the cluster.
    Sync,
    /// Instances of others shall become ours.
    Adopt(&'a Adoption),
    /// No instance of ours shall be left of a cluster, which may be gone.
    Purge(&'a DeregisterReason),
    /// The same, or a note for later, for a cluster that is not kept in step any more.
    Orphans(Step),
}

impl Intent<'_> {
    /// The plan for an observation that was just made.
    pub fn plan(self, basis: Basis<'_>) -> Plan {
        match self {
            Self::Sync => plan(basis),
            Self::Adopt(adoption) => adopt(basis, adoption),
            Self::Purge(because) => purge(basis.observation, because),
            Self::Orphans(step) => step.plan(basis.observation),
        }
    }

    /// The plan for what was read again when a part of the changes was made.
    pub fn plan_again(self, basis: Basis<'_>) -> Plan {
        let mut planned = self.plan(basis);
        if let Self::Adopt(_) = self {
            planned.add_duplicates(plan(basis), |_| true);
        }
        planned
    }
}
