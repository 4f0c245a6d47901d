//! What became of each export: once its instances were registered, whether its record is written, and the outcome if it
//! is not or was refused.

use std::collections::BTreeMap;

use crate::clusterset::conditions::ExportOutcome;
use crate::clusterset::id::{self, CLUSTER_RECORD};
use crate::model::{Selection, ServiceExport, ServiceRef};
use crate::publish::Published;
use crate::publish::plan::{HeldBack, Observed, Reason, no_service};
use crate::report::{ChangeLine, ChangeResult, ClusterReport};

/// Whether an export stands in Cloud Map, as far as its instances decide.
pub(super) enum Stands {
    /// Its record is written. The message names the endpoints that are held back; it is empty if there are none.
    Exported(String),
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
    let exports = observed.observation.desired.exports.iter();
    let selected = exports
        .filter(|(service, _)| selection.contains(service) || observed.affected.contains(*service));
    selected
        .map(|(service, export)| {
            (service.clone(), of_export(observed, (service, export), report, held_back))
        })
        .collect()
}

fn of_export(
    observed: &Observed,
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
    // In this order: the second question reads every instance of the registry, for each export.
    if let Some(line) = changes(report, service).find(|line| line.is_left_undone())
        && !is_registered(observed, service, report)
    {
        return Stands::Not(match &line.result {
            ChangeResult::Failed { error } => ExportOutcome::Failed(error.clone()),
            _ => ExportOutcome::TimeRanOut,
        });
    }
    let told = lines.iter().filter(|line| line.reason.keeps_out());
    Stands::Exported(told.map(text).collect::<Vec<_>>().join("; "))
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

/// Whether an instance of the Service was there, or was registered.
fn is_registered(observed: &Observed, service: &ServiceRef, report: &ClusterReport) -> bool {
    let mut present = observed.observation.all_marked_services();
    present.any(|(_, marked)| marked == *service)
        || changes(report, service).any(|line| line.result == ChangeResult::Applied)
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
