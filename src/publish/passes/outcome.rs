//! Outcomes: of one call, of one change, and of a plan.

use std::sync::Arc;

use crate::model::ServiceRef;
use crate::publish::plan::{Change, GuardStatus, HeldBack, Reason};
use crate::report::ChangeResult;

/// The outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Not tried: a plan, or a dry run.
    Planned,
    /// Cloud Map has carried it out.
    Applied,
    /// Not done, and a retry would not help.
    HeldBack(Reason),
    /// Tried, and failed.
    Failed(String),
    /// Not tried, since there was no time or an earlier change failed.
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
    /// The Cloud Map service exists now, under this ARN.
    Created(String),
    /// Another writer changed it at the same time: it is read and decided again.
    Contested,
    /// Cloud Map takes no more instances in the namespace; with the text of its answer.
    Full(String),
}

/// A change of one Kubernetes Service with its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The Service that took the turn.
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
    /// The guard's judgement between the passes, if it holds a loss then.
    pub guard: Option<Arc<GuardStatus>>,
}

impl Results {
    /// The changes that Cloud Map refused for good.
    pub fn refused(&self) -> Vec<HeldBack> {
        let refused = self.applied.iter().filter_map(|applied| match &applied.outcome {
            Outcome::HeldBack(reason) => Some(HeldBack {
                service: applied.service.clone(),
                place: Some(applied.change.place().clone()),
                reason: reason.clone(),
            }),
            _ => None,
        });
        refused.collect()
    }

    /// Adds the results of another turn.
    pub fn extend(&mut self, other: Self) {
        self.applied.extend(other.applied);
        self.held_back.extend(other.held_back);
        self.guard = self.guard.take().or(other.guard);
    }
}
