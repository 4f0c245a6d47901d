//! Namespaces and services, from the lists of Cloud Map or from the memory of the process.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::try_join_all;
use futures_util::stream::poll_fn;
use tokio::sync::mpsc;
use tokio::try_join;

use super::{Failure, SharedRegistry, missing};
use crate::cloud_map::Class;
use crate::cloud_map::instances::Unread;
use crate::model::{CloudMapService, Namespace, Registry, ServiceKey};
use crate::publish::observe::memory::{Namespaces, Services};

impl SharedRegistry {
    /// The namespaces, remembered or listed.
    pub(in crate::publish::observe) async fn some_namespaces(&self) -> Result<Namespaces, Failure> {
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

    /// The next invocation lists the namespaces: with those that are remembered it would read the services of new ones
    /// once for each cluster.
    pub fn forget_namespaces(&self) {
        self.memory.forget_namespaces();
    }

    /// Updates the namespaces of `registry` to those that exist now, and reads the services of new ones with their
    /// instances.
    pub(in crate::publish::observe) async fn look_for_namespaces(
        &self,
        registry: &mut Registry,
    ) -> Result<(), Failure> {
        let namespaces = self.list_namespaces().await?;
        registry.services.retain(|key, _| namespaces.contains_key(&key.namespace));
        let unknown = |id: &String| !registry.namespaces.contains_key(id);
        let new = namespaces.values().filter(|it| unknown(&it.id) && self.is_read_whole(it));
        registry.services.extend(self.read_namespaces(new).await?);
        registry.namespaces = namespaces;
        Ok(())
    }

    /// Reads those of the named namespaces into `registry` that are read only because a claim names them.
    pub(in crate::publish::observe) async fn read_shared(
        &self,
        registry: &mut Registry,
        named: &BTreeSet<String>,
    ) -> Result<(), Failure> {
        let mut shared = self.shared.lock().await;
        let namespaces = named.iter().filter_map(|id| registry.namespaces.get(id));
        let unread = namespaces.filter(|it| it.arn.is_some() && !self.is_read_whole(it));
        for namespace in unread {
            if !shared.contains_key(&namespace.id) {
                let services = self.read_namespaces(std::iter::once(namespace)).await?;
                shared.insert(namespace.id.clone(), services);
            }
            registry.services.extend(shared[&namespace.id].clone());
        }
        Ok(())
    }

    /// The services of namespaces, with the instances of those that have any. The instances are read while the lists go
    /// on, since the lists take longer with more namespaces.
    pub(in crate::publish::observe) async fn read_namespaces(
        &self,
        namespaces: impl Iterator<Item = &Namespace>,
    ) -> Result<Services, Failure> {
        let (tell, mut told) = mpsc::unbounded_channel();
        let lists = async move {
            let filled = |key: &ServiceKey, service: &CloudMapService| {
                if service.held() > 0 {
                    // The receiver exists until this sender is dropped.
                    _ = tell.send(Unread::new(key, service));
                }
            };
            self.list(namespaces, filled).await
        };
        let reads = self.cloud_map.instances_of(poll_fn(move |context| told.poll_recv(context)));
        let (mut services, reads) = try_join!(lists, reads.map(Ok))?;
        reads.enter(&mut services);
        Ok(services)
    }

    /// Lists the services of namespaces.
    pub(in crate::publish::observe) async fn list_services(
        &self,
        namespaces: impl Iterator<Item = &Namespace>,
    ) -> Result<Services, Failure> {
        self.list(namespaces, |_, _| ()).await
    }

    /// Lists the services of namespaces, all side by side, and sends each as soon as it is known.
    async fn list(
        &self,
        namespaces: impl Iterator<Item = &Namespace>,
        tell: impl Fn(&ServiceKey, &CloudMapService),
    ) -> Result<Services, Failure> {
        let tell = &tell;
        let lists = namespaces.map(|namespace| async move {
            let services = match self.cloud_map.services(namespace, tell).await {
                Ok(services) => services.into_iter().collect(),
                // A remembered namespace that is gone.
                Err(error) if error.class == Class::NotFound => Services::default(),
                Err(error) => return Err(Arc::new(error)),
            };
            self.memory.keep_services(&namespace.id, &services, self.now);
            self.listed.lock().await.insert(namespace.id.clone());
            Ok(services)
        });
        Ok(try_join_all(lists).await?.into_iter().flatten().collect())
    }

    /// Reads the services under `keys` into `registry`, with their instances. A service that is not in memory, or is in
    /// memory and gone, is looked up in the lists of services.
    pub(in crate::publish::observe) async fn read_services(
        &self,
        registry: &mut Registry,
        keys: &BTreeSet<ServiceKey>,
    ) -> Result<(), Failure> {
        self.recall(registry, keys).await?;
        self.cloud_map.read_instances(registry, keys).await;
        let gone = missing(registry, keys);
        if self.look_up(registry, &gone).await? {
            self.cloud_map.read_instances(registry, &gone).await;
        }
        let mut read = self.read_so_far.lock().await;
        for key in keys {
            match registry.services.get(key) {
                Some(service) => _ = read.insert(key.clone(), service.clone()),
                None => _ = read.remove(key),
            }
        }
        Ok(())
    }

    /// Puts the entries of services into `registry`, from memory if it has them.
    pub(in crate::publish::observe) async fn recall(
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

    /// Replaces the entries of services by those of new lists, unless that was done in this invocation; the instances
    /// stay as they were read. Returns whether there was a new list.
    pub(in crate::publish::observe) async fn look_up(
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
                Some(known) => known.listed_anew(found),
                None => found,
            };
            registry.services.insert(key.clone(), found);
        }
        Ok(is_new)
    }
}
