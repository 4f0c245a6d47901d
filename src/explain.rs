//! One Service, explained to the person who asks why it is found as it is: reads all that a sync would
//! read of it, plans, and asks discovery what clients are told. Wiring only; nothing is written.

use tokio::time::timeout_at;

use crate::clients::Connection;
use crate::kubernetes::desired;
use crate::kubernetes::read::is_headless;
use crate::model::{Selection, ServiceRef};
use crate::observe::{self, SharedRegistry};
use crate::plan::{self, Found, Observation};
use crate::reconcile::{Error, Invocation};
use crate::report::chain;
use crate::report::explanation::{Discovery, Explanation};
use crate::settings::Cluster;

impl Invocation<'_> {
    /// Explains a Service of a cluster.
    ///
    /// # Errors
    /// Where the cluster or the registry could not be read whole.
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
        timeout_at(self.deadline.stop(), read).await.map_err(|_| Error::Deadline)?
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
        let Some(read) = read else { return Ok(explanation.missing()) };
        let prefix = &self.settings.annotation_prefix;
        let own = read.metadata.annotations.iter().filter(|(key, _)| key.starts_with(prefix));
        explanation.annotated(prefix, own);
        let address = read.spec.cluster_ip.as_deref();
        explanation.address(is_headless(&read), address.unwrap_or_default());
        let world = self.world(cluster, connection, registry);
        if !is_headless(&read) || desired::annotated(&read, &world.reading).is_none() {
            return Ok(explanation.unexplained());
        }
        let observed = world.observe(&Selection::service(service.clone())).await?;
        let (plan, observation) = (plan::plan(observed.basis()), &observed.observation);
        for found in plan::found(observed.basis(), &plan, service) {
            let discovery = discover(registry, observation, &found).await;
            explanation.found(observation, found, &plan, discovery);
        }
        Ok(explanation.held_back(&plan))
    }
}

/// What clients are told of the name, where the Cloud Map service exists.
async fn discover(
    registry: &SharedRegistry,
    observation: &Observation,
    found: &Found,
) -> Option<Discovery> {
    found.kind?;
    let namespace = observation.registry.namespaces.get(&found.place.key.namespace)?;
    let told = registry.cloud_map().discover(namespace, &found.place.name).await;
    let dns = namespace.dns_name(&found.place.name);
    Some(match told {
        Ok(instances) => Discovery::of(dns, instances, observation, &found.place),
        Err(error) => Discovery::unknown(dns, chain(&error)),
    })
}
