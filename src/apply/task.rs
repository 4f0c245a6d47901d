//! What changes are carried out for. That decides what is read and how it is planned again after the
//! first look; everything else about carrying a change out is the same.

use std::collections::BTreeSet;

use crate::cloud_map::CloudMap;
use crate::cloud_map::namespace::NewNamespaces;
use crate::model::ServiceRef;
use crate::observe::{self, World};
use crate::plan::{Adoption, Again, Change, Holders, Observation, Plan, adopt, plan};

/// What changes are carried out for.
#[derive(Clone, Copy)]
pub enum Task<'a> {
    /// Cloud Map shall say what the cluster says.
    Sync(&'a World<'a>),
    /// Instances of others shall become ours.
    Adopt(&'a World<'a>, &'a Adoption),
}

impl Task<'_> {
    /// The Cloud Map that is changed.
    pub fn cloud_map(&self) -> &CloudMap {
        match self {
            Self::Sync(world) | Self::Adopt(world, _) => world.registry.cloud_map(),
        }
    }

    /// What came of the namespaces that were missing.
    pub fn new_namespaces(&self) -> &NewNamespaces {
        let (Self::Sync(world) | Self::Adopt(world, _)) = self;
        world.registry.new_namespaces()
    }

    /// What is to be done.
    pub fn plan(&self, observation: &Observation, affected: &BTreeSet<ServiceRef>) -> Plan {
        match self {
            Self::Sync(_) => plan(observation, affected),
            Self::Adopt(_, adoption) => adopt(observation, affected, adoption),
        }
    }

    /// Reads what the open changes of a turn of Services rest on, and plans them, a second time.
    ///
    /// # Errors
    /// Where the cluster could not be read.
    pub async fn decide_again(
        &self,
        observation: Observation,
        turn: &BTreeSet<ServiceRef>,
        open: &[Change],
    ) -> Result<(Observation, Plan), observe::Error> {
        let Again { keys, services } = Again::of(&Holders::decide(&observation), turn, open);
        let (Self::Sync(world) | Self::Adopt(world, _)) = self;
        let observation = world.observe_again(observation, &keys, &services).await?;
        let mut plan = self.plan(&observation, &services);
        if let Self::Adopt(..) = self {
            plan.add_duplicates(&observation, &services, |_| true);
        }
        Ok((observation, plan))
    }
}
