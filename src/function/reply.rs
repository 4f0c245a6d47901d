//! The responses of an invocation: counts to the schedule, failed messages to the queue, the whole report to a direct
//! invocation. Each is built from the run's report.

use aws_lambda_events::sqs::SqsBatchResponse;
use serde::Serialize;
use serde_json::{Value, json};

use super::answer::{Answer, Error};
use crate::report::{RELEASE, Report, Shorten, within_limit};

/// The result of an invocation. As JSON values the report of a large run takes more memory than the run, so it stays what
/// it is until Lambda's client writes it.
#[derive(Debug)]
pub struct Reply {
    /// The report of a run whose response is not the report.
    report: Option<Report>,
    /// As [`Answer::queued`].
    pub queued: Vec<String>,
    response: Result<Body, Error>,
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
        Self { report: None, queued, response: response.map(Body::Value) }
    }

    /// The same with the release of the function, if it is not there yet.
    pub(super) fn with_release(mut self) -> Self {
        if let Ok(Body::Value(Value::Object(response))) = &mut self.response {
            response.insert("release".to_owned(), json!(RELEASE));
        }
        self
    }

    /// The response to a query: `status`, `doctor` or `explain`.
    pub(super) fn to_query(answer: &(impl Shorten + Clone)) -> Self {
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
        let response = Body::Report { report: Box::new(report), release: RELEASE };
        Self { report: None, queued: Vec::new(), response: Ok(response) }
    }

    /// The response to the queue: the ids of the messages to deliver again.
    pub(super) fn to_queue(report: Report, failed: Vec<String>) -> Self {
        let mut response = SqsBatchResponse::default();
        for id in failed {
            response.add_failure(id);
        }
        Self { report: Some(report), ..Self::queued(Vec::new(), Ok(json!(response))) }
    }

    /// The report; absent if the payload was rejected or is a query.
    pub fn report(&self) -> Option<&Report> {
        match &self.response {
            Ok(Body::Report { report, .. }) => Some(report),
            _ => self.report.as_ref(),
        }
    }

    pub(super) fn report_mut(&mut self) -> Option<&mut Report> {
        match &mut self.response {
            Ok(Body::Report { report, .. }) => Some(report),
            _ => self.report.as_mut(),
        }
    }

    /// The response. A report that is too large for Lambda is shortened.
    ///
    /// # Errors
    /// Returns the error of an invocation that fails as a whole.
    pub fn into_body(self) -> Result<Body, Error> {
        let mut body = self.response?;
        if let Body::Report { report, .. } = &mut body {
            report.fit();
        }
        Ok(body)
    }

    pub(super) fn into_answer(mut self) -> Answer {
        let (report, queued) = (self.report().cloned(), std::mem::take(&mut self.queued));
        Answer { report, queued, response: self.into_body().map(|body| json!(body)) }
    }
}
