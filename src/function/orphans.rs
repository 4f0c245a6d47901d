//! The orphans of a run: instances that this installation registered for a cluster which is not configured for their
//! Cloud Map. Every full sync counts the orphans in the part of Cloud Map that it has read. They stay until a person
//! purges the cluster.

use std::collections::{BTreeMap, BTreeSet};

use super::log;
use super::run::Run;
use crate::clients::RegistryKey;
use crate::model::{ClusterArn, Registry, ServiceKey};
use crate::report::OrphanReport;

impl Run<'_> {
    /// Returns and logs the orphans in these Cloud Maps, as far as this invocation has read them.
    pub(super) async fn orphans(&self, keys: &BTreeSet<RegistryKey>) -> Vec<OrphanReport> {
        let shown = self.registries.iter();
        let shown = shown.filter_map(|(key, registry)| Some((key, registry.namespace_arns()?)));
        let shown: BTreeMap<&RegistryKey, BTreeSet<String>> = shown.collect();
        let mut all = Vec::new();
        for key in keys {
            let Some(read) = self.registries[key].whole_registry().await else { continue };
            let is_configured = |cluster: &ClusterArn, service: &ServiceKey| {
                self.invocation.settings.cluster(cluster).is_some_and(|configured| {
                    let own = self.function.clients.registry_of(configured);
                    own == *key || is_shown(&read, service, shown.get(&own))
                })
            };
            for (cluster, orphans) in
                read.orphans(&self.invocation.settings.owner_id, is_configured)
            {
                let purge = self.purge_command(&cluster, key, read.account.as_deref());
                let cause = match self.invocation.settings.cluster(&cluster) {
                    Some(_) => "this cluster is kept in another Cloud Map now",
                    None => "this cluster is not in CLUSTERS",
                };
                let report = OrphanReport {
                    cluster: cluster.to_string(),
                    registry: (*key != RegistryKey::default()).then(|| key.to_string()),
                    instances: orphans.instances,
                    detail: format!("{orphans}: {cause}; they stay until you run: {purge}"),
                };
                log::orphans(&report);
                all.push(report);
            }
        }
        all
    }

    /// Returns the command that purges the orphans, limited to this Cloud Map if the cluster is configured for another
    /// one.
    fn purge_command(
        &self,
        cluster: &ClusterArn,
        key: &RegistryKey,
        account: Option<&str>,
    ) -> String {
        let command = format!("kubectl cloudmap purge --cluster {cluster}");
        if self.invocation.settings.cluster(cluster).is_none() {
            return command;
        }
        format!(
            "{command} --registry {}",
            self.function.clients.account_and_region_of(key, account)
        )
    }
}

/// Whether the configured Cloud Map of a cluster also shows the namespace of a service, since two roles may belong to
/// one account. Returns true if the run has not read that Cloud Map (`shown` is `None`).
fn is_shown(read: &Registry, service: &ServiceKey, shown: Option<&BTreeSet<String>>) -> bool {
    let Some(shown) = shown else { return true };
    let namespace = read.namespaces.get(&service.namespace);
    let arn = namespace.and_then(|namespace| namespace.arn.as_ref());
    arn.is_none_or(|arn| shown.contains(arn))
}
