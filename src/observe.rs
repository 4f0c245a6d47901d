//! Observe: reads clusters and Cloud Map into what a plan is made from. Only reads. A cluster or a
//! registry that could not be read whole is an error; a single Cloud Map service that could not be
//! read is marked, and nothing will be changed in it.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::cloud_map::namespace::NewNamespaces;
use crate::cloud_map::{self, CloudMap};
use crate::kubernetes::desired::{self, Reading};
use crate::kubernetes::{self, Kubernetes};
use crate::model::{
    NamespaceReference, Owner, Registry, Selection, ServiceKey, ServiceRef, Timestamp,
};
use crate::plan::{self, Extent, Holders, Observation, Rules};

/// Why there is nothing to plan from.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster could not be read.
    #[error(transparent)]
    Kubernetes(#[from] kubernetes::Error),
    /// Cloud Map could not be read; shared by all clusters that are kept in it.
    #[error(transparent)]
    CloudMap(#[from] Arc<cloud_map::Error>),
}

/// One Cloud Map, read as a whole at most once per invocation, however many clusters are kept in it.
pub struct SharedRegistry {
    cloud_map: CloudMap,
    only: Vec<NamespaceReference>,
    read: OnceCell<Result<Registry, Arc<cloud_map::Error>>>,
    new_namespaces: NewNamespaces,
}

impl SharedRegistry {
    /// The registry behind `cloud_map`, narrowed to the namespaces of `only` where it names any.
    pub fn new(cloud_map: CloudMap, only: Vec<NamespaceReference>) -> Self {
        let new_namespaces = NewNamespaces::default();
        Self { cloud_map, only, read: OnceCell::new(), new_namespaces }
    }

    /// The client that reads and writes it.
    pub fn cloud_map(&self) -> &CloudMap {
        &self.cloud_map
    }

    /// What came of the namespaces that clusters kept in it wanted to have created.
    pub fn new_namespaces(&self) -> &NewNamespaces {
        &self.new_namespaces
    }

    /// What was read of it in this invocation, where that was possible.
    pub fn known(&self) -> Option<&Registry> {
        self.read.get()?.as_ref().ok()
    }

    /// Every service, with the instances of those that have any.
    ///
    /// # Errors
    /// Where namespaces or services could not be listed to the end.
    pub async fn read(&self) -> Result<Registry, Arc<cloud_map::Error>> {
        let read = self.read.get_or_init(|| async {
            let mut registry = self.cloud_map.catalog(&self.only).await.map_err(Arc::new)?;
            let filled = registry.services.iter().filter(|(_, service)| service.instance_count > 0);
            let filled: BTreeSet<ServiceKey> = filled.map(|(key, _)| key.clone()).collect();
            self.cloud_map.read_instances(&mut registry, &filled).await;
            Ok(registry)
        });
        read.await.clone()
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
    ) -> Result<(), Arc<cloud_map::Error>> {
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

/// One cluster, and the Cloud Map that its Services are kept in.
pub struct World<'a> {
    /// The cluster's API.
    pub kubernetes: &'a Kubernetes,
    /// How its annotations are read.
    pub reading: Reading,
    /// Whose instances are ours.
    pub owner: Owner,
    /// What the installation allows.
    pub rules: Arc<Rules>,
    /// When the run began.
    pub now: Timestamp,
    /// Whether a loss that the guard would hold is let pass.
    pub confirmed: bool,
    /// The Cloud Map.
    pub registry: &'a SharedRegistry,
}

impl World<'_> {
    /// Reads what a plan for `selection` needs, and which Services that plan is about.
    ///
    /// # Errors
    /// Where the cluster or the registry could not be read whole.
    pub async fn observe(
        &self,
        selection: &Selection,
    ) -> Result<(Observation, BTreeSet<ServiceRef>), Error> {
        let (services, registry) =
            tokio::join!(self.kubernetes.headless_services(), self.registry.read());
        let mut observation = Observation {
            owner: self.owner.clone(),
            rules: self.rules.clone(),
            now: self.now,
            extent: self.extent(selection),
            desired: desired::desired(&services?, &self.reading),
            registry: registry?,
        };
        observation.expect_namespaces();
        self.complete(&mut observation).await;
        let affected = plan::affected(&observation, selection);
        let tags = plan::tags_needed(&observation, &affected);
        self.registry.cloud_map.read_tags(&mut observation.registry, &tags).await;
        self.read_health(&mut observation, &affected).await;
        let read = Holders::decide(&observation).with_sharers(&affected);
        self.read_endpoints(&mut observation, &read).await?;
        Ok((observation, affected))
    }

    fn extent(&self, selection: &Selection) -> Extent {
        match selection {
            Selection::Everything if self.confirmed => Extent::Confirmed,
            Selection::Everything => Extent::Everything,
            Selection::Only { .. } => Extent::Part,
        }
    }

    /// Reads the instances of claimed services that the list of services called empty: its counts lag.
    async fn complete(&self, observation: &mut Observation) {
        let holders = Holders::decide(observation);
        let claimed: BTreeSet<ServiceKey> = holders.held().map(|(key, _)| key.clone()).collect();
        let services = &observation.registry.services;
        let unread = |key: &&ServiceKey| {
            let service = services.get(key);
            service.is_some_and(|it| it.instances.is_none() && it.unreadable.is_none())
        };
        let unread: BTreeSet<ServiceKey> = claimed.iter().filter(unread).cloned().collect();
        self.registry.cloud_map.read_instances(&mut observation.registry, &unread).await;
    }

    /// Reads the present health of the instances of those `services` that want it written.
    async fn read_health(&self, observation: &mut Observation, services: &BTreeSet<ServiceRef>) {
        let keys = plan::health_needed(observation, services);
        self.registry.cloud_map.read_health(&mut observation.registry, &keys).await;
    }

    async fn read_endpoints(
        &self,
        observation: &mut Observation,
        services: &BTreeSet<ServiceRef>,
    ) -> Result<(), Error> {
        let annotated = &observation.desired.services;
        let wanted: BTreeSet<ServiceRef> =
            services.iter().filter(|service| annotated.contains_key(*service)).cloned().collect();
        for (service, read) in self.kubernetes.endpoints(&wanted).await? {
            if let Some(annotated) = observation.desired.services.get_mut(&service) {
                annotated.endpoints = Some(desired::all_endpoints(&read));
                annotated.truncated = desired::is_truncated(&read);
            }
        }
        Ok(())
    }

    /// Reads again what a removal rests on: the named Cloud Map services, then `services` themselves
    /// with their endpoints. Whatever was true before, this is what is true after.
    ///
    /// # Errors
    /// Where the cluster could not be read.
    pub async fn observe_again(
        &self,
        mut observation: Observation,
        keys: &BTreeSet<ServiceKey>,
        services: &BTreeSet<ServiceRef>,
    ) -> Result<Observation, Error> {
        self.registry.read_again(&mut observation.registry, keys).await?;
        for service in services {
            let read = self.kubernetes.headless_service(service).await?;
            let annotated = read.and_then(|read| desired::annotated(&read, &self.reading));
            match annotated {
                Some(annotated) => {
                    observation.desired.services.insert(service.clone(), annotated);
                }
                None => _ = observation.desired.services.remove(service),
            }
        }
        self.read_health(&mut observation, services).await;
        self.read_endpoints(&mut observation, services).await?;
        Ok(observation)
    }
}
