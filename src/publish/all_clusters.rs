//! The part of a cluster in a cleanup after all clusters were read: its claims, without which no service is deleted, and
//! the TTLs of names that it shares with other clusters. Its instances stay as they are.

use tokio::time::timeout_at;

use super::observe::{self, World};
use super::plan::{Claimed, Leaving, Observation};
use super::{Execution, Options, Task, carry_out};
use crate::model::Selection;
use crate::report::ClusterReport;
use crate::time::Deadline;

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
