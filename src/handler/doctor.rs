//! The action `doctor`: whether the function can do its work for each cluster.

use super::scopes::Selections;
use super::{Answer, Function};
use crate::deadline::Deadline;
use crate::report::chain;
use crate::report::checkup::{Check, Checkup, ClusterCheckup};
use crate::settings::Cluster;

impl Function {
    pub(super) async fn doctor(&self, selections: &Selections, deadline: Deadline) -> Answer {
        let configured = self.configured();
        let clusters: Vec<(usize, &Cluster)> =
            selections.iter().map(|(index, _)| (index, &self.settings.clusters[index])).collect();
        let keys = clusters.iter().map(|(_, cluster)| self.clients.registry_of(cluster));
        let registries = self.registries(keys).await;
        let invocation = self.invocation(false, deadline);
        let mut checkups = Vec::new();
        for (index, cluster) in clusters {
            let registry = &registries[&self.clients.registry_of(cluster)];
            let mut checks = Box::pin(invocation.check_up(cluster, registry)).await;
            if let Some(contradiction) = configured.contradiction(index) {
                let fix = "name the cluster once in CLUSTERS, by its ARN";
                checks.insert(0, Check::failed("settings", chain(&contradiction), fix));
            }
            checkups.push(ClusterCheckup { cluster: cluster.label().to_owned(), checks });
        }
        Answer::told(Checkup::new(checkups))
    }
}
