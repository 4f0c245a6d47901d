//! The purpose of a plan. It decides which data is read and how the plan is made; the plan is carried out in the same
//! way for all purposes.

use super::{
    Adoption, Basis, DeregisterReason, ExportAdoption, Plan, Records, Step, adopt, adopt_exports,
    adopt_former, plan, purge,
};

use crate::model::Owner;

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
