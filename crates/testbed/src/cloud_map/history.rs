//! The versions of one instance id. A change takes effect when its operation ends. Each of the two planes shows it with
//! its own delay, so a reader gets the newest version that has reached its plane.

use std::sync::Arc;

use tokio::time::Instant;

use super::resource::Instance;

/// The versions of one instance id, oldest first; `None` is an absence.
#[derive(Default)]
pub(super) struct History(Vec<Version>);

struct Version {
    listed_from: Instant,
    discovered_from: Instant,
    instance: Option<Arc<Instance>>,
}

impl History {
    /// Adds what is true from now on, and from when the control plane and the discovery plane show it.
    pub(super) fn push(
        &mut self,
        now: Instant,
        (listed_from, discovered_from): (Instant, Instant),
        instance: Option<Arc<Instance>>,
    ) {
        let known = self
            .0
            .iter()
            .rposition(|version| version.listed_from <= now && version.discovered_from <= now);
        self.0.drain(..known.unwrap_or(0));
        self.0.push(Version { listed_from, discovered_from, instance });
    }

    /// Whether nothing is there and every reader knows it.
    pub(super) fn is_forgotten(&self, now: Instant) -> bool {
        let known = |last: &Version| {
            last.instance.is_none() && last.listed_from <= now && last.discovered_from <= now
        };
        self.0.last().is_none_or(known)
    }

    /// What is true, however long reads take to see it.
    pub(super) fn truth(&self) -> Option<&Arc<Instance>> {
        self.0.last()?.instance.as_ref()
    }

    /// What the control plane shows now.
    pub(super) fn listed(&self, now: Instant) -> Option<&Arc<Instance>> {
        self.0.iter().rev().find(|version| version.listed_from <= now)?.instance.as_ref()
    }

    /// What the discovery plane shows now.
    pub(super) fn discovered(&self, now: Instant) -> Option<&Arc<Instance>> {
        self.0.iter().rev().find(|version| version.discovered_from <= now)?.instance.as_ref()
    }
}
