//! Observe: reads clusters and Cloud Map into the observation that a plan is made from. A full sync reads all of both
//! (`cluster`), or as much of Cloud Map as its `budget` allows and its changes rest on, a message the part that it is about
//! with the help of the process's memory (`registry`, `mirror`), and a turn reads again the data that its open changes rest
//! on. Reads never write. A cluster or a registry that cannot be read completely is an error; a single Cloud Map
//! service that cannot be read is marked, and nothing is changed in it. `records` and `clusterset` read the records of
//! members, and what imports rest on. `lookup` also finds the Services that a change by another party concerns.

mod budget;
mod cluster;
mod clusterset;
mod lists;
mod lookup;
mod mirror;
mod records;
mod registry;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::error::Elapsed;

use crate::cloud_map;
use crate::kubernetes::services::{self, AnnotationSettings};
use crate::kubernetes::{self, Endpoints, Kubernetes, endpoint_slices};
use crate::model::{
    Desired, Flow, KnownHealth, Member, Owner, Selection, ServiceRef, Tags, Timestamp,
};
use crate::publish::plan::{Extent, Observation, Rules};

pub use budget::ReadLimit;
pub use cluster::{First, Lack, ReadCluster, read_notes};
pub use clusterset::{ReadClusterset, Served};
pub use lookup::{Changed, Concerned};
pub use registry::{Memory, SharedRegistry};

/// The number of Services read side by side.
const SERVICES_SIDE_BY_SIDE: usize = 64;

/// The number of Cloud Map services that are read before the time is looked at again.
const READ_AT_ONCE: usize = 250;

/// The reason why there is nothing to plan from.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The read took all the time of the invocation.
    #[error("the time of this invocation was used up before cluster and Cloud Map were read")]
    Deadline,
    /// The cluster could not be read.
    #[error(transparent)]
    Kubernetes(#[from] kubernetes::Error),
    /// Cloud Map could not be read; shared by all clusters that are kept in it.
    #[error(transparent)]
    CloudMap(#[from] Arc<cloud_map::Error>),
}

impl From<Elapsed> for Error {
    fn from(_: Elapsed) -> Self {
        Self::Deadline
    }
}

/// One cluster, and the Cloud Map that its Services are kept in.
pub struct World<'a> {
    pub kubernetes: &'a Kubernetes,
    /// The source of its claims.
    pub source: Source,
    /// The owner of our instances.
    pub owner: Owner,
    pub rules: Arc<Rules>,
    /// The start of the run.
    pub now: Timestamp,
    /// Whether the guard lets a loss pass that it would hold.
    pub confirmed: bool,
    pub registry: &'a SharedRegistry,
    /// Whether messages are also about Services without annotations, since the cluster may export them.
    pub may_export: bool,
}

/// The source of the claims of a cluster: its annotated headless Services, or its exports. All else of a run is the same for
/// both.
#[derive(Clone, Debug)]
pub enum Source {
    Annotations(AnnotationSettings),
    /// The exports, as a member of a clusterset.
    Exports(Member),
}

impl World<'_> {
    /// The claims of the selected Services; more of them if those are many.
    async fn claims_of(&self, selection: &Selection) -> Result<Desired, kubernetes::Error> {
        match &self.source {
            Source::Annotations(reading) => {
                let read = self.kubernetes.headless_services(selection).await?;
                Ok(services::desired(&read, reading))
            }
            Source::Exports(member) => self.kubernetes.exports(selection, member).await,
        }
    }

    /// The endpoints of Services.
    async fn endpoints_of(
        &self,
        services: &BTreeSet<ServiceRef>,
    ) -> Result<BTreeMap<ServiceRef, Endpoints>, kubernetes::Error> {
        let lists = match self.source {
            Source::Annotations(_) => endpoint_slices::slice_lists(services),
            Source::Exports(_) => endpoint_slices::exported_slice_lists(services),
        };
        self.kubernetes.endpoints(services, lists).await
    }

    /// Reads the observation that a plan for `selection` needs, and finds the Services that this plan is about.
    ///
    /// # Errors
    /// Returns an error if the cluster or the registry could not be read completely.
    pub async fn observe(&self, selection: &Selection) -> Result<Observation, Error> {
        if let Selection::Only { namespaces, services, .. } = selection
            && let Some(mut part) = self.observe_part(selection, namespaces, services).await?
        {
            self.complete(&mut part).await?;
            self.read_what_the_plan_rests_on(selection, &mut part).await?;
            let is_quiet = self.registry.memory.is_quiet(&self.owner, self.now);
            // The note about a loss that a full sync holds may be on any instance of the cluster.
            if is_quiet || !part.would_lose() {
                self.remember(&part, false);
                return Ok(part);
            }
        }
        self.observe_all(selection, None).await
    }

    /// The same from all of Cloud Map, after a full sync has read the cluster.
    ///
    /// # Errors
    /// Returns an error if the cluster or the registry could not be read completely.
    pub async fn observe_all(
        &self,
        selection: &Selection,
        cluster: Option<ReadCluster>,
    ) -> Result<Observation, Error> {
        let mut whole = self.observe_whole(selection, cluster).await?;
        self.complete(&mut whole).await?;
        self.read_what_the_plan_rests_on(selection, &mut whole).await?;
        read_notes(&self.registry.cloud_map, &mut whole).await;
        self.remember(&whole, whole.registry.is_whole());
        Ok(whole)
    }

    /// Reads the services that the plan rests on and of which only older reads are known. These may show further changes.
    async fn read_what_the_plan_rests_on(
        &self,
        selection: &Selection,
        observed: &mut Observation,
    ) -> Result<(), Error> {
        let mut read = BTreeSet::new();
        loop {
            let mut keys = observed.to_read(|key| self.registry.is_old(key));
            keys.retain(|key| !read.contains(key));
            let keys: BTreeSet<_> = keys.into_iter().take(READ_AT_ONCE).collect();
            if keys.is_empty() || !self.registry.budget.has_time() {
                return Ok(());
            }
            self.registry.renew_entries(&mut observed.registry, &keys).await?;
            self.registry.at_least(&mut observed.registry, &keys, self.registry.began).await;
            for key in &keys {
                if let Some(service) = observed.registry.services.get_mut(key) {
                    service.health = KnownHealth::Unread;
                }
            }
            read.extend(keys);
            observed.decide(selection);
            self.read_tags_and_health(observed).await;
            self.read_unread_endpoints(observed).await?;
        }
    }

    /// Remembers whether a full sync, or one before it, holds anything.
    pub fn note_what_is_held(&self, observation: &Observation, holds: bool) {
        if observation.extent != Extent::Part {
            let is_quiet = !holds && observation.is_quiet();
            let quiet = is_quiet.then_some(self.now);
            self.registry.memory.keep_quiet(&self.owner, quiet);
        }
    }

    /// Reads tags, health and the endpoints that were not read yet.
    async fn complete(&self, observed: &mut Observation) -> Result<(), Error> {
        // What could not be read, and something of ours was seen in before.
        let services = observed.registry.services.values_mut();
        for service in services.filter(|service| service.unreadable.is_some()) {
            service.was_ours = self.registry.memory.known().ours.contains(&service.arn);
        }
        if self.owner.flow == Flow::Annotations {
            let asked = observed.ttls_asked();
            let is_all =
                observed.extent.is_whole() && observed.is_clear() && observed.registry.is_current();
            let (registry, cluster) = (&mut observed.registry, &self.owner.cluster);
            self.registry.exchange_ttls(registry, cluster, asked, is_all);
        }
        self.read_tags_of_unread(observed).await;
        self.read_tags_and_health(observed).await;
        self.read_unread_endpoints(observed).await
    }

    /// Reads the endpoints that a plan needs and that were not read yet.
    async fn read_unread_endpoints(&self, observed: &mut Observation) -> Result<(), Error> {
        let Observation { desired, holders, affected, .. } = observed;
        let services = &desired.services;
        let is_unread = |it: &ServiceRef| services.get(it).is_some_and(|it| it.endpoints.is_none());
        let unread = holders.with_sharers(affected).into_iter().filter(is_unread).collect();
        self.read_endpoints(desired, &unread).await
    }

    /// Reads the tags and the health that a plan needs and that were not read yet.
    async fn read_tags_and_health(&self, observed: &mut Observation) {
        let cloud_map = &self.registry.cloud_map;
        let mut tags = observed.tags_needed();
        let services = &observed.registry.services;
        tags.retain(|key| services.get(key).is_some_and(|it| it.tags == Tags::Unread));
        cloud_map.read_tags(&mut observed.registry, &tags).await;
        let mut health = observed.health_needed(&observed.affected);
        let services = &observed.registry.services;
        health.retain(|key| services.get(key).is_some_and(|it| it.health == KnownHealth::Unread));
        cloud_map.read_health(&mut observed.registry, &health).await;
        self.registry.keep_health(&observed.registry, &health);
    }

    async fn read_endpoints(
        &self,
        desired: &mut Desired,
        services: &BTreeSet<ServiceRef>,
    ) -> Result<(), Error> {
        let annotated = &desired.services;
        let wanted: BTreeSet<ServiceRef> =
            services.iter().filter(|service| annotated.contains_key(*service)).cloned().collect();
        let read = self.endpoints_of(&wanted).await?;
        take_endpoints(desired, read);
        Ok(())
    }

    // Services with instances that could not be read: the memory of this process and their tags show whether they may be
    // ours.

    /// Reads the tags of services that may not be read and may be ours, each once in a process.
    async fn read_tags_of_unread(&self, observation: &mut Observation) {
        let mut keys = observation.tags_of_unread();
        let (memory, registry) = (&self.registry.memory, &mut observation.registry);
        keys.retain(|key| {
            let Some(service) = registry.services.get_mut(key) else { return false };
            let known = memory.known().others.get(&service.arn).cloned();
            let is_known = known.is_some();
            service.tags = known.unwrap_or_default();
            !is_known
        });
        self.registry.cloud_map.read_tags(registry, &keys).await;
        let read = keys.iter().filter_map(|key| registry.services.get(key));
        let read = read.filter(|service| matches!(service.tags, Tags::Read(_)));
        for service in read.filter(|service| !service.is_tagged(&self.owner.id)) {
            memory.known().others.insert(service.arn.clone(), service.tags.clone());
        }
    }
}

fn take_endpoints(desired: &mut Desired, read: BTreeMap<ServiceRef, Endpoints>) {
    for (service, read) in read {
        if let Some(published) = desired.services.get_mut(&service) {
            published.endpoints = Some(read.all);
            published.truncated = read.truncated;
        }
    }
}
