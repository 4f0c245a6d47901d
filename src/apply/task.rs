//! What changes are carried out for. That decides what is read and how it is planned, before the first
//! look and after it; everything else about carrying a change out is the same.

use std::collections::BTreeSet;

use crate::model::ServiceRef;
use crate::observe::{self, SharedRegistry, World};
use crate::plan::{
    Adoption, Again, Because, Change, Holders, Observation, Plan, Step, adopt, plan, purge,
};

/// What changes are carried out for.
#[derive(Clone, Copy)]
pub enum Task<'a> {
    /// Cloud Map shall say what the cluster says.
    Sync(&'a World<'a>),
    /// Instances of others shall become ours.
    Adopt(&'a World<'a>, &'a Adoption),
    /// Nothing of ours shall be left of a cluster, which may be gone.
    Purge(&'a SharedRegistry, &'a Because),
    /// The same, or a note for later, for a cluster that is not kept in step any more.
    Orphans(&'a SharedRegistry, Step),
}

impl Task<'_> {
    /// The Cloud Map that is changed.
    pub fn registry(&self) -> &SharedRegistry {
        match self {
            Self::Sync(world) | Self::Adopt(world, _) => world.registry,
            Self::Purge(registry, _) | Self::Orphans(registry, _) => registry,
        }
    }

    /// What is to be done.
    pub fn plan(&self, observation: &Observation, affected: &BTreeSet<ServiceRef>) -> Plan {
        match self {
            Self::Sync(_) => plan(observation, affected),
            Self::Adopt(_, adoption) => adopt(observation, affected, adoption),
            Self::Purge(_, because) => purge(observation, because),
            Self::Orphans(_, step) => step.plan(observation),
        }
    }

    /// Reads what the open changes of a turn of Services rest on, and plans them, a second time.
    ///
    /// # Errors
    /// Where the cluster or the registry could not be read.
    pub async fn decide_again(
        &self,
        mut observation: Observation,
        turn: &BTreeSet<ServiceRef>,
        open: &[Change],
    ) -> Result<(Observation, Plan), observe::Error> {
        let Again { keys, services, read } = Again::of(&Holders::decide(&observation), turn, open);
        match self {
            Self::Sync(world) | Self::Adopt(world, _) => {
                observation = world.observe_again(observation, &keys, &read).await?;
            }
            Self::Purge(registry, _) | Self::Orphans(registry, _) => {
                registry.read_again(&mut observation.registry, &keys).await?;
            }
        }
        let mut plan = self.plan(&observation, &services);
        if let Self::Adopt(..) = self {
            plan.add_duplicates(&observation, &services, |_| true);
        }
        Ok((observation, plan))
    }
}
