//! The messages of a queue, or the lines of a log. Their scopes are merged, and each cluster is synced once. Returns
//! the run, and the scope of each message for the response to the queue.

use std::collections::BTreeMap;

use super::scope::Selections;
use super::{Function, Run, log};
use crate::event::{self, Scope, Unusable};
use crate::report::Dropped;
use crate::time::Deadline;

const OLD_PARTS: &str = "messages for a part of a cluster, which an earlier release has sent, are taken for all of it: \
                         shard, hop and held in them are ignored";

impl Function {
    /// Syncs each cluster once over all scopes of the batch. Returns the run, and the message ids of each scope.
    pub(super) async fn sync_messages(
        &self,
        messages: Vec<event::Message>,
        deadline: Deadline,
    ) -> (Run, Vec<(Selections, Vec<String>)>) {
        let mut selections = Selections::default();
        let mut requested: BTreeMap<Scope, Vec<String>> = BTreeMap::new();
        let mut dropped = Vec::new();
        if messages.iter().any(|message| message.is_part) {
            self.parts_are_old.call_once(|| tracing::info!("{OLD_PARTS}"));
        }
        for message in messages {
            match message.reading {
                Ok(scope) => requested.entry(scope).or_default().push(message.id),
                // Our own write is not reported.
                Err(Unusable::Imported | Unusable::OwnEvent) => {}
                Err(unusable) => {
                    dropped.push(drop_message(message.id, unusable.reason(), &unusable));
                }
            }
        }
        let configured = self.configured();
        for scope in requested.keys() {
            if let Ok(of_scope) = Selections::resolve(scope, &configured) {
                selections = selections.union(&of_scope);
            }
        }
        let mut run = Box::pin(self.run(&self.invocation(true, deadline), &selections)).await;
        // The run has read ARNs that decide which cluster a message means. One that is not decided yet may mean a cluster
        // that was not read, so it returns.
        let (mut served, configured) = (Vec::new(), self.configured());
        for (scope, ids) in requested {
            match Selections::resolve(&scope, &configured) {
                Ok(of_scope) => served.push((of_scope, ids)),
                Err(unknown) => {
                    let ids = ids.into_iter();
                    dropped.extend(ids.map(|id| drop_message(id, unknown.reason(), &unknown)));
                }
            }
        }
        run.report.dropped = dropped;
        (run, served)
    }
}

/// Records and logs a message that is not delivered again.
fn drop_message(message: String, reason: &'static str, why: &dyn std::fmt::Display) -> Dropped {
    let dropped = Dropped { message, reason: reason.into(), detail: why.to_string() };
    log::dropped(&dropped);
    dropped
}
