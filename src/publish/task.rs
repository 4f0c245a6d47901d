//! What changes are carried out for, with the world that is read for it.

use std::collections::BTreeSet;

use crate::model::ServiceRef;
use crate::publish::observe::{self, SharedRegistry, World};
use crate::publish::plan::{
    Adoption, DeregisterReason, Intent, Observation, Observed, RereadScope, Step,
};

/// What changes are carried out for.
#[derive(Clone, Copy)]
pub enum Task<'a> {
    /// Cloud Map shall say what the cluster says.
    Sync(&'a World<'a>),
    /// Instances of others shall become ours.
    Adopt(&'a World<'a>, &'a Adoption),
    /// Nothing of ours shall be left of a cluster, which may be gone.
    Purge(&'a SharedRegistry, &'a DeregisterReason),
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

    /// What a plan is made for.
    pub fn intent(&self) -> Intent<'_> {
        match self {
            Self::Sync(_) => Intent::Sync,
            Self::Adopt(_, adoption) => Intent::Adopt(adoption),
            Self::Purge(_, because) => Intent::Purge(because),
            Self::Orphans(_, step) => Intent::Orphans(*step),
        }
    }

    /// Whether Cloud Map shall match the cluster.
    pub fn is_sync(&self) -> bool {
        matches!(self, Self::Sync(_))
    }

    /// Reads what the open changes of a turn rest on once more.
    ///
    /// # Errors
    /// Returns an error if the cluster or the registry could not be read.
    pub async fn read(
        &self,
        mut observation: Observation,
        scope: &RereadScope,
    ) -> Result<Observed, observe::Error> {
        match self {
            Self::Sync(world) | Self::Adopt(world, _) => {
                world.observe_again(observation, scope).await
            }
            Self::Purge(registry, _) | Self::Orphans(registry, _) => {
                registry.read_again(&mut observation.registry, &scope.keys).await?;
                Ok(Observed::reread(observation, scope))
            }
        }
    }

    /// Reads the endpoints of Services once more.
    ///
    /// # Errors
    /// Returns an error if the cluster could not be read.
    pub async fn read_endpoints(
        &self,
        observation: Observation,
        services: &BTreeSet<ServiceRef>,
    ) -> Result<Observation, observe::Error> {
        match self {
            Self::Sync(world) | Self::Adopt(world, _) => {
                world.observe_endpoints(observation, services).await
            }
            Self::Purge(..) | Self::Orphans(..) => Ok(observation),
        }
    }
}
