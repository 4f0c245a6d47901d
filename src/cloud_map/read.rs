//! Reads the namespaces of Cloud Map, the services of a namespace or of all, and the namespace of a service, by
//! `ListNamespaces`, `ListServices` and `GetService`. A read returns all pages or an error: a partial list would look
//! like deleted services.

use std::future::ready;
use std::pin::pin;

use aws_sdk_servicediscovery::error::SdkError;
use aws_sdk_servicediscovery::operation::list_namespaces::ListNamespacesOutput;
use aws_sdk_servicediscovery::operation::list_services::ListServicesOutput;
use aws_sdk_servicediscovery::types::{ServiceFilter, ServiceFilterName};
use futures_util::{Stream, TryStreamExt, stream};

use super::summary::{self, service};
use super::{Call, Class, CloudMap, Error};
use crate::model::{CloudMapService, Namespace, ServiceKey};

/// A namespace of a list. Cloud Map's count of its services may lag behind changes.
#[derive(Debug)]
pub struct ListedNamespace {
    pub namespace: Namespace,
    pub services: Option<usize>,
}

/// A service of the list of all services, which does not name its namespace.
#[derive(Debug)]
pub struct ListedService {
    /// The account of the namespace.
    pub owner: Option<String>,
    pub service: CloudMapService,
}

impl CloudMap {
    /// The visible namespaces.
    ///
    /// # Errors
    /// Returns an error if a page could not be read.
    pub async fn namespaces(&self) -> Result<Vec<ListedNamespace>, Error> {
        let failed = |error: &SdkError<_, _>| Error::new("list the namespaces of Cloud Map", error);
        let pages = self.client.list_namespaces().into_paginator().send();
        let token = ListNamespacesOutput::next_token;
        let pages = self.pages(Call::ListNamespaces, pages, token, failed);
        let pages: Vec<ListNamespacesOutput> = pages.try_collect().await?;
        let missing = || Error::missing_member("list the namespaces of Cloud Map", "Namespaces");
        let lists = pages.into_iter().map(|page| page.namespaces.ok_or_else(missing));
        let lists = lists.collect::<Result<Vec<_>, _>>()?;
        Ok(lists.into_iter().flatten().filter_map(summary::namespace).collect())
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

    /// The services of all namespaces, without instances, as the pages arrive.
    pub fn all_services(&self) -> impl Stream<Item = Result<ListedService, Error>> {
        let action = "list the services of Cloud Map";
        let pages = self.client.list_services().into_paginator().send();
        let token = ListServicesOutput::next_token;
        let failed = move |error: &SdkError<_, _>| Error::new(action, error);
        let pages = self.pages(Call::ListServices, pages, token, failed);
        let services = pages.and_then(move |page| {
            let missing = || Error::missing_member(action, "Services");
            let listed = page.services.ok_or_else(missing);
            let services = |listed: Vec<_>| listed.into_iter().filter_map(summary::owned_service);
            ready(listed.map(|listed| stream::iter(services(listed).map(Ok))))
        });
        services.try_flatten()
    }

    /// The id of the namespace of a service; `None` if the service does not exist.
    ///
    /// # Errors
    /// Returns an error if the service could not be read.
    pub async fn namespace_of(&self, service: &CloudMapService) -> Result<Option<String>, Error> {
        let action = || format!("read the namespace of the Cloud Map service {}", service.name);
        let _permit = self.permit(Call::GetService).await;
        let answer = self.client.get_service().id(&service.arn).send().await;
        let answer = match answer.map_err(|error| Error::new(action(), &error)) {
            Err(error) if error.class == Class::NotFound => return Ok(None),
            answer => answer?,
        };
        let id = answer.service.and_then(|service| service.namespace_id);
        id.map(Some).ok_or_else(|| Error::missing_member(action(), "NamespaceId"))
    }
}
