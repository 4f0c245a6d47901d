//! Observes a whole cluster and all of Cloud Map, for a full sync, and the notes of earlier runs that no instance has.
//!
//! What is done first: the cluster is read, and compared with the mirror, with what this process has read of Cloud Map
//! in the syncs before. Only the names under which something is missing are read then, so that it can be registered
//! while the rest of Cloud Map is still read.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::task::yield_now;
use tokio::time::Instant;

use super::mirror::Moment;
use super::registry::{Failure, missing};
use super::{Error, SharedRegistry, World};
use crate::cloud_map::{Class, CloudMap, SIDE_BY_SIDE};
use crate::clusterset::record;
use crate::error::chain;
use crate::model::attributes::SIGHTING;
use crate::model::{Desired, Flow, Instances, Registry, Selection, Tags};
use crate::publish::plan::{Extent, Holders, Missing, Observation, RereadScope};

/// The number of services of which the tags are read to find one that is ours.
const MOST_ASKED: usize = 20;

impl World<'_> {
    /// All Services of the cluster, all of Cloud Map.
    pub(super) async fn observe_whole(
        &self,
        selection: &Selection,
        cluster: Option<ReadCluster>,
    ) -> Result<Observation, Error> {
        let all = &Selection::Everything;
        let (desired, registry) = match cluster {
            None => tokio::join!(self.claims_of(all), self.registry.read()),
            Some(ReadCluster { desired, read }) => {
                let registry = self.registry.read().await;
                let is_recent = read.elapsed() < STANDS;
                (if is_recent { Ok(desired) } else { self.claims_of(all).await }, registry)
            }
        };
        let mut observation = self.observation(selection, desired?, registry?);
        if observation.lacks_namespace() {
            self.look_for_namespaces(&mut observation).await?;
        }
        observation.expect_namespaces();
        let mut named = observation.claimed_namespaces();
        self.registry.read_shared(&mut observation.registry, &named).await?;
        if self.ascertain_namespaces(&mut observation, &named).await? {
            named = observation.claimed_namespaces();
            self.registry.read_shared(&mut observation.registry, &named).await?;
        }
        self.read_counted_as_empty(&mut observation).await;
        Ok(observation.decided(selection))
    }

    /// The selected claims of the cluster with their endpoints, and an empty Cloud Map.
    ///
    /// # Errors
    /// Returns an error if the cluster could not be read.
    pub async fn observe_cluster(&self, selection: &Selection) -> Result<Observation, Error> {
        let names = selection.names().map(|names| Selection::services(names.clone()));
        let desired = self.claims_of(&names.unwrap_or(Selection::Everything)).await?;
        let mut observation = self.observation(selection, desired, Registry::default());
        observation.expect_namespaces();
        observation.desired = self.observe_endpoints(observation.desired).await?;
        Ok(observation.decided(selection))
    }

    /// Looks for the namespaces of an observation again if one of these may be gone: its name may have another id now.
    /// Returns whether it did.
    pub(super) async fn ascertain_namespaces(
        &self,
        observation: &mut Observation,
        ids: &BTreeSet<String>,
    ) -> Result<bool, Error> {
        let may_be_gone = self.registry.may_be_gone(ids);
        if may_be_gone {
            self.look_for_namespaces(observation).await?;
            observation.expect_namespaces();
        }
        Ok(may_be_gone)
    }

    /// Updates the namespaces of an observation to those that exist now, with the services of new ones.
    pub(super) async fn look_for_namespaces(
        &self,
        observation: &mut Observation,
    ) -> Result<(), Error> {
        self.registry.look_for_namespaces(&mut observation.registry).await?;
        self.leave_records_out(&mut observation.registry);
        Ok(())
    }

    /// The records of exports carry their marks, and are no endpoints.
    fn leave_records_out(&self, registry: &mut Registry) {
        if self.owner.flow == Flow::Exports {
            record::leave_out(registry);
        }
    }

    pub(super) fn observation(
        &self,
        selection: &Selection,
        desired: Desired,
        mut registry: Registry,
    ) -> Observation {
        self.leave_records_out(&mut registry);
        let (owner, rules) = (self.owner.clone(), self.rules.clone());
        let read = Observation::new(owner, rules, self.now, registry);
        Observation { extent: Extent::of(selection, self.confirmed), desired, ..read }
    }

    /// Reads the instances of claimed services that the list of services reported as empty: its counts lag. What the budget
    /// leaves of these counts as empty, by an old read. The names of exports, which other clusters follow, and those that
    /// may be in several namespaces are read in each run.
    async fn read_counted_as_empty(&self, observation: &mut Observation) {
        let holders = Holders::decide(observation);
        let candidates = observation.keys_to_choose_from(|_| true);
        let services = &mut observation.registry.services;
        let mut unread = BTreeSet::new();
        for key in holders.keys().chain(&candidates) {
            let service = services.get_mut(key).filter(|service| service.unreadable.is_none());
            let Some(service) = service.filter(|_| !unread.contains(key)) else { continue };
            let is_first = self.owner.flow == Flow::Exports || candidates.contains(key);
            if is_first && !service.is_current()
                || service.instances.is_none()
                    && (is_first || self.registry.may_read(false, key, service))
            {
                unread.insert(key.clone());
            } else if service.instances.is_none() && !service.is_never_read() {
                service.instances = Some(Instances::default());
                service.read_before = Some(self.now);
            }
        }
        self.registry.read_instances(&mut observation.registry, &unread).await;
    }

    /// Reads the cluster, and the names that this process knows under which Cloud Map seems to lack instances of it. A
    /// process that knows none asks discovery, which may only show that nothing is missing. Returns `None` if all of Cloud
    /// Map is as soon read.
    ///
    /// # Errors
    /// Returns an error if the cluster could not be read, or the namespaces.
    pub async fn observe_first(&self) -> Result<Option<First>, Error> {
        let places = self.registry.memory.places(&self.owner, &Selection::Everything);
        if places.is_none() {
            self.registry.first_namespaces().await?;
            if self.registry.memory.mirror().all_and_unseen(None).0 <= FEW {
                return Ok(None);
            }
        }
        let read = Instant::now();
        let all = &Selection::Everything;
        let (desired, registry) = tokio::join!(self.claims_of(all), self.registry.remembered());
        let observation = self.observation(all, desired?, registry?);
        let mut observation = Observation { extent: Extent::Part, ..observation };
        observation.expect_namespaces();
        observation.desired = self.observe_endpoints(observation.desired).await?;
        let mut seen = observation.decided(all);
        let mut missing = Missing::of(&seen);
        let known = &seen.registry;
        match &places {
            None => self.registry.leave_out_discovered(&mut missing, known).await,
            // The last full sync knew of them, and may have created them since it listed the services.
            Some(places) => missing
                .leave_out(|key, _| places.contains(key) && !known.services.contains_key(key)),
        }
        let lack = missing.scope(&seen).map(|scope| {
            let narrow = scope.narrow(&seen);
            Lack { observation: Observation { extent: Extent::Part, ..narrow }, scope }
        });
        let desired = std::mem::take(&mut seen.desired);
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
    pub async fn observe_lack(&self, lack: Lack) -> Result<Option<Observation>, Error> {
        let Lack { mut observation, scope } = lack;
        // An unready pod is registered only in a service that is seen to have the check: it may have been made again.
        observation.registry.services.retain(|_, service| !service.custom_health);
        let (registry, began) = (&mut observation.registry, self.registry.began);
        let unknown = missing(registry, &scope.keys);
        if !unknown.is_empty() {
            // The read of all begins the list that both share.
            yield_now().await;
            self.registry.look_up(registry, &unknown, began).await?;
            self.registry.at_least(registry, &unknown, began).await;
        }
        if self.registry.may_be_gone(&scope.keys.iter().map(|it| it.namespace.clone()).collect()) {
            return Ok(None);
        }
        let mut observed = observation.reread(&scope);
        self.read_tags_and_health(&mut observed).await;
        Ok(Some(observed))
    }
}

/// Reads the attributes of the first Cloud Map service with instances of ours that carries our tag, if notes may be
/// there. While the verdict lacks a note, those of the next ones, too: a service that was created since may come before
/// the one that has the note.
pub async fn read_notes(cloud_map: &CloudMap, observation: &mut Observation) {
    let (keys, lacks_note) = observation.services_for_notes();
    for key in keys.into_iter().take(MOST_ASKED) {
        let registry = &mut observation.registry;
        if registry.services.get(&key).is_some_and(|it| !matches!(it.tags, Tags::Read(_))) {
            cloud_map.read_tags(registry, &BTreeSet::from([key.clone()])).await;
        }
        if registry.services.get(&key).is_some_and(|it| it.is_tagged(&observation.owner.id)) {
            cloud_map.read_service_attributes(registry, &key).await;
            if !lacks_note || observation.notes(SIGHTING).next().is_some() {
                return;
            }
        }
    }
}

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

impl SharedRegistry {
    /// The namespaces that exist, with the services that this process has read in them, whenever that was.
    async fn remembered(&self) -> Result<Registry, Failure> {
        let namespaces = self.first_namespaces().await?;
        let ids = namespaces.keys().cloned().collect();
        let mut services = self.memory.mirror().services_since(&ids, Moment::default());
        // One that was never read, and had no instance in the list, is read first if something is missing in it.
        services.retain(|_, it| {
            it.unreadable.is_some() || it.instances.is_some() || it.instance_count == 0
        });
        for service in services.values_mut().filter(|service| service.unreadable.is_none()) {
            service.instances.get_or_insert_default();
        }
        let account = self.account.get().cloned();
        Ok(Registry { namespaces, services, account, ..Registry::default() })
    }

    /// Leaves out what discovery shows. Where it does not answer, nothing is made first.
    async fn leave_out_discovered(&self, missing: &mut Missing, registry: &Registry) {
        let mut unknown = missing.keys();
        unknown.retain(|key| !registry.services.contains_key(key));
        let asked = unknown.iter().filter_map(|key| {
            let namespace = registry.namespaces.get(&key.namespace)?;
            Some(async move { (key, self.cloud_map.discover(namespace, &key.name).await) })
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
