//! One invocation: parses the payload, resolves the clusters and Services of its scope, reconciles each cluster
//! independently of the others (`run`) and at the same time their `clustersets`, logs the report, and returns the
//! response for the kind of payload.

mod clusters;
mod clustersets;
mod direct;
mod failed_messages;
mod log;
mod orphans;
mod out_of_step;
mod run;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde::Serialize;
use serde_json::{Value, json};

use crate::actions::purge::UnknownRegistry;
use crate::clients::{Clients, RegistryKey};
use crate::kubernetes::Transport;
use crate::publish::{observe, plan};
use crate::reconcile::Invocation;
use crate::report::{Counts, Mode, RELEASE, Report, cut_if_too_large};
use crate::settings::Settings;
use crate::time::{Clock, Deadline};
use crate::{event, reconcile};
use clusters::{Selections, UnknownCluster};
use failed_messages::Queue;
pub use failed_messages::delay;
use out_of_step::OutOfStep;

/// The function: its settings, and the clients that warm invocations reuse.
pub struct Function {
    settings: Settings,
    clients: Clients,
    memories: Mutex<BTreeMap<RegistryKey, Arc<observe::Memory>>>,
    /// The queue of messages about single Services (`QUEUE_URL`).
    queue: Option<Queue>,
    out_of_step: OutOfStep,
    silent: clustersets::UnresponsiveClusters,
    /// The log lines that recur in each run and were already logged.
    logged_lines: log::LoggedLines,
    /// The largest number of reads of instances in a sync. `None` if the limit follows from the time of the sync.
    max_instance_reads: Option<usize>,
    clock: Clock,
}

impl Function {
    /// Creates the function. `config` is the configuration of its AWS clients.
    pub fn new(settings: Settings, config: aws_config::SdkConfig) -> Self {
        let queue = settings.queue_url.as_ref().map(|url| Queue::new(&config, url));
        let clients = Clients::new(config, settings.quota_share, settings.create_tags.clone())
            .of_account(settings.account.clone());
        Self {
            settings,
            clients,
            memories: Mutex::default(),
            queue,
            out_of_step: OutOfStep::default(),
            silent: clustersets::UnresponsiveClusters::default(),
            logged_lines: log::LoggedLines::default(),
            max_instance_reads: None,
            clock: Clock::system(),
        }
    }

    /// Replaces the clock.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Limits the reads of instances of each sync, as if its time allowed no more reads of a very large Cloud Map.
    #[must_use]
    pub fn with_max_instance_reads(self, calls: usize) -> Self {
        Self { max_instance_reads: Some(calls), ..self }
    }

    /// Replaces the transport to API servers.
    #[must_use]
    pub fn with_transport(self, transport: Transport) -> Self {
        Self { clients: self.clients.with_transport(transport), ..self }
    }

    /// Handles one payload. `qualifier` is the alias or version through which the function was invoked, if any.
    pub async fn reply(
        &self,
        qualifier: Option<&str>,
        payload: &Value,
        deadline: Deadline,
    ) -> Reply {
        let before = self.clients.traffic();
        let mut reply = match event::read(payload) {
            Err(error) => Reply::failed(error.into()),
            Ok(event::Payload::Schedule) => Box::pin(self.run_schedule(deadline)).await,
            Ok(event::Payload::Queue(messages)) => {
                let receipts = failed_messages::receipts(&messages);
                let (report, failed) = Box::pin(self.sync_messages(messages, deadline)).await;
                if let Some(queue) = &self.queue {
                    queue.postpone(&receipts, &failed, deadline).await;
                }
                Reply::to_queue(report, failed)
            }
            Ok(event::Payload::AuditLog(messages)) => {
                Reply::to_schedule(Box::pin(self.sync_messages(messages, deadline)).await.0)
            }
            Ok(event::Payload::Direct(command)) => {
                Box::pin(self.direct(&command, qualifier, deadline)).await
            }
        };
        if let Some(report) = &mut reply.report {
            report.traffic = self.clients.traffic().since(before);
        }
        reply
    }

    async fn run_schedule(&self, deadline: Deadline) -> Reply {
        let selections = Selections::everything(&self.settings.clusters);
        let run = Box::pin(self.run(&self.invocation(true, deadline), &selections)).await;
        Reply::to_schedule(run.0)
    }

    /// Returns the values that all clusters of an invocation share. `writes` says whether the payload may change
    /// anything.
    fn invocation(&self, writes: bool, deadline: Deadline) -> Invocation<'_> {
        let mode = match writes {
            false => Mode::Plan,
            true if self.settings.dry_run => Mode::DryRun,
            true => Mode::Sync,
        };
        Invocation {
            settings: &self.settings,
            clients: &self.clients,
            mode,
            adoption: None,
            confirmed: false,
            is_direct: false,
            is_fresh: false,
            now: self.clock.now(),
            deadline,
        }
    }
}

// The result of an invocation, and its response for the kind of payload: the counts for the schedule, the ids of failed
// messages for the queue, the whole report for a direct invocation. Each is built from the run's report. An error that
// fails the invocation has a stable name.

/// The error of an invocation that fails as a whole.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The payload is not a request that the function knows.
    #[error(transparent)]
    Event(#[from] event::Error),
    /// The payload names a cluster that is not configured.
    #[error(transparent)]
    Cluster(#[from] UnknownCluster),
    /// The action is reserved to an alias of the function.
    #[error(
        "{action} is accepted only through the alias {alias} of this function (ADMIN_ALIAS), and this call came {}: \
         repeat it with --qualifier {alias}",
        .through.as_ref()
            .map_or("without one".to_owned(), |qualifier| format!("through {qualifier}"))
    )]
    NotThroughAlias { action: event::Action, alias: String, through: Option<String> },
    /// The action did not end in the time of the invocation.
    #[error(
        "{0} was not done in the time of this invocation; the log has what was done until then"
    )]
    Late(event::Action),
    /// The policy does not allow a purge.
    #[error(
        "a purge deregisters all instances of a cluster, and POLICY={0} does not allow that: set POLICY to sync"
    )]
    Policy(plan::Policy),
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
    /// Returns the stable name of the error, for alarms and callers.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Event(_) => "InvalidEvent",
            Self::Cluster(_) => "UnknownCluster",
            Self::NotThroughAlias { .. } => "NotThroughAlias",
            Self::Late(_) => "OutOfTime",
            Self::Policy(_) => "PolicyForbids",
            Self::Registry(_) => "UnknownRegistry",
            Self::Unexplained(_) => "Unreadable",
            Self::SyncIncomplete(_) => "SyncIncomplete",
        }
    }
}

/// The result of an invocation. The report stays a typed value until Lambda's client serialises it: as JSON values, the
/// report of a large run takes more memory than the run.
#[derive(Debug)]
pub struct Reply {
    /// The report. `None` if the payload was rejected or is a query.
    pub report: Option<Report>,
    /// The response. `None` if the response is the report.
    response: Result<Option<Value>, Error>,
}

/// The response that Lambda returns to the caller.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Body {
    Value(Value),
    /// The report of a direct invocation, with the release of the function, since the plugin of the person may have
    /// another release.
    Report {
        #[serde(flatten)]
        report: Box<Report>,
        release: &'static str,
    },
}

impl Reply {
    fn failed(error: Error) -> Self {
        Self { report: None, response: Err(error) }
    }

    /// Returns the response to a query, `status`, `doctor` or `explain`, with the release of the function. A response
    /// that is too large for Lambda has only the counts.
    fn to_query<T: Serialize>(mut answer: T, keep_only_counts: fn(&mut T)) -> Self {
        cut_if_too_large(&mut answer, keep_only_counts);
        let mut answer = json!(answer);
        answer["release"] = json!(RELEASE);
        Self { report: None, response: Ok(Some(answer)) }
    }

    /// Returns the response to the schedule or a log subscription: the counts, or an error if the run is incomplete.
    /// Alarms count these errors.
    fn to_schedule(report: Report) -> Self {
        let response = if report.ok {
            Ok(Some(json!({ "ok": true, "mode": report.mode, "counts": report.counts })))
        } else {
            Err(Error::SyncIncomplete(Box::new(report.counts)))
        };
        Self { report: Some(report), response }
    }

    /// Returns the response to a direct invocation, which is always the report.
    fn to_direct(report: Report) -> Self {
        Self { report: Some(report), response: Ok(None) }
    }

    /// Returns the response to the queue: the ids of the messages to deliver again.
    fn to_queue(report: Report, failed: Vec<String>) -> Self {
        let mut response = aws_lambda_events::sqs::SqsBatchResponse::default();
        for id in failed {
            response.add_failure(id);
        }
        Self { report: Some(report), response: Ok(Some(json!(response))) }
    }

    /// Returns the response. A report that is too large for Lambda has only the counts.
    ///
    /// # Errors
    /// Returns the error of an invocation that fails as a whole.
    pub fn into_body(self) -> Result<Body, Error> {
        match (self.response?, self.report) {
            (None, Some(mut report)) => {
                cut_if_too_large(&mut report, Report::keep_only_counts);
                Ok(Body::Report { report: Box::new(report), release: RELEASE })
            }
            (response, _) => Ok(Body::Value(json!(response))),
        }
    }
}
