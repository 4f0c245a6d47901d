//! A task, with the world that is read for it.

use crate::model::Desired;
use crate::publish::observe::{self, SharedRegistry, World};
use crate::publish::plan::{Observation, RereadScope, Task};

/// A task, with the world that is read for it.
#[derive(Clone, Copy)]
pub struct Execution<'a> {
    pub task: Task<'a>,
    /// The Cloud Map that the task changes.
    pub registry: &'a SharedRegistry,
    /// The cluster; `None` if the task rests on Cloud Map alone.
    world: Option<&'a World<'a>>,
}

impl<'a> Execution<'a> {
    pub fn of_cluster(task: Task<'a>, world: &'a World<'a>) -> Self {
        Self { task, registry: world.registry, world: Some(world) }
    }

    pub fn of_registry(task: Task<'a>, registry: &'a SharedRegistry) -> Self {
        Self { task, registry, world: None }
    }

    /// Reads again the data that the open changes of a turn rest on.
    ///
    /// # Errors
    /// Returns an error if the cluster or the registry could not be read.
    pub async fn read(
        &self,
        mut observation: Observation,
        scope: &RereadScope,
    ) -> Result<Observation, observe::Error> {
        if let Some(world) = self.world {
            return world.observe_again(observation, scope).await;
        }
        self.registry.read_again(&mut observation.registry, &scope.keys).await?;
        Ok(observation.reread(scope))
    }

    /// Reads the endpoints of Services again.
    ///
    /// # Errors
    /// Returns an error if the cluster could not be read.
    pub async fn read_endpoints(&self, services: Desired) -> Result<Desired, observe::Error> {
        match self.world {
            Some(world) => world.observe_endpoints(services).await,
            None => Ok(services),
        }
    }
}
