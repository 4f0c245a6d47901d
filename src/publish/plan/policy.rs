//! The kinds of changes to Cloud Map that the installation allows. A policy removes changes from a finished plan and
//! reports them as held back; it never adds any.

use super::{Change, HeldBack, Plan, Reason};

pub use crate::model::Policy;

impl Policy {
    pub fn allows(self, change: &Change) -> bool {
        match change {
            Change::CreateNamespace { .. }
            | Change::CreateService { .. }
            | Change::Register { .. } => true,
            Change::Rewrite { exchange: Some(exchange), .. } => match self {
                Self::Sync => true,
                Self::UpsertOnly => exchange.because.leaves_the_claim(),
                Self::CreateOnly => false,
            },
            Change::Rewrite { .. }
            | Change::Adopt { .. }
            | Change::UpdateService { .. }
            | Change::NoteOnService { .. }
            | Change::Health { .. } => self != Self::CreateOnly,
            Change::Deregister { because, .. } => match self {
                Self::Sync => true,
                Self::UpsertOnly => because.leaves_the_claim(),
                Self::CreateOnly => false,
            },
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
