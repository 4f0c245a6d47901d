//! Reads the endpoints of Services from lists of `EndpointSlices`, or as v1 Endpoints if the server does not serve
//! them. A read returns everything that was requested, or an error.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Endpoints as CoreEndpoints;
use kube::api::{Api, ListParams};

use super::endpoints::{CollectedEndpoints, Endpoints, from_core};
use super::object::EndpointSlice;
use super::{CONCURRENCY, Error, Kubernetes, MAX_NAMED, objects};
use crate::model::{Kind, ServiceRef};

/// The number of slices in a page. A slice may have 1,000 endpoints, and usually has up to 100.
const SLICES_PER_PAGE: u32 = 100;
/// The label that ties an `EndpointSlice` to its Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label of a slice with endpoints of another cluster. Some importers write such slices for the local Service of
/// the same name. The other cluster publishes these endpoints itself.
const SOURCE_CLUSTER: &str = "multicluster.kubernetes.io/source-cluster";

impl Kubernetes {
    /// Reads the endpoints of `services` in this cluster. `lists` must select all their slices. A Service without
    /// endpoints has an empty entry.
    ///
    /// # Errors
    /// Returns an error if one of the lists could not be read completely.
    pub async fn endpoints(
        &self,
        services: &BTreeSet<ServiceRef>,
        lists: Vec<SliceList>,
    ) -> Result<BTreeMap<ServiceRef, Endpoints>, Error> {
        if self.remembered.slices.get() == Some(&false) {
            return self.read_core_endpoints(services).await;
        }
        let lists = stream::iter(lists)
            .map(|list| self.list_slices(services, list))
            .buffer_unordered(CONCURRENCY);
        match lists.try_collect::<Vec<_>>().await {
            Ok(lists) => {
                let mut found: BTreeMap<ServiceRef, Endpoints> =
                    lists.into_iter().flatten().collect();
                let entry = |service: &ServiceRef| {
                    (service.clone(), found.remove(service).unwrap_or_default())
                };
                Ok(services.iter().map(entry).collect())
            }
            // A proxy or an overloaded server can return 404 too, so API discovery decides.
            Err(error) if error.is_status(404) && !self.serves_slices().await? => {
                self.read_core_endpoints(services).await
            }
            Err(error) => Err(error),
        }
    }

    /// Reads one list, and returns the endpoints of each of `services` that has a slice in it.
    async fn list_slices(
        &self,
        services: &BTreeSet<ServiceRef>,
        SliceList { namespace, selector }: SliceList,
    ) -> Result<Vec<(ServiceRef, Endpoints)>, Error> {
        let namespace = namespace.as_deref();
        let within = namespace.map(|namespace| format!(" in {namespace}")).unwrap_or_default();
        let name = format!("the EndpointSlices{within}");
        let all = objects::List::all(Kind::EndpointSlice, namespace, &name);
        let params = ListParams::default().labels(&selector);
        let list = objects::List { params, page: SLICES_PER_PAGE, ..all };
        let add = |collected: &mut BTreeMap<ServiceRef, CollectedEndpoints>,
                   mut slice: EndpointSlice| {
            let labels = &mut slice.metadata.labels;
            let name = labels.remove(SERVICE_NAME).unwrap_or_default();
            let is_own = !labels.contains_key(SOURCE_CLUSTER);
            let service = ServiceRef::new(&slice.metadata.namespace, name);
            if is_own && services.contains(&service) {
                collected.entry(service).or_default().add(slice);
            }
        };
        let collected = self.fold(&list, add).await?.into_iter();
        Ok(collected.map(|(service, endpoints)| (service, endpoints.finish())).collect())
    }

    /// Reads v1 Endpoints. Called only if API discovery lists no `EndpointSlices`.
    async fn read_core_endpoints(
        &self,
        services: &BTreeSet<ServiceRef>,
    ) -> Result<BTreeMap<ServiceRef, Endpoints>, Error> {
        let reads = stream::iter(services.clone()).map(|service| async move {
            let api: Api<CoreEndpoints> = Api::namespaced(self.client.clone(), &service.namespace);
            let action = || format!("get the Endpoints of Service {service}");
            let found = self.in_time(action, api.get_opt(&service.name)).await?;
            Ok((service, from_core(&found.unwrap_or_default())))
        });
        reads.buffer_unordered(CONCURRENCY).try_collect().await
    }
}

/// A list of slices to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceList {
    /// `None`: all namespaces.
    namespace: Option<String>,
    /// The label selector.
    selector: String,
}

/// Above this number of namespaces, the slices are listed in all namespaces by the names of the Services. Each list is
/// a request to the API server, and more requests take longer than reading the slices of other Services with the same
/// names.
const MAX_NAMESPACES: usize = 10;

/// Returns the lists of slices to read: one for each namespace, or lists by name if there are many namespaces.
pub fn slice_lists(services: &BTreeSet<ServiceRef>) -> Vec<SliceList> {
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for service in services {
        names.entry(&service.namespace).or_default().push(&service.name);
    }
    if names.len() > MAX_NAMESPACES {
        return slice_lists_by_name(services);
    }
    let list = |(namespace, names): (&str, Vec<&str>)| SliceList {
        namespace: Some(namespace.to_owned()),
        selector: if names.len() > MAX_NAMED { SERVICE_NAME.to_owned() } else { selector(&names) },
    };
    names.into_iter().map(list).collect()
}

/// Returns the selector of the slices of these Services.
fn selector(names: &[&str]) -> String {
    match names {
        [name] => format!("{SERVICE_NAME}={name}"),
        names => format!("{SERVICE_NAME} in ({})", names.join(",")),
    }
}

/// The longest list of names in a selector, in bytes of the request line, which proxies limit to 8 KB.
const LONGEST: usize = 4000;
/// The length of a comma in a request line.
const COMMA: usize = "%2C".len();
/// Above this number of lists, one list reads all slices except those of our imports.
const MAX_LISTS: usize = 8;
/// The label of a slice that names its writer.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// Returns lists that select slices by the names of the Services, in one namespace or in all. It returns few lists,
/// since there may be thousands of namespaces.
pub fn slice_lists_by_name(services: &BTreeSet<ServiceRef>) -> Vec<SliceList> {
    let namespaces: BTreeSet<&String> = services.iter().map(|service| &service.namespace).collect();
    let namespace = match Vec::from_iter(namespaces).as_slice() {
        [only] => Some((*only).clone()),
        _ => None,
    };
    let mut selectors = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    let mut length = 0;
    for name in services.iter().map(|service| service.name.as_str()).collect::<BTreeSet<_>>() {
        if length + name.len() > LONGEST {
            selectors.push(selector(&std::mem::take(&mut names)));
            length = 0;
        }
        length += name.len() + COMMA;
        names.push(name);
    }
    if !names.is_empty() {
        selectors.push(selector(&names));
    }
    if selectors.len() > MAX_LISTS {
        selectors = vec![format!("{SERVICE_NAME},{MANAGED_BY}!=cloud-map-sync")];
    }
    let list = |selector| SliceList { namespace: namespace.clone(), selector };
    selectors.into_iter().map(list).collect()
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

    fn services(count: usize, namespaces: usize, length: usize) -> BTreeSet<ServiceRef> {
        let service = |index: usize| {
            let namespace = format!("team-{}", index % namespaces);
            ServiceRef::new(namespace, format!("{index:0length$}"))
        };
        (0..count).map(service).collect()
    }

    #[test]
    fn names_fill_as_few_selectors_as_a_request_line_takes() {
        let rows = [
            ("no export", (0, 1, 5), 0, None),
            ("one", (1, 1, 5), 1, Some("team-0")),
            ("many in one namespace", (100, 1, 5), 1, Some("team-0")),
            ("many in some namespaces", (100, 4, 20), 1, None),
            ("the longest names", (130, 4, 63), 3, None),
            ("more than eight lists", (999, 4, 63), 1, None),
        ];
        for (case, (count, namespaces, length), expected, namespace) in rows {
            let lists = slice_lists_by_name(&services(count, namespaces, length));
            assert_eq!(lists.len(), expected, "{case}");
            for list in lists {
                assert_eq!(list.namespace.as_deref(), namespace, "{case}");
                let line = list.selector.replace(',', "%2C");
                assert!(line.len() < LONGEST + 100, "{case}: {}", line.len());
            }
        }
    }

    #[test]
    fn same_name_in_two_namespaces_is_one_name_and_slices_of_imports_are_left_out_of_all() {
        let web = ["shop", "team"].map(|namespace| ServiceRef::new(namespace, "web"));
        let [list] = slice_lists_by_name(&web.into()).try_into().expect("one list");
        assert_eq!(list.selector, "kubernetes.io/service-name=web");
        let all = slice_lists_by_name(&services(999, 2, 63)).remove(0).selector;
        assert_eq!(
            all,
            "kubernetes.io/service-name,endpointslice.kubernetes.io/managed-by!=cloud-map-sync"
        );
    }
}
