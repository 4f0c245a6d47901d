//! The action `purge`: all of ours for one cluster, in every Cloud Map that the settings lead to. The payload names only
//! the ARN in the marks; no address, role or Region is taken from it. The cluster is not read, since it may be gone.

use std::collections::{BTreeMap, BTreeSet};

use crate::clients::RegistryKey;
use crate::error::chain;
use crate::model::{ClusterArn, RegistryName};
use crate::publish::observe::SharedRegistry;
use crate::publish::plan::DeregisterReason;
use crate::publish::{self, Task};
use crate::reconcile::{Error, Invocation};
use crate::report::{ClusterReport, Report};
use crate::settings::Cluster;

/// A purge names a Cloud Map that the settings do not lead to.
#[derive(Debug, thiserror::Error)]
#[error("no Cloud Map that the settings lead to is {named}; they lead to: {known}")]
pub struct UnknownRegistry {
    named: String,
    known: String,
}

impl Invocation<'_> {
    /// The named Cloud Map; else that of the function and those of all configured clusters, since a cluster that is
    /// not configured may have been kept in any of them.
    ///
    /// # Errors
    /// Returns an error if none of them is the named one.
    pub async fn registries_to_purge(
        &self,
        named: Option<&RegistryName>,
    ) -> Result<BTreeSet<RegistryKey>, UnknownRegistry> {
        let configured = self.settings.clusters.iter().map(|it| self.clients.registry_of(it));
        let all: BTreeSet<RegistryKey> = configured.chain([RegistryKey::default()]).collect();
        let Some(named) = named else { return Ok(all) };
        let (mut keys, mut known) = (BTreeSet::new(), BTreeSet::new());
        for key in all {
            match self.clients.name_of(&key).await {
                Ok(name) => {
                    known.insert(name.to_string());
                    // Two roles may lead to one.
                    keys.extend((name == *named).then_some(key));
                }
                Err(problem) => {
                    known.insert(format!("the one {key}, whose account is not known ({problem})"));
                }
            }
        }
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        let unknown = || UnknownRegistry { named: named.to_string(), known };
        if keys.is_empty() { Err(unknown()) } else { Ok(keys) }
    }

    /// Takes all of ours for the cluster `arn` out of these Cloud Maps, or plans to. `kept` is its entry in the
    /// settings, if it is kept in one of them.
    pub async fn purge_all(
        &self,
        arn: &ClusterArn,
        kept: Option<&Cluster>,
        registries: &BTreeMap<RegistryKey, SharedRegistry>,
    ) -> Report {
        let warning = match kept {
            Some(cluster) => self.registered_again(cluster).await,
            None => None,
        };
        let own = RegistryKey::default();
        let mut reports = Vec::new();
        for (key, registry) in registries {
            let purged = self.purge(arn, registry, &DeregisterReason::Purged).await;
            let report =
                purged.unwrap_or_else(|error| ClusterReport::unreadable(arn.as_str(), &error));
            let registry = (*key != own).then(|| key.to_string());
            reports.push(ClusterReport { registry, ..report });
        }
        // A Cloud Map without anything to purge is left out, unless all are so.
        let has_none = |it: &ClusterReport| it.services.is_empty() && it.error.is_none();
        let (mut none, some): (Vec<_>, Vec<_>) = reports.into_iter().partition(has_none);
        none.truncate(1);
        let mut reports = if some.is_empty() { none } else { some };
        if let Some(first) = reports.first_mut() {
            first.warnings.extend(warning);
        }
        Report::new(self.mode, reports)
    }

    /// A warning that the next sync undoes the purge, if the cluster is there and configured.
    async fn registered_again(&self, cluster: &Cluster) -> Option<String> {
        let helps =
            "take the cluster out of CLUSTERS first, or set publish to \"false\" on its Services";
        match self.claimants(cluster).await {
            Ok(0) => None,
            Err(error) if error.says_gone() => None,
            Ok(count) => Some(format!(
                "{count} Services of the cluster claim names, and the next sync registers them again: {helps}"
            )),
            Err(error) => Some(format!(
                "the next sync registers again what Services of the cluster claim: {helps} (it could not be read: {})",
                chain(&error)
            )),
        }
    }

    /// Takes out, or plans to, all that carries this installation's owner id and the cluster's ARN.
    ///
    /// # Errors
    /// Returns an error if namespaces or services could not be listed to the end.
    pub async fn purge(
        &self,
        cluster: &ClusterArn,
        registry: &SharedRegistry,
        because: &DeregisterReason,
    ) -> Result<ClusterReport, Error> {
        let read = self.in_time(registry.read()).await?;
        let observed = self.of_cluster(cluster.clone(), &read);
        let task = Task::Purge(registry, because);
        Ok(publish::carry_out(&task, observed.basis(), self.options()).await.report)
    }
}
