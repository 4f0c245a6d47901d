//! Namespaces and services, from the lists of Cloud Map (`lists`) or from the memory of the process.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Failure, SharedRegistry, missing};
use crate::model::{Namespace, NamespaceReference, Registry, ServiceKey};
use crate::publish::observe::memory::Namespaces;

impl SharedRegistry {
    /// The namespaces, remembered or listed.
    pub(in crate::publish::observe) async fn some_namespaces(&self) -> Result<Namespaces, Failure> {
        let remembered = self.memory.lists().namespaces(self.now);
        match remembered {
            Some(namespaces) => Ok(namespaces),
            None => self.list_namespaces().await,
        }
    }

    /// Lists the namespaces, once in an invocation.
    async fn list_namespaces(&self) -> Result<Namespaces, Failure> {
        let list = || async {
            let listed = self.cloud_map.namespaces().await.map_err(Arc::new)?;
            let only = |it: &Namespace| {
                self.only.is_empty() || self.only.iter().any(|reference| matches(reference, it))
            };
            Ok(self.memory.lists().keep_namespaces(listed, only, self.now))
        };
        self.namespaces.get_or_init(list).await.clone()
    }

    /// The next invocation lists the namespaces: with those that are remembered it would read the services of new ones
    /// once for each cluster.
    pub fn forget_namespaces(&self) {
        self.memory.lists().forget_namespaces();
    }

    /// Whether one of these namespaces shows no service in a list of this invocation: it may be empty or gone, and Cloud
    /// Map's lists do not tell these apart.
    pub(in crate::publish::observe) async fn may_be_gone(&self, ids: &BTreeSet<String>) -> bool {
        let listed = self.listed.lock().await;
        let lists = self.memory.lists();
        ids.intersection(&listed).any(|id| lists.is_empty(id))
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
            let remembered = self.memory.lists().service(key);
            match remembered {
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
            let found = services.remove(key).or_else(|| self.memory.lists().service(key));
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

fn matches(reference: &NamespaceReference, namespace: &Namespace) -> bool {
    let text = reference.to_string();
    namespace.arn.as_ref() == Some(&text) || [&namespace.id, &namespace.name].contains(&&text)
}
