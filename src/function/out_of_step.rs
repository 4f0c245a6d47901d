//! The age of drift: the endpoints with a change that a run of this process failed to make, each with the time of the
//! first such run. Only the metrics use it. No decision depends on it, and a new process starts empty.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use crate::model::{Line, Selection, ServiceRef, Timestamp, Verb};
use crate::report::{ClusterReport, OldestOutOfStep};

/// An endpoint of a cluster in a Cloud Map service, with its pending change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PendingEndpoint {
    cluster: String,
    service: ServiceRef,
    /// The Cloud Map service.
    place: String,
    change: Verb,
    instance: Option<String>,
}

/// The endpoints that are out of step, each with the time of the first run that did not make its change.
#[derive(Debug, Default)]
pub(super) struct OutOfStep(Mutex<BTreeMap<PendingEndpoint, Timestamp>>);

impl OutOfStep {
    /// Records the changes that a run over the selected Services did not make. Ignores the report of an unreadable
    /// cluster. An endpoint in a Cloud Map service that the run could not read keeps its time.
    pub(super) fn record(&self, report: &ClusterReport, selection: &Selection, now: Timestamp) {
        if report.error.is_some() {
            return;
        }
        let mut open = BTreeSet::new();
        let mut unread = BTreeSet::new();
        for cloud_map_service in &report.services {
            if cloud_map_service.lines.iter().any(Line::is_about_failed_read) {
                unread.insert(cloud_map_service.place());
            }
            let lines = cloud_map_service.lines.iter();
            let not_made = lines.filter(|line| line.outcome.is_failed_or_not_attempted());
            for line in not_made.chain(&cloud_map_service.rejected) {
                let (Some(service), Some(change)) = (&line.service, line.verb()) else { continue };
                open.insert(PendingEndpoint {
                    cluster: report.cluster.clone(),
                    service: service.clone(),
                    place: cloud_map_service.place(),
                    change,
                    instance: line.object.clone(),
                });
            }
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_covered = |endpoint: &PendingEndpoint| {
            endpoint.cluster == report.cluster
                && selection.contains(&endpoint.service)
                && !unread.contains(&endpoint.place)
        };
        known.retain(|endpoint, _| !is_covered(endpoint) || open.contains(endpoint));
        for endpoint in open {
            known.entry(endpoint).or_insert(now);
        }
    }

    /// Returns the age of the oldest missing and of the oldest leftover endpoint.
    pub(super) fn oldest(&self, now: Timestamp) -> OldestOutOfStep {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let age = |change: Verb| {
            let since = known
                .iter()
                .filter(|(endpoint, _)| endpoint.change == change)
                .map(|(_, since)| *since);
            let seconds = since.map(|since| now.as_second() - since.as_second()).max();
            usize::try_from(seconds.unwrap_or_default()).unwrap_or_default()
        };
        OldestOutOfStep { missing: age(Verb::Register), leftover: age(Verb::Deregister) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Outcome;
    use crate::report::ServiceReport;

    /// The report of a run with one line about `shop/web` in `prod/web`.
    fn report(line: Line) -> ClusterReport {
        let service = ServiceReport {
            namespace: "prod".to_owned(),
            name: "web".to_owned(),
            lines: vec![line.about(ServiceRef::new("shop", "web"))],
            ..ServiceReport::default()
        };
        ClusterReport { services: vec![service], ..ClusterReport::default() }
    }

    #[test]
    fn endpoint_keeps_its_age_while_its_service_cannot_be_read() {
        let failed = || Line::new('+', Verb::Register.as_str(), "", Outcome::failed("denied"));
        let applied = Line::new('+', Verb::Register.as_str(), "", Outcome::Applied);
        let runs = [
            (report(failed()), 0),
            (report(Line::unreadable("throttled")), 60),
            (report(failed()), 120),
            (report(applied), 0),
            (report(failed()), 0),
        ];
        let out_of_step = OutOfStep::default();
        let mut seconds = 0;
        for (report, age) in runs {
            let now = Timestamp::from_second(seconds).expect("a time");
            out_of_step.record(&report, &Selection::Everything, now);
            assert_eq!(out_of_step.oldest(now).missing, age, "after {seconds} s");
            seconds += 60;
        }
    }
}
