//! Reads a cluster: its headless Services, and the endpoints of selected ones. A read returns everything that was
//! requested, or an error.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Endpoints as CoreEndpoints;
use kube::Client;
use kube::api::{Api, GetParams, ListParams};
use kube::core::{Request, Status};
use tokio::sync::OnceCell;

use super::Error;
use super::cluster_property::Properties;
use super::events::RecentEvents;
use super::list::{List, list_all};
use super::object::{EndpointSlice, FromObject, Service};
use super::resource::Resource;
use super::serves::Serves;
use super::service_families::ServiceFamilies;
use crate::model::ServiceRef;

pub(super) const SERVICES_PER_PAGE: u32 = 500;
/// A slice may have a thousand endpoints, and usually has up to a hundred.
const SLICES_PER_PAGE: u32 = 100;
/// The concurrency limit of requests to one API server.
pub(super) const CONCURRENCY: usize = 16;
/// The most Services that are named in a selector or read one by one. For more of them, all slices of the namespace or
/// all Services of the cluster are listed. It keeps the request line below the limits of proxies.
pub(super) const MAX_NAMED: usize = 40;
/// The label that ties an `EndpointSlice` to its Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The label of a slice with the endpoints of another cluster.
pub const SOURCE_CLUSTER: &str = "multicluster.kubernetes.io/source-cluster";

/// The Kubernetes API of one cluster.
#[derive(Clone)]
pub struct Kubernetes {
    pub(super) client: Client,
    pub(super) recent_events: Arc<RecentEvents>,
    pub(super) serves: Arc<Serves>,
    /// Set if the CRD of ServiceImports has `status.endpointSliceObjects`.
    pub(super) slice_objects: Arc<OnceCell<()>>,
    pub(super) families: Arc<ServiceFamilies>,
    pub(super) properties: Arc<Properties>,
}

/// The endpoints of one Service, as the API server stores them.
#[derive(Clone, Debug, PartialEq)]
pub enum Endpoints {
    Slices(Vec<EndpointSlice>),
    /// The v1 Endpoints object, from a server without slices.
    Core(Box<CoreEndpoints>),
}

impl Kubernetes {
    pub fn new(client: Client) -> Self {
        let (recent_events, serves, slice_objects, families, properties) = Default::default();
        Self { client, recent_events, serves, slice_objects, families, properties }
    }

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

    /// The endpoints of `services`. A Service without endpoints has an empty entry.
    ///
    /// # Errors
    /// Returns an error if one of the lists could not be read completely.
    pub async fn endpoints(
        &self,
        services: &BTreeSet<ServiceRef>,
    ) -> Result<BTreeMap<ServiceRef, Endpoints>, Error> {
        self.endpoints_by(services, slice_lists(services)).await
    }

    /// The same by lists of slices that contain all of them.
    pub(super) async fn endpoints_by(
        &self,
        services: &BTreeSet<ServiceRef>,
        lists: Vec<SliceList>,
    ) -> Result<BTreeMap<ServiceRef, Endpoints>, Error> {
        if self.serves.lacks_slices() {
            return self.read_core_endpoints(services).await;
        }
        let lists = stream::iter(lists)
            .map(|list| self.list_slices(services, list))
            .buffer_unordered(CONCURRENCY);
        match lists.try_collect::<Vec<_>>().await {
            Ok(slices) => Ok(group_by_service(services, slices.into_iter().flatten())),
            // A proxy or an overloaded server can return 404 too, so API discovery decides.
            Err(error) if error.is_status(404) && !self.serves_slices().await? => {
                self.read_core_endpoints(services).await
            }
            Err(error) => Err(error),
        }
    }

    async fn list_slices(
        &self,
        services: &BTreeSet<ServiceRef>,
        SliceList { namespace, selector }: SliceList,
    ) -> Result<Vec<(ServiceRef, EndpointSlice)>, Error> {
        let (path, name) = match &namespace {
            Some(namespace) => (
                Resource::EndpointSlices.path_in(namespace),
                format!("the EndpointSlices in {namespace}"),
            ),
            None => (Resource::EndpointSlices.path(), "the EndpointSlices".to_owned()),
        };
        let params = ListParams::default().labels(&selector);
        let list = List { path: &path, params, page: SLICES_PER_PAGE, name: &name };
        let keep = |mut slice: EndpointSlice| {
            let name = slice.metadata.labels.remove(SERVICE_NAME).unwrap_or_default();
            slice.metadata.labels.retain(|key, _| key == SOURCE_CLUSTER);
            let service = ServiceRef::new(&slice.metadata.namespace, name);
            services.contains(&service).then_some((service, slice))
        };
        list_all(&self.client, &list, keep).await
    }

    /// Called only if API discovery lists no `EndpointSlices`.
    async fn read_core_endpoints(
        &self,
        services: &BTreeSet<ServiceRef>,
    ) -> Result<BTreeMap<ServiceRef, Endpoints>, Error> {
        let reads = stream::iter(services.clone()).map(|service| async move {
            let api: Api<CoreEndpoints> = Api::namespaced(self.client.clone(), &service.namespace);
            let found = api.get_opt(&service.name).await.map_err(|source| {
                Error::new(format!("get the Endpoints of Service {service}"), source)
            })?;
            Ok((service, Endpoints::Core(Box::new(found.unwrap_or_default()))))
        });
        reads.buffer_unordered(CONCURRENCY).try_collect().await
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

/// A list of slices to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SliceList {
    /// `None`: all namespaces.
    pub(super) namespace: Option<String>,
    /// The label selector.
    pub(super) selector: String,
}

/// The lists of slices to read, one for each namespace.
fn slice_lists(services: &BTreeSet<ServiceRef>) -> Vec<SliceList> {
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for service in services {
        names.entry(&service.namespace).or_default().push(&service.name);
    }
    let selector = |names: Vec<&str>| match names.as_slice() {
        [name] => format!("{SERVICE_NAME}={name}"),
        names if names.len() <= MAX_NAMED => format!("{SERVICE_NAME} in ({})", names.join(",")),
        _ => SERVICE_NAME.to_owned(),
    };
    let list = |(namespace, names): (&str, Vec<&str>)| SliceList {
        namespace: Some(namespace.to_owned()),
        selector: selector(names),
    };
    names.into_iter().map(list).collect()
}

fn group_by_service(
    services: &BTreeSet<ServiceRef>,
    slices: impl Iterator<Item = (ServiceRef, EndpointSlice)>,
) -> BTreeMap<ServiceRef, Endpoints> {
    let mut all: BTreeMap<ServiceRef, Vec<EndpointSlice>> =
        services.iter().map(|service| (service.clone(), Vec::new())).collect();
    for (service, slice) in slices {
        all.entry(service).or_default().push(slice);
    }
    all.into_iter().map(|(service, list)| (service, Endpoints::Slices(list))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_services_are_named_and_many_are_not() {
        let service = |index: usize| ServiceRef::new("shop", format!("web-{index:02}"));
        let selectors = |count: usize| slice_lists(&(0..count).map(service).collect());
        let one = |text: &str| {
            vec![SliceList { namespace: Some("shop".to_owned()), selector: text.to_owned() }]
        };
        assert_eq!(selectors(1), one("kubernetes.io/service-name=web-00"));
        assert_eq!(selectors(2), one("kubernetes.io/service-name in (web-00,web-01)"));
        assert_eq!(selectors(MAX_NAMED + 1), one("kubernetes.io/service-name"));
    }
}
