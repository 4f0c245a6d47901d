//! What an invocation answers: counts to the schedule, failed messages to the queue, the whole report
//! to a person.

use std::collections::BTreeMap;

use aws_lambda_events::sqs::SqsBatchResponse;
use serde_json::{Value, json};

use super::scope::{Selections, UnknownCluster};
use crate::actions::purge::UnknownRegistry;
use crate::event;
use crate::publish::plan::Policy;
use crate::reconcile;
use crate::report::{Counts, Report, Shorten, Unfinished, within_limit};

/// What became of an invocation.
#[derive(Debug)]
pub struct Answer {
    /// What was done; none where the payload was refused.
    pub report: Option<Report>,
    /// What Lambda returns to the caller.
    pub response: Result<Value, Error>,
}

/// Why an invocation fails as a whole.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The payload asks for nothing that the function does.
    #[error(transparent)]
    Event(event::Error),
    /// It names a cluster that is not configured.
    #[error(transparent)]
    Cluster(UnknownCluster),
    /// A purge that the policy does not allow.
    #[error(
        "a purge ends every claim of a cluster, and POLICY={0} does not allow that: set POLICY to sync for it"
    )]
    Policy(Policy),
    /// A purge names a Cloud Map that the settings do not lead to.
    #[error(transparent)]
    Registry(UnknownRegistry),
    /// The cluster or Cloud Map could not be read to explain a Service.
    #[error("the Service cannot be explained")]
    Unexplained(#[source] reconcile::Error),
    /// Some cluster could not be read or some change failed, after all clusters were served.
    #[error("{0}; the next run continues, and the log names each failure")]
    SyncIncomplete(Box<Counts>),
}

impl Error {
    /// The error's stable name, which alarms and callers can match.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Event(_) => "InvalidEvent",
            Self::Cluster(_) => "UnknownCluster",
            Self::Policy(_) => "PolicyForbids",
            Self::Registry(_) => "UnknownRegistry",
            Self::Unexplained(_) => "Unreadable",
            Self::SyncIncomplete(_) => "SyncIncomplete",
        }
    }
}

/// What came of the selected Services of some clusters.
pub(super) struct Run {
    pub(super) report: Report,
    /// What is open, by the cluster's place in the settings.
    pub(super) open: BTreeMap<usize, Unfinished>,
}

impl Run {
    /// The ids of the messages in whose scope something failed that a retry can help.
    pub(super) fn failed(&self, served: Vec<(Selections, Vec<String>)>) -> Vec<String> {
        let is_done = |selections: &Selections| {
            selections.iter().all(|(index, selection)| {
                self.open.get(&index).is_some_and(|open| open.is_complete_for(selection))
            })
        };
        let failed = served.into_iter().filter(|(selections, _)| !is_done(selections));
        failed.flat_map(|(_, ids)| ids).collect()
    }
}

impl Answer {
    pub(super) fn refused(error: Error) -> Self {
        Self { report: None, response: Err(error) }
    }

    /// A person who asks a question gets its answer.
    pub(super) fn to_question(answer: &(impl Shorten + Clone)) -> Self {
        Self { report: None, response: Ok(within_limit(answer)) }
    }

    /// The schedule, and a log's subscription, learn whether all checks passed; a failed run is what the
    /// alarms look for.
    pub(super) fn to_schedule(report: Report) -> Self {
        let response = if report.ok {
            Ok(json!({ "ok": true, "mode": report.mode, "counts": report.counts }))
        } else {
            Err(Error::SyncIncomplete(Box::new(report.counts)))
        };
        Self { report: Some(report), response }
    }

    /// A person always gets the report.
    pub(super) fn to_direct(report: Report) -> Self {
        let response = within_limit(&report);
        Self { report: Some(report), response: Ok(response) }
    }

    /// The queue learns which messages to deliver again.
    pub(super) fn to_queue(report: Report, failed: Vec<String>) -> Self {
        let mut response = SqsBatchResponse::default();
        for id in failed {
            response.add_failure(id);
        }
        Self { report: Some(report), response: Ok(json!(response)) }
    }
}
