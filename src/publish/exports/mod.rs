//! Publishes the exports of a cluster from Kubernetes into Cloud Map. Their instances are published like those of
//! annotated Services. Their records switch the exports on and off:
//!
//! ```text
//! remove records of ended exports ─> instances (publish: plan, group, apply) ─> write records of exports and cluster
//! ```
//!
//! Before the exports are published, they are offered to the importers of the same run as they were read, so that no
//! import waits for Cloud Map. `outcome` has the outcome of each export, for its conditions, and the reasons why
//! nothing of a member is published. `records` has the records of a member.

mod outcome;
mod records;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::observe::{self, ClusterRun};
use super::plan::{HeldBack, Observation, Reason, place_of_aws, plan};
use super::{Execution, Options, Task};
use crate::clusterset::conditions::ExportOutcome;
use crate::error::chain;
use crate::model::{
    Desired, Kind, Member, Namespace, Outcome, ReadExports, Registry, Selection, ServiceExport,
    ServiceKey, ServiceRef,
};
use crate::report::{ClusterReport, Mode};
use crate::time::Deadline;
use records::{OwnRecords, Written};

pub use outcome::{INSTALL, MAXIMUM, Obstacle};

/// A run over the exports of a member. If the member has imports but no record in this Cloud Map, the run publishes
/// nothing unless a person confirms it: the Cloud Map may be the wrong one.
pub struct Exporting<'a> {
    pub cluster_run: &'a ClusterRun<'a>,
    pub member: &'a Member,
    pub imports: PresentImports,
    pub selection: &'a Selection,
    pub options: Options,
    /// Passes the offer to the importers of the same run; `None` once it was made.
    pub offer: Option<Box<dyn FnOnce(Offer) + Send + Sync + 'a>>,
}

/// What a run does for a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Publishes its exports.
    Sync,
    /// Writes the record of a member that only imports. A plan of a few Services only checks whether the member has an
    /// obstacle.
    Introduction,
}

/// The exports of a cluster after they were published, or planned.
pub struct PublishedExports {
    pub report: ClusterReport,
    /// The exports as they were read.
    pub read: ReadExports,
    /// The outcome of each export that the run is about.
    pub outcomes: BTreeMap<ServiceRef, ExportOutcome>,
}

impl PublishedExports {
    /// Every ServiceExport that was read.
    pub fn exports(&self) -> &BTreeMap<ServiceRef, ServiceExport> {
        &self.read.desired.exports
    }

    /// The exports whose instances or records the run changed in Cloud Map.
    pub fn changed(&self) -> BTreeSet<ServiceRef> {
        let changed = self.report.all_lines().filter(|line| line.outcome == Outcome::Applied);
        changed.filter_map(|line| line.service.clone()).collect()
    }
}

/// The offer of a cluster to the importers of the same run. Each cluster makes one.
pub enum Offer {
    /// The exports of the cluster. In a sync, it holds its id by a record that this process has read or written.
    Exports(Box<ReadExports>),
    /// The cluster exports nothing, and nothing may be imported into it.
    ImportsForbidden,
}

type ReadRecords = Option<(Observation, ServiceKey)>;

impl<'a> Exporting<'a> {
    /// Publishes the exports of the member or introduces it, as the purpose says. A plan writes nothing.
    ///
    /// # Errors
    /// Returns the obstacle of the member. A failed read of the cluster or of Cloud Map is one, too.
    pub async fn run(mut self, purpose: Purpose) -> Result<PublishedExports, Obstacle> {
        let exported = match purpose {
            Purpose::Sync => Box::pin(self.publish()).await,
            Purpose::Introduction => self.introduce().await,
        };
        if exported.as_ref().is_err_and(Obstacle::forbids_imports) {
            self.offer(Offer::ImportsForbidden);
        }
        exported
    }

    /// Reads the selected exports, offers them to importers and publishes them.
    async fn publish(&mut self) -> Result<PublishedExports, Obstacle> {
        let Self { cluster_run, member, selection, options, .. } = *self;
        let desired =
            options.deadline.until_stop(Box::pin(cluster_run.read_cluster(selection))).await;
        let desired = desired.map_err(observe::Error::from)??;
        let read = allowed_exports(cluster_run, selection, &desired);
        if cluster_run.registry.is_only_id(member, &cluster_run.owner) {
            self.offer(Offer::Exports(Box::new(read.clone())));
        }
        let (observed, records) = self.observe(desired).await?;
        let Some(records) = records else {
            return Ok(self.without_exports(read));
        };
        let mut own_records = self.own_records(records, &observed.registry).await?;
        let plan = plan(&observed);
        // A member exports and imports only once it has a record. Otherwise its next run would find imports in a Cloud
        // Map without a record of it.
        let introduced = own_records.introduce(selection, options).await?;
        if own_records.has_cluster_record() || options.mode != Mode::Sync {
            self.offer(Offer::Exports(Box::new(read.clone())));
        }
        if cluster_run.is_about_no_export(&observed, selection) {
            return Ok(self.without_exports(read));
        }
        // The records were read after the exports, so a record may belong to an export that was created in between.
        // Therefore the ended exports are checked in the cluster again.
        let denied: BTreeSet<ServiceRef> = denied(&plan.held_back).cloned().collect();
        let ended = own_records.ended(&observed, &denied, &plan, selection).into_iter();
        let (ended_by_denial, ended): (_, BTreeSet<_>) =
            ended.partition(|service| denied.contains(service));
        let ended = &cluster_run.without_claims(ended).await? | &ended_by_denial;
        let removed = own_records.remove_ended(ended, options).await;
        let marked_not_empty = own_records.mark_not_empty(&plan, options).await;
        let execution = Execution::of_cluster(Task::Sync, cluster_run, options);
        let published = execution.carry_out_plan(&observed, plan).await;
        let (outcomes, empty) = outcome::before_records(&observed, selection, &published);
        let written =
            own_records.write(&observed.desired, (outcomes, &empty), selection, options).await;
        let Written { report: records, outcomes, may_remove_former_records } = written;
        let report =
            published.report.with(introduced).with(removed).with(marked_not_empty).with(records);
        let report = if may_remove_former_records {
            report.with(own_records.remove_former_records(selection, options).await)
        } else {
            report
        };
        Ok(PublishedExports { report, read, outcomes })
    }

    /// Writes the record of a cluster that only imports. The record identifies the Cloud Map of its imports, as the
    /// record of an exporter does. It also reveals a second cluster with the same id in its settings.
    async fn introduce(&mut self) -> Result<PublishedExports, Obstacle> {
        let Self { cluster_run, member, selection, options, .. } = *self;
        let is_whole = *selection == Selection::Everything;
        let read = async {
            let registry =
                if is_whole { cluster_run.registry.read().await? } else { Registry::default() };
            let namespaces = cluster_run.registry.known_namespaces();
            Ok::<_, observe::Error>((
                registry,
                cluster_run.observe_records(namespaces, member, None).await?,
            ))
        };
        let read = options.deadline.until_stop(read).await.map_err(observe::Error::from)?;
        let (registry, records) = read?;
        let mut own_records = self.own_records(records, &registry).await?;
        let arn = cluster_run.owner.cluster.clone();
        let read = ReadExports { arn, desired: Desired::default(), covers: Selection::nothing() };
        if !is_whole {
            return Ok(self.without_exports(read));
        }
        own_records.only_imports = true;
        let (mut report, failure) = own_records.write_own(selection, options).await?;
        if let Some(ExportOutcome::Failed(error) | ExportOutcome::HeldBack(error)) = failure {
            return Err(Obstacle::NoRecord(error));
        }
        if own_records.has_cluster_record() {
            report = report.with(own_records.remove_former_records(selection, options).await);
        }
        Ok(PublishedExports { report, read, outcomes: BTreeMap::new() })
    }

    /// Reads the Cloud Map services of the selected exports, and the records of the member. A message about no export
    /// reads no records. A plan does, since it reports the obstacle of the member.
    async fn observe(
        &self,
        desired: Desired,
    ) -> Result<(Observation, Option<ReadRecords>), observe::Error> {
        let Self { cluster_run, member, selection, options, .. } = *self;
        let read = async {
            let observed = Box::pin(cluster_run.observe_for(selection, desired)).await?;
            if options.mode != Mode::Plan && cluster_run.is_about_no_export(&observed, selection) {
                return Ok((observed, None));
            }
            let known = cluster_run.registry.known_namespaces();
            Ok((
                observed,
                Some(cluster_run.observe_records(known, member, selection.names()).await?),
            ))
        };
        options.deadline.until_stop(read).await?
    }

    /// Returns the records of the member, if it may use them.
    ///
    /// # Errors
    /// Returns an error with the reason if the cluster is no member under this id.
    async fn own_records(
        &self,
        read: ReadRecords,
        registry: &Registry,
    ) -> Result<OwnRecords<'a>, Obstacle> {
        let Self { cluster_run, member, selection, options, .. } = *self;
        let mut own_records = OwnRecords::new(cluster_run, member, read)?;
        own_records.may_take_over = *selection == Selection::Everything;
        let is_first = !own_records.has_cluster_record();
        let reads_id_owners = is_first || options.mode == Mode::Plan;
        let former = options
            .deadline
            .until_stop(cluster_run.observe_former_records(member, reads_id_owners));
        own_records.former = former.await.map_err(observe::Error::from)??;
        // Exports under both ids mean that two runs published concurrently while the id was changed. The cluster then
        // keeps the id that it states.
        if let Some(former) = own_records.former_id()
            && (own_records.former_exports().next().is_some() && !own_records.has_exports()
                || is_first
                    && (own_records.has_recent_former_record()
                        || self.imports.may_exist(cluster_run).await))
        {
            let id = member.cluster.to_string();
            return Err(Obstacle::IdChanged { id, former });
        }
        if is_first && let Some(place) = place_of_aws(registry, member) {
            let id = member.cluster.to_string();
            return Err(Obstacle::AnotherController { id, place });
        }
        if is_first && !cluster_run.confirmed && self.imports.may_exist(cluster_run).await {
            return Err(Obstacle::UnfamiliarRegistry);
        }
        if is_first && *selection != Selection::Everything && options.mode == Mode::Sync {
            return Err(Obstacle::NotYetMember);
        }
        Ok(own_records)
    }

    /// The result of a run that is about no export.
    fn without_exports(&self, read: ReadExports) -> PublishedExports {
        let cluster = self.cluster_run.owner.cluster.to_string();
        let report = ClusterReport { cluster, ..ClusterReport::default() };
        PublishedExports { report, read, outcomes: BTreeMap::new() }
    }

    /// Makes the offer, unless it was made before.
    fn offer(&mut self, offer: Offer) {
        if let Some(make) = self.offer.take() {
            make(offer);
        }
    }
}

/// Whether a cluster has imports of ours, or EndpointSlices of an import that a person deleted, by the objects that the
/// run has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PresentImports {
    Present,
    None,
    /// The run has not read all objects of imports. All of them have this label.
    Unknown {
        label: String,
    },
}

impl PresentImports {
    /// Whether the cluster has imports of ours. Lists them if that is unknown. A list that fails counts as having some,
    /// and a kind that the API server does not serve as having none.
    async fn may_exist(&self, cluster_run: &ClusterRun<'_>) -> bool {
        match self {
            Self::Present => true,
            Self::None => false,
            Self::Unknown { label } => {
                for kind in [Kind::ServiceImport, Kind::EndpointSlice] {
                    let has_objects = cluster_run.kubernetes.has_objects(kind, label).await;
                    if has_objects.unwrap_or_else(|error| !error.is_not_found()) {
                        return true;
                    }
                }
                false
            }
        }
    }
}

/// Reads the selected exports of a cluster. `None` if they cannot be read.
pub async fn in_cluster(
    cluster_run: &ClusterRun<'_>,
    selection: &Selection,
    deadline: Deadline,
) -> Option<ReadExports> {
    let read = deadline.until_stop(cluster_run.read_selected(selection)).await.ok()?;
    let desired =
        read.inspect_err(|error| tracing::warn!("exports not read: {}", chain(error))).ok()?;
    Some(allowed_exports(cluster_run, selection, &desired))
}

/// The exports and the addresses that `NAME_POLICY` allows in Cloud Map: no cluster may import any other.
fn allowed_exports(
    cluster_run: &ClusterRun<'_>,
    selection: &Selection,
    desired: &Desired,
) -> ReadExports {
    let arn = cluster_run.owner.cluster.clone();
    let mut desired = desired.clone();
    if let Some(policy) = &cluster_run.rules.name_policy {
        desired.services.retain(|service, published| {
            let Some(rule) = policy.rule(&arn, &service.namespace) else { return false };
            if !rule.allows(&Namespace::missing(&service.namespace), &service.name) {
                return false;
            }
            for endpoint in published.endpoints.iter_mut().flat_map(Arc::make_mut) {
                endpoint.ipv4 =
                    endpoint.ipv4.filter(|address| rule.allows_address((*address).into()));
                endpoint.ipv6 =
                    endpoint.ipv6.filter(|address| rule.allows_address((*address).into()));
            }
            true
        });
    }
    ReadExports { arn, desired, covers: selection.clone() }
}

/// The exports that `NAME_POLICY` denies.
fn denied(held_back: &[HeldBack]) -> impl Iterator<Item = &ServiceRef> {
    let denied = held_back.iter().filter(|line| matches!(line.reason, Reason::NotAllowed(_)));
    denied.map(|line| &line.service)
}
