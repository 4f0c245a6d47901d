//! The exports of a cluster, from Kubernetes into Cloud Map. Their instances take the same way as those of annotated
//! Services; their records switch them on and off:
//!
//! ```text
//! records of ended exports go ─> instances (publish: plan, passes, apply) ─> records of exports and cluster
//! ```
//!
//! `outcome` is what becomes of each export, for its conditions, and `refused` the reasons why a member has none. `adopt`
//! takes over the exports of AWS's controller, and has its signs. `former` takes away the records under an id that the
//! cluster had before, and an `importer` has its own record alone. While Cloud Map cannot be read, the exports are
//! `unregistered`.

mod adopt;
mod former;
mod importer;
mod outcome;
mod records;
mod refused;
mod unregistered;

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::oneshot;
use tokio::time::timeout_at;

use super::observe::{self, World};
use super::passes::Made;
use super::plan::{Claimed, HeldBack, Judged, Leaving, Observation, Observed, Reason, plan};
use super::{Options, Published, Task, carry_out_plan};
use crate::clusterset::conditions::ExportOutcome;
use crate::kubernetes::objects::Resource;
use crate::model::clusterset::{Member, Overlay};
use crate::model::{Desired, Policy, Selection, ServiceExport, ServiceKey, ServiceRef};
use crate::report::{ChangeResult, ClusterReport, GuardReport};
use adopt::Finalized;
use records::{Kept, Written};

pub use adopt::{adopt, is_of_aws};
pub use importer::introduce;
pub use records::MAXIMUM;
pub use refused::Refused;
pub use unregistered::in_cluster;

/// The exports of a cluster after they were published, or planned.
pub struct Exported {
    pub report: ClusterReport,
    pub claimed: Claimed,
    /// The exports with their Services and endpoints as they were read.
    pub overlay: Overlay,
    /// The outcome of each export that the run is about.
    pub outcomes: BTreeMap<ServiceRef, ExportOutcome>,
}

impl Exported {
    /// A run that is about no export.
    fn none(world: &World<'_>, observed: &Observed, overlay: Overlay) -> Self {
        let cluster = world.owner.cluster.to_string();
        Self {
            report: ClusterReport { cluster, ..ClusterReport::default() },
            claimed: Claimed::of(&observed.observation, Leaving::default()),
            overlay,
            outcomes: BTreeMap::new(),
        }
    }

    /// Every ServiceExport that was read.
    pub fn exports(&self) -> &BTreeMap<ServiceRef, ServiceExport> {
        &self.overlay.desired.exports
    }

    /// The exports of which something was changed in Cloud Map.
    pub fn changed(&self) -> BTreeSet<ServiceRef> {
        let changes = self.report.services.iter().flat_map(|service| &service.changes);
        let changed = changes.filter(|line| line.result == ChangeResult::Applied);
        changed.map(|line| line.service.clone()).collect()
    }
}

impl Overlay {
    /// The exports with the guard's decision about them: while it holds a loss, nothing leaves their imports either.
    fn judged(self, guard: Option<&GuardReport>) -> Self {
        let held = guard.into_iter().filter(|guard| guard.state.holds());
        let held = held.flat_map(|guard| guard.services.iter().map(|it| it.service.clone()));
        let let_pass = guard.is_some_and(|guard| !guard.state.holds());
        Self { held: held.collect(), let_pass, ..self }
    }
}

/// What importers of the same invocation take in place of what Cloud Map says of a cluster: offered once, as soon as
/// its exports were read if the guard has nothing to decide, so that nobody waits for Cloud Map's operations, else
/// after they were published.
pub enum Offer {
    Exports {
        overlay: Overlay,
        /// Whether the cluster has its own record in Cloud Map. `false` if it was not read.
        has_cluster_record: bool,
    },
    /// Cloud Map could not be read, and so the guard has not judged the exports.
    Unregistered(Overlay),
    /// The cluster could not write its own record: endpoints come into its imports, and none leaves.
    Unrecorded,
    /// Nothing may be imported into the cluster either ([`Refused::leaves_the_cluster`]).
    Nothing,
}

/// Publishes the selected exports of a member, or plans it, and offers the exports to importers before. A member that
/// has imports, and no record here, is refused unless a person confirms it: this may not be its Cloud Map.
///
/// # Errors
/// Returns an error if the cluster or the registry could not be read completely, and the reason if the member's id is
/// held by another. Nothing was changed then.
pub async fn publish(
    world: &World<'_>,
    (member, imports): (&Member, Imports),
    selection: &Selection,
    options: Options,
    offer: oneshot::Sender<Offer>,
) -> Result<Result<Exported, Refused>, observe::Error> {
    let read = timeout_at(options.deadline.stop(), read(world, member, selection)).await;
    let (observed, records) = match read.unwrap_or(Err(observe::Error::Deadline)) {
        Ok(read) => read,
        Err(error) => {
            let cause = (&error, options.deadline);
            let exports = unregistered::read(world, &imports, selection, cause).await;
            if let Some(overlay) = exports {
                make(offer, Offer::Unregistered(overlay));
            }
            return Err(error);
        }
    };
    let overlay_of =
        |desired| Overlay::new(world.owner.cluster.clone(), desired, selection.clone());
    let Some(records) = records else {
        let (overlay, has_cluster_record) = (overlay_of(Desired::default()), false);
        make(offer, Offer::Exports { overlay: overlay.clone(), has_cluster_record });
        return Ok(Ok(Exported::none(world, &observed, overlay)));
    };
    let finalized = Finalized::of(&observed.observation.desired);
    if let Some(service) = finalized.as_ref().and_then(Finalized::first) {
        return Ok(refuse(offer, Refused::AnotherController(service.clone())));
    }
    let former = former::read(world, member, selection).await;
    let mut kept = match Kept::new(world, member, records) {
        Ok(kept) if !former::is_unfamiliar(&kept, &former) || world.confirmed => kept,
        Ok(_) if imports.stand(world).await => return Ok(Err(Refused::UnfamiliarRegistry)),
        Ok(kept) => kept,
        Err(refused) => return Ok(refuse(offer, refused)),
    };
    let plan = plan(observed.basis());
    // A member imports only once it has a record: else its next run would find imports in a Cloud Map that does not know
    // it. So a new one gets that first, and its imports need not wait for the registrations.
    let introduced = kept.introduce(selection, options).await;
    let refused = kept.refused(&observed.observation.desired);
    let exported = |desired: Desired, held_back: &[HeldBack]| {
        let mut desired = allowed(desired, &observed.observation, held_back);
        desired.services.retain(|service, _| !refused.contains(service));
        overlay_of(desired)
    };
    let mut offer = Some(offer);
    let is_judged = plan.guard.is_some() || Judged::of(observed.basis(), &plan).is_some();
    if let Some(offer) = offer.take_if(|_| kept.has_cluster_record() && !is_judged) {
        let overlay = exported(observed.observation.desired.clone(), &plan.held_back);
        make(offer, Offer::Exports { overlay, has_cluster_record: true });
    }
    let ended = kept.ended(&observed, &plan, selection);
    let taken_away = kept.take_away(&ended, options).await;
    let filled = kept.fill(&plan, options).await;
    let task = Task::Sync(world);
    let Published { report, held_back, leaving, .. } =
        carry_out_plan(&task, observed.basis(), plan, (options, &Made::default())).await;
    world.note_what_is_held(observed.basis(), report.guard.is_some());
    let outcomes = outcome::before_records(&observed, selection, &report, &held_back);
    let observation = &observed.observation;
    let written = kept.write(observation, outcomes, (selection, options)).await;
    let Written { report: records, outcomes, has_cluster_record } = written;
    let is_held = report.guard.as_ref().is_some_and(|guard| guard.state.holds());
    let mut report = report.with(introduced).with(taken_away).with(filled).with(records);
    // Instances that the policy leaves under the former id count by its records.
    let may_remove = world.rules.policy == Policy::Sync && !former.services.is_empty();
    if may_remove && has_cluster_record && !is_held && report.is_complete() {
        report = report.with(former::take_away(world, &former, options).await);
    }
    let claimed = Claimed::of(observation, leaving);
    let overlay = exported(observation.desired.clone(), &held_back).judged(report.guard.as_ref());
    if let Some(offer) = offer {
        make(offer, Offer::Exports { overlay: overlay.clone(), has_cluster_record });
    }
    Ok(Ok(Exported { report, claimed, overlay, outcomes }))
}

/// Whether imports of ours stand in a cluster, as far as the objects of those that the run is about show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Imports {
    Stand,
    None,
    /// The run is about others. All of them have this label.
    Unknown {
        label: String,
    },
}

impl Imports {
    /// Asks the cluster if it is not known. Without an answer they may stand.
    async fn stand(&self, world: &World<'_>) -> bool {
        match self {
            Self::Stand => true,
            Self::None => false,
            Self::Unknown { label } => {
                let has = world.kubernetes.has_objects(Resource::ServiceImports, label).await;
                has.unwrap_or(true)
            }
        }
    }
}

type ReadRecords = Option<(Observation, ServiceKey)>;

/// The exports of a member with what stands for them in Cloud Map, and the records, unless the run is about no export.
async fn read(
    world: &World<'_>,
    member: &Member,
    selection: &Selection,
) -> Result<(Observed, Option<ReadRecords>), observe::Error> {
    let observed = Box::pin(world.observe(selection)).await?;
    if world.is_about_no_export(&observed, selection) {
        return Ok((observed, None));
    }
    let records = world.observe_records(member, selection.names()).await?;
    Ok((observed, Some(records)))
}

/// The exports and the addresses that `NAME_POLICY` lets into Cloud Map: no cluster imports others.
fn allowed(mut desired: Desired, observation: &Observation, held_back: &[HeldBack]) -> Desired {
    let denied = held_back.iter().filter(|line| matches!(line.reason, Reason::NotAllowed(_)));
    for line in denied {
        desired.services.remove(&line.service);
    }
    for (service, published) in &mut desired.services {
        let Ok(Some(rule)) = observation.rule(service) else { continue };
        for endpoint in published.endpoints.iter_mut().flatten() {
            endpoint.ipv4 = endpoint.ipv4.filter(|it| rule.allows_address((*it).into()));
            endpoint.ipv6 = endpoint.ipv6.filter(|it| rule.allows_address((*it).into()));
        }
    }
    desired
}

/// Writes the guard's note about a loss of imports to the record of a member, which a full sync has just read whole, or
/// takes it off. Nothing is written if there is no such record of ours.
///
/// # Errors
/// Returns an error if the records could not be read.
pub async fn note(
    world: &World<'_>,
    member: &Member,
    text: Option<String>,
    options: Options,
) -> Result<ClusterReport, observe::Error> {
    let read = timeout_at(options.deadline.stop(), world.observe_records(member, None));
    match Kept::new(world, member, read.await??) {
        Ok(kept) if kept.has_cluster_record() => Ok(kept.note(text, options).await),
        _ => Ok(ClusterReport::default()),
    }
}

/// Publishes nothing, and offers nothing if nothing is imported into the cluster either.
fn refuse(offer: oneshot::Sender<Offer>, refused: Refused) -> Result<Exported, Refused> {
    if refused.leaves_the_cluster() {
        make(offer, Offer::Nothing);
    }
    Err(refused)
}

/// Offers exports. Without importers there is no receiver.
fn make(sender: oneshot::Sender<Offer>, offer: Offer) {
    _ = sender.send(offer);
}
