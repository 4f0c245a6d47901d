//! The purpose of a run's changes, with the world that is read for it.

use crate::model::{Desired, Owner};
use crate::publish::observe::{self, SharedRegistry, World};
use crate::publish::plan::{
    Adoption, DeregisterReason, ExportAdoption, Intent, Observation, Observed, Records,
    RereadScope, Step,
};

/// The purpose of a run's changes.
#[derive(Clone, Copy)]
pub enum Task<'a> {
    /// Cloud Map is made to match the cluster.
    Sync(&'a World<'a>),
    /// The first part of a sync: what Cloud Map lacks is registered.
    Additions(&'a World<'a>),
    /// Names that several clusters share get the TTL that all of them ask for.
    SharedTtls(&'a World<'a>),
    /// Instances of others become ours.
    Adopt(&'a World<'a>, &'a Adoption),
    /// Instances of AWS's controller become those of our exports.
    AdoptExports(&'a World<'a>, &'a ExportAdoption),
    /// Exports of a former `OWNER_ID` become ours.
    AdoptFormer(&'a SharedRegistry, &'a Owner),
    /// All instances of a cluster are removed. The cluster may be gone.
    Purge(&'a SharedRegistry, &'a DeregisterReason),
    /// The same, or a note for a later run, for a cluster that is no longer kept in step.
    Orphans(&'a SharedRegistry, Step),
    /// The records of a member become those that are wanted.
    Records(&'a SharedRegistry, &'a Records),
}

impl Task<'_> {
    /// The Cloud Map that the task changes.
    pub fn registry(&self) -> &SharedRegistry {
        match self {
            Self::Sync(world)
            | Self::Additions(world)
            | Self::SharedTtls(world)
            | Self::Adopt(world, _)
            | Self::AdoptExports(world, _) => world.registry,
            Self::AdoptFormer(registry, _)
            | Self::Purge(registry, _)
            | Self::Orphans(registry, _)
            | Self::Records(registry, _) => registry,
        }
    }

    pub fn intent(&self) -> Intent<'_> {
        match self {
            Self::Sync(_) => Intent::Sync,
            Self::Additions(_) => Intent::Additions,
            Self::SharedTtls(_) => Intent::SharedTtls,
            Self::Adopt(_, adoption) => Intent::Adopt(adoption),
            Self::AdoptExports(_, adoption) => Intent::AdoptExports(adoption),
            Self::AdoptFormer(_, former) => Intent::AdoptFormer(former),
            Self::Purge(_, because) => Intent::Purge(because),
            Self::Orphans(_, step) => Intent::Orphans(*step),
            Self::Records(_, records) => Intent::Records(records),
        }
    }

    /// Whether Cloud Map is made to match the cluster, or a first part of it.
    pub fn is_sync(&self) -> bool {
        matches!(self, Self::Sync(_) | Self::Additions(_))
    }

    /// Reads again the data that the open changes of a turn rest on.
    ///
    /// # Errors
    /// Returns an error if the cluster or the registry could not be read.
    pub async fn read(
        &self,
        mut observation: Observation,
        scope: &RereadScope,
    ) -> Result<Observed, observe::Error> {
        match self {
            Self::Sync(world)
            | Self::Additions(world)
            | Self::SharedTtls(world)
            | Self::Adopt(world, _)
            | Self::AdoptExports(world, _) => world.observe_again(observation, scope).await,
            Self::AdoptFormer(registry, _)
            | Self::Purge(registry, _)
            | Self::Orphans(registry, _)
            | Self::Records(registry, _) => {
                registry.read_again(&mut observation.registry, &scope.keys).await?;
                Ok(Observed::reread(observation, scope))
            }
        }
    }

    /// Reads the endpoints of Services again.
    ///
    /// # Errors
    /// Returns an error if the cluster could not be read.
    pub async fn read_endpoints(&self, services: Desired) -> Result<Desired, observe::Error> {
        match self {
            Self::Sync(world)
            | Self::Additions(world)
            | Self::SharedTtls(world)
            | Self::Adopt(world, _)
            | Self::AdoptExports(world, _) => world.observe_endpoints(services).await,
            Self::AdoptFormer(..) | Self::Purge(..) | Self::Orphans(..) | Self::Records(..) => {
                Ok(services)
            }
        }
    }
}
