//! Reads the endpoints of Services, by lists of `EndpointSlices`, or from a server without them as v1 Endpoints, and
//! converts them. A read returns everything that was requested, or an error.
//!
//! All conditions are kept: the plan decides which endpoints are registered. Slices are split by IP family, by ports and by
//! size, so several may list the same pod; its entries are merged.

use std::collections::btree_map::Entry::{Occupied, Vacant};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{EndpointAddress, Endpoints as CoreEndpoints};
use k8s_openapi::api::discovery::v1::EndpointConditions;
use kube::api::{Api, ListParams};

use super::object::{EndpointSlice, ObjectPort, SliceEntry, TargetRef, parse_address};
use super::{CONCURRENCY, Error, Kubernetes, MAX_NAMED, objects};
use crate::model::{Endpoint, Kind, NoAddress, ServiceRef, is_dns_subdomain, is_label_word};

/// A slice may have a thousand endpoints, and usually has up to a hundred.
const SLICES_PER_PAGE: u32 = 100;
/// The label that ties an `EndpointSlice` to its Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label of a slice with the endpoints of another cluster, which that one publishes. Some importers write such slices
/// for the Service of the same name.
const SOURCE_CLUSTER: &str = "multicluster.kubernetes.io/source-cluster";
/// The address type of slices with host names.
const FQDN: &str = "FQDN";
/// The annotation of an Endpoints object whose addresses are truncated (value `truncated`). Before Kubernetes 1.22 its
/// value was `warning`, and nothing was truncated.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// The endpoints of one Service.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoints {
    pub all: Vec<Endpoint>,
    /// Whether the cluster has truncated them.
    pub truncated: bool,
}

impl Kubernetes {
    /// The endpoints of `services` in this cluster, by lists of slices that contain all of them. A Service without
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
        let namespace = namespace.as_deref();
        let within = namespace.map(|it| format!(" in {it}")).unwrap_or_default();
        let name = format!("the EndpointSlices{within}");
        let all = objects::List::all(Kind::EndpointSlice, namespace, &name);
        let params = ListParams::default().labels(&selector);
        let list = objects::List { params, page: SLICES_PER_PAGE, ..all };
        let keep = |mut slice: EndpointSlice| {
            let mut labels = std::mem::take(&mut slice.metadata.labels);
            let name = labels.remove(SERVICE_NAME).unwrap_or_default();
            slice.endpoints.shrink_to_fit();
            let service = ServiceRef::new(&slice.metadata.namespace, name);
            let is_own = !labels.contains_key(SOURCE_CLUSTER);
            (is_own && services.contains(&service)).then_some((service, slice))
        };
        self.list(&list, keep).await
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

/// The lists of slices to read, one for each namespace.
pub fn slice_lists(services: &BTreeSet<ServiceRef>) -> Vec<SliceList> {
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for service in services {
        names.entry(&service.namespace).or_default().push(&service.name);
    }
    let list = |(namespace, names): (&str, Vec<&str>)| SliceList {
        namespace: Some(namespace.to_owned()),
        selector: if names.len() > MAX_NAMED { SERVICE_NAME.to_owned() } else { selector(&names) },
    };
    names.into_iter().map(list).collect()
}

/// The selector of the slices of these Services.
fn selector(names: &[&str]) -> String {
    match names {
        [name] => format!("{SERVICE_NAME}={name}"),
        names => format!("{SERVICE_NAME} in ({})", names.join(",")),
    }
}

/// The longest list of names in a selector, in bytes of the request line, which proxies limit to 8 KB.
const LONGEST: usize = 4000;
/// A comma in a request line.
const COMMA: usize = "%2C".len();
/// With more lists than this, all slices but those of imports are listed.
const MOST: usize = 8;
/// The label of slices that names their writer.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// The lists with all slices of exported Services: few, since a member may export thousands.
pub fn exported_slice_lists(services: &BTreeSet<ServiceRef>) -> Vec<SliceList> {
    let namespaces: BTreeSet<&String> = services.iter().map(|it| &it.namespace).collect();
    let namespace = match Vec::from_iter(namespaces).as_slice() {
        [only] => Some((*only).clone()),
        _ => None,
    };
    let mut selectors = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    let mut length = 0;
    for name in services.iter().map(|it| it.name.as_str()).collect::<BTreeSet<_>>() {
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
    if selectors.len() > MOST {
        selectors = vec![format!("{SERVICE_NAME},{MANAGED_BY}!=cloud-map-sync")];
    }
    let list = |selector| SliceList { namespace: namespace.clone(), selector };
    selectors.into_iter().map(list).collect()
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
    all.into_iter().map(|(service, slices)| (service, from_slices(&slices))).collect()
}

/// The endpoints controller truncates at 1,000 addresses and annotates the object. Slices have no such limit, but a
/// slice that is mirrored from an Endpoints object has its annotations.
fn is_over_capacity(annotations: &BTreeMap<String, String>) -> bool {
    annotations.get(OVER_CAPACITY).is_some_and(|capacity| capacity == "truncated")
}

/// The ports of all endpoints of one slice.
type Ports = Arc<BTreeMap<String, u16>>;

/// The identity of an endpoint: its pod, or its address. Objects of other kinds may have many addresses.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum EndpointKey {
    Pod(TargetRef),
    Address(Result<IpAddr, Box<str>>),
}

/// The endpoints of all slices of a Service.
pub fn from_slices(slices: &[EndpointSlice]) -> Endpoints {
    let truncated = slices.iter().any(|slice| is_over_capacity(&slice.metadata.annotations));
    let all = merge_entries(slices.iter().flat_map(|slice| {
        let ports = slice.ports.iter();
        let ports = ports.filter_map(|port| Some((port.name.clone(), port.number()?)));
        let ports: Ports = Arc::new(ports.collect());
        let is_fqdn = slice.address_type == FQDN;
        slice.endpoints.iter().filter_map(move |entry| from_entry(entry, is_fqdn, &ports))
    }));
    Endpoints { all, truncated }
}

/// A missing `ready` is true and a missing `terminating` false. A missing `serving` is `ready`, or true if the endpoint is
/// terminating.
fn from_entry(entry: &SliceEntry, is_fqdn: bool, ports: &Ports) -> Option<(EndpointKey, Endpoint)> {
    let address = match entry.address.clone()? {
        // All digits are a name, too.
        Ok(address) if is_fqdn => Err(address.to_string().into()),
        address => address,
    };
    let (ipv4, ipv6, malformed) = match &address {
        Ok(IpAddr::V4(v4)) => (Some(*v4), None, None),
        Ok(IpAddr::V6(v6)) => (None, Some(*v6), None),
        Err(text) if is_fqdn => (None, None, Some(NoAddress::HostName(text.clone()))),
        Err(text) => (None, None, Some(NoAddress::Malformed(text.clone()))),
    };
    let EndpointConditions { ready, serving, terminating } = entry.conditions;
    let (ready, terminating) = (ready.unwrap_or(true), terminating.unwrap_or(false));
    let serving = serving.unwrap_or(ready || terminating);
    let pod = entry.target_ref.as_ref().filter(|target| target.is_pod() && target.name.is_some());
    let key = pod.cloned().map_or_else(|| EndpointKey::Address(address), EndpointKey::Pod);
    let name = pod.and_then(|pod| pod.name.as_ref());
    let [pod, zone, node, hostname] =
        [name, entry.zone.as_ref(), entry.node_name.as_ref(), entry.hostname.as_ref()]
            .map(|text| text.map(ToString::to_string));
    // A value of a label, which a node's zone is. The API server takes any text from a writer of slices, and one that is
    // no attribute of Cloud Map would keep the pod out.
    let zone = zone.filter(|zone| zone.is_empty() || is_label_word(zone));
    // As with the zone: what no pod can be called is no pod's name.
    let pod = pod.filter(|name| is_dns_subdomain(name));
    let ports = ports.clone();
    let endpoint = Endpoint {
        pod,
        ipv4,
        ipv6,
        malformed,
        zone,
        ready,
        serving,
        terminating,
        hostname,
        node,
        ports,
    };
    Some((key, endpoint))
}

/// The endpoints of a v1 Endpoints object, which has neither zones nor terminating pods.
pub fn from_core(core: &CoreEndpoints) -> Endpoints {
    let slices = core.subsets.iter().flatten().map(|subset| {
        let entry = |address: &EndpointAddress, ready| SliceEntry {
            address: Some(parse_address(&address.ip)),
            conditions: EndpointConditions { ready: Some(ready), ..Default::default() },
            target_ref: address.target_ref.as_ref().map(TargetRef::from),
            ..SliceEntry::default()
        };
        let ready = subset.addresses.iter().flatten().map(|it| entry(it, true));
        let others = subset.not_ready_addresses.iter().flatten().map(|it| entry(it, false));
        let ports = subset.ports.iter().flatten().map(|port| {
            let (name, port) = (port.name.clone().unwrap_or_default(), Some(port.port));
            ObjectPort { name, port, ..ObjectPort::default() }
        });
        let (endpoints, ports) = (ready.chain(others).collect(), ports.collect());
        EndpointSlice { endpoints, ports, ..EndpointSlice::default() }
    });
    let truncated = core.metadata.annotations.as_ref().is_some_and(is_over_capacity);
    Endpoints { truncated, ..from_slices(&slices.collect::<Vec<_>>()) }
}

/// Merges the entries of each endpoint. Serving entries come first: while a pod moves between slices one such entry is
/// enough, and the other entries only add addresses and ports.
fn merge_entries(entries: impl Iterator<Item = (EndpointKey, Endpoint)>) -> Vec<Endpoint> {
    let (serving, others): (Vec<_>, Vec<_>) =
        entries.partition(|(_, endpoint)| is_serving(endpoint));
    let mut merged: BTreeMap<EndpointKey, Endpoint> = BTreeMap::new();
    for (key, entry) in serving.into_iter().chain(others) {
        match merged.entry(key) {
            Vacant(vacant) => _ = vacant.insert(entry),
            Occupied(mut known) => merge_entry(known.get_mut(), entry),
        }
    }
    merged.into_values().collect()
}

/// A terminating pod is judged by `serving`: a Service that publishes unready addresses marks every terminating pod as
/// ready.
fn is_serving(endpoint: &Endpoint) -> bool {
    if endpoint.terminating { endpoint.serving } else { endpoint.ready }
}

fn merge_entry(known: &mut Endpoint, entry: Endpoint) {
    if is_serving(&entry) || !is_serving(known) {
        known.ready |= entry.ready;
        known.serving |= entry.serving;
        known.terminating &= entry.terminating;
    }
    known.ipv4 = known.ipv4.or(entry.ipv4);
    known.ipv6 = known.ipv6.or(entry.ipv6);
    known.malformed = known.malformed.take().or(entry.malformed);
    known.pod = known.pod.take().or(entry.pod);
    known.zone = known.zone.take().or(entry.zone);
    if known.ports != entry.ports {
        let mut ports = Arc::unwrap_or_clone(entry.ports);
        ports.append(&mut known.ports.as_ref().clone());
        known.ports = Arc::new(ports);
    }
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
            let lists = exported_slice_lists(&services(count, namespaces, length));
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
        let [list] = exported_slice_lists(&web.into()).try_into().expect("one list");
        assert_eq!(list.selector, "kubernetes.io/service-name=web");
        let all = exported_slice_lists(&services(999, 2, 63)).remove(0).selector;
        assert_eq!(
            all,
            "kubernetes.io/service-name,endpointslice.kubernetes.io/managed-by!=cloud-map-sync"
        );
    }
}
