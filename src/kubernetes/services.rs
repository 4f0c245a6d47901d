//! Reads the headless Services of a cluster, which may be annotated, and the Services of its `ServiceExports`, and
//! converts both into the input of the plan. A read returns everything that was requested, or an error.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::try_join_all;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::core::Status;
use serde::Deserialize;
use serde_json::Value;

use super::annotation::{self, HOSTNAME, PORT};
use super::object::{
    ObjectMetadata, ObjectPort, Service, ServiceFields, from_object, null_is_empty,
};
use super::{Error, Kubernetes, MAX_NAMED, objects};
use crate::model::{
    BadAnnotation, Claims, Condition, Desired, Export, ExportedPort, ExportedService, Family,
    FirstNames, ImportType, Kind, Member, NamespaceReference, NotExportable, Properties, Protocol,
    PublishedService, Selection, ServiceExport, ServicePort, ServiceRef, Timestamp,
};

impl Kubernetes {
    /// Reads the desired state of the selected headless Services, annotated or not, without their endpoints. If many
    /// Services are selected, returns all Services of the cluster. Each Service is converted as it arrives, since its
    /// annotations may have 256 KB.
    ///
    /// # Errors
    /// Returns an error if a list or a Service could not be read.
    pub async fn headless_services(
        &self,
        selection: &Selection,
        reading: &AnnotationSettings,
    ) -> Result<Desired, Error> {
        let convert = |service: &Service| (service.metadata.name(), annotated(service, reading));
        let list = async |namespace: Option<&str>| self.list_headless(namespace, convert).await;
        let get = async |service: &ServiceRef| {
            let found = self.service(service).await?.filter(is_headless);
            Ok(found.as_ref().map(convert))
        };
        Ok(collect(read_selected(selection, list, get).await?))
    }

    async fn list_headless<T>(
        &self,
        namespace: Option<&str>,
        convert: impl Fn(&Service) -> T,
    ) -> Result<Vec<T>, Error> {
        let all = |name| objects::List::all(Kind::Service, namespace, name);
        let keep = |service: Service| is_headless(&service).then(|| convert(&service));
        let mut list = all("the headless Services");
        list.params.field_selector = Some("spec.clusterIP=None".to_owned());
        match self.list(&list, keep).await {
            // Servers before Kubernetes 1.31 refuse the selector with 400.
            Err(error) if error.is_status(400) => self.list(&all("the Services"), keep).await,
            services => services,
        }
    }

    /// Gets one Service, headless or not; `None` if it does not exist.
    ///
    /// # Errors
    /// Returns an error on any reply but the Service or a 404 about it.
    pub async fn service(&self, service: &ServiceRef) -> Result<Option<Service>, Error> {
        match self.get_of::<Service>(Kind::Service, service, objects::is_absent).await? {
            Some(found) if found.metadata.name != service.name => {
                let other = Status::failure("the answer is another object", "NotTheService");
                let action = format!("get Service {service}");
                Err(Error::new(action, kube::Error::Api(other.boxed())))
            }
            found => Ok(found),
        }
    }
}

/// Reads the selected objects: namespaces with `list`, and single objects with `get`. Lists the whole cluster if more
/// than [`MAX_NAMED`] are selected.
async fn read_selected<T>(
    selection: &Selection,
    list: impl AsyncFn(Option<&str>) -> Result<Vec<T>, Error>,
    get: impl AsyncFn(&ServiceRef) -> Result<Option<T>, Error>,
) -> Result<Vec<T>, Error> {
    let Some((namespaces, services)) = selection.if_at_most(MAX_NAMED) else {
        return list(None).await;
    };
    let lists = namespaces.iter().map(|namespace| list(Some(namespace)));
    let single = services.iter().map(|service| get(service));
    let (lists, single) = tokio::try_join!(try_join_all(lists), try_join_all(single))?;
    Ok(lists.into_iter().flatten().chain(single.into_iter().flatten()).collect())
}

pub fn is_headless(service: &Service) -> bool {
    service.spec.cluster_ip.as_deref() == Some("None")
}

/// The settings for reading annotations in one cluster.
#[derive(Clone, Debug)]
pub struct AnnotationSettings {
    /// The prefix of our annotations.
    pub prefix: String,
    /// The Cloud Map namespace of Services without a namespace annotation; `None`: the name of the Kubernetes
    /// namespace.
    pub default_namespace: Option<NamespaceReference>,
}

/// Returns the desired state of headless Services, without their endpoints.
pub fn desired(services: &[Service], reading: &AnnotationSettings) -> Desired {
    collect(services.iter().map(|service| (service.metadata.name(), annotated(service, reading))))
}

/// Returns the desired state of converted headless Services.
fn collect(services: impl IntoIterator<Item = (ServiceRef, Option<PublishedService>)>) -> Desired {
    let mut desired = Desired::default();
    for (name, annotated) in services {
        match annotated {
            Some(annotated) => _ = desired.services.insert(name, annotated),
            None => _ = desired.unannotated.insert(name),
        }
    }
    desired
}

/// Converts a headless Service; `None` if it is not annotated.
pub fn annotated(service: &Service, reading: &AnnotationSettings) -> Option<PublishedService> {
    let metadata = &service.metadata;
    let own = || NamespaceReference::NameOrId(metadata.namespace.clone());
    let namespace = reading.default_namespace.clone().unwrap_or_else(own);
    let claims = annotation::claims(&metadata.annotations, &reading.prefix, &namespace)?;
    let unknown = annotation::unknown_keys(&metadata.annotations, &reading.prefix);
    let unknown_annotations = FirstNames::of(unknown);
    Some(PublishedService { unknown_annotations, ..published(service, claims) })
}

/// Converts a Service with these claims, without its endpoints.
fn published(service: &Service, claims: Result<Claims, Vec<BadAnnotation>>) -> PublishedService {
    let Service { metadata, spec } = service;
    let created = metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
    let ports = spec.ports.iter();
    let ports = ports
        .filter_map(|port| Some(ServicePort { name: port.name.clone(), number: port.number()? }));
    PublishedService {
        uid: metadata.uid.clone(),
        created,
        claims,
        ports: ports.collect(),
        families: families(service),
        endpoints: None,
        truncated: false,
        left_out: 0,
        unknown_annotations: None,
        export: None,
    }
}

/// Returns the stated IP families; none for a Service without a selector, since the API server gives a headless one
/// both families, even in a cluster that has only one.
fn families(service: &Service) -> BTreeSet<Family> {
    let stated = service.spec.ip_families.iter().filter(|_| !service.spec.selector.is_empty());
    stated.filter_map(|family| Family::parse(family)).collect()
}

// The exports of a cluster: its `ServiceExports`, then the Services of their names.

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
    /// Reads the selected exports with their Services; all exports of the cluster if many are selected.
    ///
    /// # Errors
    /// Returns an error if a list or a Service could not be read, also if the API is not installed: an export that was
    /// not read is never taken for a deleted one.
    pub async fn exports(&self, selection: &Selection, member: &Member) -> Result<Desired, Error> {
        let list = async |namespace: Option<&str>| self.list_exports(namespace).await;
        // Without the API the server also answers 404, but names no object.
        let get = async |export: &ServiceRef| {
            self.get_of(Kind::ServiceExport, export, objects::is_absent).await
        };
        let exports =
            read_selected(selection, list, get).await.map_err(Error::about_multi_cluster)?;
        let names: BTreeSet<ServiceRef> =
            exports.iter().map(|export: &ExportObject| export.metadata.name()).collect();
        let list = async |_: Option<&str>| {
            let keep =
                |service: Service| names.contains(&service.metadata.name()).then_some(service);
            self.list(&objects::List::all(Kind::Service, None, "the Services"), keep).await
        };
        let get = async |service: &ServiceRef| {
            self.get_of(Kind::Service, service, objects::is_absent).await
        };
        let services = read_selected(&Selection::services(names.clone()), list, get).await?;
        let services = services.into_iter().map(|service| (service.metadata.name(), service));
        Ok(desired_exports(exports, &services.collect(), member))
    }

    /// Reads every ServiceExport of the cluster that is not being deleted, without its Service.
    ///
    /// # Errors
    /// Returns an error if the list could not be read.
    pub async fn service_exports(&self) -> Result<BTreeMap<ServiceRef, ServiceExport>, Error> {
        let listed = self.list_exports(None).await.map_err(Error::about_multi_cluster)?;
        let exports = listed.iter().filter(|export| export.metadata.deletion_timestamp.is_none());
        Ok(exports.map(|export| (export.metadata.name(), service_export(export))).collect())
    }

    async fn list_exports(&self, namespace: Option<&str>) -> Result<Vec<ExportObject>, Error> {
        let list = objects::List::all(Kind::ServiceExport, namespace, "the ServiceExports");
        self.list(&list, Some).await
    }
}

fn service_export(object: &ExportObject) -> ServiceExport {
    // A malformed condition, which another writer may have stored, is left out.
    let condition = |condition: &Value| Condition::deserialize(condition).ok();
    let conditions = object.status["conditions"].as_array().into_iter().flatten();
    ServiceExport {
        uid: object.metadata.uid.clone(),
        generation: object.metadata.generation,
        conditions: conditions.filter_map(condition).collect(),
        obstacle: None,
    }
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
/// The finalizer of AWS's controller on ServiceExports. Anyone who may write an export can set it, so it affects that
/// export alone.
const AWS_FINALIZER: &str = "multicluster.k8s.aws/service-export-finalizer";
/// The label of an object that belongs to an import.
const OWNER_LABEL: &str = "cloud-map-sync/owner";

/// Returns the desired state of the exports of a member, without their endpoints. An export that is being deleted is
/// left out.
fn desired_exports(
    exports: Vec<ExportObject>,
    services: &BTreeMap<ServiceRef, Service>,
    member: &Member,
) -> Desired {
    let mut desired = Desired::default();
    for object in exports {
        if object.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let name = object.metadata.name();
        let mut export = service_export(&object);
        match exportable(services.get(&name)).and_then(|service| exported(object, service, member))
        {
            Ok(published) => _ = desired.services.insert(name.clone(), published),
            Err(obstacle) => export.obstacle = Some(obstacle),
        }
        desired.exports.insert(name, export);
    }
    desired
}

/// Returns the Service if it can be exported, otherwise the reason why not.
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

/// Converts an export and its Service.
///
/// # Errors
/// Returns [`NotExportable::NoService`] if the name is not a name in Cloud Map, which Kubernetes does not allow either.
fn exported(
    ExportObject { metadata, spec, .. }: ExportObject,
    service: &Service,
    member: &Member,
) -> Result<PublishedService, NotExportable> {
    let ServiceFields { ports, ip_families, properties, .. } = &service.spec;
    let targets = ports.iter().map(|port| (port.name.clone(), target(port))).collect();
    let ports: Vec<ExportedPort> = ports.iter().filter_map(port).collect();
    let families: Vec<Family> =
        ip_families.iter().filter_map(|family| Family::parse(family)).collect();
    let kind = if is_headless(service) { ImportType::Headless } else { ImportType::ClusterSetIp };
    let claims = claims(&metadata, &ports).ok_or(NotExportable::NoService)?;
    let created = metadata.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let is_exported =
        |(key, _): &(String, String)| !NOT_EXPORTED.iter().any(|prefix| key.starts_with(prefix));
    let properties = Properties {
        labels: spec.exported_labels.into_iter().filter(is_exported).collect(),
        annotations: spec.exported_annotations.into_iter().filter(is_exported).collect(),
        ..properties.clone()
    };
    let is_of_aws = metadata.finalizers.iter().any(|finalizer| finalizer == AWS_FINALIZER);
    let cluster = member.cluster.clone();
    let clusterset = member.clusterset.clone();
    let record_families = families.iter().copied().collect();
    let export = Export { cluster, created, kind, ports, families, properties: Some(properties) };
    Ok(PublishedService {
        uid: metadata.uid,
        created: created.as_second(),
        families: record_families,
        export: Some(Arc::new(ExportedService { clusterset, export, targets, is_of_aws })),
        ..published(service, Ok(claims))
    })
}

/// Returns the claims of an export: the name of its Service, in the Cloud Map namespace that has the name of its
/// Kubernetes namespace. If there are ports, it claims one, so that a new service in a DNS namespace gets SRV records.
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
