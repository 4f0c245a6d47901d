//! What the rules of the installation allow. A policy removes changes from a finished plan and reports them as held back;
//! it never adds any.

use std::fmt;

use super::change::Change;
use super::reason::{HeldBack, Reason};
use super::result::Plan;
use crate::model::Policy;

impl Policy {
    pub fn allows(self, change: &Change) -> bool {
        match (self, change) {
            (Self::Sync, _) => true,
            (Self::UpsertOnly, Change::Deregister { because, .. }) => because.leaves_the_claim(),
            (Self::UpsertOnly, change) => {
                change.exchange().is_none_or(|it| it.because.leaves_the_claim())
            }
            (Self::CreateOnly, change) => matches!(
                change,
                Change::CreateNamespace { .. }
                    | Change::CreateService { .. }
                    | Change::Register { .. }
            ),
        }
    }

    /// Removes the changes that the policy does not allow from the plan, and holds them back.
    pub fn restrict(self, plan: &mut Plan) {
        for (service, changes) in &mut plan.changes {
            let refused = changes.extract_if(.., |change| !self.allows(change));
            plan.held_back.extend(refused.map(|change| HeldBack {
                service: service.clone(),
                place: Some(change.place().clone()),
                reason: Reason::Policy { policy: self, action: change.to_string() },
            }));
        }
    }
}

/// The most instances to keep or register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Maximum {
    pub count: usize,
    /// The source of the number.
    pub set_by: SetBy,
}

/// The source of a maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SetBy {
    /// An annotation of the Service.
    Annotation,
    /// A rule of the installation's `NAME_POLICY`.
    NamePolicy,
}

/// The smaller of the annotated number and the allowed number.
pub fn smallest(annotated: Option<usize>, allowed: Option<usize>) -> Option<Maximum> {
    let annotated = annotated.map(|count| Maximum { count, set_by: SetBy::Annotation });
    let allowed = allowed.map(|count| Maximum { count, set_by: SetBy::NamePolicy });
    annotated.into_iter().chain(allowed).min()
}

impl fmt::Display for SetBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Annotation => "max-instances of the Service",
            Self::NamePolicy => "maxInstances of NAME_POLICY",
        })
    }
}
