//! One Cloud Map in one invocation, however many clusters are kept in it: read as a whole at most once, or looked at
//! from afar (`glance`), or service by service, with the help of what the process remembers (`lookup`).

mod glance;
mod lookup;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use tokio::sync::{Mutex, OnceCell};

use super::memory::{Memory, Namespaces, Services};
use crate::cloud_map::namespace::NewNamespaces;
use crate::cloud_map::{self, CloudMap};
use crate::model::{NamespaceReference, Registry, ServiceKey, Timestamp};
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
    glance: OnceCell<Result<Registry, Failure>>,
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
        Self {
            cloud_map,
            only,
            memory,
            now,
            namespaces: OnceCell::new(),
            read: OnceCell::new(),
            glance: OnceCell::new(),
            listed: Mutex::default(),
            new_namespaces: NewNamespaces::default(),
            planned: std::sync::Mutex::default(),
        }
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
            let namespaces = self.some_namespaces().await?;
            let services = self.read_namespaces(namespaces.values()).await?;
            self.ascertain(namespaces, services).await
        });
        read.await.clone()
    }

    /// What of the whole was read in this invocation, where that was possible.
    pub fn known(&self) -> Option<&Registry> {
        self.read.get().or_else(|| self.glance.get())?.as_ref().ok()
    }

    /// Namespaces, and what their lists told of their services. A namespace can only be deleted when it is empty:
    /// where one that is remembered has no services, it may be gone, or there again under another id.
    async fn ascertain(
        &self,
        namespaces: Namespaces,
        services: Services,
    ) -> Result<Registry, Failure> {
        let has_services = |id: &String| services.keys().any(|key| key.namespace == *id);
        let all_have_services = namespaces.keys().all(has_services);
        let mut registry = Registry { namespaces, services, ..Registry::default() };
        if !all_have_services {
            self.look_for_namespaces(&mut registry).await?;
        }
        Ok(registry)
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
        let found = self.find_new_services(registry, keys).await?;
        self.cloud_map.read_instances(registry, keys).await;
        self.cloud_map.read_tags(registry, &found).await;
        Ok(())
    }

    /// Adds services that were not there when the registry was read, and returns their keys.
    async fn find_new_services(
        &self,
        registry: &mut Registry,
        keys: &BTreeSet<ServiceKey>,
    ) -> Result<BTreeSet<ServiceKey>, Failure> {
        let missing = missing(registry, keys);
        let ids: BTreeSet<&String> = missing.iter().map(|key| &key.namespace).collect();
        let there = |id| registry.namespaces.get(id).filter(|namespace| namespace.arn.is_some());
        let listed = self.list_services(ids.into_iter().filter_map(there)).await?;
        registry.services.extend(listed.into_iter().filter(|(key, _)| missing.contains(key)));
        Ok(missing)
    }
}

/// Those of `keys` under which there is no service in `registry`.
fn missing(registry: &Registry, keys: &BTreeSet<ServiceKey>) -> BTreeSet<ServiceKey> {
    keys.iter().filter(|key| !registry.services.contains_key(*key)).cloned().collect()
}
