//! The outcome of each export. Once the instances of an export are registered, its record is written. The outcome gives
//! the reason if the record is not written, does not fit or was refused. [`Obstacle`] is the reason why a cluster has
//! no exports.

use std::collections::{BTreeMap, BTreeSet};

use super::observe;
use super::records::OwnRecords;
use crate::clusterset::conditions::ExportOutcome;
use crate::clusterset::{id, members, record};
use crate::error::chain;
use crate::kubernetes;
use crate::model::{
    Attributes, ClusterId, Export, Line, Outcome, Owner, Selection, ServiceExport, ServiceRef,
    Verb, join,
};
use crate::publish::Published;
use crate::publish::plan::{HeldBack, Observation, Reason, no_service};
use crate::report::ClusterReport;

/// Returns the outcome of each export that the run is about, as far as its instances decide it, and the exports that
/// have no endpoint in Cloud Map. The affected Services alone do not suffice: a selected export that is invalid is
/// affected only if it has instances from before.
pub(super) fn before_records(
    observed: &Observation,
    selection: &Selection,
    Published { report, held_back, with_instances, .. }: &Published,
) -> (BTreeMap<ServiceRef, ExportOutcome>, BTreeSet<ServiceRef>) {
    let instances = instances(observed, report, with_instances);
    let exports = observed.desired.exports.iter();
    let selected = exports
        .filter(|(service, _)| selection.contains(service) || observed.affected.contains(*service));
    let outcomes = selected.map(|(service, export)| {
        let is_registered = instances.contains_key(service);
        let lines: Vec<&HeldBack> =
            held_back.iter().filter(|line| line.service == *service).collect();
        let outcome = if lines.iter().any(|line| is_from_earlier_run(observed, line)) {
            ExportOutcome::TimeRanOut
        } else {
            of_export((service, export), is_registered, report, &lines)
        };
        (service.clone(), outcome)
    });
    let outcomes: BTreeMap<_, _> = outcomes.collect();
    let is_empty = |service: &&ServiceRef| instances.get(*service).is_none_or(|count| *count == 0);
    let empty = outcomes.keys().filter(is_empty).cloned().collect();
    (outcomes, empty)
}

/// Returns the outcome of one export. `is_registered`: whether an instance of its Service was there or was registered.
fn of_export(
    (service, export): (&ServiceRef, &ServiceExport),
    is_registered: bool,
    report: &ClusterReport,
    lines: &[&HeldBack],
) -> ExportOutcome {
    if let Some(obstacle) = export.obstacle {
        return ExportOutcome::Invalid(obstacle);
    }
    let text = |line: &&HeldBack| format!("{}: {}", line.reason.code(), line.reason);
    if let Some(line) = lines.iter().find(|line| excludes_all_endpoints(line)) {
        return ExportOutcome::HeldBack(text(line));
    }
    let mut not_made = report.all_lines().filter(|line| {
        line.service.as_ref() == Some(service) && line.outcome.is_failed_or_not_attempted()
    });
    if let Some(outcome) = not_made.next().filter(|_| !is_registered).and_then(failure) {
        return outcome;
    }
    let is_remark = |reason: &Reason| reason.keeps_out() || reason.is_about_capacity();
    let remarks = lines.iter().filter(|line| is_remark(&line.reason));
    ExportOutcome::Exported(join(remarks.map(text), "; "))
}

/// Whether a line only says that an earlier run could not read a service that this run had no time to read.
fn is_from_earlier_run(observed: &Observation, line: &HeldBack) -> bool {
    let service = line.place.as_ref().and_then(|place| observed.registry.services.get(&place.key));
    matches!(line.reason, Reason::Unreadable(_))
        && service.is_some_and(|service| !service.is_current())
}

/// Whether a line means that no endpoint of the Service is registered under the name.
fn excludes_all_endpoints(line: &HeldBack) -> bool {
    line.place.is_none()
        || matches!(
            line.reason,
            Reason::Namespace(_)
                | Reason::DomainConflict { .. }
                | Reason::NotAllowed(_)
                | Reason::CnameService
                | Reason::DnsNotAllowed
                | Reason::ServiceConnect
                | Reason::InvalidInput(_)
                | Reason::QuotaExceeded(_)
                | Reason::FinalizerOfAws
                | Reason::InstancesOfAws { .. }
                | Reason::Unreadable(_)
        )
}

/// Returns the number of instances after a run, for each Service that has or had some. Each Service in `with_instances`
/// has at least one.
fn instances(
    observed: &Observation,
    report: &ClusterReport,
    with_instances: &BTreeSet<ServiceRef>,
) -> BTreeMap<ServiceRef, usize> {
    let mut all = observed.count_all_marked();
    for line in report.all_lines().filter(|line| line.outcome.is_made()) {
        let Some(service) = line.service.clone() else { continue };
        match line.verb() {
            Some(Verb::Register) => *all.entry(service).or_default() += 1,
            Some(Verb::Deregister) => {
                all.entry(service).and_modify(|count| *count = count.saturating_sub(1));
            }
            _ => {}
        }
    }
    for service in with_instances {
        let count = all.entry(service.clone()).or_default();
        *count = (*count).max(1);
    }
    all
}

/// Returns the outcome of an export if this change was not made.
fn failure(line: &Line) -> Option<ExportOutcome> {
    match &line.outcome {
        Outcome::Failed { error } => Some(ExportOutcome::Failed(error.clone())),
        Outcome::NotAttempted { .. } => Some(ExportOutcome::TimeRanOut),
        _ => None,
    }
}

/// Returns the outcomes of the records that were not written, by the id of the record. If the Cloud Map service of the
/// records was not created, the failure is listed under the id of the cluster record.
pub(super) fn failures(published: &Published) -> BTreeMap<String, ExportOutcome> {
    let cluster_record = || id::CLUSTER_RECORD.to_owned();
    let failed = published.report.all_lines().filter_map(|line| {
        let failure = failure(line)?;
        let record = line.object.clone().filter(|_| line.verb() != Some(Verb::Create));
        Some((record.unwrap_or_else(cluster_record), failure))
    });
    let held_back = published.held_back.iter().map(|line| {
        let is_cluster = line.service == no_service();
        let id = if is_cluster { cluster_record() } else { id::export_record(&line.service) };
        (id, ExportOutcome::HeldBack(line.reason.to_string()))
    });
    held_back.chain(failed).collect()
}

/// The maximum number of exports of a cluster: a Cloud Map service has at most 1,000 instances, and one is the cluster
/// record.
pub const MAXIMUM: usize = 999;

impl OwnRecords<'_> {
    /// Returns the record of each of these exports, with a remark if labels or annotations are left out, or the reason
    /// why the export gets no record.
    pub(super) fn records_that_fit<'e>(
        &self,
        exports: impl Iterator<Item = (&'e ServiceRef, &'e Export)>,
        empty: &BTreeSet<ServiceRef>,
    ) -> impl Iterator<Item = (&'e ServiceRef, Result<(Attributes, Option<String>), String>)> {
        let mut count = self.exports().count();
        exports.map(move |(service, export)| {
            let is_new = !self.has_record(&id::export_record(service));
            if is_new && count >= MAXIMUM {
                let why = format!("TooManyExports: a cluster can have {MAXIMUM} exports");
                return (service, Err(why));
            }
            let record = record::ExportRecord {
                owner: self.cluster_run.owner.clone(),
                service: service.clone(),
                export: export.clone(),
                is_empty: empty.contains(service),
            };
            let written = record.write().map_err(|error| format!("ExportTooLarge: {error}"));
            count += usize::from(is_new && written.is_ok());
            let written = written.map(|attributes| (attributes, left_out(export)));
            (service, written)
        })
    }
}

/// A sentence about the labels and annotations of an export that its imports lack.
fn left_out(export: &Export) -> Option<String> {
    if record::as_recorded(export) != *export {
        return Some("labels and annotations are left out, since they do not fit".to_owned());
    }
    export.properties.as_ref().and_then(record::left_out_metadata)
}

/// The reason why a cluster takes no part in its clusterset, or why nothing of it is published.
#[derive(Debug, thiserror::Error)]
pub enum Obstacle {
    #[error(transparent)]
    NoMember(#[from] members::NoMember),
    #[error(
        "the cluster does not serve the ServiceExports and ServiceImports of multicluster.x-k8s.io/v1beta1: install mcs-api v0.5.0 \
         or newer: {INSTALL}"
    )]
    NoApi,
    #[error(
        "the id {id} belongs to {id_owner}: purge that cluster first, or give this one another id"
    )]
    ClusterIdTaken { id: String, id_owner: String },
    /// The `OWNER_ID` of this installation was changed, or another one serves the same cluster.
    #[error(
        "the records of this cluster in {namespace}/{id} are of the OWNER_ID {owner}, and so are its instances and imports: \
         nothing is exported, and nothing leaves; to take the records over, stop the function with the OWNER_ID {owner} for \
         this cluster, and invoke {{\"action\":\"confirm\",\"cluster\":\"{cluster}\"}}; a purge by that function then removes its \
         own instances and imports"
    )]
    OtherOwner { namespace: String, id: String, owner: String, cluster: String },
    #[error(
        "several Cloud Map namespaces are named {0}, and one has the records of the clusterset"
    )]
    AmbiguousNamespace(String),
    #[error(
        "the cluster has imports, and this Cloud Map has no record of the cluster: it may be of another account or Region, \
         CLOUD_MAP_NAMESPACES may leave the namespace of the records out, or another account may not share it any more; \
         nothing leaves an import by it"
    )]
    UnfamiliarRegistry,
    #[error(
        "the Cloud Map namespace {namespace} for the records of the clusterset does not exist, and is not created: {why}"
    )]
    NoNamespace { namespace: String, why: &'static str },
    #[error(
        "the AWS Cloud Map MCS Controller runs in this cluster, or did: {place} has instances of it under the id {id}; nothing \
         is exported or imported here; to move the cluster, see docs/moving-from-other-tools.md"
    )]
    AnotherController { id: String, place: String },
    #[error(
        "the record by which the imports of this cluster know their Cloud Map could not be written: {0}; until it is, \
         nothing is imported by it"
    )]
    NoRecord(String),
    #[error(
        "the cluster has exports or imports under the id {former}, or had a sync within 15 minutes, and states the id {id}: a \
         cluster keeps its id, so nothing is exported, imported or taken away until it states {former} again, or is purged \
         and begins anew"
    )]
    IdChanged { id: String, former: String },
    #[error("the cluster has no record yet: its first full sync makes it a member")]
    NotYetMember,
    #[error("the records of the cluster could not be read: {0}")]
    Unreadable(String),
    /// The cluster or Cloud Map could not be read.
    #[error(transparent)]
    Unread(observe::Error),
}

/// The command that installs the CRDs of the API.
pub const INSTALL: &str = "CRDS=https://raw.githubusercontent.com/kubernetes-sigs/mcs-api/v0.5.2/config/crd; kubectl apply -f $CRDS/multicluster.x-k8s.io_serviceexports.yaml -f $CRDS/multicluster.x-k8s.io_serviceimports.yaml";

impl Obstacle {
    /// Returns the refusal of a member whose id another cluster owns. `id_owner` is `None` if the record of that
    /// cluster cannot be read.
    pub fn taken(id: &ClusterId, id_owner: Option<&Owner>) -> Self {
        let name =
            |owner: &Owner| format!("cluster {} of the installation {}", owner.cluster, owner.id);
        let unknown = || "an owner whose record cannot be read".to_owned();
        Self::ClusterIdTaken { id: id.to_string(), id_owner: id_owner.map_or_else(unknown, name) }
    }

    /// Whether nothing is imported into the cluster either: AWS's controller or another installation manages it, its id
    /// is another cluster's, or its id was changed.
    pub fn forbids_imports(&self) -> bool {
        use Obstacle::{AnotherController, ClusterIdTaken, IdChanged, OtherOwner};
        matches!(
            self,
            AnotherController { .. } | ClusterIdTaken { .. } | IdChanged { .. } | OtherOwner { .. }
        )
    }

    /// The stable code of the reason.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoMember(reason) => reason.code(),
            Self::NoApi => "NoMultiClusterApi",
            Self::ClusterIdTaken { .. } => "ClusterIdTaken",
            Self::OtherOwner { .. } => "OwnerIdDiffers",
            Self::AmbiguousNamespace(_) | Self::NoNamespace { .. } => "Namespace",
            Self::AnotherController { .. } => "AnotherController",
            Self::IdChanged { .. } => "ClusterIdChanged",
            Self::NotYetMember => "NotYetMember",
            Self::UnfamiliarRegistry => "UnfamiliarRegistry",
            Self::NoRecord(_) => "NoRecord",
            Self::Unreadable(_) | Self::Unread(_) => "Unreadable",
        }
    }

    /// Whether each export of the cluster gets the reason as its condition: a person has to act, and no other
    /// controller or installation writes the conditions of these exports.
    pub fn concerns_exports(&self) -> bool {
        match self {
            Self::NoMember(_)
            | Self::ClusterIdTaken { .. }
            | Self::AmbiguousNamespace(_)
            | Self::UnfamiliarRegistry
            | Self::NoNamespace { .. }
            | Self::IdChanged { .. } => true,
            Self::NoApi
            | Self::OtherOwner { .. }
            | Self::AnotherController { .. }
            | Self::NoRecord(_)
            | Self::NotYetMember
            | Self::Unreadable(_)
            | Self::Unread(_) => false,
        }
    }
}

/// Converts the error of a read. If the API server does not serve a kind, it answers a list with 404, and a request for
/// an object with a 404 that does not name the object.
impl From<observe::Error> for Obstacle {
    fn from(error: observe::Error) -> Self {
        match error {
            observe::Error::Kubernetes(error) if error.is_not_found() => Self::NoApi,
            error => Self::Unread(error),
        }
    }
}

impl From<kubernetes::Error> for Obstacle {
    fn from(error: kubernetes::Error) -> Self {
        observe::Error::from(error).into()
    }
}

impl From<&Obstacle> for Line {
    fn from(obstacle: &Obstacle) -> Self {
        let code = obstacle.code();
        let text = chain(obstacle);
        // Only a failed read may succeed in the next run.
        match code {
            "Unreadable" => Self::unreadable(text),
            _ => Self::new('!', code, text, Outcome::HeldBack),
        }
    }
}

impl From<Obstacle> for Box<Line> {
    fn from(obstacle: Obstacle) -> Self {
        Self::new((&obstacle).into())
    }
}
