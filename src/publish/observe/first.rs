//! Observes what a full sync does first. The cluster is read, and compared with the mirror: with what this process has
//! read of Cloud Map in the syncs before. Only the names under which something is missing are read then, so that it can
//! be registered while the rest of Cloud Map is still read.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use super::registry::Failure;
use super::{Error, SharedRegistry, World};
use crate::cloud_map::{Class, SIDE_BY_SIDE};
use crate::error::chain;
use crate::model::{Desired, Registry, Selection};
use crate::publish::plan::{Extent, Missing, Observation, Observed, RereadScope};

/// A cluster that was read longer ago is read again when all of Cloud Map is read.
const STANDS: Duration = Duration::from_secs(5);

/// A process that knows nothing of Cloud Map reads so many services about as fast as it finds out what to read first.
const FEW: usize = 200;

/// The beginning of a full sync.
pub struct First {
    /// What Cloud Map seems to lack; `None` if it is nothing.
    pub lack: Option<Lack>,
    pub cluster: ReadCluster,
}

/// The Services that lack registrations, and the names to read before these are made.
pub struct Lack {
    observation: Observation,
    scope: RereadScope,
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
    /// Reads the cluster, and the names that this process knows under which Cloud Map seems to lack instances of it. A
    /// process that knows none asks discovery, which may only show that nothing is missing. Returns `None` if all of Cloud
    /// Map is as soon read.
    ///
    /// # Errors
    /// Returns an error if the cluster could not be read, or the namespaces.
    pub async fn observe_first(&self) -> Result<Option<First>, Error> {
        let places = self.registry.memory().places(&self.owner, &Selection::Everything);
        if places.is_none() && self.registry.count_services().await? <= FEW {
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
        let mut missing = Missing::of(seen.basis());
        let known = &seen.observation.registry;
        match &places {
            None => self.registry.leave_out_discovered(&mut missing, known).await,
            // The last full sync knew of them, and may have created them since it listed the services.
            Some(places) => missing
                .leave_out(|key, _| places.contains(key) && !known.services.contains_key(key)),
        }
        let lack = missing.scope(seen.basis()).map(|scope| {
            let narrow = scope.narrow(&seen.observation, &seen.holders);
            Lack { observation: Observation { extent: Extent::Part, ..narrow }, scope }
        });
        let desired = std::mem::take(&mut seen.observation.desired);
        let mut first = First { lack, cluster: ReadCluster { desired, read } };
        // The mirror's copy is as large as Cloud Map.
        drop(seen);
        if let Some(Lack { observation, scope }) = &mut first.lack {
            self.registry.read_instances(&mut observation.registry, &scope.keys).await;
        }
        Ok(Some(first))
    }

    /// Reads the names that only a list shows, which the read of all has begun. Those that it does not show do not exist,
    /// unless their namespace may be gone: then there is nothing to make first.
    ///
    /// # Errors
    /// Returns an error if the services of a namespace could not be listed to the end.
    pub async fn observe_lack(&self, lack: Lack) -> Result<Option<Observed>, Error> {
        let Lack { mut observation, scope } = lack;
        self.registry.read_unknown(&mut observation.registry, &scope.keys).await?;
        if self.registry.may_be_gone(&scope.keys.iter().map(|it| it.namespace.clone()).collect()) {
            return Ok(None);
        }
        let mut observed = Observed::reread(observation, &scope);
        self.read_tags_and_health(&mut observed).await;
        Ok(Some(observed))
    }
}

impl SharedRegistry {
    /// The number of services in all namespaces, as far as Cloud Map has counted them.
    async fn count_services(&self) -> Result<usize, Failure> {
        self.first_namespaces().await?;
        Ok(self.memory().mirror().all_and_unseen(None).0)
    }

    /// The namespaces that exist, with the services that this process has read in them, whenever that was.
    async fn remembered(&self) -> Result<Registry, Failure> {
        let namespaces = self.first_namespaces().await?;
        let mut services = self.memory().mirror().services_of(namespaces.keys());
        // One that was never read, and had no instance in the list, is read first if something is missing in it.
        services.retain(|_, it| {
            it.unreadable.is_some() || it.instances.is_some() || it.instance_count == 0
        });
        for service in services.values_mut().filter(|service| service.unreadable.is_none()) {
            service.instances.get_or_insert_default();
        }
        Ok(Registry { namespaces, services, account: self.account(), ..Registry::default() })
    }

    /// Leaves out what discovery shows. Where it does not answer, nothing is made first.
    async fn leave_out_discovered(&self, missing: &mut Missing, registry: &Registry) {
        let mut unknown = missing.keys();
        unknown.retain(|key| !registry.services.contains_key(key));
        let asked = unknown.iter().filter_map(|key| {
            let namespace = registry.namespaces.get(&key.namespace)?;
            Some(async move { (key, self.cloud_map().discover(namespace, &key.name).await) })
        });
        let answers: Vec<_> = stream::iter(asked).buffer_unordered(SIDE_BY_SIDE).collect().await;
        let answers: BTreeMap<_, _> = answers.into_iter().collect();
        let failed = answers.values().filter_map(|it| it.as_ref().err());
        let failed: Vec<_> = failed.filter(|error| error.class != Class::NotFound).collect();
        if let Some(error) = failed.first() {
            let (error, count) = (chain(error), failed.len());
            tracing::info!(
                "{count} names are read with all others and not first, since discovery failed: {error}"
            );
        }
        missing.leave_out(|key, instance| match answers.get(&key) {
            Some(Ok(shown)) => shown.contains_key(instance),
            Some(Err(error)) => error.class != Class::NotFound,
            None => false,
        });
    }
}
