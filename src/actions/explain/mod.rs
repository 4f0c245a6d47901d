//! The action `explain`: the registration of one Service in Cloud Map, with the reasons. It reads all that a sync would
//! read of the Service, plans, and calls DiscoverInstances as a client would. Nothing is written.
//!
//! `answer` is the answer as data, with an `endpoint` for each line and the result of `discovery`; `text` prints it.

mod answer;
mod discovery;
mod endpoint;
mod text;

use tokio::time::timeout_at;

use crate::clients::Connection;
use crate::error::chain;
use crate::kubernetes::desired;
use crate::kubernetes::read::is_headless;
use crate::model::{Selection, ServiceRef};
use crate::publish::observe::{self, SharedRegistry};
use crate::publish::plan::{self, Found, Observation};
use crate::reconcile::{Error, Invocation};
use crate::settings::Cluster;

pub use answer::{Explanation, Fact, Name};
pub use discovery::Discovery;
pub use endpoint::{Condition, EndpointFate, EndpointLine};

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
        let mut explanation = Explanation::new(connection.cluster.arn.as_str(), service);
        let Some(read) = read else { return Ok(explanation.with_missing_service()) };
        let prefix = &self.settings.annotation_prefix;
        let own = read.metadata.annotations.iter().filter(|(key, _)| key.starts_with(prefix));
        explanation.add_annotations(prefix, own);
        let address = read.spec.cluster_ip.as_deref();
        explanation.add_address(is_headless(&read), address.unwrap_or_default());
        let world = self.world(cluster, connection, registry);
        if !is_headless(&read) || desired::annotated(&read, &self.reading(cluster)).is_none() {
            return Ok(explanation.with_failure());
        }
        let observed = world.observe(&Selection::service(service.clone())).await?;
        let (plan, observation) = (plan::plan(observed.basis()), &observed.observation);
        for found in plan::found(observed.basis(), &plan, service) {
            let discovery = discover(registry, observation, &found).await;
            explanation.add_name(observation, found, &plan, discovery);
        }
        Ok(explanation.with_held_back(&plan))
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
