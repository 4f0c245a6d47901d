//! The orphans in one Cloud Map: finds instances with marks of clusters that are not synced, looks up these clusters in
//! EKS, and reports or purges the instances according to the settings. Wiring only; the rules are in
//! [`crate::publish::plan::Orphans`].

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::timeout_at;

use crate::clients::RegistryKey;
use crate::model::{ClusterArn, Desired, Existence, Held, Owner, Registry};
use crate::publish::observe::{self, ReadBy, SharedRegistry};
use crate::publish::plan::{
    Extent, Observation, Observed, Orphans, Policy, marked_owners, not_shown,
};
use crate::publish::{self, Task};
use crate::reconcile::{Error, Invocation};
use crate::report::{ClusterReport, OrphanReport};
use crate::settings::Cluster;

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

impl Invocation<'_> {
    /// Finds the orphans in the Cloud Map `key`, and purges those that are due. `kept` are all configured clusters;
    /// `shown` are the ARNs of the namespaces in each completely read Cloud Map.
    ///
    /// # Errors
    /// Returns an error if namespaces or services could not be listed completely.
    pub async fn orphans(
        &self,
        (key, registry): (&RegistryKey, &SharedRegistry),
        kept: &[Kept<'_>],
        shown: &BTreeMap<RegistryKey, BTreeSet<String>>,
    ) -> Result<Vec<OrphanReport>, Error> {
        let is_kept_here = |cluster: &ClusterArn| {
            kept.iter().any(|it| it.was_read && it.is_cluster(cluster) && it.registry == *key)
        };
        if self.settings.read_by == ReadBy::Discover {
            let seen = self.read_in_time(registry.glance()).await?;
            let owners = marked_owners(&seen, &self.settings.owner_id);
            if owners.iter().all(|owner| is_kept_here(&owner.cluster)) {
                return Ok(Vec::new());
            }
        }
        let read = self.read_in_time(registry.read()).await?;
        let mut reports = Vec::new();
        for owner in marked_owners(&read, &self.settings.owner_id) {
            if is_kept_here(&owner.cluster) {
                continue;
            }
            let found = self.find_orphans(owner, (registry, &read), kept, shown).await?;
            let Some((observed, orphans)) = found.filter(|(_, it)| it.instances > 0) else {
                continue;
            };
            let task = Task::Orphans(registry, orphans.step);
            let done = publish::carry_out(&task, observed.basis(), self.options()).await;
            reports.push(report(&orphans, done.report));
        }
        Ok(reports)
    }

    /// The orphans of a cluster that is not synced here; `None` if it is unknown whether they are orphans.
    async fn find_orphans(
        &self,
        owner: Owner,
        (registry, read): (&SharedRegistry, &Registry),
        kept: &[Kept<'_>],
        shown: &BTreeMap<RegistryKey, BTreeSet<String>>,
    ) -> Result<Option<(Observed, Orphans)>, Error> {
        let cluster = &owner.cluster;
        let known = kept.iter().find(|kept| kept.is_cluster(cluster));
        if let Some(kept) = known.filter(|kept| kept.was_read) {
            let Some(shown) = shown.get(&kept.registry) else { return Ok(None) };
            let observed = self.observation_for(owner, &not_shown(read, shown));
            let observed = self.with_notes(observed, registry).await?;
            let orphans = Orphans::of(&observed.observation, Existence::Exists);
            return Ok(Some((observed, orphans.moved_to(kept.registry.to_string()))));
        }
        let existence =
            timeout_at(self.deadline.stop(), self.existence(cluster, known, kept)).await;
        let existence = existence.map_err(|_| observe::Error::Deadline)?;
        if known.is_some() && existence != Existence::Gone {
            return Ok(None);
        }
        let observed = self.with_notes(self.observation_for(owner, read), registry).await?;
        let orphans = Orphans::of(&observed.observation, existence);
        Ok(Some((observed, orphans)))
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

    /// Whether EKS has the cluster, if the result matters. A cluster that is not configured is looked up with a role
    /// that is configured for its account.
    async fn existence(
        &self,
        cluster: &ClusterArn,
        known: Option<&Kept<'_>>,
        kept: &[Kept<'_>],
    ) -> Existence {
        let rules = &self.settings.rules;
        let counts = rules.policy == Policy::Sync && rules.purge_dead_clusters_after.is_some();
        let role = match known {
            Some(kept) => kept.cluster.role.as_ref(),
            None if counts => {
                let roles = kept.iter().filter_map(|kept| kept.cluster.role.as_ref());
                roles.into_iter().find(|role| role.account() == Some(cluster.account()))
            }
            None => return Existence::NotAsked,
        };
        self.clients.existence(cluster, role).await
    }

    /// An observation for an owner that claims nothing in this Cloud Map.
    pub(crate) fn observation_for(&self, owner: Owner, registry: &Registry) -> Observed {
        Observed::of_no_claims(Observation {
            owner,
            rules: self.settings.rules.clone(),
            now: self.now,
            extent: Extent::Confirmed,
            judged: None,
            held: Held::default(),
            desired: Desired::default(),
            registry: registry.clone(),
        })
    }
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
