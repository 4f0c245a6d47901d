//! The action `status`: the parties with instances in each Cloud Map service, in every Cloud Map of the selected
//! clusters. Only Cloud Map is read, so it works while a cluster is unreachable.
//!
//! `answer` is the answer as data, `table` as text.

mod answer;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use tokio::time::timeout_at;

use crate::clients::RegistryKey;
use crate::error::chain;
use crate::publish::observe::{self, SharedRegistry};
use crate::reconcile::Invocation;
use crate::time::Deadline;

pub use answer::{RegistryStatus, ServiceStatus, Share, ShareOf, Split, Status};

impl Invocation<'_> {
    /// The status of these Cloud Maps, with the ARNs of the selected clusters.
    pub async fn status(
        &self,
        clusters: Vec<String>,
        registries: &BTreeMap<RegistryKey, SharedRegistry>,
    ) -> Status {
        let mut read = Vec::new();
        for (key, registry) in registries {
            read.push(read_status(key, registry, self.deadline).await);
        }
        let status = Status::new(&self.settings.owner_id, clusters, read);
        tracing::info!(ok = status.ok, "status {}", status.summary());
        status
    }
}

async fn read_status(
    key: &RegistryKey,
    registry: &SharedRegistry,
    deadline: Deadline,
) -> RegistryStatus {
    let name = (*key != RegistryKey::default()).then(|| key.to_string());
    match timeout_at(deadline.stop(), registry.read()).await {
        Ok(Ok(read)) => RegistryStatus::new(name, &read),
        Ok(Err(error)) => RegistryStatus::unreadable(name, chain(&*error)),
        Err(_) => RegistryStatus::unreadable(name, chain(&observe::Error::Deadline)),
    }
}
