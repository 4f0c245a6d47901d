//! What became of each export: once its instances were registered, whether its record is written, and the outcome if it
//! is not or was refused.

use std::collections::BTreeMap;

use crate::clusterset::conditions::ExportOutcome;
use crate::clusterset::id::{self, CLUSTER_RECORD};
use crate::model::{Selection, ServiceExport, ServiceRef, Verb};
use crate::publish::Published;
use crate::publish::plan::{HeldBack, Observed, Reason, no_service};
use crate::report::{ChangeLine, ChangeResult, ClusterReport};

/// Whether an export stands in Cloud Map, as far as its instances decide.
pub(super) enum Stands {
    /// Its record is written.
    Exported {
        /// The endpoints that are held back; empty if there are none.
        remark: String,
        /// Whether Cloud Map has none of its endpoints.
        is_empty: bool,
    },
    Not(ExportOutcome),
}

/// The state of each export that the run is about. One that cannot be exported is none of the affected Services, unless
/// it has instances from before.
pub(super) fn before_records(
    observed: &Observed,
    selection: &Selection,
    report: &ClusterReport,
    held_back: &[HeldBack],
) -> BTreeMap<ServiceRef, Stands> {
    let instances = Instances::of(observed, report);
    let exports = observed.observation.desired.exports.iter();
    let selected = exports
        .filter(|(service, _)| selection.contains(service) || observed.affected.contains(*service));
    selected
        .map(|(service, export)| {
            (service.clone(), of_export(&instances, (service, export), report, held_back))
        })
        .collect()
}

fn of_export(
    instances: &Instances,
    (service, export): (&ServiceRef, &ServiceExport),
    report: &ClusterReport,
    held_back: &[HeldBack],
) -> Stands {
    if let Some(obstacle) = export.obstacle {
        return Stands::Not(ExportOutcome::Invalid(obstacle));
    }
    let lines: Vec<&HeldBack> = held_back.iter().filter(|line| line.service == *service).collect();
    let text = |line: &&HeldBack| format!("{}: {}", line.reason.code(), line.reason);
    if let Some(line) = lines.iter().find(|line| bars_the_name(line)) {
        return Stands::Not(ExportOutcome::HeldBack(text(line)));
    }
    if let Some(line) = changes(report, service).find(|line| line.is_left_undone())
        && !instances.is_registered(service)
    {
        return Stands::Not(match &line.result {
            ChangeResult::Failed { error } => ExportOutcome::Failed(error.clone()),
            _ => ExportOutcome::TimeRanOut,
        });
    }
    let told = lines.iter().filter(|line| line.reason.keeps_out());
    let remark = told.map(text).collect::<Vec<_>>().join("; ");
    Stands::Exported { remark, is_empty: instances.is_empty(service) }
}

/// Whether a line keeps every endpoint of the Service out of the name.
fn bars_the_name(line: &HeldBack) -> bool {
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
                | Reason::ExportNotAdopted { .. }
                | Reason::Unreadable(_)
        )
}

/// The number of instances of each Service before and after the changes of a run.
struct Instances {
    before: BTreeMap<ServiceRef, usize>,
    after: BTreeMap<ServiceRef, usize>,
}

impl Instances {
    fn of(observed: &Observed, report: &ClusterReport) -> Self {
        let mut before: BTreeMap<ServiceRef, usize> = BTreeMap::new();
        for (_, service) in observed.observation.all_marked_services() {
            *before.entry(service).or_default() += 1;
        }
        let mut after = before.clone();
        let lines = report.services.iter().flat_map(|service| &service.changes);
        let is_made =
            |it: &&ChangeLine| matches!(it.result, ChangeResult::Applied | ChangeResult::Planned);
        for line in lines.filter(is_made) {
            let count = after.entry(line.service.clone()).or_default();
            match line.change {
                Verb::Register => *count += 1,
                Verb::Deregister => *count = count.saturating_sub(1),
                _ => {}
            }
        }
        Self { before, after }
    }

    /// Whether an instance of the Service was there, or was registered.
    fn is_registered(&self, service: &ServiceRef) -> bool {
        [&self.before, &self.after].iter().any(|all| all.get(service).is_some_and(|it| *it > 0))
    }

    fn is_empty(&self, service: &ServiceRef) -> bool {
        self.after.get(service).is_none_or(|count| *count == 0)
    }
}

fn changes<'a>(
    report: &'a ClusterReport,
    service: &'a ServiceRef,
) -> impl Iterator<Item = &'a ChangeLine> {
    let all = report.services.iter().flat_map(|service| &service.changes);
    all.filter(move |line| line.service == *service)
}

/// The outcomes of the records that were not written, by the id of the record. If their service was not created, that of
/// the cluster stands for all.
pub(super) fn failures(published: &Published) -> BTreeMap<String, ExportOutcome> {
    let changes = published.report.services.iter().flat_map(|service| &service.changes);
    let failed = changes.filter_map(|line| {
        let outcome = match &line.result {
            ChangeResult::Failed { error } => ExportOutcome::Failed(error.clone()),
            ChangeResult::Undone { .. } => ExportOutcome::TimeRanOut,
            ChangeResult::Planned | ChangeResult::Applied => return None,
        };
        Some((line.instance.clone().unwrap_or_else(|| CLUSTER_RECORD.to_owned()), outcome))
    });
    let held_back = published.held_back.iter().map(|line| {
        let of_cluster = || CLUSTER_RECORD.to_owned();
        let is_cluster = line.service == no_service();
        let id = if is_cluster { of_cluster() } else { id::export_record(&line.service) };
        (id, ExportOutcome::HeldBack(line.reason.to_string()))
    });
    held_back.chain(failed).collect()
}
