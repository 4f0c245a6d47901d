//! Reads a cluster: headless Services, and the endpoints of those that matter. Never writes, never
//! answers with a part.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Endpoints as CoreEndpoints;
use kube::Client;
use kube::api::{Api, GetParams, ListParams};
use kube::core::{Request, Status};

use super::Error;
use super::events::RecentEvents;
use super::list::{List, list_all};
use super::object::{EndpointSlice, FromObject, Service};
use super::serves::Serves;
use crate::model::ServiceRef;

/// How many Services to ask for at a time.
const SERVICES: u32 = 500;
/// How many slices: one may hold a thousand endpoints, and usually holds up to a hundred.
const SLICES: u32 = 100;
/// How many requests run at once against one API server.
const CONCURRENCY: usize = 16;
/// Up to so many Services of a namespace are named in a selector; beyond that, all slices of the
/// namespace are listed. It keeps the request line short of what proxies take.
const NAMED: usize = 40;
/// The label that ties an `EndpointSlice` to its Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The Kubernetes API of one cluster.
#[derive(Clone)]
pub struct Kubernetes {
    pub(super) client: Client,
    pub(super) recent_events: Arc<RecentEvents>,
    pub(super) serves: Arc<Serves>,
}

/// What the API server holds of the endpoints of one Service.
#[derive(Clone, Debug, PartialEq)]
pub enum Endpoints {
    /// All its slices.
    Slices(Vec<EndpointSlice>),
    /// The v1 Endpoints object, of a server that serves no slices.
    Core(Box<CoreEndpoints>),
}

impl Kubernetes {
    /// Reads through `client`.
    pub fn new(client: Client) -> Self {
        Self { client, recent_events: Arc::default(), serves: Arc::default() }
    }

    /// Every headless Service of the cluster, annotated or not.
    ///
    /// # Errors
    /// Where the list could not be read to its end.
    pub async fn headless_services(&self) -> Result<Vec<Service>, Error> {
        self.headless("/api/v1/services").await
    }

    /// The headless Services of these namespaces, and these single ones: each by itself, or where there are
    /// many, all of the cluster.
    ///
    /// # Errors
    /// Where not all could be read.
    pub async fn selected(
        &self,
        namespaces: &BTreeSet<String>,
        services: &BTreeSet<ServiceRef>,
    ) -> Result<Vec<Service>, Error> {
        if namespaces.len() + services.len() > NAMED {
            return self.headless_services().await;
        }
        let lists = namespaces
            .iter()
            .map(|namespace| async move { self.headless(&services_in(namespace)).await });
        let single = services.iter().map(|service| self.headless_service(service));
        let (lists, single) = tokio::try_join!(try_join_all(lists), try_join_all(single))?;
        Ok(lists.into_iter().flatten().chain(single.into_iter().flatten()).collect())
    }

    async fn headless(&self, path: &str) -> Result<Vec<Service>, Error> {
        let keep = |service: Service| is_headless(&service).then(|| trimmed(service));
        let params = ListParams::default().fields("spec.clusterIP=None");
        let list = List { path, params, page: SERVICES, what: "the headless Services" };
        match list_all(&self.client, &list, keep).await {
            // Servers before Kubernetes 1.31 refuse the selector with 400.
            Err(error) if error.is_status(400) => {
                let params = ListParams::default();
                let list = List { params, what: "the Services", ..list };
                list_all(&self.client, &list, keep).await
            }
            services => services,
        }
    }

    /// One Service, `None` where it is gone, not headless, or named as no Service can be.
    ///
    /// # Errors
    /// Where the server does not answer; only its own 404 says that a Service is gone.
    pub async fn headless_service(&self, service: &ServiceRef) -> Result<Option<Service>, Error> {
        Ok(self.service(service).await?.filter(is_headless))
    }

    /// One Service, headless or not.
    ///
    /// # Errors
    /// Where the server does not answer.
    pub async fn service(&self, service: &ServiceRef) -> Result<Option<Service>, Error> {
        if !service.can_exist() {
            return Ok(None);
        }
        let failed = |source| Error::new(format!("get Service {service}"), source);
        let path = services_in(&service.namespace);
        let request = Request::new(path).get(&service.name, &GetParams::default());
        let request = request.map_err(|error| failed(kube::Error::BuildRequest(error)))?;
        match self.client.request::<FromObject<Service>>(request).await {
            Ok(FromObject(found)) if found.metadata.name == service.name => {
                Ok(Some(trimmed(found)))
            }
            Ok(_) => {
                let other = Status::failure("the answer is another object", "NotTheService");
                Err(failed(kube::Error::Api(other.boxed())))
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(source) => Err(failed(source)),
        }
    }

    /// The endpoints of `services`, read together. A Service without any is there with none.
    ///
    /// # Errors
    /// Where one of the lists could not be read to its end.
    pub async fn endpoints(
        &self,
        services: &BTreeSet<ServiceRef>,
    ) -> Result<BTreeMap<ServiceRef, Endpoints>, Error> {
        if self.serves.lacks_slices() {
            return self.core_endpoints(services).await;
        }
        let lists = stream::iter(selectors(services))
            .map(|(namespace, selector)| self.slices(services, namespace, selector))
            .buffer_unordered(CONCURRENCY);
        match lists.try_collect::<Vec<_>>().await {
            Ok(slices) => Ok(by_service(services, slices.into_iter().flatten())),
            // A proxy or an overloaded server answers 404, too: only API discovery shows which it is.
            Err(error) if error.is_status(404) && !self.serves_slices().await? => {
                self.core_endpoints(services).await
            }
            Err(error) => Err(error),
        }
    }

    async fn slices(
        &self,
        services: &BTreeSet<ServiceRef>,
        namespace: String,
        selector: String,
    ) -> Result<Vec<(ServiceRef, EndpointSlice)>, Error> {
        let path = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
        let params = ListParams::default().labels(&selector);
        let what = format!("the EndpointSlices in {namespace}");
        let list = List { path: &path, params, page: SLICES, what: &what };
        let keep = |mut slice: EndpointSlice| {
            let name = slice.metadata.labels.remove(SERVICE_NAME).unwrap_or_default();
            slice.metadata.labels.clear();
            let service = ServiceRef::new(&slice.metadata.namespace, name);
            services.contains(&service).then_some((service, slice))
        };
        list_all(&self.client, &list, keep).await
    }

    /// Only if API discovery lists no `EndpointSlices`.
    async fn core_endpoints(
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

fn services_in(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/services")
}

/// Whether a Service has no address of its own.
pub fn is_headless(service: &Service) -> bool {
    service.spec.cluster_ip.as_deref() == Some("None")
}

/// Nobody asks for the labels of a Service.
fn trimmed(mut service: Service) -> Service {
    service.metadata.labels.clear();
    service
}

/// Which lists to ask for: a namespace and a label selector each.
fn selectors(services: &BTreeSet<ServiceRef>) -> Vec<(String, String)> {
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for service in services {
        names.entry(&service.namespace).or_default().push(&service.name);
    }
    let selector = |names: Vec<&str>| match names.as_slice() {
        [name] => format!("{SERVICE_NAME}={name}"),
        names if names.len() <= NAMED => format!("{SERVICE_NAME} in ({})", names.join(",")),
        _ => SERVICE_NAME.to_owned(),
    };
    names.into_iter().map(|(namespace, names)| (namespace.to_owned(), selector(names))).collect()
}

fn by_service(
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
        let of = |count: usize| selectors(&(0..count).map(service).collect());
        let one = |text: &str| vec![("shop".to_owned(), text.to_owned())];
        assert_eq!(of(1), one("kubernetes.io/service-name=web-00"));
        assert_eq!(of(2), one("kubernetes.io/service-name in (web-00,web-01)"));
        assert_eq!(of(NAMED + 1), one("kubernetes.io/service-name"));
    }
}
