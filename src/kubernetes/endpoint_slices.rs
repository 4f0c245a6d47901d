//! Reads the endpoints of Services: by lists of `EndpointSlices`, or from a server without them as v1 Endpoints. A read
//! returns everything that was requested, or an error.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Endpoints as CoreEndpoints;
use kube::api::{Api, ListParams};

use super::client::CONCURRENCY;
use super::list::{List, list_all};
use super::object::EndpointSlice;
use super::resource::Resource;
use super::services::MAX_NAMED;
use super::{Error, Kubernetes};
use crate::model::ServiceRef;

/// A slice may have a thousand endpoints, and usually has up to a hundred.
const SLICES_PER_PAGE: u32 = 100;
/// The label that ties an `EndpointSlice` to its Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label of a slice with the endpoints of another cluster, which that one publishes. Some importers write such slices
/// for the Service of the same name.
const SOURCE_CLUSTER: &str = "multicluster.kubernetes.io/source-cluster";

/// The endpoints of one Service, as the API server stores them.
#[derive(Clone, Debug, PartialEq)]
pub enum Endpoints {
    Slices(Vec<EndpointSlice>),
    /// The v1 Endpoints object, from a server without slices.
    Core(Box<CoreEndpoints>),
}

impl Kubernetes {
    /// The endpoints of `services` in this cluster. A Service without endpoints has an empty entry.
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
            let mut labels = std::mem::take(&mut slice.metadata.labels);
            let name = labels.remove(SERVICE_NAME).unwrap_or_default();
            slice.endpoints.shrink_to_fit();
            let service = ServiceRef::new(&slice.metadata.namespace, name);
            let is_own = !labels.contains_key(SOURCE_CLUSTER);
            (is_own && services.contains(&service)).then_some((service, slice))
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
