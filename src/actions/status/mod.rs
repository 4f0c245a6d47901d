//! The action `status`: the parties with instances in each Cloud Map service, and the members of each clusterset, in
//! every Cloud Map of the selected clusters. Only Cloud Map is read, so it works while a cluster is unreachable.
//!
//! `answer` is the answer as data, with each `clusterset`; `table` prints it.

mod answer;
mod clusterset;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use tokio::time::timeout_at;

use crate::clients::RegistryKey;
use crate::error::chain;
use crate::publish::observe::{self, SharedRegistry};
use crate::reconcile::Invocation;

pub use answer::{RegistryStatus, ServiceStatus, Share, ShareOf, Split, Status};
pub use clusterset::{ClustersetStatus, MemberStatus, RunBy};

impl Invocation<'_> {
    /// The status of these Cloud Maps, with the ARNs of the selected clusters.
    pub async fn status(
        &self,
        clusters: Vec<String>,
        registries: &BTreeMap<RegistryKey, SharedRegistry>,
    ) -> Status {
        let mut read = Vec::new();
        for (key, registry) in registries {
            read.push(self.read_status(key, registry).await);
        }
        let status = Status::new(&self.settings.owner_id, clusters, read);
        tracing::info!(ok = status.ok, "status {}", status.summary());
        status
    }

    async fn read_status(&self, key: &RegistryKey, registry: &SharedRegistry) -> RegistryStatus {
        let name = (*key != RegistryKey::default()).then(|| key.to_string());
        match timeout_at(self.deadline.stop(), registry.read()).await {
            Ok(Ok(read)) => RegistryStatus::new(name, &read, self.now),
            Ok(Err(error)) => RegistryStatus::unreadable(name, chain(&*error)),
            Err(_) => RegistryStatus::unreadable(name, chain(&observe::Error::Deadline)),
        }
    }
}
