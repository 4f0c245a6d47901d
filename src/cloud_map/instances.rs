//! Reads the instances of Cloud Map services by `ListInstances`, many services concurrently. A read returns all pages
//! or an error. An error is recorded in its service and does not affect the others.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_servicediscovery::error::{BuildError, SdkError};
use aws_sdk_servicediscovery::operation::list_instances::ListInstancesOutput;
use aws_sdk_servicediscovery::types::Tag;
use futures_util::{Stream, StreamExt, TryStreamExt, future};

use super::{Call, CallSlot, Class, CloudMap, Error, SIDE_BY_SIDE, read_each};
use crate::model::attributes::from_cloud_map;
use crate::model::{
    Attributes, CloudMapService, Instances, Place, Registry, ServiceKey, ServiceTags, Tags,
};

/// A service whose instances are to be read.
#[derive(Clone, Debug)]
pub struct ServiceToRead {
    pub key: ServiceKey,
    pub arn: String,
    name: String,
}

impl ServiceToRead {
    pub fn new(key: &ServiceKey, service: &CloudMapService) -> Self {
        Self { key: key.clone(), arn: service.arn.clone(), name: service.name.clone() }
    }
}

/// The result of a read of a service's instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstancesRead {
    Instances {
        instances: Instances,
        /// The accounts that registered the instances.
        registered_by: BTreeSet<String>,
    },
    /// The service does not exist.
    Gone,
    Failed {
        error: String,
        is_denied: bool,
    },
}

impl InstancesRead {
    fn of(read: Result<Option<Self>, Error>) -> Self {
        match read {
            Ok(read) => read.unwrap_or(Self::Gone),
            Err(error) => {
                let is_denied = error.class == Class::Denied;
                Self::Failed { error: error.in_full(), is_denied }
            }
        }
    }

    /// The number of instances, if they were read.
    pub fn number(&self) -> Option<usize> {
        match self {
            Self::Instances { instances, .. } => Some(instances.len()),
            Self::Gone | Self::Failed { .. } => None,
        }
    }

    /// Puts the instances into their service, or marks it as unreadable. A service that does not exist is removed.
    pub fn enter(self, key: &ServiceKey, services: &mut BTreeMap<ServiceKey, CloudMapService>) {
        match services.get_mut(key) {
            Some(_) if self == Self::Gone => _ = services.remove(key),
            Some(service) => self.fill(service),
            None => {}
        }
    }

    /// Puts the instances into a service, or marks it as unreadable. `Gone` leaves its instances as they are.
    pub fn fill(self, service: &mut CloudMapService) {
        service.read_before = None;
        match self {
            Self::Instances { instances, registered_by } => {
                (service.instances, service.registered_by) = (Some(instances), registered_by);
                (service.unreadable, service.is_denied) = (None, false);
            }
            Self::Gone => {}
            Self::Failed { error, is_denied } => {
                (service.instances, service.is_denied) = (None, is_denied);
                service.unreadable = Some(error);
            }
        }
    }
}

impl CloudMap {
    /// Reads the instances of services while the services are still being listed.
    pub fn instances_of(
        &self,
        services: impl Stream<Item = ServiceToRead>,
    ) -> impl Stream<Item = (ServiceToRead, InstancesRead)> {
        let reads = services.map(async move |unread| {
            let reading = InstancesRead::of(self.instances(&unread.arn, &unread.name).await);
            (unread, reading)
        });
        reads.buffer_unordered(SIDE_BY_SIDE)
    }

    /// Reads all instances of a service from the control plane. Returns `None` if the service does not exist.
    ///
    /// # Errors
    /// Returns an error if a page could not be read.
    pub async fn instances(&self, arn: &str, name: &str) -> Result<Option<InstancesRead>, Error> {
        let action = || format!("list the instances of Cloud Map service {name}");
        let failed = |error: &SdkError<_, _>| Error::new(action(), error);
        let pages = self.client.list_instances().service_id(arn).into_paginator().send();
        let token = ListInstancesOutput::next_token;
        let pages = self.pages(Call::ListInstances, pages, token, failed);
        let pages: Vec<ListInstancesOutput> = match pages.try_collect().await {
            Err(error) if error.class == Class::NotFound => return Ok(None),
            pages => pages?,
        };
        let missing = |member: &str| Error::missing_member(action(), member);
        let mut registered_by = BTreeSet::new();
        let mut instances = Vec::new();
        for page in pages {
            for instance in page.instances.ok_or_else(|| missing("Instances"))? {
                registered_by.extend(instance.created_by_account);
                let id = instance.id.ok_or_else(|| missing("Id"))?;
                instances.push((id, from_cloud_map(instance.attributes.unwrap_or_default())));
            }
        }
        let instances = instances.into_iter().collect();
        Ok(Some(InstancesRead::Instances { instances, registered_by }))
    }

    /// Reads only the instances `ids` of a service, into the service. An error is recorded in the service as by
    /// [`InstancesRead::fill`], even if the service does not exist.
    pub async fn read_instances_by_id(
        &self,
        service: &mut CloudMapService,
        ids: &BTreeSet<String>,
    ) {
        let reads = ids.iter().map(|id| {
            let arn = &service.arn;
            let action = format!("get the instance {id} of Cloud Map service {}", service.name);
            async move {
                let _slot = self.acquire(Call::GetInstance).await;
                Ok::<_, Error>((id.clone(), self.get_instance(arn, id, action).await?))
            }
        });
        let read = future::try_join_all(reads).await.map(|read| {
            let instances =
                read.into_iter().filter_map(|(id, attributes)| Some((id, attributes?))).collect();
            Some(InstancesRead::Instances { instances, registered_by: BTreeSet::new() })
        });
        InstancesRead::of(read).fill(service);
    }

    /// Reads the attributes of one instance. Returns `None` if the instance or its service does not exist. Waits only
    /// for the rate limit, since the caller already has a slot.
    ///
    /// # Errors
    /// Returns an error if the call fails.
    pub async fn instance(
        &self,
        _slot: &CallSlot<'_>,
        service: &str,
        place: &Place,
        instance: &str,
    ) -> Result<Option<Attributes>, Error> {
        self.quotas.wait_for_rate(Call::GetInstance).await;
        let action = format!("get the instance {instance} of {place}");
        match self.get_instance(service, instance, action).await {
            Err(error) if error.class == Class::NotFound => Ok(None),
            found => found,
        }
    }

    /// Returns `None` if the service does not have the instance. A service that does not exist is an error.
    async fn get_instance(
        &self,
        service: &str,
        instance: &str,
        action: String,
    ) -> Result<Option<Attributes>, Error> {
        let answer = self.client.get_instance().service_id(service).instance_id(instance).send();
        let answer = answer.await.map_err(|error| Error::new(action.as_str(), &error));
        match self.recorded(Call::GetInstance, answer) {
            Ok(answer) => {
                let missing = || Error::missing_member(action, "Instance");
                let instance = answer.instance.ok_or_else(missing)?;
                Ok(Some(from_cloud_map(instance.attributes.unwrap_or_default())))
            }
            Err(error) if error.source.code.as_deref() == Some("InstanceNotFound") => Ok(None),
            Err(error) => Err(error),
        }
    }
}

// The tags of Cloud Map services. A service that we create gets our owner tag and the tags of `CREATE_TAGS`. We change
// only services with our owner tag, and do not use services with the tag of ECS Service Connect. Reading tags takes one
// call per service, so tags are read only if a decision depends on them.

/// The tag on services and namespaces that we create. Its value is the owner id.
pub const OWNER_TAG: &str = "cloud-map-sync/owner";
/// The tag of ECS on the services of Service Connect.
const MANAGED_BY_ECS: &str = "AmazonECSManaged";

/// The tags of `CREATE_TAGS`, by key.
pub type CustomTags = BTreeMap<String, String>;

/// Whether an error shows that a service was deleted. Cloud Map deletes no service that has instances, so a service
/// with instances is kept if one call finds it and the next does not. Otherwise the guard would not count its
/// instances, and could let a loss in other services pass as a small one.
fn is_gone(service: &CloudMapService, error: &Error) -> bool {
    error.class == Class::NotFound && service.instance_total() == 0
}

impl CloudMap {
    /// Returns the tags of a new service or namespace of this owner.
    pub(super) fn new_tags(&self, owner: &str) -> Result<Vec<Tag>, BuildError> {
        let custom = self.custom_tags.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let tags = [(OWNER_TAG, owner)].into_iter().chain(custom);
        tags.map(|(key, value)| Tag::builder().key(key).value(value).build()).collect()
    }

    /// Reads the tags of the services under `keys`, or the error of the read, into `registry`. Removes deleted
    /// services.
    pub async fn read_tags(&self, registry: &mut Registry, keys: &BTreeSet<ServiceKey>) {
        let read = async |service: &CloudMapService| self.tags(&service.arn).await;
        for (key, tags) in read_each(registry, keys, read).await {
            let Some(service) = registry.services.get_mut(&key) else { continue };
            match tags {
                Ok(tags) => service.tags = Tags::Read(tags),
                Err(error) if is_gone(service, &error) => _ = registry.services.remove(&key),
                Err(error) => service.tags = Tags::Unreadable(error.in_full()),
            }
        }
    }

    /// Reads the tags of a service.
    ///
    /// # Errors
    /// Returns an error if they could not be read, or if the service does not exist.
    pub async fn tags(&self, arn: &str) -> Result<ServiceTags, Error> {
        let _slot = self.acquire(Call::ListTagsForResource).await;
        let answer = self.client.list_tags_for_resource().resource_arn(arn).send().await;
        let action = || format!("list the tags of Cloud Map service {arn}");
        let answer = answer.map_err(|error| Error::new(action(), &error));
        let answer = self.recorded(Call::ListTagsForResource, answer)?;
        let tags = answer.tags.ok_or_else(|| Error::missing_member(action(), "Tags"))?;
        let tag = |key: &str| tags.iter().find(|tag| tag.key() == key);
        Ok(ServiceTags {
            owner: tag(OWNER_TAG).map(|tag| tag.value().to_owned()),
            managed_by_ecs: tag(MANAGED_BY_ECS).is_some(),
        })
    }
}
