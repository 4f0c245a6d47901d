//! The outcomes of a call, of a change and of a plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{CloudMapService, ServiceKey, ServiceRef};
use crate::publish::plan::{Change, GuardStatus, HeldBack, Reason, Refused};
use crate::report::ChangeResult;

/// The outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Not attempted: a plan or a dry run.
    Planned,
    /// Made.
    Applied,
    /// Not made, and a retry would not help.
    HeldBack(Reason),
    /// Attempted, and failed.
    Failed(String),
    /// Not attempted, since there was no time or an earlier change failed.
    Undone(String),
}

impl Outcome {
    /// The result for the report.
    ///
    /// # Errors
    /// Returns the reason if the change is held back: such a change has no line of its own.
    pub fn into_result(self) -> Result<ChangeResult, Reason> {
        Ok(match self {
            Self::Planned => ChangeResult::Planned,
            Self::Applied => ChangeResult::Applied,
            Self::Failed(error) => ChangeResult::Failed { error },
            Self::Undone(why) => ChangeResult::Undone { why },
            Self::HeldBack(reason) => return Err(reason),
        })
    }
}

/// The outcome of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The change has this outcome.
    Is(Outcome),
    /// The Cloud Map service was created with this ARN.
    Created(String),
    /// Another turn of the invocation has created the Cloud Map service, with this ARN.
    Exists(String),
    /// The change conflicts with another writer: its Cloud Map service is read again, and the change planned again.
    Contested,
    /// The endpoint has changed since the plan was made, so no call was made: what its Service needs is planned again.
    Outdated,
    /// Cloud Map accepts no more instances in the namespace; with its error message.
    Full(String),
}

impl Effect {
    /// The answer of Cloud Map, if it has refused the change and would do so again.
    pub fn refused(&self) -> Option<Refused> {
        match self {
            Self::Full(message) => Some(Refused::Full(message.clone())),
            Self::Is(Outcome::HeldBack(reason)) => Some(Refused::HeldBack(reason.clone())),
            _ => None,
        }
    }
}

/// A change of one Kubernetes Service with its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The Service in whose turn the change was made.
    pub service: ServiceRef,
    pub change: Change,
    pub outcome: Outcome,
}

/// The outcomes of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Results {
    pub applied: Vec<Applied>,
    /// The lines that later plans of the run hold back.
    pub held_back: Vec<HeldBack>,
    /// The guard's verdict between the passes, if it holds a loss then.
    pub guard: Option<Arc<GuardStatus>>,
    /// The Cloud Map services that were created, as they are then. Those that another writer had created first are as they
    /// were found: it may be this process, by a call whose answer was lost.
    pub created: BTreeMap<ServiceKey, CloudMapService>,
}

impl Results {
    /// Adds the results of another turn.
    pub fn extend(&mut self, other: Self) {
        self.applied.extend(other.applied);
        self.held_back.extend(other.held_back);
        self.guard = self.guard.take().or(other.guard);
        self.created.extend(other.created);
    }
}
