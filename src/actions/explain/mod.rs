//! The action `explain`: the registration of one Service in Cloud Map, with the reasons. It reads all that a sync would
//! read of the Service, plans, and calls DiscoverInstances as a client would. Nothing is written.
//!
//! `answer` is the answer as data: each `name` with the fate of every `endpoint` and the result of `discovery`, and the
//! export and the import in a `clusterset`. `text` prints it.

mod answer;
mod clusterset;
mod discovery;
mod endpoint;
mod name;
mod text;

use tokio::time::timeout_at;

use crate::clients::Connection;
use crate::error::chain;
use crate::kubernetes::desired;
use crate::kubernetes::object::Service;
use crate::kubernetes::services::is_headless;
use crate::model::{Selection, ServiceRef};
use crate::publish::observe::{self, SharedRegistry, World};
use crate::publish::plan::{self, Found, Observation};
use crate::reconcile::{Error, Invocation};
use crate::settings::Cluster;

use answer::fact;
use clusterset::Explained;

pub use answer::{Explanation, Fact};
pub use clusterset::{ClustersetExplanation, ExporterLine, ImportFate, ImportedLine};
pub use discovery::Discovery;
pub use endpoint::{Condition, EndpointFate, EndpointLine};
pub use name::Name;

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
        let read = async {
            let connection = self.clients.connect(cluster).await?;
            self.read_and_explain(cluster, &connection, registry, service).await
        };
        timeout_at(self.deadline.stop(), read).await.map_err(|_| observe::Error::Deadline)?
    }

    async fn read_and_explain(
        &self,
        cluster: &Cluster,
        connection: &Connection,
        registry: &SharedRegistry,
        service: &ServiceRef,
    ) -> Result<Explanation, Error> {
        let read = connection.kubernetes.service(service).await.map_err(observe::Error::from)?;
        let explained = Box::pin(self.explain_clusterset(cluster, registry, service)).await;
        let takes_part = explained.as_ref().is_some_and(|it| it.answer.takes_part());
        let mut explanation = Explanation::new(connection.cluster.arn.as_str(), service);
        match read {
            None if takes_part => explanation.add_absent_service(),
            None => explanation = explanation.with_missing_service(),
            Some(read) if takes_part && !self.has_annotations(&read) => {
                explanation.add_service(&read);
            }
            Some(read) => {
                let world = self.world(cluster, connection, registry);
                explanation = self.explain_annotated((cluster, &world), &read, explanation).await?;
            }
        }
        if let Some(explained) = explained {
            add_export(&mut explanation, registry, &explained).await;
            explanation.add_clusterset(explained.answer);
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
        mut explanation: Explanation,
    ) -> Result<Explanation, Error> {
        let prefix = &self.settings.annotation_prefix;
        let own = read.metadata.annotations.iter().filter(|(key, _)| key.starts_with(prefix));
        explanation.add_annotations(prefix, own);
        let address = read.spec.cluster_ip.as_deref();
        explanation.add_address(is_headless(read), address.unwrap_or_default());
        if !is_headless(read) || desired::annotated(read, &self.reading(cluster)).is_none() {
            return Ok(explanation.with_failure());
        }
        let service = explanation.service.clone();
        let observed = world.observe(&Selection::service(service.clone())).await?;
        let (plan, observation) = (plan::plan(observed.basis()), &observed.observation);
        for found in plan::found(observed.basis(), &plan, &service) {
            let discovery = discover(world.registry, observation, &found).await;
            explanation.add_name(observation, found, &plan, discovery);
        }
        Ok(explanation.with_held_back(&plan))
    }
}

/// Adds the instances of an export, under its name in Cloud Map.
async fn add_export(
    explanation: &mut Explanation,
    registry: &SharedRegistry,
    explained: &Explained,
) {
    let Some((observed, plan)) = &explained.instances else { return };
    for found in plan::found(observed.basis(), plan, &explanation.service.clone()) {
        let discovery = discover(registry, &observed.observation, &found).await;
        explanation.add_export(&observed.observation, found, plan, discovery);
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
    let discovered = registry.cloud_map().discover(namespace, &found.place.name).await;
    let dns = namespace.dns_name(&found.place.name);
    Some(match discovered {
        Ok(instances) => Discovery::from_instances(dns, instances, observation, &found.place),
        Err(error) => Discovery::failed(dns, chain(&error)),
    })
}
