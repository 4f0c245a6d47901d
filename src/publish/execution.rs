//! A task, with the world that is read for it.

use tokio::time::timeout_at;

use super::observe::{self, SharedRegistry, World};
use super::plan::{Claimed, Leaving, Observation, RereadScope, Task};
use super::{Options, carry_out};
use crate::model::{Desired, Selection};
use crate::report::ClusterReport;
use crate::time::Deadline;

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

/// Sets the TTLs that the clusters of this invocation ask for, or plans it. Also returns the claims of the cluster.
///
/// # Errors
/// Returns an error if the cluster or the registry could not be read completely. Nothing was changed then.
pub async fn share_ttls(
    world: &World<'_>,
    options: Options,
) -> Result<(ClusterReport, Claimed), observe::Error> {
    let observed = observe_whole(world, options.deadline).await?;
    let published =
        carry_out(&Execution::of_cluster(Task::SharedTtls, world), &observed, options).await;
    Ok((published.report, Claimed::of(&observed, Leaving::new())))
}

/// The claims of a cluster.
///
/// # Errors
/// Returns an error if the cluster or the registry could not be read completely.
pub async fn claims(world: &World<'_>, deadline: Deadline) -> Result<Claimed, observe::Error> {
    let observed = observe_whole(world, deadline).await?;
    Ok(Claimed::of(&observed, Leaving::new()))
}

async fn observe_whole(
    world: &World<'_>,
    deadline: Deadline,
) -> Result<Observation, observe::Error> {
    let observed = Box::pin(world.observe(&Selection::Everything));
    timeout_at(deadline.stop(), observed).await?
}
