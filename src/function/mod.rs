//! One invocation: parses the payload, resolves the clusters and Services of its scope, reconciles each cluster
//! independently of the others (`run`), then their `clustersets`, logs the report, and returns the response for the
//! kind of payload.

mod answer;
mod cleanup;
mod clusters;
mod clustersets;
mod direct;
mod drift;
mod log;
mod own_queue;
mod run;
mod standing;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Once};

use aws_config::SdkConfig;
use serde_json::Value;

use crate::cleanup::dead_clusters::Existences;
use crate::clients::{Clients, RegistryKey};
use crate::event;
use crate::kubernetes::Transport;
use crate::publish::observe::Memory;
use crate::reconcile::Invocation;
use crate::report::Mode;
use crate::settings::Settings;
use crate::time::{Clock, Deadline};
use answer::RunResult;
pub use answer::{Body, Error, Reply};
use clusters::Selections;
use clustersets::Silent;
use drift::Looks;
use own_queue::OwnQueue;
pub use own_queue::delay;
use run::OutOfStep;
use standing::Standing;

/// The function: its settings, and the clients that warm invocations reuse.
pub struct Function {
    settings: Settings,
    clients: Clients,
    memories: Mutex<BTreeMap<RegistryKey, Arc<Memory>>>,
    /// The queue of full syncs, with `FAN_OUT`.
    full_sync_queue: Option<OwnQueue>,
    /// The queue of messages about single Services. Without `QUEUE_URL` it is that of the full syncs.
    queue: Option<OwnQueue>,
    out_of_step: OutOfStep,
    existences: Existences,
    silent: Silent,
    looks: Looks,
    /// The lines of the log that say the same in each run.
    standing: Standing,
    /// The number of reads of instances of a run in place of that by its time.
    most_reads: Option<usize>,
    /// That messages have fields of an earlier release was logged.
    parts_are_old: Once,
    clock: Clock,
}

impl Function {
    /// The function with `settings`; `config` is that of its AWS clients.
    pub fn new(settings: Settings, config: SdkConfig) -> Self {
        let queue = |url: Option<&String>| url.map(|url| OwnQueue::new(&config, url));
        let full_sync_queue = queue(settings.fan_out.as_ref());
        let queue = queue(settings.queue_url.as_ref().or(settings.fan_out.as_ref()));
        let clients = Clients::new(config, settings.quota_share, settings.create_tags.clone());
        Self {
            settings,
            clients,
            memories: Mutex::default(),
            full_sync_queue,
            queue,
            out_of_step: OutOfStep::default(),
            existences: Existences::default(),
            silent: Silent::default(),
            looks: Looks::default(),
            standing: Standing::default(),
            most_reads: None,
            parts_are_old: Once::new(),
            clock: Clock::system(),
        }
    }

    /// Replaces the clock.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Limits the reads of instances of each sync, as if Cloud Map were so large that its time allows no more.
    #[must_use]
    pub fn with_most_reads(self, calls: usize) -> Self {
        Self { most_reads: Some(calls), ..self }
    }

    /// Replaces the transport to API servers.
    #[must_use]
    pub fn with_transport(self, transport: Transport) -> Self {
        Self { clients: self.clients.with_transport(transport), ..self }
    }

    /// Handles one payload of a call to the function itself, or through an alias or a version of it.
    pub async fn reply(
        &self,
        qualifier: Option<&str>,
        payload: &Value,
        deadline: Deadline,
    ) -> Reply {
        let before = self.clients.traffic();
        let mut reply = Box::pin(self.handle(qualifier, payload, deadline)).await;
        if let Some(report) = &mut reply.report {
            report.traffic = self.clients.traffic().since(before);
        }
        reply
    }

    async fn handle(&self, qualifier: Option<&str>, payload: &Value, deadline: Deadline) -> Reply {
        let invocation = match event::read(payload) {
            Ok(invocation) => invocation,
            Err(error) => return Reply::refused(error.into()),
        };
        match invocation {
            event::Payload::Schedule => self.run_schedule(deadline).await,
            event::Payload::Queue(messages) => {
                let receipts = own_queue::receipts(&messages);
                let (run, served) = self.sync_messages(messages, deadline).await;
                let failed = self.returning(&receipts, run.failed_messages(served));
                self.postpone(&receipts, &failed, deadline).await;
                Reply::to_queue(run.report, failed)
            }
            event::Payload::AuditLog(messages) => {
                Reply::to_schedule(self.sync_messages(messages, deadline).await.0.report)
            }
            event::Payload::Direct(command) => {
                Box::pin(self.direct(&command, qualifier, deadline)).await
            }
        }
    }

    async fn run_schedule(&self, deadline: Deadline) -> Reply {
        if let Some(answer) = self.fan_out().await {
            return answer;
        }
        let selections = Selections::everything(&self.configured());
        let run = Box::pin(self.run(&self.invocation(true, deadline), &selections)).await;
        Reply::to_schedule(run.report)
    }

    /// The values that all clusters of an invocation share; `writes` is whether it may change Cloud Map.
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
