//! A purge: all of ours for one cluster, in every Cloud Map that the settings lead to. The payload only
//! says which ARN the marks carry; no address, role or Region is taken from it.

use std::collections::BTreeSet;

use super::scopes::UnknownCluster;
use super::{Answer, Error, Function, log};
use crate::clients::RegistryKey;
use crate::deadline::Deadline;
use crate::event::Command;
use crate::model::{ClusterArn, RegistryName};
use crate::plan::{DeregisterReason, Policy};
use crate::reconcile::Invocation;
use crate::report::{ClusterReport, Report, chain};
use crate::settings::Cluster;

impl Function {
    pub(super) async fn purge(&self, command: &Command, deadline: Deadline) -> Answer {
        let policy = self.settings.rules.policy;
        if policy != Policy::Sync {
            return Answer::refused(Error::Policy(policy));
        }
        let (arn, configured) =
            match self.cluster_to_purge(&command.scope.cluster.to_string()).await {
                Ok(found) => found,
                Err(unknown) => return Answer::refused(Error::Cluster(unknown)),
            };
        let invocation = self.invocation(command.confirm, deadline);
        let keys = match self.registries_to_purge(command.registry.as_ref()).await {
            Ok(keys) => keys,
            Err(unknown) => return Answer::refused(unknown),
        };
        let kept = configured.filter(|it| keys.contains(&self.clients.registry_of(it)));
        let warning = match kept {
            Some(cluster) => registered_again(&invocation, cluster).await,
            None => None,
        };
        let mut reports = self.purge_all(&invocation, &arn, keys).await;
        if let Some(first) = reports.first_mut() {
            first.warnings.extend(warning);
        }
        for report in &reports {
            log::cluster(report, invocation.mode);
        }
        let report = Report::new(invocation.mode, reports);
        log::run(&report);
        Answer::to_direct(report)
    }

    /// The cluster that a command names: one that is configured, or any by its ARN.
    async fn cluster_to_purge(
        &self,
        name: &str,
    ) -> Result<(ClusterArn, Option<&Cluster>), UnknownCluster> {
        let configured = self.configured();
        let called: Vec<&Cluster> = configured.clusters().filter(|it| it.is_called(name)).collect();
        let labels = || configured.labels();
        match (called.as_slice(), ClusterArn::parse(name)) {
            ([cluster], _) => Ok((self.arn_of(cluster).await?, Some(*cluster))),
            ([], Some(arn)) => {
                let by_name = configured.clusters().find(|it| it.may_be(&arn));
                Ok((arn.clone(), by_name))
            }
            ([], None) => Err(UnknownCluster::NoArn { configured: labels() }),
            (_, _) => Err(UnknownCluster::Ambiguous { configured: labels() }),
        }
    }

    /// The one that is named; else the function's own Cloud Map and those of all configured clusters: which of
    /// them a cluster that is not configured was kept in, nothing tells.
    async fn registries_to_purge(
        &self,
        named: Option<&RegistryName>,
    ) -> Result<BTreeSet<RegistryKey>, Error> {
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
        let unknown = || Error::Registry { named: named.to_string(), known };
        if keys.is_empty() { Err(unknown()) } else { Ok(keys) }
    }

    async fn purge_all(
        &self,
        invocation: &Invocation<'_>,
        arn: &ClusterArn,
        keys: BTreeSet<RegistryKey>,
    ) -> Vec<ClusterReport> {
        let own = RegistryKey::default();
        let registries = self.registries(keys.into_iter()).await;
        let mut reports = Vec::new();
        for (key, registry) in &registries {
            let purged = invocation.purge(arn, registry, &DeregisterReason::Purged).await;
            let report =
                purged.unwrap_or_else(|error| ClusterReport::unreadable(arn.as_str(), &error));
            let registry = (*key != own).then(|| key.to_string());
            reports.push(ClusterReport { registry, ..report });
        }
        // What there is nothing to say of is not said, but once where that is all.
        let has_none = |it: &ClusterReport| it.services.is_empty() && it.error.is_none();
        let (mut none, some): (Vec<_>, Vec<_>) = reports.into_iter().partition(has_none);
        none.truncate(1);
        if some.is_empty() { none } else { some }
    }
}

/// What the next sync makes of a purge, where the cluster is there and configured.
async fn registered_again(invocation: &Invocation<'_>, cluster: &Cluster) -> Option<String> {
    let helps =
        "take the cluster out of CLUSTERS first, or set publish to \"false\" on its Services";
    match invocation.claimants(cluster).await {
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
