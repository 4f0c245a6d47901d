//! The orphans after a full sync: instances of clusters that are gone or no longer in the settings. Gathers the
//! configured clusters of this run, searches every Cloud Map, and logs the result.

use std::collections::BTreeMap;
use std::error::Error;

use super::Function;
use crate::cleanup::dead_clusters::Kept;
use crate::clients::RegistryKey;
use crate::error::chain;
use crate::publish::observe::SharedRegistry;
use crate::publish::plan::Claimed;
use crate::reconcile::Invocation;
use crate::report::{ClusterReport, OrphanReport};

impl Function {
    /// Searches every Cloud Map of the run. An unreadable one is only logged, since the report of its clusters has the
    /// error.
    pub(super) async fn orphans(
        &self,
        invocation: &Invocation<'_>,
        registries: &BTreeMap<RegistryKey, SharedRegistry>,
        runs: &BTreeMap<usize, (ClusterReport, Option<Claimed>)>,
    ) -> Vec<OrphanReport> {
        let configured = self.configured();
        let kept: Vec<Kept<'_>> = configured
            .indexes()
            .map(|index| {
                let cluster = &self.settings.clusters[index];
                let was_read = runs.get(&index).is_some_and(|(report, _)| report.error.is_none());
                let registry = self.clients.registry_of(cluster);
                Kept { cluster, registry, arn: self.clients.arn_of(cluster), was_read }
            })
            .collect();
        let mut all = Vec::new();
        for (key, found) in invocation.orphans(registries, &kept, &self.existences).await {
            match found {
                Ok(found) => all.extend(found.into_iter().map(|mut orphans| {
                    let is_own = key == RegistryKey::default();
                    orphans.done.registry = (!is_own).then(|| key.to_string());
                    self.log_orphans(&key.to_string(), &orphans, invocation.mode);
                    orphans
                })),
                // One line for one cause: a registry that cannot be read is the error of its clusters as well.
                Err(error) if is_reported(runs, &error) => {}
                Err(error) => tracing::warn!("orphans not searched: {}", chain(&error)),
            }
        }
        all
    }
}

fn is_reported(
    runs: &BTreeMap<usize, (ClusterReport, Option<Claimed>)>,
    error: &dyn Error,
) -> bool {
    let cause = chain(error);
    let mut errors = runs.values().filter_map(|(report, _)| report.error.as_ref());
    errors.any(|reported| reported.contains(&cause))
}
