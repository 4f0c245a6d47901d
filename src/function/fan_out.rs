//! `FAN_OUT`: the schedule hands each cluster on as a message of its own, and a run that is out of time hands
//! on the rest, in parts. Parts overlap with other runs, as any two runs may: every change is decided on what is
//! there, and made again it changes nothing.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{Answer, Function, Run, Selections};
use crate::error::chain;
use crate::event::{Continuation, Scope};
use crate::model::{Held, Selection, Shard};

/// Into how many parts the rest of a run is divided.
const PARTS: u8 = 4;
/// The longest message in bytes, below the 256 KB that every SQS queue takes.
const LONGEST: usize = 240 * 1024;

/// By the cluster's place in the settings, how often what is done now was handed on already.
pub(super) type Attempts = BTreeMap<usize, u8>;

impl Function {
    /// Puts one message for each cluster on the queue, where there are several; `None` where the schedule has to
    /// sync them itself.
    pub(super) async fn fan_out(&self) -> Option<Answer> {
        let configured = self.configured();
        let queue = self.own_queue.as_ref().filter(|_| configured.clusters().count() > 1)?;
        let messages = configured.clusters().map(|cluster| async move {
            queue.send(&json!({ "action": "sync", "cluster": cluster.label() })).await
        });
        let sent = join_all(messages).await;
        for error in sent.iter().filter_map(|sent| sent.as_ref().err()) {
            tracing::error!("the schedule syncs all clusters itself: {}", chain(error));
        }
        let handed_on = sent.iter().all(Result::is_ok).then_some(sent.len())?;
        tracing::info!(clusters = handed_on, "every cluster is handed on as a message");
        let response = Ok(json!({ "ok": true, "handedOn": handed_on }));
        Some(Answer { report: None, response })
    }

    /// Hands on what a run of whole clusters, or of parts of them, has left undone for want of time. What is in the
    /// queue is open no more, so that the messages that asked for it do not come back.
    pub(super) async fn requeue(
        &self,
        run: &mut Run,
        selections: &Selections,
        attempts: &Attempts,
    ) {
        let Some(queue) = &self.own_queue else { return };
        for (index, selection) in selections.iter() {
            let attempt = attempts.get(&index).copied().unwrap_or_default() + 1;
            let cut_short = run.open.get_mut(&index).filter(|open| open.is_cut_short());
            let Some(open) = cut_short.filter(|_| attempt <= Continuation::LAST_ATTEMPT) else {
                continue;
            };
            let cluster = self.settings.clusters[index].label();
            let held = selection.held().union(open.held());
            for shard in parts(selection) {
                let held = held.only(|service| shard.contains(service));
                let message = message(cluster, shard, attempt, &held);
                match queue.send(&message).await {
                    Ok(()) => open.requeue(&Selection::shard(shard)),
                    Err(error) => tracing::error!(cluster, "not handed on: {}", chain(&error)),
                }
            }
        }
    }
}

/// Adds how often what a scope asks for was handed on.
pub(super) fn count_attempts(attempts: &mut Attempts, scope: &Scope, selections: &Selections) {
    let attempt = scope.continuation.as_ref().map_or(0, |rest| rest.attempt);
    for (index, _) in selections.iter() {
        let known = attempts.entry(index).or_insert(attempt);
        *known = attempt.max(*known);
    }
}

/// The parts in which the rest is handed on. What was named one by one comes back by itself.
fn parts(selection: &Selection) -> Vec<Shard> {
    match selection {
        Selection::Everything => Shard::all(PARTS).collect(),
        Selection::Only { shards, .. } => shards.iter().copied().collect(),
    }
}

/// The message for a part. It says what the run before held, and never what that run let pass: whoever may send a
/// message may so add to what is held, and lift none of it.
fn message(cluster: &str, shard: Shard, attempt: u8, held: &Held) -> Value {
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
    fn more_held_services_than_a_message_takes_hold_all() {
        let services = |count: usize| {
            let long = "x".repeat(56);
            let service = |index| ServiceRef::new(&long, format!("{long}-{index:05}"));
            Held::Services((0..count).map(service).collect())
        };
        let shard = Shard::all(1).next().expect("one part");
        let message = |count| message("blue", shard, 1, &services(count));
        assert_eq!(
            message(0),
            json!({"action": "sync", "cluster": "blue", "shard": "0/1", "hop": 1})
        );
        assert_eq!(message(1_600)["held"].as_array().map(Vec::len), Some(1_600));
        assert!(message(1_600).to_string().len() < 256 * 1024);
        assert_eq!(message(2_500)["held"], "all");
    }
}
