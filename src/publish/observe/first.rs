//! Observes what a full sync does first. The cluster is read, and compared with the mirror: with what this process has
//! read of Cloud Map in the syncs before. Only the names under which something is missing are read then, so that it can
//! be registered while the rest of Cloud Map is still read.

use std::time::Duration;

use tokio::time::Instant;

use super::{Error, ReadBy, World};
use crate::model::{Desired, Registry, Selection};
use crate::publish::plan::{self, Extent, Observation, Observed};

/// A cluster that was read longer ago is read again when all of Cloud Map is read.
const STANDS: Duration = Duration::from_secs(5);

/// The beginning of a full sync.
pub struct First {
    /// The Services that lack registrations, with the names of these as they are now; `None` if there are none.
    pub observed: Option<Observed>,
    pub cluster: ReadCluster,
}

/// The claims of a cluster with their endpoints.
pub struct ReadCluster {
    desired: Desired,
    read: Instant,
}

impl ReadCluster {
    /// The claims, if they may still be used.
    pub(super) fn recent(self) -> Option<Desired> {
        (self.read.elapsed() < STANDS).then_some(self.desired)
    }
}

impl World<'_> {
    /// Reads the cluster, and the names under which Cloud Map seems to lack instances of it. Returns `None` if this process
    /// has not read all of Cloud Map for the cluster before.
    ///
    /// # Errors
    /// Returns an error if the cluster could not be read, or the namespaces.
    pub async fn observe_first(&self) -> Result<Option<First>, Error> {
        let places = self.registry.memory().places(&self.owner, &Selection::Everything);
        if places.is_none() || self.read_by != ReadBy::List {
            return Ok(None);
        }
        let read = Instant::now();
        let (desired, registry) =
            tokio::join!(self.source.whole(self.kubernetes), self.registry.remembered());
        let observation = self.observation(&Selection::Everything, desired?, registry?);
        let mut observation = Observation { extent: Extent::Part, ..observation };
        observation.expect_namespaces();
        let services = observation.desired.services.keys().cloned().collect();
        self.read_endpoints(&mut observation.desired, &services).await?;
        let mut seen = Observed::new(observation, &Selection::Everything);
        let scope = plan::missing_registrations(seen.basis());
        let narrow = scope.as_ref().map(|scope| scope.narrow(&seen.observation, &seen.holders));
        let desired = std::mem::take(&mut seen.observation.desired);
        let cluster = ReadCluster { desired, read };
        // The mirror's copy is as large as Cloud Map.
        drop(seen);
        let (Some(scope), Some(narrow)) = (scope, narrow) else {
            return Ok(Some(First { observed: None, cluster }));
        };
        let mut narrow = Observation { extent: Extent::Part, ..narrow };
        self.registry.read_instances(&mut narrow.registry, &scope.keys).await;
        let mut observed = Observed::reread(narrow, &scope);
        self.read_tags_and_health(&mut observed).await;
        Ok(Some(First { observed: Some(observed), cluster }))
    }
}

impl super::SharedRegistry {
    /// The namespaces that exist, with the services that this process has read in them, whenever that was.
    async fn remembered(&self) -> Result<Registry, super::registry::Failure> {
        let namespaces = self.some_namespaces().await?;
        let mut services = self.memory().mirror().services_of(namespaces.keys());
        for service in services.values_mut().filter(|service| service.unreadable.is_none()) {
            // One that was never read had no instance in the list. What is missing in it is read first.
            service.instances.get_or_insert_default();
        }
        Ok(Registry { namespaces, services, account: self.account(), ..Registry::default() })
    }
}
