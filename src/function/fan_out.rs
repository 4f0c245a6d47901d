//! `FAN_OUT`: the schedule queues one message for each cluster, and a run that reaches its deadline requeues its
//! unfinished work in parts (shards). A part may overlap with another run, as any two runs may: each run plans from the
//! current state, and a repeated change has no effect.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::own_queue::{self, OwnQueue};
use super::{Function, Reply, Run, Selections};
use crate::clients;
use crate::error::chain;
use crate::event::{Continuation, Scope};
use crate::model::{Held, Selection, Shard};
use crate::settings::Cluster;

/// The number of parts into which unfinished work is divided.
const PARTS: u8 = 4;
/// The longest message in bytes, below the 256 KB that every SQS queue takes.
const LONGEST: usize = 240 * 1024;

/// The number of times that the current work was requeued, by the cluster's index in the settings.
pub(super) type Attempts = BTreeMap<usize, u8>;

impl Function {
    /// Queues one message for each cluster, if there are several. `None` if the schedule has to sync them itself.
    pub(super) async fn fan_out(&self) -> Option<Reply> {
        let configured = self.configured();
        let queue = self.full_sync_queue.as_ref().filter(|_| configured.clusters().count() > 1)?;
        let clusters = self.settings.clusters.iter();
        let sent = join_all(clusters.map(|cluster| self.queue_full_sync(queue, cluster))).await;
        // The others failed for the same cause: they went to one queue at one time.
        if let Some(error) = sent.iter().find_map(|sent| sent.as_ref().err()) {
            tracing::error!(
                "cannot queue the clusters, so this run syncs all of them: {}",
                chain(error)
            );
        }
        let sent: Vec<bool> = sent.into_iter().collect::<Result<_, _>>().ok()?;
        let queued = sent.iter().filter(|sent| **sent).count();
        tracing::info!(clusters = queued, "every cluster is queued as a message");
        let response = Ok(json!({ "ok": true, "handedOn": queued }));
        Some(Reply::queued(self.awaited().await, response))
    }

    /// Queues the full sync of a cluster, unless it turns out that another entry of the settings serves it.
    async fn queue_full_sync(
        &self,
        queue: &OwnQueue,
        cluster: &Cluster,
    ) -> Result<bool, own_queue::Error> {
        if !cluster.namesakes.is_empty()
            && let Err(error @ clients::Error::NamedTwice { .. }) =
                self.clients.connect(cluster).await
        {
            tracing::warn!(cluster = cluster.label(), "{error}");
            return Ok(false);
        }
        let name = self.name_in_messages(cluster);
        queue.send(&json!({ "action": "sync", "cluster": name })).await.map(|()| true)
    }

    /// The ARNs of the clusters that page, under which their own runs write metrics. A cluster that EKS does not describe
    /// now is left out.
    async fn awaited(&self) -> Vec<String> {
        let configured = self.configured();
        let paging = configured.clusters().filter(|cluster| self.settings.pages(cluster));
        let arns = join_all(paging.map(|cluster| self.arn_of(cluster))).await;
        arns.into_iter().flatten().map(|arn| arn.to_string()).collect()
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
            let cluster = &self.name_in_messages(&self.settings.clusters[index]);
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
