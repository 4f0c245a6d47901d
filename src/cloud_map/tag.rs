//! The tags of Cloud Map services. Those that we create get our owner tag and those of `CREATE_TAGS`. A change of a
//! service requires our owner tag, and none may have that of ECS Service Connect. Each service takes one call, so tags
//! are read only if a decision depends on them. The same holds for a service's own attributes, not those of its
//! instances: one has a note for which no instance has room.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_servicediscovery::error::BuildError;
use aws_sdk_servicediscovery::types::Tag;

use super::{Call, Class, CloudMap, Error, Permit, read_each};
use crate::model::{CloudMapService, Place, Registry, ServiceAttributes, ServiceKey, Tags};

/// The tag on services and namespaces that we create; its value is the owner id.
pub const OWNER_TAG: &str = "cloud-map-sync/owner";
/// The tag of ECS on the services of Service Connect.
const MANAGED_BY_ECS: &str = "AmazonECSManaged";

/// The tags of `CREATE_TAGS`, by key.
pub type CustomTags = BTreeMap<String, String>;

impl CloudMap {
    /// The tags of a service or namespace that is created for this owner.
    pub(super) fn new_tags(&self, owner: &str) -> Result<Vec<Tag>, BuildError> {
        let custom = self.custom_tags.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let tags = [(OWNER_TAG, owner)].into_iter().chain(custom);
        tags.map(|(key, value)| Tag::builder().key(key).value(value).build()).collect()
    }

    /// Reads the tags of the services under `keys` into `registry`, or the error that prevented it. A service that does
    /// not exist is removed.
    pub async fn read_tags(&self, registry: &mut Registry, keys: &BTreeSet<ServiceKey>) {
        let read = async |service: &CloudMapService| {
            let unreadable = |error: Error| Some(Tags::Unreadable(error.in_full()));
            self.tags(&service.arn).await.unwrap_or_else(unreadable)
        };
        for (key, tags) in read_each(registry, keys, read).await {
            match (tags, registry.services.get_mut(&key)) {
                (Some(tags), Some(service)) => service.tags = tags,
                _ => _ = registry.services.remove(&key),
            }
        }
    }

    async fn tags(&self, arn: &str) -> Result<Option<Tags>, Error> {
        let _permit = self.permit(Call::ListTagsForResource).await;
        let answer = self.client.list_tags_for_resource().resource_arn(arn).send().await;
        let action = || format!("list the tags of Cloud Map service {arn}");
        let answer = match answer.map_err(|error| Error::new(action(), &error)) {
            Err(error) if error.class == Class::NotFound => return Ok(None),
            answer => answer?,
        };
        let tags = answer.tags.ok_or_else(|| Error::missing_member(action(), "Tags"))?;
        let tag = |key: &str| tags.iter().find(|tag| tag.key() == key);
        Ok(Some(Tags::Read {
            owner: tag(OWNER_TAG).map(|tag| tag.value().to_owned()),
            managed_by_ecs: tag(MANAGED_BY_ECS).is_some(),
        }))
    }

    /// Reads the attributes of a service into `registry`, or the error that prevented it. A service that does not exist is
    /// removed.
    pub async fn read_service_attributes(&self, registry: &mut Registry, key: &ServiceKey) {
        let Some(service) = registry.services.get_mut(key) else { return };
        match self.service_attributes(&service.arn).await {
            Ok(attributes) => service.attributes = attributes,
            Err(error) if error.class == Class::NotFound => _ = registry.services.remove(key),
            Err(error) => service.attributes = ServiceAttributes::Unreadable(error.in_full()),
        }
    }

    async fn service_attributes(&self, arn: &str) -> Result<ServiceAttributes, Error> {
        let _permit = self.permit(Call::GetServiceAttributes).await;
        let answer = self.client.get_service_attributes().service_id(arn).send().await;
        let action = || format!("read the attributes of Cloud Map service {arn}");
        let answer = answer.map_err(|error| Error::new(action(), &error))?;
        let attributes = answer.service_attributes.and_then(|it| it.attributes);
        let attributes = attributes.ok_or_else(|| Error::missing_member(action(), "Attributes"))?;
        Ok(ServiceAttributes::Read(attributes.into_iter().collect()))
    }

    /// Sets or removes one attribute of a service.
    ///
    /// # Errors
    /// Returns an error of class [`Class::NotFound`] if the service does not exist.
    pub async fn write_service_attribute(
        &self,
        _permit: Permit<'_>,
        (arn, place): (&str, &Place),
        attribute: &str,
        text: Option<&str>,
    ) -> Result<(), Error> {
        let action = || format!("write an attribute of the Cloud Map service {place}");
        if let Some(text) = text {
            let call = self.client.update_service_attributes().service_id(arn);
            let written = call.attributes(attribute, text).send().await;
            return written.map(drop).map_err(|error| Error::new(action(), &error));
        }
        let call = self.client.delete_service_attributes().service_id(arn);
        let removed = call.attributes(attribute).send().await;
        removed.map(drop).map_err(|error| Error::new(action(), &error))
    }
}
