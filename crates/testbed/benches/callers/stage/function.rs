//! The function: two execution environments of its binary, one that the schedule invokes and one that the messages of a
//! forwarder invoke.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use testbed::function::event;
use testbed::runtime_api::{Outcome, RuntimeApi};
use tokio::sync::mpsc;
use tokio::sync::oneshot::error::RecvError;

use super::{NAMESPACE, Ordering, Stage};
use crate::times::Times;

/// The time that Lambda gives to an invocation.
const TIMEOUT: Duration = Duration::from_mins(5);

impl Stage {
    /// The function is not invoked from now on, or is again.
    pub fn set_function_away(&self, is_away: bool) {
        self.0.function_is_away.store(is_away, Ordering::Relaxed);
    }

    fn function_is_away(&self) -> bool {
        self.0.function_is_away.load(Ordering::Relaxed)
    }

    pub(super) async fn run_schedule(&self, binary: &Path) {
        let function = self.start_function(binary).await;
        let stage = self.clone();
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(stage.0.times.seconds(Times::SCHEDULE));
            loop {
                ticks.tick().await;
                if !stage.function_is_away() {
                    let _ = function.invoke(event("schedule-eventbridge-scheduler"), TIMEOUT).await;
                }
            }
        });
    }

    /// Passes changes on as messages of our forwarder's shape; one that comes back is delivered again.
    pub(super) async fn run_forwarder(
        &self,
        binary: &Path,
        mut changes: mpsc::UnboundedReceiver<(String, String)>,
    ) {
        let function = self.start_function(binary).await;
        let stage = self.clone();
        tokio::spawn(async move {
            let mut pending = Vec::new();
            loop {
                if pending.is_empty() {
                    let Some(change) = changes.recv().await else { return };
                    pending.push(change);
                    stage.wait(Times::FORWARDER).await;
                }
                while let Ok(change) = changes.try_recv() {
                    pending.push(change);
                }
                pending.sort();
                pending.dedup();
                let is_done = !stage.function_is_away()
                    && is_done(function.invoke(messages(&pending), TIMEOUT).await);
                if is_done {
                    pending.clear();
                } else {
                    stage.wait(Times::REDELIVERY).await;
                }
            }
        });
    }

    async fn start_function(&self, binary: &Path) -> RuntimeApi {
        let api = RuntimeApi::start().await;
        let guard_wait = self.0.times.seconds(Times::GUARD_WAIT).as_secs();
        let sandbox = self.0.sandbox.another_process();
        let process = api
            .command(binary)
            .env("GUARD_WAIT", format!("{guard_wait}s"))
            .envs(sandbox.environment())
            .spawn()
            .expect("the function's binary starts");
        self.world().processes.push(process);
        api
    }
}

fn messages(changes: &[(String, String)]) -> Value {
    let mut records = Vec::new();
    for (index, (cluster, service)) in changes.iter().enumerate() {
        let body = json!({ "cluster": cluster, "namespace": NAMESPACE, "service": service });
        let id = index.to_string();
        records
            .push(json!({ "messageId": id, "eventSource": "aws:sqs", "body": body.to_string() }));
    }
    json!({ "Records": records })
}

fn is_done(outcome: Result<Outcome, RecvError>) -> bool {
    let Ok(Ok(answer)) = outcome else { return false };
    answer["batchItemFailures"].as_array().is_none_or(Vec::is_empty)
}
