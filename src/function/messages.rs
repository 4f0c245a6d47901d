//! Messages of a queue, or lines of a log: what they name is synced together, each cluster once.

use std::collections::BTreeMap;

use super::fan_out::{self, Attempts};
use super::scope::Selections;
use super::{Function, Run, log};
use crate::event::{self, Scope};
use crate::report::Dropped;
use crate::time::Deadline;

impl Function {
    /// One reconcile per cluster over all scopes that the batch names, however many messages name
    /// them. Returns which messages asked for what, too.
    pub(super) async fn messages(
        &self,
        messages: Vec<event::Message>,
        deadline: Deadline,
    ) -> (Run, Vec<(Selections, Vec<String>)>) {
        let mut selections = Selections::default();
        let mut asked: BTreeMap<Scope, Vec<String>> = BTreeMap::new();
        let mut dropped = Vec::new();
        for message in messages {
            match message.reading {
                Ok(scope) => asked.entry(scope).or_default().push(message.id),
                Err(unusable) => {
                    dropped.push(drop(message.id, unusable.reason(), &unusable));
                }
            }
        }
        let (mut served, mut attempts, configured) =
            (Vec::new(), Attempts::new(), self.configured());
        for (scope, ids) in asked {
            match Selections::of(&scope, &configured) {
                Ok(of_scope) => {
                    selections = selections.union(&of_scope);
                    fan_out::count_attempts(&mut attempts, &scope, &of_scope);
                    served.push((of_scope, ids));
                }
                Err(unknown) => {
                    let ids = ids.into_iter();
                    dropped.extend(ids.map(|id| drop(id, unknown.reason(), &unknown)));
                }
            }
        }
        let mut run = Box::pin(self.run(&self.invocation(true, deadline), &selections)).await;
        self.requeue(&mut run, &selections, &attempts).await;
        run.report.dropped = dropped;
        (run, served)
    }
}

/// Records and logs a message that is not delivered again.
fn drop(message: String, reason: &'static str, why: &dyn std::fmt::Display) -> Dropped {
    let dropped = Dropped { message, reason: reason.into(), detail: why.to_string() };
    log::dropped(&dropped);
    dropped
}
