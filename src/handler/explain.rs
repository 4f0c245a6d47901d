//! The action `explain`: one Service of one cluster.

use super::scopes::{Selections, UnknownCluster};
use super::{Answer, Error, Function};
use crate::deadline::Deadline;
use crate::event::Command;
use crate::model::ServiceRef;

impl Function {
    pub(super) async fn explain(
        &self,
        selections: &Selections,
        command: &Command,
        deadline: Deadline,
    ) -> Answer {
        let scope = &command.scope;
        let (namespace, name) = (scope.namespace.clone(), scope.service.clone());
        let service = ServiceRef::new(namespace.unwrap_or_default(), name.unwrap_or_default());
        let invocation = self.invocation(false, deadline);
        let selected = selections.iter().next().map(|(index, _)| &self.settings.clusters[index]);
        let Some(cluster) = selected else {
            let unknown = UnknownCluster::NotNamed { configured: self.configured().labels() };
            return Answer::refused(Error::Cluster(unknown));
        };
        let key = self.clients.registry_of(cluster);
        let registries = self.registries([key.clone()].into_iter()).await;
        match Box::pin(invocation.explain(cluster, &registries[&key], &service)).await {
            Ok(explanation) => Answer::told(explanation),
            Err(error) => Answer::refused(Error::Unexplained(error)),
        }
    }
}
