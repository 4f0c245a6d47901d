//! The result of an invocation, and its response for the kind of payload: counts to the schedule, failed messages to
//! the queue, the whole report to a direct invocation. Each is built from the run's report. An error that fails the
//! invocation has a stable name.

use std::collections::BTreeMap;

use aws_lambda_events::sqs::SqsBatchResponse;
use serde::Serialize;
use serde_json::{Value, json};

use super::clusters::{Selections, UnknownCluster};
use crate::actions::purge::UnknownRegistry;
use crate::publish::plan::Policy;
use crate::report::{Counts, RELEASE, Report, Shorten, Unfinished, within_limit};
use crate::{event, reconcile};

/// The error of an invocation that fails as a whole.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The payload is no request that the function knows.
    #[error(transparent)]
    Event(#[from] event::Error),
    /// The payload names a cluster that is not configured.
    #[error(transparent)]
    Cluster(#[from] UnknownCluster),
    /// The action is reserved to an alias of the function.
    #[error(
        "{action} is accepted only through the alias {alias} of this function (ADMIN_ALIAS), and this call came {}: \
         repeat it with --qualifier {alias}",
        .through.as_ref().map_or("without one".to_owned(), |it| format!("through {it}"))
    )]
    NotThroughAlias { action: event::Action, alias: String, through: Option<String> },
    /// The policy does not allow a purge.
    #[error(
        "a purge deregisters all instances of a cluster, and POLICY={0} does not allow that: set POLICY to sync"
    )]
    Policy(Policy),
    /// The Cloud Map that a purge names is not in the settings.
    #[error(transparent)]
    Registry(#[from] UnknownRegistry),
    /// The cluster or Cloud Map could not be read to explain a Service.
    #[error("the Service cannot be explained")]
    Unexplained(#[from] reconcile::Error),
    /// A cluster could not be read or a change failed. All other clusters were synced.
    #[error("{0}; the next run continues, and the log has each failure")]
    SyncIncomplete(Box<Counts>),
}

impl Error {
    /// The error's stable name, for alarms and callers.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Event(_) => "InvalidEvent",
            Self::Cluster(_) => "UnknownCluster",
            Self::NotThroughAlias { .. } => "NotThroughAlias",
            Self::Policy(_) => "PolicyForbids",
            Self::Registry(_) => "UnknownRegistry",
            Self::Unexplained(_) => "Unreadable",
            Self::SyncIncomplete(_) => "SyncIncomplete",
        }
    }
}

/// The result of a run over the selected Services of some clusters.
pub(super) struct RunResult {
    pub(super) report: Report,
    /// The unfinished work by the cluster's index in the settings.
    pub(super) open: BTreeMap<usize, Unfinished>,
}

impl RunResult {
    /// The ids of the messages with unfinished work in their scope that a retry can complete.
    pub(super) fn failed_messages(&self, served: Vec<(Selections, Vec<String>)>) -> Vec<String> {
        let is_done = |selections: &Selections| {
            let is_complete = |(index, selection)| {
                self.open.get(&index).is_some_and(|open| open.is_complete_for(selection))
                    && self.open.values().all(|open| open.is_followed(selection))
            };
            let is_imported = |(index, selection)| {
                self.open.get(&index).is_none_or(|open| open.is_imported(selection))
            };
            selections.iter().all(is_complete) && selections.imported().all(is_imported)
        };
        let failed = served.into_iter().filter(|(selections, _)| !is_done(selections));
        failed.flat_map(|(_, ids)| ids).collect()
    }
}

/// The result of an invocation. As JSON values the report of a large run takes more memory than the run, so it stays what
/// it is until Lambda's client writes it.
#[derive(Debug)]
pub struct Reply {
    /// The report; absent if the payload was rejected or is a query.
    pub report: Option<Report>,
    /// The ARNs of the clusters whose full sync was queued (`FAN_OUT`), without those that do not page.
    pub queued: Vec<String>,
    /// The response if it is not the report.
    response: Result<Option<Value>, Error>,
}

/// The response that Lambda returns to the caller.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Body {
    Value(Value),
    /// The report of a direct invocation, with the release of the function for the plugin of a person who may have
    /// another one.
    Report {
        #[serde(flatten)]
        report: Box<Report>,
        release: &'static str,
    },
}

impl Reply {
    pub(super) fn refused(error: Error) -> Self {
        Self::queued(Vec::new(), Err(error))
    }

    /// The response to the schedule if the full syncs of the clusters were queued.
    pub(super) fn queued(queued: Vec<String>, response: Result<Value, Error>) -> Self {
        Self { report: None, queued, response: response.map(Some) }
    }

    /// The same with the release of the function, if it is not there yet.
    pub(super) fn with_release(mut self) -> Self {
        if let Ok(Some(Value::Object(response))) = &mut self.response {
            response.insert("release".to_owned(), json!(RELEASE));
        }
        self
    }

    /// The response to a query: `status`, `doctor` or `explain`.
    pub(super) fn to_query(answer: impl Shorten) -> Self {
        Self::queued(Vec::new(), Ok(within_limit(answer)))
    }

    /// The response to the schedule or a log subscription: the counts, or an error if the run is incomplete. Alarms
    /// count these errors.
    pub(super) fn to_schedule(report: Report) -> Self {
        let response = if report.ok {
            Ok(json!({ "ok": true, "mode": report.mode, "counts": report.counts }))
        } else {
            Err(Error::SyncIncomplete(Box::new(report.counts)))
        };
        Self { report: Some(report), ..Self::queued(Vec::new(), response) }
    }

    /// The response to a direct invocation: always the report.
    pub(super) fn to_direct(report: Report) -> Self {
        Self { report: Some(report), queued: Vec::new(), response: Ok(None) }
    }

    /// The response to the queue: the ids of the messages to deliver again.
    pub(super) fn to_queue(report: Report, failed: Vec<String>) -> Self {
        let mut response = SqsBatchResponse::default();
        for id in failed {
            response.add_failure(id);
        }
        Self { report: Some(report), ..Self::queued(Vec::new(), Ok(json!(response))) }
    }

    /// The response. A report that is too large for Lambda is shortened.
    ///
    /// # Errors
    /// Returns the error of an invocation that fails as a whole.
    pub fn into_body(self) -> Result<Body, Error> {
        match (self.response?, self.report) {
            (None, Some(mut report)) => {
                report.fit();
                Ok(Body::Report { report: Box::new(report), release: RELEASE })
            }
            (response, _) => Ok(Body::Value(json!(response))),
        }
    }
}
