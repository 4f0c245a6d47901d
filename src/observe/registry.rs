//! One Cloud Map in one invocation, however many clusters are kept in it: read as a whole at most once, or service
//! by service, with the help of what the process remembers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use futures_util::future::try_join_all;
use tokio::sync::{Mutex, OnceCell};

use super::memory::{Memory, Namespaces, Services};
use crate::cloud_map::namespace::NewNamespaces;
use crate::cloud_map::{self, Class, CloudMap};
use crate::model::{
    CloudMapService, Namespace, NamespaceReference, Registry, ServiceKey, Timestamp,
};
use crate::plan::{Observation, Plan, registrations};

type Failure = Arc<cloud_map::Error>;

/// One Cloud Map in one invocation.
pub struct SharedRegistry {
    cloud_map: CloudMap,
    only: Vec<NamespaceReference>,
    memory: Arc<Memory>,
    now: Timestamp,
    namespaces: OnceCell<Result<Namespaces, Failure>>,
    read: OnceCell<Result<Registry, Failure>>,
    /// The namespaces whose services were listed in this invocation, by id.
    listed: Mutex<BTreeSet<String>>,
    new_namespaces: NewNamespaces,
    /// How many instances the plans of this invocation register, by the namespace's id.
    planned: std::sync::Mutex<BTreeMap<String, usize>>,
}

impl SharedRegistry {
    /// The registry behind `cloud_map`, narrowed to the namespaces of `only` where it names any.
    pub fn new(
        cloud_map: CloudMap,
        only: Vec<NamespaceReference>,
        memory: Arc<Memory>,
        now: Timestamp,
    ) -> Self {
        let (namespaces, read, listed, new_namespaces) = Default::default();
        let planned = std::sync::Mutex::default();
        Self { cloud_map, only, memory, now, namespaces, read, listed, new_namespaces, planned }
    }

    /// The client that reads and writes it.
    pub fn cloud_map(&self) -> &CloudMap {
        &self.cloud_map
    }

    /// What came of the namespaces that clusters kept in it wanted to have created.
    pub fn new_namespaces(&self) -> &NewNamespaces {
        &self.new_namespaces
    }

    /// Has one cluster planned after the other, each with the room that the others leave: what they are
    /// about to register was not there when the registry was read.
    pub fn plan(
        &self,
        observation: &mut Observation,
        plan: impl FnOnce(&Observation) -> Plan,
    ) -> Plan {
        let mut planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        observation.take_up(&planned);
        let plan = plan(observation);
        for (namespace, count) in registrations(plan.changes.values().flatten()) {
            *planned.entry(namespace).or_default() += count;
        }
        plan
    }

    /// What the process remembers of it.
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Every service, with the instances of those that have any.
    ///
    /// # Errors
    /// Where namespaces or services could not be listed to the end.
    pub async fn read(&self) -> Result<Registry, Failure> {
        let read = self.read.get_or_init(|| async {
            let mut registry = self.catalog().await?;
            let filled = registry.services.iter().filter(|(_, service)| service.instance_count > 0);
            let filled: BTreeSet<ServiceKey> = filled.map(|(key, _)| key.clone()).collect();
            self.cloud_map.read_instances(&mut registry, &filled).await;
            Ok(registry)
        });
        read.await.clone()
    }

    /// What of the whole was read in this invocation, where that was possible.
    pub fn known(&self) -> Option<&Registry> {
        self.read.get()?.as_ref().ok()
    }

    /// Namespaces and services, without instances. A namespace can only be deleted when it is empty: where one that
    /// is remembered has no services, it may be gone, or there again under another id.
    async fn catalog(&self) -> Result<Registry, Failure> {
        let namespaces = self.some_namespaces().await?;
        let services = self.list_services(namespaces.values()).await?;
        let has_services = |id: &String| services.keys().any(|key| key.namespace == *id);
        let all_have_services = namespaces.keys().all(has_services);
        let mut registry = Registry { namespaces, services, ..Registry::default() };
        if !all_have_services {
            self.look_for_namespaces(&mut registry).await?;
        }
        Ok(registry)
    }

    /// The namespaces, remembered or listed.
    pub(super) async fn some_namespaces(&self) -> Result<Namespaces, Failure> {
        match self.memory.namespaces(self.now) {
            Some(namespaces) => Ok(namespaces),
            None => self.list_namespaces().await,
        }
    }

    /// Lists the namespaces, once in an invocation.
    async fn list_namespaces(&self) -> Result<Namespaces, Failure> {
        let list = || async {
            let namespaces = self.cloud_map.namespaces(&self.only).await.map_err(Arc::new)?;
            self.memory.keep_namespaces(&namespaces, self.now);
            Ok(namespaces)
        };
        self.namespaces.get_or_init(list).await.clone()
    }

    /// Makes the namespaces of `registry` those that are there now, unless they are already, and reads the services
    /// of those that it did not know, with their instances.
    pub(super) async fn look_for_namespaces(&self, registry: &mut Registry) -> Result<(), Failure> {
        let namespaces = self.list_namespaces().await?;
        registry.services.retain(|key, _| namespaces.contains_key(&key.namespace));
        let unknown = |id: &String| !registry.namespaces.contains_key(id);
        let new = namespaces.iter().filter(|(id, _)| unknown(id)).map(|(_, namespace)| namespace);
        let services = self.list_services(new).await?;
        let filled = services.iter().filter(|(_, service)| service.instance_count > 0);
        let filled: BTreeSet<ServiceKey> = filled.map(|(key, _)| key.clone()).collect();
        registry.services.extend(services);
        registry.namespaces = namespaces;
        self.cloud_map.read_instances(registry, &filled).await;
        Ok(())
    }

    /// Lists the services of namespaces, all side by side.
    async fn list_services(
        &self,
        namespaces: impl Iterator<Item = &Namespace>,
    ) -> Result<Services, Failure> {
        let lists = namespaces.map(|namespace| async move {
            let services = match self.cloud_map.services(namespace).await {
                Ok(services) => services.into_iter().collect(),
                // One that is remembered, and gone.
                Err(error) if error.class == Class::NotFound => Services::default(),
                Err(error) => return Err(Arc::new(error)),
            };
            self.memory.keep_services(&namespace.id, &services);
            self.listed.lock().await.insert(namespace.id.clone());
            Ok(services)
        });
        Ok(try_join_all(lists).await?.into_iter().flatten().collect())
    }

    /// Reads the services under `keys` into `registry`, with their instances. What memory does not know, or knows
    /// and is gone, is looked up in the lists of services.
    pub(super) async fn read_services(
        &self,
        registry: &mut Registry,
        keys: &BTreeSet<ServiceKey>,
    ) -> Result<(), Failure> {
        self.recall(registry, keys).await?;
        self.cloud_map.read_instances(registry, keys).await;
        let gone = keys.iter().filter(|key| !registry.services.contains_key(*key));
        let gone: BTreeSet<ServiceKey> = gone.cloned().collect();
        if self.look_up(registry, &gone).await? {
            self.cloud_map.read_instances(registry, &gone).await;
        }
        Ok(())
    }

    /// Puts the entries of services into `registry`, from memory where it knows them.
    async fn recall(
        &self,
        registry: &mut Registry,
        keys: &BTreeSet<ServiceKey>,
    ) -> Result<(), Failure> {
        let mut unknown = BTreeSet::new();
        for key in keys {
            match self.memory.service(key) {
                Some(service) => _ = registry.services.insert(key.clone(), service),
                None => _ = unknown.insert(key.clone()),
            }
        }
        self.look_up(registry, &unknown).await?;
        Ok(())
    }

    /// Replaces the entries of services by those of lists that are made anew, unless that was done in this
    /// invocation; what was read of instances stays. Returns whether there was a new list.
    pub(super) async fn look_up(
        &self,
        registry: &mut Registry,
        keys: &BTreeSet<ServiceKey>,
    ) -> Result<bool, Failure> {
        let listed = self.listed.lock().await.clone();
        let ids: BTreeSet<&String> = keys.iter().map(|key| &key.namespace).collect();
        let ids = ids.into_iter().filter(|id| !listed.contains(*id));
        let there = |id| registry.namespaces.get(id).filter(|namespace| namespace.arn.is_some());
        let mut services = self.list_services(ids.filter_map(there)).await?;
        let is_new = !services.is_empty();
        for key in keys {
            let found = services.remove(key).or_else(|| self.memory.service(key));
            let Some(found) = found else { continue };
            let known = registry.services.remove(key);
            let found = match known.filter(|known| known.arn == found.arn) {
                Some(CloudMapService {
                    instances,
                    registered_by,
                    unreadable,
                    health,
                    tags,
                    ..
                }) => {
                    CloudMapService { instances, registered_by, unreadable, health, tags, ..found }
                }
                None => found,
            };
            registry.services.insert(key.clone(), found);
        }
        Ok(is_new)
    }

    /// Reads the named services again into `registry`, those included that were not there before: for
    /// them it is to be seen whose they are, too.
    ///
    /// # Errors
    /// Where the services of a namespace could not be listed to the end.
    pub async fn read_again(
        &self,
        registry: &mut Registry,
        keys: &BTreeSet<ServiceKey>,
    ) -> Result<(), Failure> {
        let found = self.find_new_services(registry, keys).await.map_err(Arc::new)?;
        self.cloud_map.read_instances(registry, keys).await;
        self.cloud_map.read_tags(registry, &found).await;
        Ok(())
    }

    /// Adds services that were not there when the registry was read, and returns their keys.
    async fn find_new_services(
        &self,
        registry: &mut Registry,
        keys: &BTreeSet<ServiceKey>,
    ) -> Result<BTreeSet<ServiceKey>, cloud_map::Error> {
        let missing = keys.iter().filter(|key| !registry.services.contains_key(*key));
        let missing: BTreeSet<ServiceKey> = missing.cloned().collect();
        let namespaces: BTreeSet<&String> = missing.iter().map(|key| &key.namespace).collect();
        for id in namespaces {
            let namespace = registry.namespaces.get(id);
            let there = namespace.filter(|namespace| namespace.arn.is_some());
            let Some(namespace) = there else { continue };
            for (key, service) in self.cloud_map.services(namespace).await? {
                if missing.contains(&key) {
                    registry.services.insert(key, service);
                }
            }
        }
        Ok(missing)
    }
}
