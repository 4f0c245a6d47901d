//! Reads the exports of a cluster: its `ServiceExports`, then the Services of their names, and converts both into the input
//! of the plan. Their endpoints are read by lists of slices that name them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::Status;
use serde::Deserialize;
use serde_json::Value;

use super::annotation::{self, HOSTNAME, PORT};
use super::endpoint_slices::{SERVICE_NAME, SliceList, selector};
use super::object::{
    ObjectMetadata, ObjectPort, Service, ServiceFields, from_object, null_is_empty,
};
use super::objects::List;
use super::services::{self, is_headless, read_selected};
use super::{Error, Kubernetes};
use crate::model::{
    Claims, Condition, Desired, Export, ExportedPort, ExportedService, Family, ImportType, Kind,
    Member, NamespaceReference, NotExportable, Properties, Protocol, PublishedService, Selection,
    ServiceExport, ServiceRef, Timestamp,
};

/// The fields of a `ServiceExport` that are read.
#[derive(Clone, Debug, Deserialize)]
struct ExportObject {
    #[serde(deserialize_with = "from_object")]
    metadata: ObjectMetadata,
    #[serde(default, deserialize_with = "null_is_empty")]
    spec: ExportSpec,
    #[serde(default)]
    status: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ExportSpec {
    #[serde(deserialize_with = "null_is_empty")]
    exported_labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_empty")]
    exported_annotations: BTreeMap<String, String>,
}

impl Kubernetes {
    /// The selected exports; all of the cluster if those are many.
    ///
    /// # Errors
    /// Returns an error if a list or a Service could not be read, also if the API is not installed: an export that was
    /// not read is never taken for one that is gone.
    pub async fn exports(&self, selection: &Selection, member: &Member) -> Result<Desired, Error> {
        let list = async |namespace: Option<&str>| {
            let list = List::all(Kind::ServiceExport, namespace, "the ServiceExports");
            self.list(&list, Some).await
        };
        // Without the API the server answers 404, too, but with no name.
        let get =
            async |export: &ServiceRef| self.get_of(Kind::ServiceExport, export, is_absent).await;
        let exports = read_selected(selection, list, get).await.map_err(Error::of_multi_cluster)?;
        let names: BTreeSet<ServiceRef> =
            exports.iter().map(|it: &ExportObject| it.metadata.name()).collect();
        let list = async |_: Option<&str>| {
            let keep =
                |service: Service| names.contains(&service.metadata.name()).then_some(service);
            self.list(&List::all(Kind::Service, None, "the Services"), keep).await
        };
        let get = async |service: &ServiceRef| self.get_of(Kind::Service, service, is_absent).await;
        let services = read_selected(&Selection::services(names.clone()), list, get).await?;
        let services = services.into_iter().map(|service| (service.metadata.name(), service));
        Ok(desired(exports, &services.collect(), member))
    }
}

/// Whether a 404 is about the object. One about the path has no details.
fn is_absent(status: &Status) -> bool {
    let names_it = status.details.as_ref().is_some_and(|details| !details.name.is_empty());
    status.is_not_found() && names_it
}

/// Prefixes of labels and annotations that other programs act on, or that are ours. They are not exported.
const NOT_EXPORTED: [&str; 6] = [
    "multicluster.",
    "endpointslice.kubernetes.io/",
    "service.kubernetes.io/",
    "kubernetes.io/",
    "kubectl.kubernetes.io/",
    "cloud-map-sync/",
];
/// The label of an object that belongs to an import.
const OWNER_LABEL: &str = "cloud-map-sync/owner";

/// The desired state of the exports of a member; the endpoints are unread. An export that is being deleted is none.
fn desired(
    exports: Vec<ExportObject>,
    services: &BTreeMap<ServiceRef, Service>,
    member: &Member,
) -> Desired {
    let mut desired = Desired::default();
    for object in exports {
        let name = object.metadata.name();
        if !object.metadata.finalizers.is_empty() {
            desired.finalizers.insert(name.clone(), object.metadata.finalizers.clone());
        }
        if object.metadata.deletion_timestamp.is_some() {
            continue;
        }
        // One that is none of the API, which another writer may have stored, is left out.
        let condition = |it: &Value| Condition::deserialize(it).ok();
        let conditions = object.status["conditions"].as_array().into_iter().flatten();
        let mut export = ServiceExport {
            uid: object.metadata.uid.clone(),
            generation: object.metadata.generation,
            conditions: conditions.filter_map(condition).collect(),
            obstacle: None,
        };
        match exportable(services.get(&name)).and_then(|it| published(object, it, member)) {
            Ok(published) => _ = desired.services.insert(name.clone(), published),
            Err(obstacle) => export.obstacle = Some(obstacle),
        }
        desired.exports.insert(name, export);
    }
    desired
}

/// The Service, if it can be exported.
fn exportable(service: Option<&Service>) -> Result<&Service, NotExportable> {
    let service = service.ok_or(NotExportable::NoService)?;
    let Service { metadata, spec } = service;
    let is_derived =
        metadata.name.starts_with("derived-") && metadata.labels.contains_key(OWNER_LABEL);
    match spec.r#type.as_str() {
        _ if metadata.deletion_timestamp.is_some() => Err(NotExportable::NoService),
        "ExternalName" => Err(NotExportable::ExternalName),
        _ if is_derived => Err(NotExportable::Derived),
        _ => Ok(service),
    }
}

/// # Errors
/// There is no Service if its name is not a name in Cloud Map, which Kubernetes does not allow either.
fn published(
    ExportObject { metadata, spec, .. }: ExportObject,
    service: &Service,
    member: &Member,
) -> Result<PublishedService, NotExportable> {
    let ServiceFields { ports, ip_families, properties, .. } = &service.spec;
    let targets = ports.iter().map(|port| (port.name.clone(), target(port))).collect();
    let ports: Vec<ExportedPort> = ports.iter().filter_map(port).collect();
    let families: Vec<Family> = ip_families.iter().filter_map(|it| Family::parse(it)).collect();
    let kind = if is_headless(service) { ImportType::Headless } else { ImportType::ClusterSetIp };
    let claims = claims(&metadata, &ports).ok_or(NotExportable::NoService)?;
    let created = metadata.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let is_exported =
        |(key, _): &(String, String)| !NOT_EXPORTED.iter().any(|it| key.starts_with(it));
    let properties = Properties {
        labels: spec.exported_labels.into_iter().filter(is_exported).collect(),
        annotations: spec.exported_annotations.into_iter().filter(is_exported).collect(),
        ..properties.clone()
    };
    let (cluster, clusterset) = (member.cluster.clone(), member.clusterset.clone());
    let of_records = families.iter().copied().collect();
    let export = Export { cluster, created, kind, ports, families, properties: Some(properties) };
    Ok(PublishedService {
        uid: metadata.uid,
        created: created.as_second(),
        families: of_records,
        export: Some(Arc::new(ExportedService { clusterset, export, targets })),
        ..services::published(service, Ok(claims))
    })
}

/// An export claims the name of its Service, in the Cloud Map namespace with the name of its Kubernetes namespace. A new
/// service in a DNS namespace gets SRV records if there are ports.
fn claims(metadata: &ObjectMetadata, ports: &[ExportedPort]) -> Option<Claims> {
    let namespace = NamespaceReference::NameOrId(metadata.namespace.clone());
    let port = ports.first().map(|port| (PORT.to_owned(), port.number.to_string()));
    let annotations = [(HOSTNAME.to_owned(), metadata.name.clone())].into_iter().chain(port);
    annotation::claims(&annotations.collect(), "", &namespace)?.ok()
}

fn port(port: &ObjectPort) -> Option<ExportedPort> {
    let protocol = port.protocol.as_deref().and_then(Protocol::parse);
    Some(ExportedPort {
        name: port.name.clone(),
        protocol: protocol.unwrap_or_default(),
        number: port.number()?,
        app_protocol: port.app_protocol.as_deref().map(str::to_owned),
    })
}

fn target(port: &ObjectPort) -> String {
    match &port.target_port {
        Some(IntOrString::Int(number)) if *number != 0 => number.to_string(),
        Some(IntOrString::String(name)) => name.clone(),
        _ => port.port.unwrap_or_default().to_string(),
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
pub fn lists(services: &BTreeSet<ServiceRef>) -> Vec<SliceList> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
            let lists = lists(&services(count, namespaces, length));
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
        let [list] = lists(&web.into()).try_into().expect("one list");
        assert_eq!(list.selector, "kubernetes.io/service-name=web");
        let all = lists(&services(999, 2, 63)).remove(0).selector;
        assert_eq!(
            all,
            "kubernetes.io/service-name,endpointslice.kubernetes.io/managed-by!=cloud-map-sync"
        );
    }
}
