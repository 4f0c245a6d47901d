//! What the installation left behind for clusters that it does not keep in step any more, in one Cloud
//! Map: find it, ask EKS about its clusters, and do with it what the settings say. Wiring only; the
//! rules are in [`crate::plan::Orphans`].

use std::collections::BTreeSet;

use tokio::time::timeout_at;

use crate::apply::Task;
use crate::cloud_map::Urgency;
use crate::model::{ClusterArn, Desired, Existence, Owner, Registry};
use crate::observe::{ReadBy, SharedRegistry};
use crate::plan::{Extent, Observation, Orphans, Policy, marked_clusters};
use crate::reconcile::{Error, Invocation};
use crate::report::OrphanReport;
use crate::settings::Cluster;

/// A configured cluster, as this run found it.
pub struct Kept<'a> {
    /// Its settings.
    pub cluster: &'a Cluster,
    /// Its ARN, as far as it is known.
    pub arn: Option<ClusterArn>,
    /// Whether it was read, and so is there.
    pub was_read: bool,
}

impl Kept<'_> {
    fn is(&self, other: &ClusterArn) -> bool {
        match &self.arn {
            Some(arn) => arn == other,
            None => self.cluster.name == other.name() && self.cluster.region == other.region(),
        }
    }
}

impl Invocation<'_> {
    /// Looks for orphans, and purges those that are due. `kept` are all configured clusters.
    ///
    /// # Errors
    /// Where namespaces or services could not be listed to the end.
    pub async fn orphans(
        &self,
        registry: &SharedRegistry,
        kept: &[Kept<'_>],
    ) -> Result<Vec<OrphanReport>, Error> {
        let stop = self.deadline.stop();
        let was_read = |cluster: &ClusterArn| kept.iter().any(|it| it.was_read && it.is(cluster));
        if self.settings.read_by == ReadBy::Discover {
            let seen = self.in_time(registry.glance()).await?;
            if marked_clusters(&seen, &self.settings.owner_id).iter().all(was_read) {
                return Ok(Vec::new());
            }
        }
        let read = self.in_time(registry.read()).await?;
        let mut reports = Vec::new();
        for cluster in marked_clusters(&read, &self.settings.owner_id) {
            if was_read(&cluster) {
                continue;
            }
            let known = kept.iter().find(|kept| kept.is(&cluster));
            let asked = timeout_at(stop, self.existence(&cluster, known, kept)).await;
            let existence = asked.map_err(|_| Error::Deadline)?;
            if known.is_some() && existence != Existence::Gone {
                continue;
            }
            let mut observation = self.of_cluster(cluster, &read);
            let orphans = Orphans::of(&observation, existence);
            let task = Task::Orphans(registry, orphans.step);
            let done =
                self.carry_out(&task, &mut observation, &BTreeSet::new(), Urgency::Bulk).await;
            reports.push(OrphanReport::new(&orphans, done.report));
        }
        Ok(reports)
    }

    /// What EKS says of a cluster, where something depends on it. One that is not configured is asked
    /// for by whoever is configured for its account.
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

    /// A Cloud Map with the eyes of a cluster's owner, who asks for nothing in it.
    pub(crate) fn of_cluster(&self, cluster: ClusterArn, registry: &Registry) -> Observation {
        Observation {
            owner: Owner { id: self.settings.owner_id.clone(), cluster },
            rules: self.settings.rules.clone(),
            now: self.now,
            extent: Extent::Confirmed,
            desired: Desired::default(),
            registry: registry.clone(),
        }
    }
}
