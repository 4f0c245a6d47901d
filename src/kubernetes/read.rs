//! Reads a cluster: headless Services, and the endpoints of those that matter. Never writes, never
//! answers with a part.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Endpoints as CoreEndpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};

use super::tell::Told;
use super::{Error, list::list_all};
use crate::model::ServiceRef;

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
    pub(super) told: Arc<Told>,
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
        Self { client, told: Arc::default() }
    }

    /// Every headless Service of the cluster, annotated or not.
    ///
    /// # Errors
    /// Where the list could not be read to its end.
    pub async fn headless_services(&self) -> Result<Vec<Service>, Error> {
        self.headless(&Api::all(self.client.clone())).await
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
        let lists = namespaces.iter().map(|namespace| async move {
            self.headless(&Api::namespaced(self.client.clone(), namespace)).await
        });
        let single = services.iter().map(|service| self.headless_service(service));
        let (lists, single) = tokio::try_join!(try_join_all(lists), try_join_all(single))?;
        Ok(lists.into_iter().flatten().chain(single.into_iter().flatten()).collect())
    }

    async fn headless(&self, api: &Api<Service>) -> Result<Vec<Service>, Error> {
        let params = ListParams::default().fields("spec.clusterIP=None");
        let services = match list_all(api, params, "the headless Services").await {
            // Servers before Kubernetes 1.31 refuse the selector with 400.
            Err(error) if error.is_status(400) => {
                list_all(api, ListParams::default(), "the Services").await?
            }
            other => other?,
        };
        Ok(services.into_iter().filter(is_headless).collect())
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
        let api: Api<Service> = Api::namespaced(self.client.clone(), &service.namespace);
        let found = api.get_opt(&service.name).await;
        found.map_err(|source| Error::new(format!("get Service {service}"), source))
    }

    /// The endpoints of `services`, read together. A Service without any is there with none.
    ///
    /// # Errors
    /// Where one of the lists could not be read to its end.
    pub async fn endpoints(
        &self,
        services: &BTreeSet<ServiceRef>,
    ) -> Result<BTreeMap<ServiceRef, Endpoints>, Error> {
        let lists = stream::iter(selectors(services))
            .map(|(namespace, selector)| self.slices(namespace, selector))
            .buffer_unordered(CONCURRENCY);
        match lists.try_collect::<Vec<_>>().await {
            Ok(slices) => Ok(by_service(services, slices.into_iter().flatten())),
            Err(error) if error.is_status(404) => self.core_endpoints(services).await,
            Err(error) => Err(error),
        }
    }

    async fn slices(
        &self,
        namespace: String,
        selector: String,
    ) -> Result<Vec<EndpointSlice>, Error> {
        let api: Api<EndpointSlice> = Api::namespaced(self.client.clone(), &namespace);
        let params = ListParams::default().labels(&selector);
        list_all(&api, params, &format!("the EndpointSlices in {namespace}")).await
    }

    /// Only where the server knows no `EndpointSlices` at all.
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

/// Whether a Service has no address of its own.
pub fn is_headless(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    spec.and_then(|spec| spec.cluster_ip.as_deref()) == Some("None")
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
    slices: impl Iterator<Item = EndpointSlice>,
) -> BTreeMap<ServiceRef, Endpoints> {
    let mut all: BTreeMap<ServiceRef, Vec<EndpointSlice>> =
        services.iter().map(|service| (service.clone(), Vec::new())).collect();
    for slice in slices {
        let name = slice.labels().get(SERVICE_NAME).cloned().unwrap_or_default();
        let service = ServiceRef::new(slice.namespace().unwrap_or_default(), name);
        if let Some(list) = all.get_mut(&service) {
            list.push(slice);
        }
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
    #[test]
    fn every_service_gets_its_own_slices_and_may_have_none() {
        let slice = |namespace: &str, service: &str| {
            let labels = BTreeMap::from([(SERVICE_NAME.to_owned(), service.to_owned())]);
            let mut slice = EndpointSlice::default();
            slice.metadata.namespace = Some(namespace.to_owned());
            slice.metadata.labels = Some(labels);
            slice
        };
        let services = [("shop", "api"), ("shop", "web"), ("ops", "web")];
        let services = services.map(|(namespace, name)| ServiceRef::new(namespace, name)).into();
        let slices = [
            slice("shop", "web"),
            slice("shop", "web"),
            slice("ops", "web"),
            slice("shop", "unasked"),
            EndpointSlice::default(),
        ];
        let counts =
            by_service(&services, slices.into_iter()).into_iter().map(|(service, read)| {
                let Endpoints::Slices(slices) = read else {
                    panic!("{service} was read as slices")
                };
                (service.to_string(), slices.len())
            });
        let counts: Vec<(String, usize)> = counts.collect();
        let expected = [("ops/web", 1), ("shop/api", 0), ("shop/web", 2)];
        assert_eq!(counts, expected.map(|(service, count)| (service.to_owned(), count)));
    }
}
