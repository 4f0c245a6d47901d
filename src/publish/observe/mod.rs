//! Reads clusters and Cloud Map into the observation that a plan is made from. A full sync reads the cluster, and as
//! much of Cloud Map as its `budget` allows (`cluster`, `fill`). A message reads the part that it is about, with the
//! help of the process's memory (`registry`, `mirror`). A group reads again the data that its open changes rest on.
//! Reads change nothing. A cluster or a registry that cannot be read completely is an error; a single Cloud Map service
//! that cannot be read is marked, and nothing is changed in it. `clusterset` reads the data that imports rest on. The
//! end of this file reads the records of a member.

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
const MAX_CONCURRENT_SERVICE_READS: usize = 64;

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

/// The run of one flow in one cluster: the cluster, the Cloud Map that its Services are kept in, and the rules.
pub struct ClusterRun<'a> {
    pub kubernetes: &'a Kubernetes,
    /// The objects in the cluster that make claims.
    pub source: ClaimSource,
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

/// The source of the claims of a cluster: its annotated headless Services, or its exports.
#[derive(Clone, Debug)]
pub enum ClaimSource {
    Annotations(AnnotationSettings),
    /// The exports, as a member of a clusterset.
    Exports(Member),
}

impl ClusterRun<'_> {
    /// Reads the claims of the selected Services. If many Services are selected, the result may include others.
    async fn claims_of(&self, selection: &Selection) -> Result<Desired, kubernetes::Error> {
        match &self.source {
            ClaimSource::Annotations(settings) => {
                self.kubernetes.headless_services(selection, settings).await
            }
            ClaimSource::Exports(member) => self.kubernetes.exports(selection, member).await,
        }
    }

    /// Reads the endpoints of Services.
    async fn endpoints_of(
        &self,
        services: &BTreeSet<ServiceRef>,
    ) -> Result<BTreeMap<ServiceRef, Endpoints>, kubernetes::Error> {
        let lists = match self.source {
            ClaimSource::Annotations(_) => endpoint_slices::slice_lists(services),
            ClaimSource::Exports(_) => endpoint_slices::slice_lists_by_name(services),
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

    /// Reads the observation that a plan for `selection` needs, and finds the Services that this plan is about.
    /// `claims` are the selected claims, which were read before.
    ///
    /// # Errors
    /// Returns an error if the cluster or the registry could not be read completely.
    pub async fn observe_for(
        &self,
        selection: &Selection,
        claims: Desired,
    ) -> Result<Observation, Error> {
        let all_claims = match selection {
            Selection::Everything => claims,
            Selection::Only { namespaces, services } => {
                let mut part = self.observe_part(selection, namespaces, services, claims).await?;
                if part.left_to_full_sync.is_empty() || !self.registry.can_read_all_soon() {
                    self.complete(&mut part).await?;
                    self.remember(&part, false);
                    return Ok(part);
                }
                self.read_claims().await?
            }
        };
        let mut whole = self.observe_whole(selection, all_claims).await?;
        self.complete(&mut whole).await?;
        self.remember(&whole, whole.registry.is_whole());
        Ok(whole)
    }

    /// Reads the tags, the endpoints and the settings of services that the plan needs and that were not read yet.
    async fn complete(&self, observed: &mut Observation) -> Result<(), Error> {
        // Notes for each service that could not be read whether this process has seen it as ours before.
        let services = observed.registry.services.values_mut();
        for service in services.filter(|service| service.unreadable.is_some()) {
            service.was_ours = self.registry.memory.known().ours.contains(&service.arn);
        }
        self.read_tags_of_unread(observed).await;
        self.read_unread_endpoints(observed).await?;
        self.read_outdated_settings(observed).await?;
        self.read_needed_tags(observed).await;
        Ok(())
    }

    /// Reads services again if the plan depends on their settings and the settings come from a list of an earlier run:
    /// another writer, or this function, may have changed a service since.
    async fn read_outdated_settings(&self, observed: &mut Observation) -> Result<(), Error> {
        let registry = self.registry;
        let began = self.registry.began;
        let is_old = |key: &ServiceKey| !registry.memory.mirror().is_seen_since(key, began);
        if !observed.registry.services.keys().any(is_old) {
            return Ok(());
        }
        let mut old = services::settings_needed(observed);
        old.retain(is_old);
        if !old.is_empty() {
            registry.look_up_entries(&mut observed.registry, &old, began).await?;
            registry.ensure_read_since(&mut observed.registry, &old, began).await?;
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
        set_endpoints(desired, read);
        Ok(())
    }

    // If the instances of a service could not be read, the memory of this process and the tags of the service show
    // whether some may be ours.

    /// Reads the tags of services whose instances could not be read and that may be ours. A process reads each of these
    /// only once, unless the tags show that the service is ours.
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

fn set_endpoints(desired: &mut Desired, read: BTreeMap<ServiceRef, Endpoints>) {
    for (service, read) in read {
        if let Some(published) = desired.services.get_mut(&service) {
            published.endpoints = Some(read.all.into());
            published.truncated = read.truncated;
            published.left_out = read.left_out;
        }
    }
}

// The records of a member are in the Cloud Map service with the member's cluster id as name, in the namespace of its
// clusterset.

/// The maximum number of records that are read one by one. More are read by a list, whose pages have a hundred.
const MAX_RECORD_LOOKUPS: usize = 8;

impl ClusterRun<'_> {
    /// Reads the records of the member, and returns them with the key of their Cloud Map service. If the namespace of
    /// the records does not exist yet, the result has a placeholder for it. Returns `None` if several namespaces have
    /// its name, unless exactly one of them has a cluster record of ours.
    ///
    /// `names`: reads only the records of these names, if there are few names and each has a record. `known`: the
    /// namespaces that this run has read, for records read since the start of the invocation; `None` reads the records
    /// again.
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
            self.registry.refresh_namespaces(&mut registry, self.registry.began).await?;
        }
        let all: Vec<Namespace> = registry.candidates(&reference).into_iter().cloned().collect();
        if is_whole {
            // The namespace may be another account's. Such a namespace is read only on request, as no claim names it.
            let ids = all.iter().map(|namespace| namespace.id.clone()).collect();
            self.registry.read_shared(&mut registry, &ids).await?;
        }
        let key = |namespace: &Namespace| ServiceKey::new(namespace, member.cluster.as_str());
        let namespace = if let [] | [_] = all.as_slice() {
            all.into_iter().next().unwrap_or_else(|| Namespace::missing(&name))
        } else {
            let keys = all.iter().map(key).collect();
            self.registry.ensure_read_since(&mut registry, &keys, since).await?;
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
            self.registry.ensure_read_since(&mut registry, &keys, since).await?;
        }
        // Another cluster with the same id in its settings may have written its record since the run began.
        let lacks_cluster_record = registry.services.contains_key(&key)
            && registry.instance(&key, id::CLUSTER_RECORD).is_none();
        if is_whole && lacks_cluster_record {
            let now = self.registry.take_moment();
            self.registry.ensure_read_since(&mut registry, &keys, now).await?;
        }
        let owner = self.owner.clone();
        let rules = self.rules.clone();
        Ok(Some((Observation::new(owner, rules, self.now, registry), key)))
    }

    /// Returns the records of the cluster under other ids than that of the member. If this invocation has not read all
    /// of Cloud Map, reads the records under the ids that the process remembers. `reads_id_owners`: in this case, first
    /// reads the owners of all cluster ids. The process forgets an id without records.
    ///
    /// # Errors
    /// Returns an error if Cloud Map could not be read.
    pub async fn observe_former_records(
        &self,
        member: &Member,
        reads_id_owners: bool,
    ) -> Result<Registry, Error> {
        let Self { registry, owner, .. } = self;
        let whole = registry.whole_registry().await;
        if whole.is_none() && reads_id_owners {
            registry.read_id_owners(&registry.some_namespaces().await?).await?;
        }
        let others = registry.memory.ids_of(owner).into_iter().filter(|id| id != member);
        let others: Vec<Member> = others.collect();
        let mut read = match whole {
            Some(whole) => whole,
            None => registry.read_records_of_all(&others).await?,
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
    /// The keys of the Cloud Map services that may have records of a member: one in each namespace with the name for
    /// the records of its clusterset.
    fn keys_of_records(&self, member: &Member) -> impl Iterator<Item = ServiceKey> {
        let name = record::namespace(&member.clusterset);
        let namespaces = self.namespaces.values().filter(move |namespace| namespace.name == name);
        namespaces.map(|namespace| ServiceKey::new(namespace, member.cluster.as_str()))
    }
}

impl SharedRegistry {
    /// Reads the records of these members, as they are now.
    async fn read_records_of_all(&self, ids: &[Member]) -> Result<Registry, Failure> {
        let namespaces = self.some_namespaces().await?;
        let mut read = Registry { namespaces, ..Registry::default() };
        let keys = ids.iter().flat_map(|id| read.keys_of_records(id)).collect();
        self.ensure_read_since(&mut read, &keys, self.take_moment()).await?;
        Ok(read)
    }

    /// Reserves an id for a cluster that is about to write its record. Returns the first cluster of this invocation
    /// that has reserved the id: Cloud Map may show its record only after this invocation.
    pub fn reserve_id(&self, member: &Member, owner: &Owner) -> Owner {
        self.id_writers().entry(member.clone()).or_insert_with(|| owner.clone()).clone()
    }

    /// The last known owner of each cluster id of a clusterset, by the records that this process has read or written.
    pub fn id_owners(&self, clusterset: &ClustersetId) -> BTreeMap<ClusterId, Owner> {
        self.memory.id_owners(clusterset)
    }

    /// Whether a cluster is the last known owner of an id.
    pub fn owns_id(&self, member: &Member, owner: &Owner) -> bool {
        self.id_owners(&member.clusterset).get(&member.cluster) == Some(owner)
    }

    /// Whether a cluster is the last known owner of this id and of no other.
    pub fn is_only_id(&self, member: &Member, owner: &Owner) -> bool {
        self.memory.ids_of(owner) == [member.clone()]
    }

    /// Notes that a cluster has written its record, and so owns the id.
    pub fn record_id_owner(&self, member: &Member, owner: &Owner) {
        self.memory.record_id_owner(member.clone(), owner.clone());
        self.written().insert(member.clone());
    }

    /// The members of a clusterset whose cluster record this invocation has written.
    pub(super) fn written_in(&self, clusterset: &ClustersetId) -> BTreeSet<ClusterId> {
        let written = self.written();
        let in_clusterset = written.iter().filter(|member| member.clusterset == *clusterset);
        in_clusterset.map(|member| member.cluster.clone()).collect()
    }

    fn written(&self) -> MutexGuard<'_, BTreeSet<Member>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first cluster of this invocation that has reserved an id.
    pub fn first_writer(&self, member: &Member) -> Option<Owner> {
        self.id_writers().get(member).cloned()
    }

    /// Reads the export records of these names in the service of one member. Returns `false` if the caller has to read
    /// all records: if there are many names, or if a name has no record, since the number of all records then decides
    /// whether a new one fits.
    async fn read_records_of(
        &self,
        registry: &mut Registry,
        key: &ServiceKey,
        names: Option<&BTreeSet<ServiceRef>>,
    ) -> Result<bool, Failure> {
        let Some(names) = names.filter(|names| names.len() <= MAX_RECORD_LOOKUPS) else {
            return Ok(false);
        };
        self.add_remembered(registry, &BTreeSet::from([key.clone()])).await?;
        let Some(service) = registry.services.get_mut(key) else { return Ok(false) };
        let ids: BTreeSet<String> = names.iter().map(id::export_record).collect();
        self.read_member_records(key, service, &ids).await;
        let read = service.instances.as_ref();
        Ok(read.is_some_and(|all| ids.iter().all(|id| all.contains_key(id))))
    }

    /// Reads the records with these ids in the service of a member again, for a group that is about no other records.
    /// Each export has a group of its own: if each group listed all records, a thousand exports would take 5,000 more
    /// calls. All records are read if there are many ids, or if the service may have been replaced.
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
        if ids.len() <= MAX_RECORD_LOOKUPS
            && !scope.with_entries
            && scope.keys.contains(key)
            && let Some(service) = registry.services.get_mut(key)
        {
            self.cloud_map.read_instances_by_id(service, ids).await;
            if service.unreadable.is_none() {
                return Ok(());
            }
        }
        self.read_again(registry, scope).await
    }

    /// Reads the records with these ids of a member, and its cluster record unless that is remembered. If the
    /// remembered cluster record says that the member only imports, reads nothing: such a member has no other records.
    async fn read_member_records(
        &self,
        key: &ServiceKey,
        service: &mut CloudMapService,
        ids: &BTreeSet<String>,
    ) {
        let remembered = self.memory.cluster_record(key, self.began.at);
        let mut ids = ids.clone();
        match &remembered {
            None => _ = ids.insert(id::CLUSTER_RECORD.to_owned()),
            Some(record) if record::ClusterRecord::says_only_imports(record) => ids.clear(),
            Some(_) => {}
        }
        self.cloud_map.read_instances_by_id(service, &ids).await;
        let Some(read) = &mut service.instances else { return };
        match remembered {
            Some(record) => _ = read.insert(id::CLUSTER_RECORD.to_owned(), record),
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
