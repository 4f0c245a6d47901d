//! Reads clusters and Cloud Map into the observation that a plan is made from. A full sync reads the cluster, and as
//! much of Cloud Map as its `budget` allows (`cluster`, `fill`). A message reads the part that it is about, with the
//! help of the process's memory (`registry`, `mirror`). A group reads again the data that its open changes rest on.
//! Reads never write. A cluster or a registry that cannot be read completely is an error; a single Cloud Map service
//! that cannot be read is marked, and nothing is changed in it. `clusterset` reads the data that imports rest on. The
//! records of a member are read at the end of this file.

mod budget;
mod cluster;
mod clusterset;
mod fill;
mod lists;
mod lookup;
mod mirror;
mod registry;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard, PoisonError};

use tokio::time::error::Elapsed;

use crate::clusterset::{id, record};
use crate::kubernetes::services::AnnotationSettings;
use crate::kubernetes::{self, Endpoints, Kubernetes, endpoint_slices};
use crate::model::{
    CloudMapService, ClusterId, ClustersetId, Desired, Member, Namespace, NamespaceReference,
    Owner, Registry, Selection, ServiceKey, ServiceRef, Tags, Timestamp,
};
use crate::publish::plan::{Observation, RereadScope, Rules, services, unread};
use mirror::Namespaces;

pub use budget::ReadLimit;
pub use registry::{Memory, SharedRegistry};

/// The maximum number of Services read concurrently.
const SERVICES_SIDE_BY_SIDE: usize = 64;

/// The reason why there is nothing to plan from.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The read took all the time of the invocation.
    #[error("the time of this invocation was used up before cluster and Cloud Map were read")]
    Deadline,
    /// The cluster could not be read.
    #[error(transparent)]
    Kubernetes(#[from] kubernetes::Error),
    /// Cloud Map could not be read.
    #[error(transparent)]
    CloudMap(#[from] Failure),
}

impl From<Elapsed> for Error {
    fn from(_: Elapsed) -> Self {
        Self::Deadline
    }
}

/// An error of Cloud Map, shared by all clusters that are kept in it.
type Failure = Arc<crate::cloud_map::Error>;

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
    /// Whether a person has confirmed the run: the guard then lets a loss pass that it would hold.
    pub confirmed: bool,
    pub registry: &'a SharedRegistry,
    /// Whether messages may also be about Services without annotations, since the cluster may export them.
    pub may_export: bool,
}

/// The source of the claims of a cluster: its annotated headless Services, or its exports. All else of a run is the
/// same for both.
#[derive(Clone, Debug)]
pub enum Source {
    Annotations(AnnotationSettings),
    /// The exports, as a member of a clusterset.
    Exports(Member),
}

impl World<'_> {
    /// Reads the claims of the selected Services. If these are many, other Services may be included.
    async fn claims_of(&self, selection: &Selection) -> Result<Desired, kubernetes::Error> {
        match &self.source {
            Source::Annotations(reading) => {
                self.kubernetes.headless_services(selection, reading).await
            }
            Source::Exports(member) => self.kubernetes.exports(selection, member).await,
        }
    }

    /// Reads the endpoints of Services.
    async fn endpoints_of(
        &self,
        services: &BTreeSet<ServiceRef>,
    ) -> Result<BTreeMap<ServiceRef, Endpoints>, kubernetes::Error> {
        let lists = match self.source {
            Source::Annotations(_) => endpoint_slices::slice_lists(services),
            Source::Exports(_) => endpoint_slices::slice_lists_by_name(services),
        };
        self.kubernetes.endpoints(services, lists).await
    }

    /// Reads the cluster, and then the observation that a plan for `selection` needs.
    ///
    /// # Errors
    /// Returns an error if the cluster or the registry could not be read completely.
    pub async fn observe(&self, selection: &Selection) -> Result<Observation, Error> {
        self.observe_for(selection, self.read_cluster(selection).await?).await
    }

    /// Reads the observation that a plan for `selection` needs, and finds the Services that this plan is about. `read`:
    /// the selected claims.
    ///
    /// # Errors
    /// Returns an error if the cluster or the registry could not be read completely.
    pub async fn observe_for(
        &self,
        selection: &Selection,
        read: Desired,
    ) -> Result<Observation, Error> {
        let all = match selection {
            Selection::Everything => read,
            Selection::Only { namespaces, services } => {
                let mut part = self.observe_part(selection, namespaces, services, read).await?;
                if part.left.is_empty() || !self.registry.can_read_all_soon() {
                    self.complete(&mut part).await?;
                    self.remember(&part, false);
                    return Ok(part);
                }
                self.read_claims().await?
            }
        };
        let mut whole = self.observe_whole(selection, all).await?;
        self.complete(&mut whole).await?;
        self.remember(&whole, whole.registry.is_whole());
        Ok(whole)
    }

    /// Reads the tags, the endpoints and the entries that the plan needs and that were not read yet.
    async fn complete(&self, observed: &mut Observation) -> Result<(), Error> {
        // Services that could not be read, and that this process has seen as ours before.
        let services = observed.registry.services.values_mut();
        for service in services.filter(|service| service.unreadable.is_some()) {
            service.was_ours = self.registry.memory.known().ours.contains(&service.arn);
        }
        self.read_tags_of_unread(observed).await;
        self.read_unread_endpoints(observed).await?;
        self.read_old_entries(observed).await?;
        self.read_needed_tags(observed).await;
        Ok(())
    }

    /// Reads the entries of services on whose settings the plan rests and that no list of this run has shown. A list is
    /// reused for a time in which another writer, or this function, may change a service.
    async fn read_old_entries(&self, observed: &mut Observation) -> Result<(), Error> {
        let registry = self.registry;
        let began = self.registry.began;
        let is_old = |key: &ServiceKey| !registry.memory.mirror().is_seen_since(key, began);
        if !observed.registry.services.keys().any(is_old) {
            return Ok(());
        }
        let mut old = services::settings_needed(observed);
        old.retain(is_old);
        if !old.is_empty() {
            registry.look_up(&mut observed.registry, &old, began).await?;
            registry.at_least(&mut observed.registry, &old, began).await?;
            observed.decide_holders();
        }
        Ok(())
    }

    /// Reads the endpoints that a plan needs and that were not read yet.
    async fn read_unread_endpoints(&self, observed: &mut Observation) -> Result<(), Error> {
        let Observation { desired, affected, .. } = observed;
        let services = &desired.services;
        let is_unread = |service: &&ServiceRef| {
            services.get(*service).is_some_and(|published| published.endpoints.is_none())
        };
        let unread = affected.iter().filter(is_unread).cloned().collect();
        self.read_endpoints(desired, &unread).await
    }

    /// Reads the tags that a plan needs and that were not read yet.
    async fn read_needed_tags(&self, observed: &mut Observation) {
        let cloud_map = &self.registry.cloud_map;
        let mut tags = services::tags_needed(observed);
        let services = &observed.registry.services;
        tags.retain(|key| services.get(key).is_some_and(|service| service.tags == Tags::Unread));
        cloud_map.read_tags(&mut observed.registry, &tags).await;
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

    // Services with instances that could not be read: the memory of this process and their tags show whether they may
    // be ours.

    /// Reads the tags of services that the function may not read and that may be ours, each once in a process.
    async fn read_tags_of_unread(&self, observation: &mut Observation) {
        let mut keys = unread::tags_needed(observation);
        let memory = &self.registry.memory;
        let registry = &mut observation.registry;
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
            published.endpoints = Some(read.all.into());
            published.truncated = read.truncated;
            published.left_out = read.left_out;
        }
    }
}

// The records of a member are in the Cloud Map service that has its id as name, in the namespace of its clusterset.

/// With more names than this, all records of a member are listed: a page has a hundred.
const FEW: usize = 8;

impl World<'_> {
    /// Reads the records of the member, and returns them with the key of their Cloud Map service. `names`: reads only
    /// the records of these names, if there are few and each has one. A missing namespace is expected, and created with
    /// the first record. `None` if several namespaces have its name, and not exactly one of them has a cluster record
    /// of ours. `known`: the namespaces that this run has read before; `None` reads the records as they are by now.
    ///
    /// # Errors
    /// Returns an error if Cloud Map could not be read.
    pub async fn observe_records(
        &self,
        known: Option<&Namespaces>,
        member: &Member,
        names: Option<&BTreeSet<ServiceRef>>,
    ) -> Result<Option<(Observation, ServiceKey)>, Error> {
        let is_whole = known.is_some();
        let mut registry = Registry::default();
        let since = if let Some(known) = known {
            registry.namespaces.clone_from(known);
            self.registry.began
        } else {
            registry.namespaces = self.registry.some_namespaces().await?;
            self.registry.take_moment()
        };
        let name = record::namespace(&member.clusterset);
        let reference = NamespaceReference::NameOrId(name.clone());
        if registry.candidates(&reference).is_empty() {
            self.registry.look_for_namespaces(&mut registry, self.registry.began).await?;
        }
        let all: Vec<Namespace> = registry.candidates(&reference).into_iter().cloned().collect();
        if is_whole {
            // No claim names the namespace, which may be another account's.
            let ids = all.iter().map(|namespace| namespace.id.clone()).collect();
            self.registry.read_shared(&mut registry, &ids).await?;
        }
        let key = |namespace: &Namespace| ServiceKey::new(namespace, member.cluster.as_str());
        let namespace = if let [] | [_] = all.as_slice() {
            all.into_iter().next().unwrap_or_else(|| Namespace::missing(&name))
        } else {
            let keys = all.iter().map(key).collect();
            self.registry.at_least(&mut registry, &keys, since).await?;
            let record =
                |namespace: &Namespace| registry.instance(&key(namespace), id::CLUSTER_RECORD);
            let is_own = |namespace: &Namespace| {
                record(namespace).is_some_and(|attributes| self.owner.owns(attributes))
            };
            let mut own = all.into_iter().filter(is_own);
            match (own.next(), own.next()) {
                (Some(namespace), None) => namespace,
                _ => return Ok(None),
            }
        };
        let key = key(&namespace);
        registry.services.retain(|other, _| *other == key);
        registry.namespaces.insert(namespace.id.clone(), namespace);
        let keys = BTreeSet::from([key.clone()]);
        if is_whole || !self.registry.read_records_of(&mut registry, &key, names).await? {
            self.registry.at_least(&mut registry, &keys, since).await?;
        }
        // Another cluster that states the same id may have written its record since the run began.
        let has_no_record = registry.services.contains_key(&key)
            && registry.instance(&key, id::CLUSTER_RECORD).is_none();
        if is_whole && has_no_record {
            let now = self.registry.take_moment();
            self.registry.at_least(&mut registry, &keys, now).await?;
        }
        let owner = self.owner.clone();
        let rules = self.rules.clone();
        Ok(Some((Observation::new(owner, rules, self.now, registry), key)))
    }

    /// Returns the records of the cluster under other ids than that of the member. If not all of Cloud Map was read,
    /// reads the records under the ids that the process remembers, as they are now. `asks_all`: first reads who holds
    /// the ids of all members, as a process does that never did so. The process forgets an id without records.
    ///
    /// # Errors
    /// Returns an error if Cloud Map could not be read.
    pub async fn observe_former_records(
        &self,
        member: &Member,
        asks_all: bool,
    ) -> Result<Registry, Error> {
        let Self { registry, owner, .. } = self;
        let known = registry.known().await;
        let has_asked = registry.memory.places(owner, &Selection::Everything).is_some();
        if known.is_none() && (asks_all || !has_asked) {
            registry.read_id_owners(&registry.some_namespaces().await?).await?;
        }
        let others = registry.memory.ids_of(owner).into_iter().filter(|id| id != member);
        let others: Vec<Member> = others.collect();
        let mut read = match known {
            Some(known) => known,
            None => registry.read_records_under(&others).await?,
        };
        for id in others {
            let mut services = read.keys_of_records(&id).filter_map(|key| read.services.get(&key));
            if !services.any(|service| service.unreadable.is_some() || owner.has_instance(service))
            {
                registry.memory.forget_id_owner(&id);
            }
        }
        let own: BTreeSet<ServiceKey> = read.keys_of_records(member).collect();
        let Registry { namespaces, services, .. } = &mut read;
        services.retain(|key, service| {
            record::is_of_records(namespaces, key)
                && !own.contains(key)
                && owner.has_instance(service)
        });
        Ok(read)
    }
}

impl Registry {
    /// The keys of the Cloud Map services with the records of a member: one in each namespace with the name of the
    /// records.
    fn keys_of_records(&self, member: &Member) -> impl Iterator<Item = ServiceKey> {
        let name = record::namespace(&member.clusterset);
        let namespaces = self.namespaces.values().filter(move |namespace| namespace.name == name);
        namespaces.map(|namespace| ServiceKey::new(namespace, member.cluster.as_str()))
    }
}

impl SharedRegistry {
    /// Reads the records under these ids, as they are now.
    async fn read_records_under(&self, ids: &[Member]) -> Result<Registry, Failure> {
        let namespaces = self.some_namespaces().await?;
        let mut read = Registry { namespaces, ..Registry::default() };
        let keys = ids.iter().flat_map(|id| read.keys_of_records(id)).collect();
        self.at_least(&mut read, &keys, self.take_moment()).await?;
        Ok(read)
    }

    /// Notes that a cluster is about to write its record under an id. Returns the first cluster of this invocation to
    /// do so, whose record Cloud Map may show only after this invocation.
    pub fn begin_id(&self, member: &Member, owner: &Owner) -> Owner {
        self.id_writers().entry(member.clone()).or_insert_with(|| owner.clone()).clone()
    }

    /// The last known holder of each id of a clusterset, by the records that this process has read or written.
    pub fn holders(&self, clusterset: &ClustersetId) -> BTreeMap<ClusterId, Owner> {
        self.memory.holders(clusterset)
    }

    /// Whether a cluster is the last known holder of an id.
    pub fn owns_id(&self, member: &Member, owner: &Owner) -> bool {
        self.holders(&member.clusterset).get(&member.cluster) == Some(owner)
    }

    /// Whether a cluster is the last known holder of this id and of no other.
    pub fn is_only_id(&self, member: &Member, owner: &Owner) -> bool {
        self.memory.ids_of(owner) == [member.clone()]
    }

    /// Notes that a cluster has written its record, and so holds the id.
    pub fn record_id_owner(&self, member: &Member, owner: &Owner) {
        self.memory.record_id_owner(member.clone(), owner.clone());
        self.written().insert(member.clone());
    }

    /// The members of a clusterset whose cluster record this invocation has written.
    pub(super) fn written_in(&self, clusterset: &ClustersetId) -> BTreeSet<ClusterId> {
        let written = self.written();
        let of_set = written.iter().filter(|member| member.clusterset == *clusterset);
        of_set.map(|member| member.cluster.clone()).collect()
    }

    fn written(&self) -> MutexGuard<'_, BTreeSet<Member>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first cluster of this invocation that has begun to write its record under an id.
    pub fn first_writer(&self, member: &Member) -> Option<Owner> {
        self.id_writers().get(member).cloned()
    }

    /// Reads the records of these names in the service of one member. Returns whether each name has one. If not, all
    /// records matter, since there may be no room for a new one.
    async fn read_records_of(
        &self,
        registry: &mut Registry,
        key: &ServiceKey,
        names: Option<&BTreeSet<ServiceRef>>,
    ) -> Result<bool, Failure> {
        let Some(names) = names.filter(|names| names.len() <= FEW) else { return Ok(false) };
        self.recall(registry, &BTreeSet::from([key.clone()])).await?;
        let Some(service) = registry.services.get_mut(key) else { return Ok(false) };
        let ids: BTreeSet<String> = names.iter().map(id::export_record).collect();
        self.read_these(key, service, &ids).await;
        let read = service.instances.as_ref();
        Ok(read.is_some_and(|all| ids.iter().all(|id| all.contains_key(id))))
    }

    /// Reads the records under these ids in the service of a member again, for a group that is about no others. Each
    /// export has a group of its own: if each group listed all records, a thousand exports would take 5,000 more calls.
    /// All records are read if there are many ids, or if the service may have been replaced.
    ///
    /// # Errors
    /// Returns an error if the services of a namespace could not be listed to the end.
    pub async fn read_records_again(
        &self,
        registry: &mut Registry,
        scope: &RereadScope,
        key: &ServiceKey,
        ids: &BTreeSet<String>,
    ) -> Result<(), Failure> {
        if ids.len() <= FEW
            && !scope.with_entries
            && scope.keys.contains(key)
            && let Some(service) = registry.services.get_mut(key)
        {
            self.cloud_map.read_some(service, ids).await;
            if service.unreadable.is_none() {
                return Ok(());
            }
        }
        self.read_again(registry, scope).await
    }

    /// Reads records of a member, and its cluster record unless that is remembered. A member that only imports has no
    /// other records.
    async fn read_these(
        &self,
        key: &ServiceKey,
        service: &mut CloudMapService,
        ids: &BTreeSet<String>,
    ) {
        let own = self.memory.cluster_record(key, self.began.at);
        let mut ids = ids.clone();
        match &own {
            None => _ = ids.insert(id::CLUSTER_RECORD.to_owned()),
            Some(own) if record::ClusterRecord::says_only_imports(own) => ids.clear(),
            Some(_) => {}
        }
        self.cloud_map.read_some(service, &ids).await;
        let Some(read) = &mut service.instances else { return };
        match own {
            Some(own) => _ = read.insert(id::CLUSTER_RECORD.to_owned(), own),
            None => self.remember_member(key, service),
        }
    }

    /// Remembers the cluster records of members.
    fn remember_members(&self, registry: &Registry) {
        for (key, service) in &registry.services {
            let namespace = registry.namespaces.get(&key.namespace);
            if namespace.is_some_and(|namespace| record::is_namespace(&namespace.name)) {
                self.remember_member(key, service);
            }
        }
    }

    /// Forgets the cluster record of a member, so that it is read again when it is needed.
    pub fn forget_cluster_record(&self, key: &ServiceKey) {
        self.memory.keep_cluster_record(key, None, self.began.at);
    }

    fn remember_member(&self, key: &ServiceKey, service: &CloudMapService) {
        if let Some(records) = &service.instances {
            let record = records.get(id::CLUSTER_RECORD);
            self.memory.keep_cluster_record(key, record, self.began.at);
        }
    }
}
