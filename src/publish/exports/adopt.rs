//! The adoption of the exports that AWS's controller registered for a cluster:
//!
//! ```text
//! records of the exports that have its instances, and of the cluster ─> our marks on its instances
//! ```
//!
//! The records come first. Without one, an instance with our marks counts for no member, and with one all complete
//! instances of the cluster count, whoever's they are: so at no time has a name lost an endpoint, for any reader.

use std::collections::BTreeMap;

use tokio::sync::oneshot;
use tokio::time::timeout_at;

use super::aws::Finalized;
use super::outcome::Stands;
use super::records::Kept;
use super::{Exported, Imports, Offer, Refused, make};
use crate::clusterset::conditions::ExportOutcome;
use crate::model::Selection;
use crate::model::clusterset::{Member, Overlay};
use crate::publish::observe::{self, World};
use crate::publish::plan::{Claimed, ExportAdoption, Leaving, to_adopt};
use crate::publish::{Options, Task, carry_out};

/// Adopts the instances of AWS's controller for a member, or plans it. The next sync registers what is missing, and
/// deregisters those that no endpoint asks for.
///
/// # Errors
/// Returns an error if the cluster or the registry could not be read completely, and the reason if the controller may
/// still run, or the member's id is held by another. Nothing was changed then.
pub async fn adopt(
    world: &World<'_>,
    (member, imports): (&Member, Imports),
    options: Options,
    offer: oneshot::Sender<Offer>,
) -> Result<Result<Exported, Refused>, observe::Error> {
    let read = async {
        let observed = Box::pin(world.observe(&Selection::Everything)).await?;
        Ok::<_, observe::Error>((observed, world.observe_records(member, None).await?))
    };
    let read = timeout_at(options.deadline.stop(), read).await;
    let (observed, records) = read.map_err(|_| observe::Error::Deadline)??;
    if let Some(finalized) = Finalized::of(&observed.observation.desired) {
        return Ok(Err(Refused::NotReleased(finalized)));
    }
    let kept = match Kept::new(world, member, records) {
        Ok(kept) if !kept.has_cluster_record() && imports.stand(world).await => {
            return Ok(Err(Refused::UnfamiliarRegistry));
        }
        Ok(kept) => kept,
        Err(refused) => return Ok(Err(refused)),
    };
    let stands = to_adopt(observed.basis(), member).into_iter();
    let stands: BTreeMap<_, _> = stands
        .map(|service| (service, Stands::Exported { remark: String::new(), is_empty: false }))
        .collect();
    let selection = &Selection::Everything;
    let written = kept.write(&observed.observation, stands, (selection, options)).await;
    let is_recorded = |outcome: &ExportOutcome| matches!(outcome, ExportOutcome::Exported(_));
    let recorded = written.outcomes.iter().filter(|(_, outcome)| is_recorded(outcome));
    let recorded = recorded.map(|(service, _)| service.clone()).collect();
    let adoption = ExportAdoption { member: member.clone(), recorded };
    let task = Task::AdoptExports(world, &adoption);
    let adopted = carry_out(&task, observed.basis(), options).await.report;
    let claimed = Claimed::of(&observed.observation, Leaving::default());
    let (report, desired) = (written.report.with(adopted), observed.observation.desired);
    let overlay = Overlay::new(world.owner.cluster.clone(), desired, selection.clone());
    let has_cluster_record = written.has_cluster_record;
    // Imports are taken over after all exports were.
    let offered = if report.is_complete() {
        Offer::Exports { overlay: overlay.clone(), has_cluster_record }
    } else {
        Offer::Nothing
    };
    make(offer, offered);
    Ok(Ok(Exported { report, claimed, overlay, outcomes: BTreeMap::new() }))
}
