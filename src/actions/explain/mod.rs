//! The action `explain`: the registration of one Service in Cloud Map, with the reasons. It reads all that a sync would
//! read of the Service, plans, and calls DiscoverInstances as a client would. Nothing is written.
//!
//! `answer` is the answer as data and as text, with the export and the import in a `clusterset`, whose answer is
//! `clusterset_answer`.

mod answer;
mod clusterset;
mod clusterset_answer;

use crate::error::chain;
use crate::kubernetes::object::Service;
use crate::kubernetes::services::{self, is_headless};
use crate::model::{NamespaceKind, Selection, ServiceRef};
use crate::publish::observe::{self, SharedRegistry, World};
use crate::publish::plan::{self, Found, Observation, Plan};
use crate::reconcile::{Error, Invocation};
use crate::settings::Cluster;

use clusterset::Explained;

pub use answer::{Discovery, EndpointCondition, EndpointLine, ExplainedName, Explanation, Fact};
pub use clusterset::{ImportFate, ImportedLine};
pub use clusterset_answer::{ClustersetExplanation, ExporterLine};

impl Invocation<'_> {
    /// Explains a Service of a cluster.
    ///
    /// # Errors
    /// Returns an error if the cluster or the registry could not be read completely.
    pub async fn explain(
        &self,
        cluster: &Cluster,
        registry: &SharedRegistry,
        service: &ServiceRef,
    ) -> Result<Explanation, Error> {
        self.deadline.until_stop(self.read_and_explain(cluster, registry, service)).await?
    }

    async fn read_and_explain(
        &self,
        cluster: &Cluster,
        registry: &SharedRegistry,
        service: &ServiceRef,
    ) -> Result<Explanation, Error> {
        let connection = &self.clients.connect(cluster).await?;
        let read = connection.kubernetes.service(service).await.map_err(observe::Error::from)?;
        let explained = Box::pin(self.explain_clusterset(cluster, registry, service)).await;
        let takes_part = explained.as_ref().is_some_and(|it| it.answer.takes_part());
        let mut explanation = Explanation::new(connection.cluster.arn.as_str(), service);
        match read {
            None if takes_part => {
                explanation.add_fact(false, "service", "none of this name in this cluster");
            }
            None => {
                explanation.add_fact(true, "service", "not found in the cluster");
                explanation.ok = false;
            }
            Some(read) if takes_part && !self.has_annotations(&read) => {
                explanation.add_address(&read, false);
            }
            Some(read) => {
                let world = self.world(cluster, connection, registry);
                self.explain_annotated((cluster, &world), &read, &mut explanation).await?;
            }
        }
        if let Some(Explained { answer, instances }) = explained {
            if let Some((observed, plan)) = &instances {
                add_names(&mut explanation, registry, observed, plan).await;
            }
            explanation.add_clusterset(answer);
        }
        Ok(explanation)
    }

    fn has_annotations(&self, read: &Service) -> bool {
        let prefix = &self.settings.annotation_prefix;
        read.metadata.annotations.keys().any(|key| key.starts_with(prefix))
    }

    /// Explains a Service as an annotated one.
    async fn explain_annotated(
        &self,
        (cluster, world): (&Cluster, &World<'_>),
        read: &Service,
        explanation: &mut Explanation,
    ) -> Result<(), Error> {
        let prefix = &self.settings.annotation_prefix;
        let own = read.metadata.annotations.iter().filter(|(key, _)| key.starts_with(prefix));
        explanation.add_annotations(prefix, own);
        explanation.add_address(read, true);
        if !is_headless(read) || services::annotated(read, &self.reading(cluster)).is_none() {
            explanation.ok = false;
            return Ok(());
        }
        let observed = world.observe(&Selection::service(explanation.service.clone())).await?;
        let plan = plan::plan(&observed);
        add_names(explanation, world.registry, &observed, &plan).await;
        explanation.add_held_back(&plan);
        Ok(())
    }
}

/// Adds the names of the Service with the instances that clients discover.
async fn add_names(
    explanation: &mut Explanation,
    registry: &SharedRegistry,
    observed: &Observation,
    plan: &Plan,
) {
    for found in plan::found(observed, plan, &explanation.service) {
        let discovery = discover(registry, observed, &found).await;
        explanation.add_name(observed, found, plan, discovery);
    }
}

/// Calls DiscoverInstances for the name, if the Cloud Map service exists.
async fn discover(
    registry: &SharedRegistry,
    observation: &Observation,
    found: &Found,
) -> Option<Discovery> {
    found.kind?;
    let namespace = observation.registry.namespaces.get(&found.place.key.namespace)?;
    let name = || format!("{}.{}", found.place.name, namespace.name);
    let dns = (namespace.kind == NamespaceKind::Dns).then(name);
    let mut discovery = Discovery { dns, ..Discovery::default() };
    match registry.cloud_map.discover(namespace, &found.place.name).await {
        Ok(instances) => discovery.count(instances, observation, &found.place),
        Err(error) => discovery.error = Some(chain(&error)),
    }
    Some(discovery)
}
