//! A cluster in its clusterset, in one invocation. First it joins: its id and the objects of its imports are read. Then
//! its exports are published, the exports of all members are imported into it (`imports`), and the conditions of its
//! exports are written.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};
use serde_json::json;

use super::Invocation;
use crate::clients::Connection;
use crate::clusterset::conditions::{
    ExportOutcome, conditions_if_held_back, conditions_to_apply, turned_bad,
};
use crate::clusterset::id::{self, EXPORT_RECORD};
use crate::clusterset::members::{
    CLUSTER_PROPERTY, CLUSTERSET_PROPERTY, cluster_id, clusterset_id,
};
use crate::clusterset::{merge, record};
use crate::error::chain;
use crate::import::observe::Objects;
use crate::import::{Imported, plan, sources};
use crate::kubernetes::{Error, ErrorClass, Kubernetes};
use crate::model::{
    ClusterArn, Condition, EXPORTED, Kind, Line, Member, Notice, NoticeKind, ObjectRef, Outcome,
    Owner, ReadExports, Selection, ServiceExport, ServiceRef, Word,
};
use crate::publish::exports::{
    self, Exporting, Obstacle, Offer, PresentImports, PublishedExports, Purpose,
};
use crate::publish::observe::{self, ClaimSource, ClusterRun, SharedRegistry};
use crate::report::{Mode, MultiClusterReport, ServiceReport};
use crate::settings::{Cluster, MultiCluster};

/// A cluster that takes part in its clusterset.
pub struct JoinedCluster<'a> {
    pub invocation: &'a Invocation<'a>,
    pub cluster: &'a Cluster,
    pub member: Member,
    /// The names of the imports that this run is about. `objects` has the objects of these imports.
    pub selection: Selection,
    pub(super) multi_cluster: MultiCluster,
    pub(super) connection: Connection,
    /// The label of our objects in the cluster.
    pub owner: plan::OwnerLabel,
    /// The objects of its imports. `None` if the cluster does not import, or they could not be read.
    pub objects: Option<Objects>,
    /// The number of our ServiceImports in the cluster before the run.
    pub imports_before: usize,
    /// The reason why the objects of its imports could not be read, if so. The exports are published nevertheless.
    pub unread_imports: Option<Box<Line>>,
}

impl Invocation<'_> {
    /// Whether a cluster takes part in a clusterset in this invocation.
    pub fn takes_part(&self, cluster: &Cluster) -> bool {
        self.settings.multi_cluster_of(cluster) != MultiCluster::Off && self.adoption.is_none()
    }

    /// Reads the id and the clusterset of a cluster, and the objects of its imports. Returns `None` if it takes no part
    /// in a clusterset in this invocation.
    pub async fn join<'a>(
        &'a self,
        cluster: &'a Cluster,
        selection: &Selection,
    ) -> Option<Result<JoinedCluster<'a>, Box<Line>>> {
        if !self.takes_part(cluster) {
            return None;
        }
        let joined = async {
            let connection = match self.connect(cluster).await {
                Ok(connection) => connection,
                Err(error) => return Err(unread_line(&error)),
            };
            let is_reused = connection.reused;
            let member = match self.read_member(cluster, connection, selection).await {
                // Only a failed handshake is tried again: a server that does not answer would take its 30 seconds
                // twice.
                Err(Obstacle::Unread(observe::Error::Kubernetes(error)))
                    if is_reused && error.is_failed_handshake() =>
                {
                    match self.reconnect(cluster).await {
                        Ok(connection) => self.read_member(cluster, connection, selection).await,
                        Err(error) => return Err(unread_line(&error)),
                    }
                }
                member => member,
            };
            member.map_err(Box::from)
        };
        let in_time = self.deadline.until_stop(joined).await;
        Some(in_time.unwrap_or_else(|_| Err(unread_line(&observe::Error::Deadline))))
    }

    /// Returns the clusters whose exports the function publishes in the Cloud Map of `cluster`.
    pub fn exporters(&self, cluster: &Cluster) -> BTreeSet<ClusterArn> {
        let registry = self.clients.registry_of(cluster);
        let is_exporter = |other: &&Cluster| {
            self.settings.multi_cluster_of(other).exports()
                && self.clients.registry_of(other) == registry
        };
        let exporters = self.settings.clusters.iter().filter(is_exporter);
        exporters.map(|exporter| exporter.arn.clone()).collect()
    }

    async fn read_member<'a>(
        &'a self,
        cluster: &'a Cluster,
        connection: Connection,
        selection: &Selection,
    ) -> Result<JoinedCluster<'a>, Obstacle> {
        let multi_cluster = self.settings.multi_cluster_of(cluster);
        let kubernetes = &connection.kubernetes;
        if !kubernetes.serves_multi_cluster().await? {
            return Err(Obstacle::NoApi);
        }
        let property = |name| async move {
            match selection.names().filter(|_| self.mode == Mode::Sync) {
                Some(_) => kubernetes.cached_cluster_property(name).await,
                None => kubernetes.cluster_property(name).await,
            }
        };
        let (id, clusterset) =
            tokio::try_join!(property(CLUSTER_PROPERTY), property(CLUSTERSET_PROPERTY))?;
        let settings = &cluster.membership;
        let member = Member {
            cluster: cluster_id(settings.cluster_id.as_ref(), id.as_deref())?,
            clusterset: clusterset_id(settings.clusterset.as_ref(), clusterset.as_deref())?,
        };
        let owner = plan::OwnerLabel::new(&self.settings.owner_id);
        let mut unread_imports = None;
        let mut objects = None;
        if multi_cluster.imports() {
            match Box::pin(read_objects(kubernetes, &owner, selection)).await {
                Ok(read) => objects = Some(read),
                Err(error) if error.class == ErrorClass::Unreachable => return Err(error.into()),
                // The API server answers, so the ServiceExports may be readable.
                Err(error) => unread_imports = Some(Obstacle::from(error).into()),
            }
        }
        let imports_before =
            objects.as_ref().map_or(0, |objects: &Objects| objects.ours(&owner).count());
        let invocation = self;
        let selection = selection.clone();
        Ok(JoinedCluster {
            invocation,
            cluster,
            member,
            selection,
            multi_cluster,
            connection,
            owner,
            objects,
            imports_before,
            unread_imports,
        })
    }
}

async fn read_objects(
    kubernetes: &Kubernetes,
    owner: &plan::OwnerLabel,
    selection: &Selection,
) -> Result<Objects, Error> {
    match selection.names() {
        Some(services) => Objects::read_named(kubernetes, owner, services).await,
        None => Objects::read(kubernetes, owner).await,
    }
}

impl JoinedCluster<'_> {
    pub fn arn(&self) -> &ClusterArn {
        &self.connection.cluster.arn
    }

    /// Whether the exports of the cluster are published.
    pub fn is_exporting(&self) -> bool {
        self.multi_cluster.exports()
    }

    /// Returns whether the cluster has imports of ours. This is unknown if the run found none and did not read all
    /// imports. A cluster that does not import counts as one without imports.
    pub(super) fn present_imports(&self) -> PresentImports {
        match &self.objects {
            Some(objects) if objects.has_imports(&self.owner) => PresentImports::Present,
            None if !self.multi_cluster.imports() => PresentImports::None,
            Some(_) if self.selection == Selection::Everything => PresentImports::None,
            _ => PresentImports::Unknown { label: self.owner.selector() },
        }
    }

    /// Whether the cluster record in Cloud Map names this cluster as the owner of its id. The first full sync of the
    /// cluster writes the record. Nothing is imported before: it is unknown whether AWS's controller runs there, and
    /// the next run would find imports but no record, and take this for the wrong Cloud Map.
    pub fn is_member(&self, members: &sources::Members<'_>) -> bool {
        members.owner_of_id(&self.member.cluster) == Some(&self.owner_of_records())
    }

    /// Whether Cloud Map was read and lacks the record of the cluster although the cluster has imports. It may then be
    /// the wrong Cloud Map.
    pub fn is_unfamiliar(&self, members: &sources::Members<'_>) -> bool {
        self.present_imports() == PresentImports::Present
            && members.owner_of_id(&self.member.cluster).is_none()
            && !members.is_unread()
    }

    /// Whether a full sync may write the first record of the cluster: the run has found no imports in the cluster.
    pub fn may_become_a_member(&self) -> bool {
        self.present_imports() != PresentImports::Present
    }

    /// Returns the owner of this cluster's id if that is another cluster. This cluster then exports and imports
    /// nothing.
    pub fn other_id_owner<'m>(&self, members: &'m sources::Members<'_>) -> Option<&'m Owner> {
        let owner = members.owner_of_id(&self.member.cluster);
        owner.filter(|owner| owner.cluster != *self.arn())
    }

    /// Returns the run over the exports of the cluster in the Cloud Map of `registry`.
    pub(crate) fn exporting<'w>(&'w self, registry: &'w SharedRegistry) -> ClusterRun<'w> {
        let cluster_run = self.invocation.cluster_run(self.cluster, &self.connection, registry);
        let owner = self.owner_of_records();
        ClusterRun { source: ClaimSource::Exports(self.member.clone()), owner, ..cluster_run }
    }

    /// Returns the report of the member, with the number of imports before the run.
    pub fn report(&self) -> MultiClusterReport {
        MultiClusterReport {
            imports: self.imports_before,
            cluster_id: Some(self.member.cluster.to_string()),
            clusterset: Some(self.member.clusterset.to_string()),
            ..MultiClusterReport::default()
        }
    }
}

/// Returns the line about a failed read, which the next run tries again.
pub fn unread_line(error: &dyn std::error::Error) -> Box<Line> {
    Box::new(Line::unreadable(chain(error)))
}

// The exports of a cluster. After they are published, they get their conditions, from their outcomes and from the
// conflicts under their names. Each condition that turns bad gets an Event.

/// The number of statuses that are written concurrently.
const CONCURRENT_STATUS_WRITES: usize = 16;

impl JoinedCluster<'_> {
    /// Publishes the exports of the cluster, and passes them to `offer` for the importers of the run. If the cluster
    /// only imports, a full sync writes its record instead. Returns `None` if the run has neither to do.
    ///
    /// # Errors
    /// Returns the reason if nothing was published.
    pub async fn export(
        &self,
        registry: &SharedRegistry,
        selection: &Selection,
        offer: impl FnOnce(Offer) + Send + Sync,
    ) -> Result<Option<PublishedExports>, Obstacle> {
        let is_plan = self.invocation.mode == Mode::Plan;
        let purpose = match &self.objects {
            _ if self.is_exporting() => Purpose::Sync,
            Some(_) if is_plan || *selection == Selection::Everything => Purpose::Introduction,
            _ => return Ok(None),
        };
        let exporting = Exporting {
            cluster_run: &self.exporting(registry),
            member: &self.member,
            imports: self.present_imports(),
            selection,
            options: self.invocation.options(),
            offer: Some(Box::new(offer)),
        };
        Ok(Some(exporting.run(purpose).await?))
    }

    /// Reads the present exports of the cluster from its API server. Returns `None` if the cluster does not export, or
    /// if the exports cannot be read.
    pub async fn exports_in_cluster(
        &self,
        registry: &SharedRegistry,
        selection: &Selection,
    ) -> Option<ReadExports> {
        if !self.is_exporting() {
            return None;
        }
        let deadline = self.invocation.deadline;
        exports::in_cluster(&self.exporting(registry), selection, deadline).await
    }

    /// Writes the conditions of the exports. Each rests on the outcome of the export and on the merged exports of its
    /// name, as an import of this run has merged them if there is one. Adds to the report the exports in conflict, the
    /// held-back exports and the conditions that were not written.
    pub async fn write_conditions(
        &self,
        exported: &PublishedExports,
        (members, imported): (&sources::Members<'_>, Option<&Imported>),
        report: &mut MultiClusterReport,
    ) {
        let mut statuses = Vec::new();
        for (service, outcome) in &exported.outcomes {
            let Some(export) = exported.exports().get(service) else { continue };
            let merged =
                imported.and_then(|imported| imported.imports.get(service)?.merged.clone());
            let merged = merged.or_else(|| members.merged(service));
            let merged = merged.as_deref();
            if let Some((reasons, detail)) = merged.and_then(merge::Merged::disagreement) {
                let conflict = Line::new('!', reasons, detail, Outcome::Remark);
                report.lines.push(conflict.about(service.clone()));
            }
            let problem = outcome.problem();
            report.lines.extend(problem.map(|(reason, detail)| held_back(service, reason, detail)));
            let wanted = conditions_to_apply(export, outcome, merged, self.invocation.now);
            statuses.extend(wanted.map(|conditions| ExportStatus { service, export, conditions }));
        }
        self.invocation.write_statuses(&self.connection.kubernetes, &statuses, report).await;
    }
}

/// The conditions to write on a ServiceExport.
struct ExportStatus<'e> {
    service: &'e ServiceRef,
    /// The ServiceExport as it was read.
    export: &'e ServiceExport,
    conditions: Vec<Condition>,
}

impl ExportStatus<'_> {
    /// Returns a warning for each condition that this status turns bad.
    fn warnings(&self) -> impl Iterator<Item = Notice> {
        let worse = turned_bad(self.export, &self.conditions).into_iter();
        worse.map(|(reason, note)| Notice {
            about: Kind::ServiceExport,
            tone: NoticeKind::Warning,
            service: self.service.clone(),
            uid: self.export.uid.clone(),
            line: Line::new('!', reason, note, Outcome::Remark),
        })
    }
}

impl Invocation<'_> {
    /// Writes the obstacle that holds back a whole cluster as a condition on each of its exports.
    pub async fn write_obstacle(
        &self,
        cluster: &Cluster,
        obstacle: &Line,
        report: &mut MultiClusterReport,
    ) {
        let Ok(connection) = self.connect(cluster).await else { return };
        let kubernetes = &connection.kubernetes;
        let exports = match kubernetes.service_exports().await {
            Ok(exports) => exports,
            // The Multi-Cluster Services API is not installed, and the obstacle already says that.
            Err(error) if error.is_not_found() => return,
            Err(error) => {
                tracing::warn!("conditions not written: {}", chain(&error));
                return;
            }
        };
        let statuses = exports.iter().filter_map(|(service, export)| {
            let conditions = conditions_if_held_back(export, obstacle, self.now)?;
            Some(ExportStatus { service, export, conditions })
        });
        let statuses: Vec<ExportStatus> = statuses.collect();
        self.write_statuses(kubernetes, &statuses, report).await;
    }

    /// Writes statuses, and an Event for each condition that turns bad. Reports the statuses that were not written.
    async fn write_statuses(
        &self,
        kubernetes: &Kubernetes,
        statuses: &[ExportStatus<'_>],
        report: &mut MultiClusterReport,
    ) {
        if self.mode != Mode::Sync {
            return;
        }
        let writes = statuses.iter().map(|status| self.write_status(kubernetes, status));
        let written: Vec<_> =
            stream::iter(writes).buffered(CONCURRENT_STATUS_WRITES).collect().await;
        for (service, is_unfinished, result) in written.into_iter().flatten() {
            report.unfinished.extend(is_unfinished.then(|| service.clone()));
            let status = Line::new('~', "status", "", result).about(service.clone());
            report.lines.push(Line { object: Some(service.to_string()), ..status });
        }
        let warnings: Vec<Notice> = statuses.iter().flat_map(ExportStatus::warnings).collect();
        self.create_events(kubernetes, &warnings).await;
    }

    /// Writes a status. If it was not written, returns the problem, and whether a retry can write it. The status of a
    /// deleted export is not a problem.
    async fn write_status<'s>(
        &self,
        kubernetes: &Kubernetes,
        ExportStatus { service, conditions, .. }: &ExportStatus<'s>,
    ) -> Option<(&'s ServiceRef, bool, Outcome)> {
        if !self.deadline.is_open() {
            return Some((service, true, Outcome::not_attempted("the time of the run was over")));
        }
        let object = ObjectRef::of(service, Kind::ServiceExport, &service.name);
        let status = json!({
            "apiVersion": object.kind.api_version(),
            "kind": object.kind,
            "metadata": {"namespace": service.namespace, "name": service.name},
            "status": {"conditions": conditions},
        });
        let written = kubernetes.apply_status(&object, &status).await;
        let error = written.err().filter(|error| !error.is_not_found())?;
        let text = format!("conditions not written: {}", chain(&error));
        Some((service, !error.is_permanent(), Outcome::Failed { error: text }))
    }
}

/// Returns the line about an export or import that is held back.
pub(super) fn held_back(service: &ServiceRef, reason: impl Into<Word>, text: String) -> Line {
    Line::new('!', reason, text, Outcome::HeldBack).about(service.clone())
}

impl MultiClusterReport {
    /// Adds the exports that begin, change or end in a run: those whose records are registered, rewritten or
    /// deregistered.
    pub fn add_exports(&mut self, exported: &PublishedExports) {
        self.exports = exported.exports().len();
        let outcomes = exported.outcomes.iter();
        let failed = outcomes.filter(|(_, outcome)| {
            matches!(outcome.of_this_run(), ExportOutcome::Failed(_) | ExportOutcome::TimeRanOut)
        });
        self.unfinished.extend(failed.map(|(service, _)| service.clone()));
        // The first records are written in one group, so their lines may be about another Service. The record's id
        // identifies its Service.
        let exports = exported.exports().keys();
        let exports: BTreeMap<String, &ServiceRef> =
            exports.map(|service| (id::export_record(service), service)).collect();
        let services = exported.report.services.iter();
        let services = services.filter(|service| record::is_namespace(&service.namespace));
        for line in services.flat_map(ServiceReport::changes) {
            let (Some(id), Some(service)) = (&line.object, &line.service) else { continue };
            if !id.starts_with(EXPORT_RECORD) {
                continue;
            }
            let service = exports.get(id).copied().unwrap_or(service);
            let export = Line::new(line.sign, EXPORTED, "", line.outcome.clone());
            let export = export.about(service.clone());
            self.lines.push(Line { object: Some(service.to_string()), ..export });
        }
    }
}
