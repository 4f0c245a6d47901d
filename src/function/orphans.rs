//! The orphans of a run: instances of this installation of a cluster that is not configured for the Cloud Map in which they
//! are. Every full sync counts them in what it has read. They stay until a person purges the cluster.

use std::collections::{BTreeMap, BTreeSet};

use super::log;
use super::run::Run;
use crate::clients::RegistryKey;
use crate::model::{ClusterArn, Registry, ServiceKey};
use crate::report::OrphanReport;

impl Run<'_> {
    /// The orphans in these Cloud Maps, as far as this invocation has read them.
    pub(super) async fn orphans(&self, keys: &BTreeSet<RegistryKey>) -> Vec<OrphanReport> {
        let shown = self.registries.iter();
        let shown = shown.filter_map(|(key, registry)| Some((key, registry.shown()?)));
        let shown: BTreeMap<&RegistryKey, BTreeSet<String>> = shown.collect();
        let mut all = Vec::new();
        for key in keys {
            let Some(read) = self.registries[key].known().await else { continue };
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

    /// The command that purges the orphans. Of a cluster that is kept in another Cloud Map it names this one.
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
        format!("{command} --registry {}", self.function.clients.place_of(key, account))
    }
}

/// Whether the own Cloud Map of a cluster shows the namespace of a service, too: two roles may belong to one account. If the
/// run has not read its own, the service may be there.
fn is_shown(read: &Registry, service: &ServiceKey, shown: Option<&BTreeSet<String>>) -> bool {
    let Some(shown) = shown else { return true };
    let namespace = read.namespaces.get(&service.namespace);
    let arn = namespace.and_then(|namespace| namespace.arn.as_ref());
    arn.is_none_or(|arn| shown.contains(arn))
}
