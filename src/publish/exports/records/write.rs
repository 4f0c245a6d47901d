//! Writes the records of the exports whose instances stand in Cloud Map, with that of the cluster if it is due. The
//! outcome of each export follows from its own record and from the cluster's.

use std::collections::{BTreeMap, BTreeSet};

use super::super::outcome::{Stands, failures};
use super::{Kept, MAXIMUM};
use crate::clusterset::conditions::ExportOutcome;
use crate::clusterset::id::{self, CLUSTER_RECORD};
use crate::clusterset::metadata;
use crate::clusterset::record::{ExportRecord, WrittenExport};
use crate::model::clusterset::Export;
use crate::model::{Attributes, Desired, Selection, ServiceRef};
use crate::publish::Options;
use crate::publish::plan::{Observation, no_service};
use crate::report::ClusterReport;

/// The result of writing records.
pub(in crate::publish::exports) struct Written {
    pub report: ClusterReport,
    pub outcomes: BTreeMap<ServiceRef, ExportOutcome>,
    /// Whether the cluster has its own record now.
    pub has_cluster_record: bool,
}

/// The records to write.
struct Writing<'k> {
    kept: &'k Kept<'k>,
    /// The records by id, each with its Service.
    wanted: BTreeMap<String, (ServiceRef, Attributes)>,
    /// The number of records of exports, with those to write.
    exports: usize,
    /// The remarks on the exports with a record to write, for their conditions.
    remarks: BTreeMap<ServiceRef, String>,
    /// The outcomes of all other exports.
    outcomes: BTreeMap<ServiceRef, ExportOutcome>,
}

impl Kept<'_> {
    /// The exports without a record that get none, since there is no room or they do not fit: they count for no member.
    pub(in crate::publish::exports) fn refused(&self, desired: &Desired) -> BTreeSet<ServiceRef> {
        let mut writing = Writing::of(self, None);
        for (service, published) in &desired.services {
            if let Some(exported) = &published.export {
                writing.add(service.clone(), (&exported.export, false), String::new());
            }
        }
        let refused = writing.outcomes.into_keys();
        refused.filter(|service| !self.has_record(&id::export_record(service))).collect()
    }

    /// Writes the records of the exports that stand and that of the cluster, and completes the outcomes.
    pub(in crate::publish::exports) async fn write(
        &self,
        observation: &Observation,
        stands: BTreeMap<ServiceRef, Stands>,
        (selection, options): (&Selection, Options),
    ) -> Written {
        let cluster_record = self.cluster_record(selection, options.now);
        let has_cluster_record = self.has_cluster_record() || cluster_record.is_some();
        let mut writing = Writing::of(self, cluster_record);
        for (service, stands) in stands {
            let published = observation.desired.services.get(&service);
            match (stands, published.and_then(|it| it.export.as_ref())) {
                (Stands::Not(outcome), _) => _ = writing.outcomes.insert(service, outcome),
                (Stands::Exported { remark, is_empty }, Some(exported)) => {
                    writing.add(service, (&exported.export, is_empty), remark);
                }
                (Stands::Exported { .. }, None) => {}
            }
        }
        let Writing { wanted, remarks, mut outcomes, .. } = writing;
        let published = self.apply(&self.records(wanted, BTreeSet::new()), options).await;
        let failures = failures(&published);
        let failed = |id: &str| failures.get(id).cloned();
        outcomes.extend(remarks.into_iter().map(|(service, remark)| {
            let failure = failed(&id::export_record(&service)).or_else(|| failed(CLUSTER_RECORD));
            (service, failure.unwrap_or(ExportOutcome::Exported(remark)))
        }));
        for (service, outcome) in &mut outcomes {
            let is_left =
                !matches!(outcome, ExportOutcome::Exported(_) | ExportOutcome::Invalid(_));
            if is_left && self.has_record(&id::export_record(service)) {
                let of_run = std::mem::replace(outcome, ExportOutcome::TimeRanOut);
                *outcome = ExportOutcome::AsBefore(Box::new(of_run));
            }
        }
        let has_cluster_record = has_cluster_record && failed(CLUSTER_RECORD).is_none();
        Written { report: published.report, outcomes, has_cluster_record }
    }
}

impl<'k> Writing<'k> {
    fn of(kept: &'k Kept<'k>, cluster_record: Option<Attributes>) -> Self {
        let cluster_record =
            cluster_record.map(|it| (CLUSTER_RECORD.to_owned(), (no_service(), it)));
        let records = kept.observation.marked(&kept.key);
        Self {
            kept,
            wanted: cluster_record.into_iter().collect(),
            exports: records.filter(|record| record.id != CLUSTER_RECORD).count(),
            remarks: BTreeMap::new(),
            outcomes: BTreeMap::new(),
        }
    }

    /// Adds the record of an export, or the reason why it has none.
    fn add(&mut self, service: ServiceRef, (export, is_empty): (&Export, bool), remark: String) {
        match self.record(&service, (export, is_empty)) {
            Ok((id, WrittenExport { attributes, lacks_labels })) => {
                let remarks = Some(remark).filter(|it| !it.is_empty()).into_iter();
                let remarks: Vec<String> = remarks.chain(left_out(export, lacks_labels)).collect();
                self.remarks.insert(service.clone(), remarks.join("; "));
                self.exports += usize::from(!self.kept.has_record(&id));
                self.wanted.insert(id, (service, attributes));
            }
            Err(reason) => _ = self.outcomes.insert(service, ExportOutcome::HeldBack(reason)),
        }
    }

    /// # Errors
    /// Returns the reason if there is no room for the record, or the export does not fit into one.
    fn record(
        &self,
        service: &ServiceRef,
        (export, is_empty): (&Export, bool),
    ) -> Result<(String, WrittenExport), String> {
        let id = id::export_record(service);
        if self.exports >= MAXIMUM && !self.kept.has_record(&id) {
            return Err(format!("TooManyExports: a cluster can have {MAXIMUM} exports"));
        }
        let (owner, export) = (self.kept.world.owner.clone(), export.clone());
        let record = ExportRecord { owner, service: service.clone(), export, is_empty }.write();
        Ok((id, record.map_err(|error| format!("ExportTooLarge: {error}"))?))
    }
}

/// A sentence about the labels and annotations of an export that its imports lack.
fn left_out(export: &Export, lacks_labels: bool) -> Option<String> {
    if lacks_labels {
        return Some("labels and annotations are left out, since they do not fit".to_owned());
    }
    export.properties.as_ref().and_then(metadata::left_out)
}
