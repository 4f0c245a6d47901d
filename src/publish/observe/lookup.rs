//! Finds namespaces and services in the lists of Cloud Map (`lists`) or in the memory of the process.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;

use futures_util::{StreamExt, stream};

use super::mirror::{Moment, Namespaces};
use super::{Failure, SharedRegistry};
use crate::cloud_map::{Class, SIDE_BY_SIDE, ServiceToRead};
use crate::model::{
    CloudMapService, Instances, Namespace, NamespaceReference, Registry, ServiceKey,
};

impl SharedRegistry {
    /// The namespaces, remembered or listed.
    pub(super) async fn some_namespaces(&self) -> Result<Namespaces, Failure> {
        let remembered = self.memory.mirror().recent_namespaces(self.began.at);
        match remembered {
            Some(namespaces) => Ok(namespaces),
            None => self.list_namespaces(self.began).await,
        }
    }

    /// The namespaces with which the full syncs of all clusters begin.
    pub(super) async fn first_namespaces(&self) -> Result<Namespaces, Failure> {
        self.namespaces_at_start.get_or_init(|| self.some_namespaces()).await.clone()
    }

    /// The namespaces, listed at or after a moment.
    async fn list_namespaces(&self, since: Moment) -> Result<Namespaces, Failure> {
        let _listing = self.listing.lock().await;
        if let Some(namespaces) = self.memory.mirror().namespaces_since(since) {
            return Ok(namespaces);
        }
        let began = self.take_moment();
        let listed = self.cloud_map.namespaces().await.map_err(Arc::new)?;
        let is_allowed = |namespace: &Namespace| {
            self.only.is_empty() || self.only.iter().any(|reference| matches(reference, namespace))
        };
        Ok(self.memory.mirror().keep_namespaces(listed, is_allowed, began))
    }

    /// Makes the next invocation list the namespaces. With the remembered ones, it would read the services of new
    /// namespaces once for each cluster.
    pub fn forget_namespaces(&self) {
        self.memory.mirror().outdate_namespaces();
    }

    /// Whether one of these namespaces shows no service in a list of this invocation: it may be empty or gone, and
    /// Cloud Map's lists do not distinguish these.
    pub(super) fn may_be_gone(&self, ids: &BTreeSet<String>) -> bool {
        let mirror = self.memory.mirror();
        ids.iter().any(|id| mirror.is_listed_since(id, self.began) && mirror.is_empty(id))
    }

    /// Updates the namespaces of `registry` to those that existed at a moment or later, and reads the services and
    /// instances of new namespaces.
    pub(super) async fn refresh_namespaces(
        &self,
        registry: &mut Registry,
        since: Moment,
    ) -> Result<(), Failure> {
        let namespaces = self.list_namespaces(since).await?;
        registry.services.retain(|key, _| namespaces.contains_key(&key.namespace));
        let unknown = |id: &String| !registry.namespaces.contains_key(id);
        let new = namespaces
            .values()
            .filter(|namespace| unknown(&namespace.id) && self.is_read_whole(namespace));
        registry.services.extend(self.read_namespaces(new).await?);
        registry.namespaces = namespaces;
        Ok(())
    }

    /// Reads into `registry` those of the named namespaces that are read only because a claim or record names them.
    pub(super) async fn read_shared(
        &self,
        registry: &mut Registry,
        named: &BTreeSet<String>,
    ) -> Result<(), Failure> {
        let mut shared = self.shared.lock().await;
        let namespaces = named.iter().filter_map(|id| registry.namespaces.get(id));
        let unread = namespaces
            .filter(|namespace| namespace.arn.is_some() && !self.is_read_whole(namespace));
        for namespace in unread {
            let services = self.read_namespaces(std::iter::once(namespace)).await?;
            shared.insert(namespace.id.clone());
            registry.services.extend(services);
        }
        Ok(())
    }

    /// Puts the services under `keys` into `registry`, with their instances as they were read at or after a moment. A
    /// service that is gone, or that this process does not know, is looked up in the lists of services.
    pub(super) async fn ensure_read_since(
        &self,
        registry: &mut Registry,
        keys: &BTreeSet<ServiceKey>,
        since: Moment,
    ) -> Result<(), Failure> {
        self.add_remembered(registry, keys).await?;
        self.read_older(registry, keys, since).await;
        let gone = registry.missing(keys);
        if !gone.is_empty() {
            self.look_up_entries(registry, &gone, self.began).await?;
            self.read_older(registry, &gone, since).await;
        }
        Ok(())
    }

    /// Adds the entries of the services that `registry` lacks, from memory if it has them.
    pub(super) async fn add_remembered(
        &self,
        registry: &mut Registry,
        keys: &BTreeSet<ServiceKey>,
    ) -> Result<(), Failure> {
        let missing = registry.missing(keys);
        let remembered = |key: &ServiceKey| Some((key.clone(), self.memory.mirror().listed(key)?));
        registry.services.extend(missing.iter().filter_map(remembered));
        let unknown = registry.missing(&missing);
        self.look_up_entries(registry, &unknown, self.began).await
    }

    /// Fills the services in `registry` with their instances. Reads these if the last read is older than a moment.
    async fn read_older(
        &self,
        registry: &mut Registry,
        keys: &BTreeSet<ServiceKey>,
        since: Moment,
    ) {
        let began = self.take_moment();
        let mut older = Vec::new();
        for key in keys {
            let Some(service) = registry.services.get_mut(key) else { continue };
            let mut mirror = self.memory.mirror();
            mirror.keep_if_new(key, service, began);
            if let Some(reading) = mirror.read_since(key, since) {
                reading.clone().fill(service);
            } else {
                mirror.record_begun(key, began);
                older.push(ServiceToRead::new(key, service));
            }
        }
        let mut reads = pin!(self.cloud_map.instances_of(stream::iter(older)));
        while let Some((of, reading)) = reads.next().await {
            let reading = self.memory.mirror().keep_read(&of, reading, began);
            reading.enter(&of.key, &mut registry.services);
        }
    }

    /// Puts the entries of services into `registry` as they were at or after a moment, with the instances that this
    /// invocation has read. A known service is read by its id. Any other service is looked up in the lists of this
    /// invocation. If such a service was created after the list, Cloud Map later refuses its creation with its id.
    pub(super) async fn look_up_entries(
        &self,
        registry: &mut Registry,
        keys: &BTreeSet<ServiceKey>,
        since: Moment,
    ) -> Result<(), Failure> {
        self.read_entries(keys, since).await?;
        let is_old = |key: &&ServiceKey| !self.memory.mirror().is_seen_since(key, since);
        let ids: BTreeSet<&String> = keys.iter().filter(is_old).map(|key| &key.namespace).collect();
        let namespaces = ids.into_iter().filter_map(|id| registry.namespaces.get(id));
        let unlisted: Vec<&Namespace> = namespaces
            .filter(|namespace| namespace.arn.is_some() && !self.is_listed(namespace, self.began))
            .collect();
        // If all namespaces are listed, this does not wait for the list that another task reads.
        if !unlisted.is_empty() {
            self.list(unlisted.into_iter(), self.began, |_, _| ()).await?;
        }
        let mirror = self.memory.mirror();
        for key in keys {
            match mirror.service(key, self.began) {
                Some(service) => _ = registry.services.insert(key.clone(), service),
                None => _ = registry.services.remove(key),
            }
        }
        Ok(())
    }

    /// Reads the entries of services by their ids: services that were last seen before a moment, and services that no
    /// list shows although Cloud Map has refused their creation because they exist.
    async fn read_entries(
        &self,
        keys: &BTreeSet<ServiceKey>,
        since: Moment,
    ) -> Result<(), Failure> {
        if self.memory.mirror().is_denied(self.began.at) {
            return Ok(());
        }
        let began = self.take_moment();
        let reads = keys.iter().filter_map(|key| {
            let mirror = self.memory.mirror();
            let arn = match mirror.listed(key) {
                Some(_) => mirror.arn_if_older(key, since)?,
                None => self.results.services.already_existing(key)?,
            };
            Some(async move { (key, self.cloud_map.service_of_arn(&arn).await) })
        });
        let mut reads = pin!(stream::iter(reads).buffer_unordered(SIDE_BY_SIDE));
        while let Some((key, read)) = reads.next().await {
            match read {
                Ok(Some((id, service))) if id == key.namespace => {
                    self.memory.mirror().keep_entry(key, &service, began);
                }
                Ok(_) => self.memory.mirror().drop_entry(key),
                Err(error) if error.class == Class::Denied => self.record_problem(&error),
                Err(error) => return Err(Arc::new(error)),
            }
        }
        Ok(())
    }

    /// The namespaces that exist, with the services that this process has read in them, however long ago.
    pub(super) async fn remembered(&self) -> Result<Registry, Failure> {
        let namespaces = self.first_namespaces().await?;
        let ids = namespaces.keys().cloned().collect();
        let mut services = self.memory.mirror().services_of_any_age(&ids, self.began);
        let is_read = |service: &&mut CloudMapService| {
            service.unreadable.is_none() && service.instance_count == 0
        };
        for service in services.values_mut().filter(is_read) {
            if service.instances.is_none() {
                service.instances = Some(Instances::default());
                service.read_before = Some(self.began.at);
            }
        }
        let account = self.account.get().cloned();
        Ok(Registry { namespaces, services, account, ..Registry::default() })
    }
}

fn matches(reference: &NamespaceReference, namespace: &Namespace) -> bool {
    let text = reference.to_string();
    namespace.arn.as_ref() == Some(&text) || [&namespace.id, &namespace.name].contains(&&text)
}
