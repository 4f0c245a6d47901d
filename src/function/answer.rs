//! The result of an invocation. An error that fails the invocation has a stable name.

use std::collections::BTreeMap;

use serde_json::Value;

use super::scope::{Selections, UnknownCluster};
use crate::actions::purge::UnknownRegistry;
use crate::event;
use crate::publish::plan::Policy;
use crate::reconcile;
use crate::report::{Counts, Report, Unfinished};

/// The result of an invocation, with its response as JSON.
#[derive(Debug)]
pub struct Answer {
    /// The report; absent if the payload was rejected or is a query.
    pub report: Option<Report>,
    /// The ARNs of the clusters whose full sync was queued (`FAN_OUT`), without those that do not page.
    pub queued: Vec<String>,
    /// The response that Lambda returns to the caller.
    pub response: Result<Value, Error>,
}

/// The error of an invocation that fails as a whole.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The payload is no request that the function knows.
    #[error(transparent)]
    Event(event::Error),
    /// The payload names a cluster that is not configured.
    #[error(transparent)]
    Cluster(UnknownCluster),
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
    Registry(UnknownRegistry),
    /// The cluster or Cloud Map could not be read to explain a Service.
    #[error("the Service cannot be explained")]
    Unexplained(#[source] reconcile::Error),
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
pub(super) struct Run {
    pub(super) report: Report,
    /// The unfinished work by the cluster's index in the settings.
    pub(super) open: BTreeMap<usize, Unfinished>,
}

impl Run {
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
