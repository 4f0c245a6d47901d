//! The action `status`: the parties with instances in each Cloud Map service, in every Cloud Map that the named clusters
//! are kept in. Only Cloud Map is read, so it works while a cluster does not answer.
//!
//! `answer` is the answer as data, `table` as a person reads it.

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
    /// The status of the Cloud Maps in which `clusters`, named by ARN, are kept.
    pub async fn status(
        &self,
        clusters: Vec<String>,
        registries: &BTreeMap<RegistryKey, SharedRegistry>,
    ) -> Status {
        let mut read = Vec::new();
        for (key, registry) in registries {
            read.push(status_of(key, registry, self.deadline).await);
        }
        let status = Status::new(&self.settings.owner_id, clusters, read);
        tracing::info!(ok = status.ok, "status {}", status.summary());
        status
    }
}

async fn status_of(
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
