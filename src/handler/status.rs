//! Who has instances in each Cloud Map service, in every Cloud Map that the asked clusters are kept in.
//! Only Cloud Map is read: it tells also while a cluster does not answer.

use std::collections::BTreeMap;

use tokio::time::timeout_at;

use super::scopes::Selections;
use super::{Answer, Function};
use crate::clients::RegistryKey;
use crate::deadline::Deadline;
use crate::observe::SharedRegistry;
use crate::reconcile::Error;
use crate::report::chain;
use crate::report::status::{RegistryStatus, Status};

impl Function {
    pub(super) async fn status(&self, selections: &Selections, deadline: Deadline) -> Answer {
        let mut clusters = Vec::new();
        let mut keys = Vec::new();
        for (index, _) in selections.iter() {
            let cluster = &self.settings.clusters[index];
            match self.arn_of(cluster).await {
                Ok(arn) => clusters.push(arn.to_string()),
                // Its instances are counted with those of other clusters then.
                Err(problem) => clusters.push(format!("{} ({problem})", cluster.label())),
            }
            keys.push(self.clients.registry_of(cluster));
        }
        let registries = self.registries(keys.into_iter()).await;
        let mut read = BTreeMap::new();
        for (key, registry) in &registries {
            read.insert(key.clone(), of_registry(key, registry, deadline).await);
        }
        let status = Status::new(&self.settings.owner_id, clusters, read.into_values().collect());
        tracing::info!(ok = status.ok, "status {}", status.summary());
        Answer::told(status)
    }
}

async fn of_registry(
    key: &RegistryKey,
    registry: &SharedRegistry,
    deadline: Deadline,
) -> RegistryStatus {
    let name = (*key != RegistryKey::default()).then(|| key.to_string());
    let read = timeout_at(deadline.stop(), registry.read()).await;
    match read {
        Ok(Ok(read)) => RegistryStatus::of(name, &read),
        Ok(Err(error)) => RegistryStatus::unreadable(name, chain(&*error)),
        Err(_) => RegistryStatus::unreadable(name, chain(&Error::Deadline)),
    }
}
