//! The action `doctor`: whether the function can do its work for each cluster.

use super::scopes::Selections;
use super::{Answer, Function};
use crate::deadline::Deadline;
use crate::report::checkup::{Checkup, ClusterCheckup};
use crate::settings::Cluster;

impl Function {
    pub(super) async fn doctor(&self, selections: &Selections, deadline: Deadline) -> Answer {
        let selected = selections.iter().map(|(index, _)| &self.settings.clusters[index]);
        let clusters: Vec<&Cluster> = selected.collect();
        let keys = clusters.iter().map(|cluster| self.clients.registry_of(cluster));
        let registries = self.registries(keys).await;
        let invocation = self.invocation(false, deadline);
        let mut checkups = Vec::new();
        for cluster in clusters {
            let registry = &registries[&self.clients.registry_of(cluster)];
            let checks = Box::pin(invocation.check_up(cluster, registry)).await;
            checkups.push(ClusterCheckup { cluster: cluster.label().to_owned(), checks });
        }
        Answer::told(Checkup::new(checkups))
    }
}
