//! The purge of one cluster: deregisters all our instances of the cluster and removes its records, in every Cloud Map
//! of the settings. Instances are matched by the cluster's ARN in their marks, so the cluster need not exist any more.
//! If it is configured, the purge also tries to delete its import objects, even if no setting or record shows that the
//! cluster was ever a member. Objects that RBAC does not let the function delete stay.
//!
//! A cluster that leaves its clusterset and lives on is purged of its exports and imports alone: without the instances
//! of its annotated Services, their names would be empty until its next full sync.

use std::collections::{BTreeMap, BTreeSet};

use crate::clients::RegistryKey;
use crate::clusterset::record;
use crate::error::chain;
use crate::event::Command;
use crate::import::ImportRemoval;
use crate::import::observe::Objects;
use crate::import::plan::OwnerLabel;
use crate::model::{
    ClusterArn, Flow, Kind, Line, Namespace, Outcome, Owner, Registry, RegistryName, join,
};
use crate::publish::observe::SharedRegistry;
use crate::publish::plan::{DeregisterReason, Extent, Observation};
use crate::publish::{self, Execution, Task};
use crate::reconcile::{Error, Invocation, unread_line};
use crate::report::{ClusterReport, Mode, MultiClusterReport, Report};
use crate::settings::{Cluster, Membership, MultiCluster};

/// The Cloud Map that a purge names is not in the settings.
#[derive(Debug, thiserror::Error)]
#[error("the settings contain no Cloud Map {named}; they contain: {known}")]
pub struct UnknownRegistry {
    named: String,
    known: String,
}

impl Invocation<'_> {
    /// Returns the Cloud Maps to purge: the named one, or without a name all Cloud Maps of the settings, since a
    /// cluster that is not configured may have been registered in any of them.
    ///
    /// # Errors
    /// Returns an error if the settings do not contain the named one.
    pub async fn registries_to_purge(
        &self,
        named: Option<&RegistryName>,
    ) -> Result<BTreeSet<RegistryKey>, UnknownRegistry> {
        let configured =
            self.settings.clusters.iter().map(|cluster| self.clients.registry_of(cluster));
        let all: BTreeSet<RegistryKey> = configured.chain([RegistryKey::default()]).collect();
        let Some(named) = named else { return Ok(all) };
        let mut keys = BTreeSet::new();
        let mut known = BTreeSet::new();
        for key in all {
            let name = match self.deadline.half(self.clients.registry_name(&key)).await {
                Ok(answer) => answer,
                Err(_) => Err("STS did not answer in time".to_owned()),
            };
            known.insert(match name {
                Ok(name) => {
                    // Two roles may belong to one account, so one name can match several keys.
                    keys.extend((name == *named).then_some(key));
                    name.to_string()
                }
                Err(problem) => format!("one {key} with an unknown account ({problem})"),
            });
        }
        let unknown = || UnknownRegistry { named: named.to_string(), known: join(known, ", ") };
        if keys.is_empty() { Err(unknown()) } else { Ok(keys) }
    }

    /// Deregisters every instance of this installation for cluster `arn` from `registries`, or only those of its
    /// exports and its records; in plan mode only reports them. `configured` is the cluster's settings entry, if its
    /// own Cloud Map is among `registries`.
    pub async fn purge_all(
        &self,
        arn: &ClusterArn,
        command: &Command,
        configured: Option<&Cluster>,
        registries: &BTreeMap<RegistryKey, SharedRegistry>,
    ) -> Report {
        let mut warnings = Vec::new();
        if let Some(cluster) = configured {
            if !command.only_clusterset {
                let registry = &registries[&self.clients.registry_of(cluster)];
                warnings.extend(self.registration_warning(cluster, registry).await);
            }
            warnings.extend(self.clusterset_warning(cluster));
        }
        let mut has_exported = false;
        for registry in registries.values() {
            let read = self.read_in_time(registry.read()).await;
            has_exported |= read.is_ok_and(|read| self.has_clusterset_instances(arn, &read));
        }
        // Purges the imports before the cluster record. In the opposite order, a purge that stops halfway would leave
        // imports without a cluster record, and such a cluster is held back until a person acts.
        let multi_cluster = match configured {
            Some(cluster) => Box::pin(self.purge_imports(cluster, has_exported)).await,
            None => None,
        };
        if has_exported && self.settings.cluster(arn).is_none() {
            warnings.push(self.imports_warning());
        }
        // The cluster may have moved to the Cloud Map of an account that shares namespaces with the named one. It
        // publishes in them now.
        let has_moved = configured.is_none() && self.settings.cluster(arn).is_some();
        let named = command.registry.as_ref().filter(|_| has_moved);
        let only_account = named.map(|named| named.account.as_str());
        let own = RegistryKey::default();
        let mut reports = Vec::new();
        for (key, registry) in registries {
            let purged = self.purge_registry(arn, command, only_account, registry).await;
            let report =
                purged.unwrap_or_else(|error| ClusterReport::unreadable(arn.as_str(), &error));
            let registry = (*key != own).then(|| key.to_string());
            reports.push(ClusterReport { registry, ..report });
        }
        // Drops the reports of Cloud Maps that were read whole and have no instances to purge. If all are such, one is
        // kept.
        let has_none = |report: &ClusterReport| {
            report.services.is_empty() && report.unread == 0 && report.error.is_none()
        };
        let (mut empty, affected): (Vec<_>, Vec<_>) = reports.into_iter().partition(has_none);
        empty.truncate(1);
        let mut reports = if affected.is_empty() { empty } else { affected };
        if let Some(first) = reports.first_mut() {
            first.lines.extend(warnings.into_iter().map(Line::warning));
            if let Some(report) = &multi_cluster {
                first.counts.add_multi_cluster(report);
            }
            first.multi_cluster = multi_cluster;
        }
        Report::new(self.mode, reports)
    }

    /// Returns a warning that the next sync undoes the purge, if Services of the cluster claim names or the cluster
    /// cannot be read.
    async fn registration_warning(
        &self,
        cluster: &Cluster,
        registry: &SharedRegistry,
    ) -> Option<String> {
        let remedy =
            "remove the cluster from CLUSTERS first, or set publish to \"false\" on its Services";
        match self.count_claimants(cluster, registry).await {
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

    /// Returns a warning that the next sync recreates the exports and imports, if the settings let the cluster take
    /// part in a clusterset.
    fn clusterset_warning(&self, cluster: &Cluster) -> Option<String> {
        let takes_part = self.settings.multi_cluster_of(cluster) != MultiCluster::Off;
        takes_part.then(|| {
            "the next sync publishes the cluster's exports and makes its imports again: set \"multiCluster\": \"off\" for it first".to_owned()
        })
    }

    /// Returns a warning about the imports in a member that is not configured, which the function cannot reach.
    fn imports_warning(&self) -> String {
        let owner = OwnerLabel::new(&self.settings.owner_id);
        format!(
            "the cluster is not in CLUSTERS, so its imports stay: if it still exists, delete them there: kubectl delete serviceimports.multicluster.x-k8s.io --all-namespaces --selector {}",
            owner.selector()
        )
    }

    /// Whether a Cloud Map has an exported endpoint, an export record or the cluster record of the cluster.
    fn has_clusterset_instances(&self, cluster: &ClusterArn, read: &Registry) -> bool {
        let owners = read.marked_owners(&self.settings.owner_id);
        owners.iter().any(|owner| owner.cluster == *cluster && owner.flow == Flow::Exports)
    }

    /// Deregisters the instances with this installation's owner id and the cluster's ARN from one Cloud Map, or plans
    /// it. `only_account`: leaves out the namespaces that other accounts share with this one. Removes the export
    /// records before the exported instances, and the cluster record last.
    ///
    /// # Errors
    /// Returns an error if namespaces or services could not be listed completely.
    async fn purge_registry(
        &self,
        cluster: &ClusterArn,
        command: &Command,
        only_account: Option<&str>,
        registry: &SharedRegistry,
    ) -> Result<ClusterReport, Error> {
        let mut read = self.read_in_time(registry.read()).await?;
        if let Some(account) = only_account {
            let Registry { namespaces, services, .. } = &mut read;
            let is_of_other = |namespace: &Namespace| namespace.is_of_other(Some(account));
            services.retain(|key, _| !namespaces.get(&key.namespace).is_some_and(is_of_other));
        }
        let owner =
            |flow| Owner { id: self.settings.owner_id.clone(), cluster: cluster.clone(), flow };
        let task = Task::Purge(&DeregisterReason::Purged);
        let execution = Execution::of_registry(task, registry, self.options());
        let annotated = self.observation_for(owner(Flow::Annotations), &read);
        let mut report = if command.only_clusterset {
            let cluster = cluster.to_string();
            let report = ClusterReport { cluster, ..ClusterReport::default() };
            publish::with_reads(report, &annotated)
        } else {
            execution.carry_out(&annotated).await.report
        };
        if !self.has_clusterset_instances(cluster, &read) {
            return Ok(report);
        }
        for step in record::in_order_of_removal(&read) {
            let exported = self.observation_for(owner(Flow::Exports), &step);
            report = report.with(execution.carry_out(&exported).await.report);
        }
        Ok(report)
    }

    /// Returns an observation in which the owner claims nothing, so that a plan removes all its instances.
    fn observation_for(&self, owner: Owner, registry: &Registry) -> Observation {
        let rules = self.settings.rules.clone();
        let read = Observation::new(owner, rules, self.now, registry.clone());
        Observation { extent: Extent::Confirmed, ..read }
    }

    /// Deletes the cluster's import objects; in plan mode only reports them. Returns `None` if there are none or the
    /// cluster no longer exists. `has_exported`: whether a Cloud Map has instances that the cluster exported, or its
    /// records.
    async fn purge_imports(
        &self,
        cluster: &Cluster,
        has_exported: bool,
    ) -> Option<MultiClusterReport> {
        let may_have_imports = self.settings.multi_cluster_of(cluster) != MultiCluster::Off
            || cluster.membership != Membership::default()
            || has_exported;
        let purged = self.deadline.until_stop(self.purge_objects(cluster, may_have_imports));
        match purged.await.unwrap_or_else(|elapsed| Err(elapsed.into())) {
            Ok(report) => (!report.is_quiet()).then_some(report),
            Err(error) if error.is_cluster_not_found() => None,
            // `registration_warning` has already reported a cluster that could not be read.
            Err(_) if !may_have_imports => None,
            Err(error) => Some(unread_line(&error).into()),
        }
    }

    async fn purge_objects(
        &self,
        cluster: &Cluster,
        may_have_imports: bool,
    ) -> Result<MultiClusterReport, Error> {
        let connection = self.connect(cluster).await?;
        let kubernetes = &connection.kubernetes;
        let mut report = MultiClusterReport::default();
        let owner = OwnerLabel::new(&self.settings.owner_id);
        let own_selector = owner.selector();
        // If the ServiceImport CRD is not installed, or serves another version, ServiceImports are skipped. Their
        // derived Services and EndpointSlices may still exist.
        let is_served =
            kubernetes.serves_multi_cluster().await.map_err(publish::observe::Error::from)?;
        let imports = is_served.then_some(Kind::ServiceImport);
        let mut objects = Objects::default();
        for kind in imports.into_iter().chain([Kind::Service, Kind::EndpointSlice]) {
            match kubernetes.objects(kind, &own_selector).await {
                Ok(list) => objects.add_list(kind, list),
                // A cluster that was never a member may lack the RBAC rules to read imports, so the error counts as a
                // failed read only if the cluster may have imports.
                Err(error) => {
                    let unread_line = *unread_line(&error);
                    let outcome =
                        if may_have_imports { Outcome::Unread } else { Outcome::HeldBack };
                    report.lines.push(Line { outcome, ..unread_line });
                }
            }
        }
        let removal = ImportRemoval {
            kubernetes,
            owner: &owner,
            objects: &objects,
            writes: self.mode == Mode::Sync,
            deadline: self.deadline,
        };
        report.add_imports(removal.run().await);
        Ok(report)
    }
}
