//! `FAN_OUT`: the schedule queues one message for each cluster, and a run that reaches its deadline requeues its
//! unfinished work in parts (shards). A part may overlap with another run, as any two runs may: each run plans from the
//! current state, and a repeated change has no effect.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::timeout_at;

use super::{Function, Reply, Run, Selections};
use crate::error::chain;
use crate::event::{Continuation, Scope};
use crate::model::{Held, Selection, Shard};
use crate::settings::Cluster;
use crate::time::Deadline;

/// The number of parts into which unfinished work is divided.
const PARTS: u8 = 4;
/// The longest message in bytes, below the 256 KB that every SQS queue takes.
const LONGEST: usize = 240 * 1024;

/// The number of times that the current work was requeued, by the cluster's index in the settings.
pub(super) type Attempts = BTreeMap<usize, u8>;

impl Function {
    /// Queues one message for each cluster, if there are several. `None` if the schedule has to sync them itself.
    pub(super) async fn fan_out(&self, deadline: Deadline) -> Option<Reply> {
        let configured = self.configured();
        let queue = self.full_sync_queue.as_ref().filter(|_| configured.clusters().count() > 1)?;
        let messages = configured.clusters().map(|cluster| async move {
            queue.send(&json!({ "action": "sync", "cluster": cluster.label() })).await
        });
        let sent = join_all(messages).await;
        // The others failed for the same cause: they went to one queue at one time.
        if let Some(error) = sent.iter().find_map(|sent| sent.as_ref().err()) {
            tracing::error!(
                "cannot queue the clusters, so this run syncs all of them: {}",
                chain(error)
            );
        }
        let queued = sent.iter().all(Result::is_ok).then_some(sent.len())?;
        tracing::info!(clusters = queued, "every cluster is queued as a message");
        let response = Ok(json!({ "ok": true, "handedOn": queued }));
        Some(Reply::queued(self.awaited(deadline).await, response))
    }

    /// The ARNs of the clusters that page, under which their own runs write metrics. A cluster that EKS does not describe
    /// now is left out.
    async fn awaited(&self, deadline: Deadline) -> Vec<String> {
        let configured = self.configured();
        let paging = configured.clusters().filter(|cluster| self.settings.pages(cluster));
        let arns = join_all(paging.map(|cluster| self.arn_in_time(cluster, deadline))).await;
        arns.into_iter().flatten().collect()
    }

    async fn arn_in_time(&self, cluster: &Cluster, deadline: Deadline) -> Option<String> {
        let arn = timeout_at(deadline.stop(), self.arn_of(cluster)).await.ok()?.ok()?;
        Some(arn.to_string())
    }

    /// The ARN under which the cluster was queued. A cluster that is configured by name and could not be read has its
    /// name in the report, and its 1 would not be in the series with the 0.
    pub(super) async fn label_when_queued(&self, cluster: &Cluster, deadline: Deadline) -> String {
        let arn = self.arn_in_time(cluster, deadline).await;
        arn.unwrap_or_else(|| cluster.label().to_owned())
    }

    /// Requeues the work that a run of whole clusters, or of parts of them, left undone at its deadline. Requeued work
    /// is no longer unfinished, so the messages that requested it do not return.
    pub(super) async fn requeue(
        &self,
        run: &mut Run,
        selections: &Selections,
        attempts: &Attempts,
    ) {
        let Some(queue) = &self.full_sync_queue else { return };
        for (index, selection) in selections.iter() {
            let attempt = attempts.get(&index).copied().unwrap_or_default() + 1;
            let cut_short = run.open.get_mut(&index).filter(|open| open.is_cut_short());
            let Some(open) = cut_short.filter(|_| attempt <= Continuation::LAST_ATTEMPT) else {
                continue;
            };
            let cluster = self.settings.clusters[index].label();
            let held = selection.held().union(open.held());
            for shard in requeued_parts(selection) {
                let held = held.only(|service| shard.contains(service));
                let message = part_message(cluster, shard, attempt, &held);
                match queue.send(&message).await {
                    Ok(()) => open.requeue(&Selection::shard(shard)),
                    Err(error) => tracing::error!(
                        cluster,
                        "unfinished work is not requeued: {}",
                        chain(&error)
                    ),
                }
            }
        }
    }
}

/// Records the number of times that a scope's work was requeued.
pub(super) fn count_attempts(attempts: &mut Attempts, scope: &Scope, selections: &Selections) {
    let attempt = scope.continuation.as_ref().map_or(0, |rest| rest.attempt);
    for (index, _) in selections.iter() {
        let known = attempts.entry(index).or_insert(attempt);
        *known = attempt.max(*known);
    }
}

/// The parts in which unfinished work is requeued. Messages about single Services are not requeued: they return as
/// failed.
fn requeued_parts(selection: &Selection) -> Vec<Shard> {
    match selection {
        Selection::Everything => Shard::all(PARTS).collect(),
        Selection::Only { shards, .. } => shards.iter().copied().collect(),
    }
}

/// The message for a part. It lists the Services that the run held, and never a loss that it let pass: a forged message
/// can only add Services to hold.
fn part_message(cluster: &str, shard: Shard, attempt: u8, held: &Held) -> Value {
    let mut message =
        json!({ "action": "sync", "cluster": cluster, "shard": shard.to_string(), "hop": attempt });
    if *held != Held::default() {
        message["held"] = Continuation::held_as_json(held);
    }
    if message.to_string().len() > LONGEST {
        message["held"] = Continuation::held_as_json(&Held::All);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ServiceRef;

    #[test]
    fn more_held_services_than_fit_a_message_become_all() {
        let services = |count: usize| {
            let long = "x".repeat(56);
            let service = |index| ServiceRef::new(&long, format!("{long}-{index:05}"));
            Held::Services((0..count).map(service).collect())
        };
        let shard = Shard::all(1).next().expect("one part");
        let message = |count| part_message("blue", shard, 1, &services(count));
        assert_eq!(
            message(0),
            json!({"action": "sync", "cluster": "blue", "shard": "0/1", "hop": 1})
        );
        assert_eq!(message(1_600)["held"].as_array().map(Vec::len), Some(1_600));
        assert!(message(1_600).to_string().len() < 256 * 1024);
        assert_eq!(message(2_500)["held"], "all");
    }
}
