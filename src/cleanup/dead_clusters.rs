//! The orphans of a full sync: finds instances with marks of clusters that are not synced, looks up these clusters in
//! EKS (`existences`), and reports or purges the instances according to the settings. Wiring only; the rules are in
//! [`crate::publish::plan::Orphans`].

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::timeout_at;

use super::existences::Existences;
use crate::clients::RegistryKey;
use crate::model::{ClusterArn, Desired, Existence, Owner, Registry, ServiceKey};
use crate::publish::observe::{self, SharedRegistry};
use crate::publish::plan::{
    Extent, Observation, Observed, Orphans, Policy, Step, marked_owners, not_shown,
};
use crate::publish::{self, Task};
use crate::reconcile::{Error, Invocation};
use crate::report::{ClusterReport, OrphanReport};
use crate::settings::{Cluster, Role};

/// A configured cluster, with the facts of this run.
pub struct Kept<'a> {
    /// Its settings.
    pub cluster: &'a Cluster,
    /// Its Cloud Map.
    pub registry: RegistryKey,
    /// Its ARN, if it is known.
    pub arn: Option<ClusterArn>,
    /// Whether it was read, so it exists.
    pub was_read: bool,
}

impl Kept<'_> {
    fn is_cluster(&self, other: &ClusterArn) -> bool {
        match &self.arn {
            Some(arn) => arn == other,
            None => self.cluster.may_be(other),
        }
    }
}

/// The orphans in one Cloud Map, or the error because of which they are unknown.
type Found = (RegistryKey, Result<Vec<OrphanReport>, Error>);

impl Invocation<'_> {
    /// Finds the orphans in these Cloud Maps, and purges those that are due. `kept` are all configured clusters; EKS is
    /// asked about the others in all Cloud Maps at once.
    pub async fn orphans(
        &self,
        registries: &BTreeMap<RegistryKey, SharedRegistry>,
        kept: &[Kept<'_>],
        existences: &Existences,
    ) -> Vec<Found> {
        let shown = registries.iter();
        let shown = shown.filter_map(|(key, registry)| Some((key, registry.shown()?)));
        let shown: BTreeMap<&RegistryKey, BTreeSet<String>> = shown.collect();
        let mut marked = Vec::new();
        for (key, registry) in registries {
            marked.push((key, registry, self.strangers((key, registry), kept).await));
        }
        let owners = marked.iter().filter_map(|(_, _, owners)| owners.as_ref().ok()).flatten();
        let questions = owners
            .map(|owner| &owner.cluster)
            .filter(|cluster| self.is_to_be_asked_about(cluster, kept))
            .map(|cluster| (cluster.clone(), role_for(cluster, kept)));
        let existences = Box::pin(self.existences(questions.collect(), existences)).await;
        let mut found = Vec::new();
        for (key, registry, owners) in marked {
            let settled = async {
                let owners = owners?;
                if owners.is_empty() {
                    return Ok(Vec::new());
                }
                let read = self.read_in_time(registry.read()).await?;
                let mut reports = Vec::new();
                for owner in owners {
                    let existence = existences.get(&owner.cluster).cloned();
                    let read = (registry, &read);
                    let found = self.find_orphans(owner, read, existence, (kept, &shown)).await?;
                    let Some((observed, orphans)) = found.filter(|(_, it)| it.instances > 0) else {
                        continue;
                    };
                    let task = Task::Orphans(registry, orphans.step);
                    let done = publish::carry_out(&task, observed.basis(), self.options()).await;
                    reports.push(report(&orphans, done.report));
                }
                Ok(reports)
            };
            found.push((key.clone(), Box::pin(settled).await));
        }
        found
    }

    /// The owners in the marks of a Cloud Map whose clusters are not synced there.
    ///
    /// # Errors
    /// Returns an error if namespaces or services could not be listed completely.
    async fn strangers(
        &self,
        (key, registry): (&RegistryKey, &SharedRegistry),
        kept: &[Kept<'_>],
    ) -> Result<BTreeSet<Owner>, Error> {
        let read = self.read_in_time(registry.read()).await?;
        if !read.is_whole() {
            return Ok(BTreeSet::new());
        }
        let mut owners = marked_owners(&read, &self.settings.owner_id);
        owners.retain(|owner| {
            let mut here = kept.iter().filter(|it| it.was_read && it.registry == *key);
            !here.any(|it| it.is_cluster(&owner.cluster))
        });
        Ok(owners)
    }

    /// The orphans of a cluster that is not synced here; `None` if it is unknown whether they are orphans.
    async fn find_orphans(
        &self,
        owner: Owner,
        (registry, read): (&SharedRegistry, &Registry),
        existence: Option<Existence>,
        (kept, shown): (&[Kept<'_>], &BTreeMap<&RegistryKey, BTreeSet<String>>),
    ) -> Result<Option<(Observed, Orphans)>, Error> {
        let known = kept.iter().find(|kept| kept.is_cluster(&owner.cluster));
        if let Some(kept) = known.filter(|kept| kept.was_read) {
            let Some(shown) = shown.get(&kept.registry) else { return Ok(None) };
            let observed = self.observation_for(owner, &not_shown(read, shown));
            let found = self.decide(observed, registry, Existence::Exists).await?;
            let (observed, orphans) = found;
            return Ok(Some((observed, orphans.moved_to(kept.registry.to_string()))));
        }
        let existence = existence.unwrap_or(Existence::NotAsked);
        if known.is_some() && existence != Existence::Gone {
            return Ok(None);
        }
        let observed = self.observation_for(owner, read);
        Ok(Some(self.decide(observed, registry, existence).await?))
    }

    /// Decides the step for the instances of an owner. All of them are read in this run if anything is to be changed.
    async fn decide(
        &self,
        observed: Observed,
        registry: &SharedRegistry,
        existence: Existence,
    ) -> Result<(Observed, Orphans), Error> {
        let mut observed = self.with_notes(observed, registry).await?;
        let mut orphans = Orphans::of(&observed.observation, existence.clone());
        if orphans.step != Step::Leave && !observed.observation.registry.is_current() {
            let observation = &observed.observation;
            let keys = observation.registry.services.keys();
            let keys = keys.filter(|key| observation.ours(key).next().is_some());
            let keys: BTreeSet<ServiceKey> = keys.cloned().collect();
            let read = registry.read_instances(&mut observed.observation.registry, &keys);
            let read = timeout_at(self.deadline.stop(), read).await;
            read.map_err(|_| observe::Error::Deadline)?;
            orphans = Orphans::of(&observed.observation, existence);
        }
        Ok((observed, orphans))
    }

    /// Adds the notes for which no instance has room.
    pub(crate) async fn with_notes(
        &self,
        mut observed: Observed,
        registry: &SharedRegistry,
    ) -> Result<Observed, Error> {
        let read = observe::read_notes(registry.cloud_map(), &mut observed.observation);
        let read = timeout_at(self.deadline.stop(), read).await;
        read.map_err(|_| observe::Error::Deadline)?;
        Ok(observed)
    }

    /// Whether anything depends on the existence of a cluster.
    fn is_to_be_asked_about(&self, cluster: &ClusterArn, kept: &[Kept<'_>]) -> bool {
        let rules = &self.settings.rules;
        let may_purge = rules.policy == Policy::Sync && rules.purge_dead_clusters_after.is_some();
        let known = kept.iter().find(|kept| kept.is_cluster(cluster));
        known.map_or(may_purge, |kept| !kept.was_read)
    }

    /// An observation for an owner that claims nothing in this Cloud Map.
    pub(crate) fn observation_for(&self, owner: Owner, registry: &Registry) -> Observed {
        Observed::of_no_claims(Observation {
            owner,
            rules: self.settings.rules.clone(),
            now: self.now,
            extent: Extent::Confirmed,
            judged: None,
            desired: Desired::default(),
            registry: registry.clone(),
        })
    }
}

/// The role to ask EKS as. One that is not configured is asked about with a role that is configured for its account.
fn role_for<'k>(cluster: &ClusterArn, kept: &'k [Kept<'_>]) -> Option<&'k Role> {
    if let Some(kept) = kept.iter().find(|kept| kept.is_cluster(cluster)) {
        return kept.cluster.role.as_ref();
    }
    let mut roles = kept.iter().filter_map(|kept| kept.cluster.role.as_ref());
    roles.find(|role| role.account() == Some(cluster.account()))
}

fn report(orphans: &Orphans, mut done: ClusterReport) -> OrphanReport {
    done.counts.orphaned = orphans.instances;
    OrphanReport {
        instances: orphans.instances,
        reason: orphans.code().into(),
        since: orphans.since.map(|time| time.to_string()),
        purged_from: orphans.purged_from.map(|time| time.to_string()),
        detail: orphans.to_string(),
        done,
    }
}
