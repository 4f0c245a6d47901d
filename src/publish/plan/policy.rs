//! The kinds of changes that the installation allows. A policy removes changes from a finished plan and reports them as
//! held back; it never adds any.

use std::fmt;

use serde::Serialize;

use super::{Change, HeldBack, Plan, Reason};

/// `POLICY`, with the values and meanings of `ExternalDNS`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Makes all changes.
    #[default]
    Sync,
    /// Makes all changes, except for the removals that follow the end of a claim.
    UpsertOnly,
    /// Creates namespaces and services, and registers missing instances; nothing else.
    CreateOnly,
}

impl Policy {
    pub const ALL: [Self; 3] = [Self::Sync, Self::UpsertOnly, Self::CreateOnly];

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

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sync => "sync",
            Self::UpsertOnly => "upsert-only",
            Self::CreateOnly => "create-only",
        })
    }
}
