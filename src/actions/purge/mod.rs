//! The action `purge`: deregisters all our instances of one cluster, in every Cloud Map of the settings. The payload
//! gives only the ARN to match with the marks, and no address, role or Region. The cluster may be gone; from a living one
//! of a clusterset `imports` removes our objects, too.

mod imports;

use std::collections::{BTreeMap, BTreeSet};

use crate::clients::RegistryKey;
use crate::clusterset::record;
use crate::error::chain;
use crate::model::{ClusterArn, Flow, Owner, RegistryName};
use crate::publish::observe::SharedRegistry;
use crate::publish::plan::{DeregisterReason, marked_owners};
use crate::publish::{self, Execution, Task};
use crate::reconcile::{Error, Invocation};
use crate::report::{ClusterReport, Report};
use crate::settings::{Cluster, MultiCluster};

/// The Cloud Map that a purge names is not in the settings.
#[derive(Debug, thiserror::Error)]
#[error("the settings contain no Cloud Map {named}; they contain: {known}")]
pub struct UnknownRegistry {
    named: String,
    known: String,
}

impl Invocation<'_> {
    /// The Cloud Maps to purge: the named one, or without a name all Cloud Maps of the settings. A cluster that is not
    /// configured may have been registered in any of them.
    ///
    /// # Errors
    /// Returns an error if the settings do not contain the named one.
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
                    // Two roles may belong to one account.
                    keys.extend((name == *named).then_some(key));
                }
                Err(problem) => {
                    known.insert(format!("one {key} with an unknown account ({problem})"));
                }
            }
        }
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        let unknown = || UnknownRegistry { named: named.to_string(), known };
        if keys.is_empty() { Err(unknown()) } else { Ok(keys) }
    }

    /// Deregisters all our instances of the cluster `arn` from these Cloud Maps, or plans it. `kept` is the cluster's
    /// entry in the settings, if one of these Cloud Maps is its own.
    pub async fn purge_all(
        &self,
        arn: &ClusterArn,
        kept: Option<&Cluster>,
        registries: &BTreeMap<RegistryKey, SharedRegistry>,
    ) -> Report {
        let mut warnings = Vec::new();
        if let Some(cluster) = kept {
            warnings.extend(self.warn_of_registration(cluster).await);
            warnings.extend(self.warn_of_clusterset(cluster));
        }
        let mut has_exported = false;
        for registry in registries.values() {
            has_exported |= self.has_exports(arn, registry).await;
        }
        // Imports that stand in a Cloud Map without a record of their cluster would wait for a person, so they go first.
        let multi_cluster = match kept {
            Some(cluster) => Box::pin(self.purge_imports(cluster, has_exported)).await,
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
        // A Cloud Map without instances to purge is omitted, unless none has any.
        let has_none = |it: &ClusterReport| it.services.is_empty() && it.error.is_none();
        let (mut none, some): (Vec<_>, Vec<_>) = reports.into_iter().partition(has_none);
        none.truncate(1);
        let mut reports = if some.is_empty() { none } else { some };
        if let Some(first) = reports.first_mut() {
            first.warnings.extend(warnings);
            first.multi_cluster = multi_cluster;
        }
        Report::new(self.mode, reports)
    }

    /// A warning that the next sync undoes the purge, if the cluster exists and is configured.
    async fn warn_of_registration(&self, cluster: &Cluster) -> Option<String> {
        let remedy =
            "remove the cluster from CLUSTERS first, or set publish to \"false\" on its Services";
        match self.count_claimants(cluster).await {
            Ok(0) => None,
            Err(error) if error.is_cluster_not_found() => None,
            Ok(count) => Some(format!(
                "{count} Services of the cluster claim names, and the next sync registers them again: {remedy}"
            )),
            Err(error) => Some(format!(
                "the next sync registers the cluster's Services again if they claim names: {remedy} (the cluster could not be read: {})",
                chain(&error)
            )),
        }
    }

    /// The same for the exports and imports.
    fn warn_of_clusterset(&self, cluster: &Cluster) -> Option<String> {
        let takes_part = self.settings.multi_cluster_of(cluster) != MultiCluster::Off;
        takes_part.then(|| {
            "the next sync publishes the cluster's exports and makes its imports again: set \"multiCluster\": \"off\" for it first".to_owned()
        })
    }

    /// Whether a Cloud Map that was read had exports of the cluster.
    async fn has_exports(&self, cluster: &ClusterArn, registry: &SharedRegistry) -> bool {
        let Ok(read) = self.read_in_time(registry.read()).await else { return false };
        let owners = marked_owners(&read, &self.settings.owner_id);
        owners.iter().any(|owner| owner.cluster == *cluster && owner.flow == Flow::Exports)
    }

    /// Deregisters the instances with this installation's owner id and the cluster's ARN, or plans it. The records of its
    /// exports go before their instances, and the record of the cluster last.
    ///
    /// # Errors
    /// Returns an error if namespaces or services could not be listed completely.
    pub async fn purge(
        &self,
        cluster: &ClusterArn,
        registry: &SharedRegistry,
        because: &DeregisterReason,
    ) -> Result<ClusterReport, Error> {
        let read = self.read_in_time(registry.read()).await?;
        let owner =
            |flow| Owner { id: self.settings.owner_id.clone(), cluster: cluster.clone(), flow };
        let execution = Execution::of_registry(Task::Purge(because), registry);
        let annotated = self.observation_for(owner(Flow::Annotations), &read);
        let annotated = self.with_notes(annotated, registry).await?;
        let mut report = publish::carry_out(&execution, &annotated, self.options()).await.report;
        if !marked_owners(&read, &self.settings.owner_id).contains(&owner(Flow::Exports)) {
            return Ok(report);
        }
        for part in record::parts(&read) {
            let exported = self.observation_for(owner(Flow::Exports), &part);
            let done = publish::carry_out(&execution, &exported, self.options()).await;
            report = report.with(done.report);
        }
        Ok(report)
    }
}
