//! The exports of a member, read in the cluster alone. While Cloud Map cannot be read nothing is registered, and the other
//! clusters of the invocation go on to follow them: imports between served clusters do not need Cloud Map.

use tokio::time::timeout_at;

use super::adopt::Finalized;
use super::{Imports, allowed, observe};
use crate::error::chain;
use crate::model::Selection;
use crate::model::clusterset::Overlay;
use crate::publish::observe::World;
use crate::publish::plan::plan;
use crate::time::Deadline;

/// Reads the exports of a member that Cloud Map did not answer for. `None` if the cluster cannot be read either, or the
/// problem is another one.
///
/// A cluster without imports was no member before, or only exports: its id may be another's, which only Cloud Map shows.
pub(super) async fn read(
    world: &World<'_>,
    imports: &Imports,
    selection: &Selection,
    (error, deadline): (&observe::Error, Deadline),
) -> Option<Overlay> {
    if !matches!(error, observe::Error::CloudMap(_)) || !imports.stand(world).await {
        return None;
    }
    in_cluster(world, selection, deadline).await
}

/// Reads the selected exports without Cloud Map, those that `NAME_POLICY` denies aside. `None` if they cannot be read, or
/// are left to AWS's controller.
pub async fn in_cluster(
    world: &World<'_>,
    selection: &Selection,
    deadline: Deadline,
) -> Option<Overlay> {
    let read = timeout_at(deadline.stop(), world.observe_cluster(selection)).await.ok()?;
    let observed =
        read.inspect_err(|error| tracing::warn!("exports not read: {}", chain(error))).ok()?;
    if Finalized::of(&observed.observation.desired).is_some() {
        return None;
    }
    let held_back = plan(observed.basis()).held_back;
    let mut observation = observed.observation;
    let desired = std::mem::take(&mut observation.desired);
    let desired = allowed(desired, &observation, &held_back);
    Some(Overlay::new(world.owner.cluster.clone(), desired, selection.clone()))
}
