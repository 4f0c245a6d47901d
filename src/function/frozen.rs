//! A member that is frozen: its exports or imports stand, and an obstacle that only a person can remove keeps them as they
//! are, so that they become outdated. A cluster that is no member yet, or was purged, has the same obstacles and nothing
//! to lose: it stays quiet.

use futures_util::{StreamExt, stream};

use super::clustersets::Clustersets;
use crate::clusterset::members;
use crate::import::plan::OwnerLabel;
use crate::kubernetes::Kubernetes;
use crate::kubernetes::objects::Resource;
use crate::model::Selection;
use crate::report::MultiClusterReport;

/// The obstacles that no later run removes.
const OBSTACLES: [&str; 9] = [
    "NoIdentity",
    "InvalidIdentity",
    "IdentityDisagrees",
    "ClusterIdTaken",
    "UnfamiliarRegistry",
    "AnotherController",
    "NoMultiClusterApi",
    "NoRecord",
    "Namespace",
];
const FROZEN: &str = "it is or was a member, so its exports and imports stay as they are and become outdated until this \
                      is mended";

impl Clustersets<'_> {
    /// Marks a cluster that is frozen. Only its full sync looks for the signs: the registries were read as a whole then.
    pub(super) async fn mark_frozen(&self, index: usize, report: &mut MultiClusterReport) {
        let is_whole = self.selections.of(index) == Some(&Selection::Everything);
        let mut obstacles = report.obstacles.iter_mut();
        let obstacle = obstacles.find(|it| OBSTACLES.contains(&&*it.reason)).filter(|_| is_whole);
        let Some(obstacle) = obstacle else { return };
        if self.was_member(index).await {
            obstacle.detail = format!("{}; {FROZEN}", obstacle.detail);
            report.frozen = true;
        }
    }

    /// Whether a record of the cluster, or an object of its imports, shows that it is or was a member. A list that fails
    /// shows nothing.
    async fn was_member(&self, index: usize) -> bool {
        let cluster = &self.function.settings.clusters[index];
        let Ok(connection) = self.function.clients.connect(cluster).await else { return false };
        let arn = &connection.cluster.arn;
        let known = stream::iter(self.registries.values()).filter_map(async |it| it.known().await);
        let has_record = known.any(async |registry| {
            members::holders(&registry).any(|(_, holder)| holder.cluster == *arn)
        });
        let owner = OwnerLabel::new(&self.function.settings.owner_id);
        Box::pin(has_record).await || has_objects(&connection.kubernetes, &owner).await
    }
}

async fn has_objects(kubernetes: &Kubernetes, owner: &OwnerLabel) -> bool {
    let of_us = owner.selector();
    for resource in [Resource::ServiceImports, Resource::Services, Resource::EndpointSlices] {
        if kubernetes.has_objects(resource, &of_us).await.unwrap_or_default() {
            return true;
        }
    }
    false
}
