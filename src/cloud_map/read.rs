//! Reads the namespaces of Cloud Map, and the services of a namespace, by `ListNamespaces` and `ListServices`. A read
//! returns all pages or an error: a partial list would look like deleted services.

use std::collections::BTreeMap;
use std::pin::pin;

use aws_sdk_servicediscovery::error::SdkError;
use aws_sdk_servicediscovery::operation::list_namespaces::ListNamespacesOutput;
use aws_sdk_servicediscovery::operation::list_services::ListServicesOutput;
use aws_sdk_servicediscovery::types::{ServiceFilter, ServiceFilterName};
use futures_util::TryStreamExt;

use super::summary::{namespace, service};
use super::{Call, CloudMap, Error};
use crate::model::{CloudMapService, Namespace, NamespaceReference, ServiceKey};

impl CloudMap {
    /// The visible namespaces by id, or those of `only` if it is not empty.
    ///
    /// # Errors
    /// Returns an error if a page could not be read.
    pub async fn namespaces(
        &self,
        only: &[NamespaceReference],
    ) -> Result<BTreeMap<String, Namespace>, Error> {
        let failed = |error: &SdkError<_, _>| Error::new("list the namespaces of Cloud Map", error);
        let pages = self.client.list_namespaces().into_paginator().send();
        let token = ListNamespacesOutput::next_token;
        let pages = self.pages(Call::ListNamespaces, pages, token, failed);
        let pages: Vec<ListNamespacesOutput> = pages.try_collect().await?;
        let missing = || Error::missing_member("list the namespaces of Cloud Map", "Namespaces");
        let lists = pages.into_iter().map(|page| page.namespaces.ok_or_else(missing));
        let lists = lists.collect::<Result<Vec<_>, _>>()?;
        let namespaces = lists.into_iter().flatten().filter_map(namespace);
        let namespaces = namespaces.filter(|namespace| {
            only.is_empty() || only.iter().any(|reference| matches(reference, namespace))
        });
        Ok(namespaces.map(|namespace| (namespace.id.clone(), namespace)).collect())
    }

    /// The services of one namespace, without instances; `on_service` is called as soon as the page of a service has
    /// arrived.
    ///
    /// # Errors
    /// Returns an error if a page could not be read.
    pub async fn services(
        &self,
        namespace: &Namespace,
        on_service: impl Fn(&ServiceKey, &CloudMapService),
    ) -> Result<Vec<(ServiceKey, CloudMapService)>, Error> {
        let failed = || format!("list the services of the Cloud Map namespace {}", namespace.name);
        let filter = ServiceFilter::builder()
            .name(ServiceFilterName::NamespaceId)
            .values(namespace.arn.clone().unwrap_or_else(|| namespace.id.clone()))
            .build();
        let filter = filter.map_err(|error| Error::input(failed(), &error))?;
        let pages = self.client.list_services().filters(filter).into_paginator().send();
        let token = ListServicesOutput::next_token;
        let failed_call = |error: &SdkError<_, _>| Error::new(failed(), error);
        let mut pages = pin!(self.pages(Call::ListServices, pages, token, failed_call));
        let mut services = Vec::new();
        while let Some(page) = pages.try_next().await? {
            let listed =
                page.services.ok_or_else(|| Error::missing_member(failed(), "Services"))?;
            let listed = listed.into_iter().filter_map(service);
            for service in listed {
                let key = ServiceKey::new(namespace, &service.name);
                on_service(&key, &service);
                services.push((key, service));
            }
        }
        Ok(services)
    }
}

fn matches(reference: &NamespaceReference, namespace: &Namespace) -> bool {
    let text = reference.to_string();
    namespace.arn.as_ref() == Some(&text) || [&namespace.id, &namespace.name].contains(&&text)
}
