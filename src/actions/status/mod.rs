//! The action `status`: the parties with instances in each Cloud Map service, and the members of each clusterset, in
//! every Cloud Map of the selected clusters. Only Cloud Map is read, so it works while a cluster is unreachable.
//!
//! `answer` is the answer as data, with each clusterset; `table` prints it.

mod answer;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::clients::RegistryKey;
use crate::error::chain;
use crate::model::{Registry, Tags, description};
use crate::publish::observe::SharedRegistry;
use crate::reconcile::Invocation;

pub use answer::{
    ClustersetStatus, MemberStatus, RegistryStatus, RunBy, ServiceStatus, Share, ShareOf, Split,
    Status,
};
pub use table::sum;

impl Invocation<'_> {
    /// The status of these Cloud Maps, with the ARNs of the selected clusters; with `created` only of the services that
    /// this installation created and that have no instance.
    pub async fn status(
        &self,
        clusters: Vec<String>,
        registries: &BTreeMap<RegistryKey, SharedRegistry>,
        created: bool,
    ) -> Status {
        let mut read = Vec::new();
        for (key, registry) in registries {
            let name = (*key != RegistryKey::default()).then(|| key.to_string());
            let reading = async {
                let read = registry.read().await?;
                Ok(if created { self.unused(registry, read).await } else { read })
            };
            read.push(match self.read_in_time(reading).await {
                Ok(read) if created => RegistryStatus::of_unused(name, &read),
                Ok(read) => RegistryStatus::new(name, &read, self.now),
                Err(error) => RegistryStatus::unreadable(name, chain(&error)),
            });
        }
        let status = Status::new(&self.settings.owner_id, clusters, read);
        tracing::info!(ok = status.ok, "status {}", status.summary());
        status
    }

    /// A registry with the services alone that this installation created and that have no instance. Whose they are is in
    /// their tags, which take a call each; their descriptions, which come with the list, say which ones to ask.
    async fn unused(&self, registry: &SharedRegistry, mut read: Registry) -> Registry {
        let owner = &self.settings.owner_id;
        let description = description(owner);
        read.services.retain(|_, it| {
            it.description.as_ref() == Some(&description)
                && it.held() == 0
                && it.unreadable.is_none()
        });
        let keys = read.services.keys().cloned().collect();
        registry.cloud_map.read_tags(&mut read, &keys).await;
        read.services.retain(|_, it| match &it.tags {
            Tags::Unreadable(problem) => {
                it.unreadable = Some(problem.clone());
                true
            }
            _ => it.is_tagged(owner),
        });
        read
    }
}
