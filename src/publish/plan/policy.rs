//! What the installation allows the function to do. A policy takes changes out of a finished plan
//! and says so; it never adds any.

use std::fmt;

use serde::Serialize;

use super::{Change, HeldBack, Plan, Reason};

/// `POLICY`, in the words and with the meaning that `ExternalDNS` users know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Everything.
    #[default]
    Sync,
    /// Creates, registers, rewrites, updates, reports health, and takes out endpoints of a claim that
    /// still stands; never ends
    /// a claim's instances.
    UpsertOnly,
    /// Creates services and registers missing instances; nothing else.
    CreateOnly,
}

impl Policy {
    /// Every policy, for messages that list them.
    pub const ALL: [Self; 3] = [Self::Sync, Self::UpsertOnly, Self::CreateOnly];

    /// Whether a change is of a kind that is made.
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

    /// Takes out of the plan what the policy does not allow.
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
