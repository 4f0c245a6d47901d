//! Reads Cloud Map: namespaces and their services, the instances of a service. All pages or an
//! error; never writes.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_servicediscovery::error::SdkError;
use aws_sdk_servicediscovery::operation::list_instances::ListInstancesOutput;
use aws_sdk_servicediscovery::operation::list_namespaces::ListNamespacesOutput;
use aws_sdk_servicediscovery::operation::list_services::ListServicesOutput;
use aws_sdk_servicediscovery::types::{ServiceFilter, ServiceFilterName};
use futures_util::{StreamExt, stream};

use super::summary::{namespace, service};
use super::{Call, Class, CloudMap, Error, Permit, SIDE_BY_SIDE};
use crate::model::{
    Attributes, CloudMapService, Namespace, NamespaceReference, Registry, ServiceKey,
};
use crate::plan::Place;

/// The instances of one service, or why they are not known.
type Instances = Result<Option<Held>, String>;

/// What a service holds.
struct Held {
    instances: BTreeMap<String, Attributes>,
    registered_by: BTreeSet<String>,
}

impl CloudMap {
    /// The namespaces: all that are visible, or those of `only`.
    ///
    /// # Errors
    /// Where the list could not be read to its end.
    pub async fn namespaces(
        &self,
        only: &[NamespaceReference],
    ) -> Result<BTreeMap<String, Namespace>, Error> {
        let failed = |error: &SdkError<_, _>| Error::new("list the namespaces of Cloud Map", error);
        let pages = self.client.list_namespaces().into_paginator().send();
        let token = ListNamespacesOutput::next_token;
        let pages = self.pages(Call::ListNamespaces, pages, token, failed).await?;
        let summaries = pages.into_iter().filter_map(|page| page.namespaces).flatten();
        let namespaces = summaries.filter_map(namespace);
        let namespaces = namespaces.filter(|namespace| {
            only.is_empty() || only.iter().any(|reference| means(reference, namespace))
        });
        Ok(namespaces.map(|namespace| (namespace.id.clone(), namespace)).collect())
    }

    /// The services of one namespace, without instances.
    ///
    /// # Errors
    /// Where the list could not be read to its end.
    pub async fn services(
        &self,
        namespace: &Namespace,
    ) -> Result<Vec<(ServiceKey, CloudMapService)>, Error> {
        let failed = || format!("list the services of the Cloud Map namespace {}", namespace.name);
        let filter = ServiceFilter::builder()
            .name(ServiceFilterName::NamespaceId)
            .values(namespace.arn.clone().unwrap_or_else(|| namespace.id.clone()))
            .build();
        let filter = filter.map_err(|error| Error::input(failed(), &error))?;
        let pages = self.client.list_services().filters(filter).into_paginator().send();
        let token = ListServicesOutput::next_token;
        let failed = |error: &SdkError<_, _>| Error::new(failed(), error);
        let pages = self.pages(Call::ListServices, pages, token, failed).await?;
        let summaries = pages.into_iter().filter_map(|page| page.services).flatten();
        let services = summaries.filter_map(service);
        Ok(services.map(|service| (ServiceKey::new(namespace, &service.name), service)).collect())
    }

    /// Reads the instances of the services under `keys` into `registry`. A service that cannot be
    /// read is marked so, and stops no other; one that is gone is taken out.
    pub async fn read_instances(&self, registry: &mut Registry, keys: &BTreeSet<ServiceKey>) {
        let services = keys.iter().filter_map(|key| Some((key, registry.services.get(key)?)));
        let reads: Vec<(ServiceKey, Instances)> = stream::iter(services)
            .map(|(key, service)| async move {
                let read = self.instances(&service.arn, &service.name).await;
                (key.clone(), read.map_err(|error| error.in_full()))
            })
            .buffer_unordered(SIDE_BY_SIDE)
            .collect()
            .await;
        for (key, read) in reads {
            let Some(service) = registry.services.get_mut(&key) else { continue };
            match read {
                Ok(Some(Held { instances, registered_by })) => {
                    (service.instances, service.registered_by) = (Some(instances), registered_by);
                    service.unreadable = None;
                }
                Ok(None) => _ = registry.services.remove(&key),
                Err(problem) => {
                    service.instances = None;
                    service.unreadable = Some(problem);
                }
            }
        }
    }

    /// Every instance of a service, read from the control plane; `None` where the service is gone.
    async fn instances(&self, arn: &str, name: &str) -> Result<Option<Held>, Error> {
        let failed = |error: &SdkError<_, _>| {
            Error::new(format!("list the instances of Cloud Map service {name}"), error)
        };
        let pages = self.client.list_instances().service_id(arn).into_paginator().send();
        let token = ListInstancesOutput::next_token;
        let pages = match self.pages(Call::ListInstances, pages, token, failed).await {
            Err(error) if error.class == Class::NotFound => return Ok(None),
            pages => pages?,
        };
        let summaries = pages.into_iter().filter_map(|page| page.instances).flatten();
        let mut registered_by = BTreeSet::new();
        let instances = summaries.filter_map(|instance| {
            registered_by.extend(instance.created_by_account);
            let attributes = instance.attributes.unwrap_or_default().into_iter().collect();
            Some((instance.id?, attributes))
        });
        let instances = instances.collect();
        Ok(Some(Held { instances, registered_by }))
    }

    /// The attributes of one instance, for somebody who has a permit; `None` where it does not exist.
    ///
    /// # Errors
    /// Where Cloud Map does not tell.
    pub async fn instance(
        &self,
        _permit: &Permit<'_>,
        service: &str,
        place: &Place,
        instance: &str,
    ) -> Result<Option<Attributes>, Error> {
        self.quotas.take(Call::GetInstance, self.urgency).await;
        let answer = self.client.get_instance().service_id(service).instance_id(instance).send();
        let failed = || format!("get the instance {instance} of {place}");
        match answer.await.map_err(|error| Error::new(failed(), &error)) {
            Ok(answer) => {
                let attributes = answer.instance.and_then(|instance| instance.attributes);
                Ok(Some(attributes.unwrap_or_default().into_iter().collect()))
            }
            Err(error) if error.class == Class::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn means(reference: &NamespaceReference, namespace: &Namespace) -> bool {
    let text = reference.to_string();
    namespace.arn.as_ref() == Some(&text) || [&namespace.id, &namespace.name].contains(&&text)
}
