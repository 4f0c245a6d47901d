//! Reads Services: all headless ones, those of some namespaces, or single ones. A read returns everything that was
//! requested, or an error.

use std::collections::BTreeSet;

use futures_util::future::try_join_all;
use kube::api::{GetParams, ListParams};
use kube::core::{Request, Status};

use super::list::{List, list_all};
use super::object::{FromObject, Service};
use super::{Error, Kubernetes};
use crate::model::ServiceRef;

pub(super) const SERVICES_PER_PAGE: u32 = 500;
/// The most Services that are named in a selector or read one by one. For more of them, all slices of the namespace or
/// all Services of the cluster are listed. It keeps the request line below the limits of proxies.
pub(super) const MAX_NAMED: usize = 40;

impl Kubernetes {
    /// Every headless Service of the cluster, annotated or not.
    ///
    /// # Errors
    /// Returns an error if a page could not be read.
    pub async fn headless_services(&self) -> Result<Vec<Service>, Error> {
        self.list_headless("/api/v1/services").await
    }

    /// The headless Services of these namespaces and these single ones. If there are many, all Services of the cluster
    /// are returned.
    ///
    /// # Errors
    /// Returns an error if one of them could not be read.
    pub async fn selected(
        &self,
        namespaces: &BTreeSet<String>,
        services: &BTreeSet<ServiceRef>,
    ) -> Result<Vec<Service>, Error> {
        if namespaces.len() + services.len() > MAX_NAMED {
            return self.headless_services().await;
        }
        let lists = namespaces
            .iter()
            .map(|namespace| async move { self.list_headless(&services_path(namespace)).await });
        let single = services.iter().map(|service| self.headless_service(service));
        let (lists, single) = tokio::try_join!(try_join_all(lists), try_join_all(single))?;
        Ok(lists.into_iter().flatten().chain(single.into_iter().flatten()).collect())
    }

    async fn list_headless(&self, path: &str) -> Result<Vec<Service>, Error> {
        let keep = |service: Service| is_headless(&service).then(|| without_labels(service));
        let params = ListParams::default().fields("spec.clusterIP=None");
        let list = List { path, params, page: SERVICES_PER_PAGE, name: "the headless Services" };
        match list_all(&self.client, &list, keep).await {
            // Servers before Kubernetes 1.31 refuse the selector with 400.
            Err(error) if error.is_status(400) => {
                let params = ListParams::default();
                let list = List { params, name: "the Services", ..list };
                list_all(&self.client, &list, keep).await
            }
            services => services,
        }
    }

    /// One Service; `None` if it does not exist, is not headless, or has an invalid name.
    ///
    /// # Errors
    /// Returns an error on any reply but the Service or a 404 of the API server.
    pub async fn headless_service(&self, service: &ServiceRef) -> Result<Option<Service>, Error> {
        Ok(self.service(service).await?.filter(is_headless))
    }

    /// One Service, headless or not.
    ///
    /// # Errors
    /// Returns an error on any reply but the Service or a 404 of the API server.
    pub async fn service(&self, service: &ServiceRef) -> Result<Option<Service>, Error> {
        if !service.can_exist() {
            return Ok(None);
        }
        let failed = |source| Error::new(format!("get Service {service}"), source);
        let path = services_path(&service.namespace);
        let request = Request::new(path).get(&service.name, &GetParams::default());
        let request = request.map_err(|error| failed(kube::Error::BuildRequest(error)))?;
        match self.client.request::<FromObject<Service>>(request).await {
            Ok(FromObject(found)) if found.metadata.name == service.name => {
                Ok(Some(without_labels(found)))
            }
            Ok(_) => {
                let other = Status::failure("the answer is another object", "NotTheService");
                Err(failed(kube::Error::Api(other.boxed())))
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(source) => Err(failed(source)),
        }
    }
}

pub(super) fn services_path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/services")
}

pub fn is_headless(service: &Service) -> bool {
    service.spec.cluster_ip.as_deref() == Some("None")
}

/// Drops the labels, which are not used, to save memory.
fn without_labels(mut service: Service) -> Service {
    service.metadata.labels.clear();
    service
}
