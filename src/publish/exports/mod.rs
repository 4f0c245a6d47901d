//! The exports of a cluster, from Kubernetes into Cloud Map. Their instances take the same way as those of annotated
//! Services; their records switch them on and off:
//!
//! ```text
//! records of ended exports go ─> instances (publish: plan, group, apply) ─> records of exports and cluster
//! ```
//!
//! `outcome` is what becomes of each export, for its conditions, and the reasons why a member has none, among them the
//! signs of that controller. `records` are those of a member.

mod outcome;
mod records;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::observe::{self, World};
use super::plan::{HeldBack, Observation, Reason, counts_on_additions, plan, rule};
use super::{Execution, Options, Published, Task};
use crate::clusterset::conditions::ExportOutcome;
use crate::clusterset::members::clustersets;
use crate::error::chain;
use crate::model::{
    ClusterId, Desired, Kind, Member, Outcome, Overlay, Selection, ServiceExport, ServiceKey,
    ServiceRef,
};
use crate::report::{ClusterReport, GuardReport};
use crate::time::Deadline;
use records::{Kept, Written};

pub use outcome::{INSTALL, MAXIMUM, Refused};

/// A run over the exports of a member. A member that has imports, and no record here, is refused unless a person confirms
/// it: this may not be its Cloud Map.
pub struct Exporting<'a> {
    pub world: &'a World<'a>,
    pub member: &'a Member,
    pub imports: StandingImports,
    /// Whether its imports have a part of another cluster under its id.
    pub has_anothers_part: bool,
    pub selection: &'a Selection,
    pub options: Options,
    /// Takes the offer to importers of the same invocation.
    pub offer: Option<Box<dyn FnOnce(Offer) + Send + Sync + 'a>>,
}

/// What becomes of the exports of a member.
pub enum Purpose {
    /// They are published.
    Sync,
    /// It has none, and gets a record as a member that only imports.
    Introduction {
        /// The clusters with a part in its imports: if it has no record, they show whether this is its Cloud Map.
        sources: BTreeSet<ClusterId>,
    },
}

/// The exports of a cluster after they were published, or planned.
pub struct PublishedExports {
    pub report: ClusterReport,
    /// The exports with their Services and endpoints as they were read.
    pub overlay: Overlay,
    /// The outcome of each export that the run is about.
    pub outcomes: BTreeMap<ServiceRef, ExportOutcome>,
}

impl PublishedExports {
    /// Every ServiceExport that was read.
    pub fn exports(&self) -> &BTreeMap<ServiceRef, ServiceExport> {
        &self.overlay.desired.exports
    }

    /// The exports of which something was changed in Cloud Map.
    pub fn changed(&self) -> BTreeSet<ServiceRef> {
        let changed = self.report.all_lines().filter(|line| line.outcome == Outcome::Applied);
        changed.filter_map(|line| line.service.clone()).collect()
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
/// its exports were read if the guard has nothing to decide, so that no importer waits for Cloud Map's operations, else
/// after they were published.
pub enum Offer {
    /// Of a cluster that has its own record in Cloud Map: without one they count for no member.
    Exports(Overlay),
    /// Cloud Map could not be read, and so the guard has not judged the exports.
    Unregistered(Overlay),
    /// The cluster could not write its own record: endpoints come into its imports, and none leaves.
    Unrecorded,
    /// Nothing may be imported into the cluster either.
    Nothing,
}

type ReadRecords = Option<(Observation, ServiceKey)>;

impl Exporting<'_> {
    /// Carries it out, or plans it.
    ///
    /// # Errors
    /// Returns the reason if nothing was changed.
    pub async fn run(mut self, purpose: Purpose) -> Result<PublishedExports, Refused> {
        let exported = match purpose {
            Purpose::Sync => Box::pin(self.publish()).await,
            Purpose::Introduction { sources } => self.introduce(&sources).await,
        };
        match &exported {
            Err(Refused::NoRecord(_)) => self.offer(Offer::Unrecorded),
            Err(refused) if refused.leaves_the_cluster() => self.offer(Offer::Nothing),
            _ => {}
        }
        exported
    }

    /// Publishes the selected exports, and offers them to importers before.
    async fn publish(&mut self) -> Result<PublishedExports, Refused> {
        let Self { world, member, selection, options, .. } = *self;
        let (observed, records) = match self.read().await {
            Ok(read) => read,
            Err(error) => {
                if let Some(overlay) = self.unregistered(&error).await {
                    self.offer(Offer::Unregistered(overlay));
                }
                return Err(error.into());
            }
        };
        let observation = &observed;
        let Some(records) = records else {
            let cluster = world.owner.cluster.to_string();
            let report = ClusterReport { cluster, ..ClusterReport::default() };
            let overlay = self.overlay(Desired::default());
            let outcomes = BTreeMap::new();
            return Ok(PublishedExports { report, overlay, outcomes });
        };
        if let Some(export) = observation.desired.of_aws.first() {
            let sign = format!("ServiceExport {export} has its finalizer");
            return Err(Refused::AnotherController(sign));
        }
        let mut kept = Kept::new(world, member, records, selection).await?;
        if kept.is_unfamiliar() && !world.confirmed && self.imports.stand(world).await {
            return Err(Refused::UnfamiliarRegistry);
        }
        let plan = plan(&observed);
        // A member imports only once it has a record: else its next run would find imports in a Cloud Map that does not know
        // it. So a new one gets that first, and its imports need not wait for the registrations.
        let introduced = kept.introduce(selection, options).await?;
        let refused = kept.refused(&observation.desired);
        let exported = |held_back: &[HeldBack]| {
            let mut desired = allowed(observation.desired.clone(), observation, held_back);
            desired.services.retain(|service, _| !refused.contains(service));
            desired
        };
        let is_judged = plan.guard.is_some() || counts_on_additions(&observed, &plan);
        if kept.has_cluster_record() && !is_judged {
            let overlay = self.overlay(exported(&plan.held_back));
            self.offer(Offer::Exports(overlay));
        }
        // Since the exports were read the records may have been, after many calls, with one of an export that began meanwhile.
        let denied: BTreeSet<ServiceRef> = denied(&plan.held_back).cloned().collect();
        let ended = kept.ended(&observed, &denied, &plan, selection).into_iter();
        let (of_denied, ended): (_, BTreeSet<_>) = ended.partition(|it| denied.contains(it));
        let former = kept.ended_under_former_ids(&observed);
        let gone = world.without_claims(&ended | &former).await?;
        let ended = &(&ended & &gone) | &of_denied;
        let returned = &former - &gone;
        let taken_away = kept.take_away(ended, options).await;
        let filled = kept.fill(&plan, options).await;
        let execution = Execution::of_cluster(Task::Sync, world, options);
        let published = execution.carry_out_plan(&observed, plan).await;
        let (outcomes, empty) = outcome::before_records(&observed, selection, &published);
        let Published { report, held_back, .. } = published;
        let written = kept.write(&observation.desired, (outcomes, &empty), selection, options);
        let Written { report: records, outcomes, has_cluster_record } = written.await;
        let is_held = report.guard.as_ref().is_some_and(|guard| guard.state.holds());
        let mut report = report.with(introduced).with(taken_away).with(filled).with(records);
        if has_cluster_record && !is_held && report.is_complete() {
            let has_none = |service: &ServiceRef| {
                use ExportOutcome::{Failed, HeldBack, TimeRanOut};
                let outcome = outcomes.get(service);
                !denied.contains(service)
                    && (matches!(outcome, Some(Failed(_) | HeldBack(_) | TimeRanOut))
                        || returned.contains(service))
            };
            report = report.with(kept.take_former_away(has_none, options).await);
        }
        let overlay = self.overlay(exported(&held_back)).judged(report.guard.as_ref());
        if has_cluster_record {
            self.offer(Offer::Exports(overlay.clone()));
        }
        Ok(PublishedExports { report, overlay, outcomes })
    }

    /// Writes the record of a cluster that only imports. Its imports know their Cloud Map by it, as those of an exporter do
    /// by its own, and two clusters of one id are seen.
    async fn introduce(
        &mut self,
        sources: &BTreeSet<ClusterId>,
    ) -> Result<PublishedExports, Refused> {
        let Self { world, member, selection, options, .. } = *self;
        let read = world.observe_records(world.registry.known_namespaces(), member, None);
        let records = options.deadline.until_stop(read).await.map_err(observe::Error::from)??;
        let mut kept = Kept::new(world, member, records, selection).await?;
        kept.only_imports = true;
        let is_unfamiliar = kept.is_unfamiliar() && !world.confirmed;
        if is_unfamiliar && self.imports.stand(world).await && !self.is_shown(sources).await {
            return Err(Refused::UnfamiliarRegistry);
        }
        let (mut report, failure) = kept.write_own(selection, options).await?;
        let nothing = Selection::nothing();
        let overlay = Overlay::new(world.owner.cluster.clone(), Desired::default(), nothing);
        // The next run may write it: until then a new member imports nothing, as one that exports.
        if matches!(failure, Some(ExportOutcome::HeldBack(_) | ExportOutcome::TimeRanOut)) {
            self.offer = None;
        }
        if let Some(ExportOutcome::Failed(error) | ExportOutcome::HeldBack(error)) = failure {
            return Err(Refused::NoRecord(error));
        }
        // A plan writes none.
        self.offer(if kept.has_cluster_record() {
            report = report.with(kept.take_former_away(|_| false, options).await);
            Offer::Exports(overlay.clone())
        } else {
            Offer::Unrecorded
        });
        Ok(PublishedExports { report, overlay, outcomes: BTreeMap::new() })
    }

    /// Whether Cloud Map shows one of these clusters as another member.
    async fn is_shown(&self, clusters: &BTreeSet<ClusterId>) -> bool {
        let Some(registry) = self.world.registry.known().await else { return false };
        let mut members =
            clustersets(&registry).remove(&self.member.clusterset).unwrap_or_default();
        members.remove(&self.member.cluster);
        clusters.iter().any(|cluster| members.contains_key(cluster))
    }

    /// The exports of a member with what stands for them in Cloud Map, and the records, unless the run is about no export.
    async fn read(&self) -> Result<(Observation, Option<ReadRecords>), observe::Error> {
        let Self { world, member, selection, options, .. } = *self;
        let read = async {
            let observed = Box::pin(world.observe(selection)).await?;
            if world.is_about_no_export(&observed, selection) {
                return Ok((observed, None));
            }
            let known = world.registry.known_namespaces();
            Ok((observed, Some(world.observe_records(known, member, selection.names()).await?)))
        };
        options.deadline.until_stop(read).await?
    }

    /// The exports of a member that Cloud Map did not answer for: nothing is registered, and the other clusters of the
    /// invocation go on to follow them. `None` if the cluster cannot be read either, or the problem is another one.
    ///
    /// A cluster without imports was no member before, or only exports: its id may be another's, which only Cloud Map
    /// shows. So may one under which the imports of the cluster have a part of another.
    async fn unregistered(&self, error: &observe::Error) -> Option<Overlay> {
        let Self { world, selection, options, has_anothers_part, .. } = *self;
        let is_away = matches!(error, observe::Error::CloudMap(_));
        if !is_away || has_anothers_part || !self.imports.stand(world).await {
            return None;
        }
        in_cluster(world, selection, options.deadline).await
    }

    fn overlay(&self, desired: Desired) -> Overlay {
        Overlay::new(self.world.owner.cluster.clone(), desired, self.selection.clone())
    }

    /// Offers the exports, unless that was done.
    fn offer(&mut self, offer: Offer) {
        if let Some(make) = self.offer.take() {
            make(offer);
        }
    }
}

/// Whether imports of ours stand in a cluster, or slices of one that a person deleted, as far as the objects of those that
/// the run is about show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StandingImports {
    Stand,
    None,
    /// The run is about others. All of them have this label.
    Unknown {
        label: String,
    },
}

impl StandingImports {
    /// Asks the cluster if it is not known. Without an answer they may stand.
    async fn stand(&self, world: &World<'_>) -> bool {
        match self {
            Self::Stand => true,
            Self::None => false,
            Self::Unknown { label } => {
                for kind in [Kind::ServiceImport, Kind::EndpointSlice] {
                    if world.kubernetes.has_objects(kind, label).await.unwrap_or(true) {
                        return true;
                    }
                }
                false
            }
        }
    }
}

/// Reads the selected exports without Cloud Map, those that `NAME_POLICY` denies aside. `None` if they cannot be read, or
/// are left to AWS's controller.
pub async fn in_cluster(
    world: &World<'_>,
    selection: &Selection,
    deadline: Deadline,
) -> Option<Overlay> {
    let read = deadline.until_stop(world.observe_cluster(selection)).await.ok()?;
    let observed =
        read.inspect_err(|error| tracing::warn!("exports not read: {}", chain(error))).ok()?;
    if !observed.desired.of_aws.is_empty() {
        return None;
    }
    let held_back = plan(&observed).held_back;
    let observation = &observed;
    let desired = allowed(observation.desired.clone(), observation, &held_back);
    Some(Overlay::new(world.owner.cluster.clone(), desired, selection.clone()))
}

/// The exports and the addresses that `NAME_POLICY` lets into Cloud Map: no cluster imports others.
fn allowed(mut desired: Desired, observation: &Observation, held_back: &[HeldBack]) -> Desired {
    for service in denied(held_back) {
        desired.services.remove(service);
    }
    for (service, published) in &mut desired.services {
        let Ok(Some(rule)) = rule(observation, service) else { continue };
        let Some(endpoints) = &mut published.endpoints else { continue };
        for endpoint in Arc::make_mut(endpoints) {
            endpoint.ipv4 = endpoint.ipv4.filter(|it| rule.allows_address((*it).into()));
            endpoint.ipv6 = endpoint.ipv6.filter(|it| rule.allows_address((*it).into()));
        }
    }
    desired
}

/// The exports that `NAME_POLICY` denies.
fn denied(held_back: &[HeldBack]) -> impl Iterator<Item = &ServiceRef> {
    let denied = held_back.iter().filter(|line| matches!(line.reason, Reason::NotAllowed(_)));
    denied.map(|line| &line.service)
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
    let read = world.observe_records(world.registry.known_namespaces(), member, None);
    let read = options.deadline.until_stop(read).await??;
    // Those under another id do not matter.
    match Kept::new(world, member, read, &Selection::nothing()).await {
        Ok(kept) if kept.has_cluster_record() => Ok(kept.note(text, options).await),
        _ => Ok(ClusterReport::default()),
    }
}
