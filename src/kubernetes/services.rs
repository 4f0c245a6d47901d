//! Reads Services: all headless ones, those of some namespaces, or single ones, and converts them into the input of the
//! plan. A read returns everything that was requested, or an error.

use std::collections::BTreeSet;

use futures_util::future::try_join_all;
use kube::core::Status;

use super::object::Service;
use super::objects::List;
use super::{Error, Kubernetes, annotation};
use crate::model::{
    BadAnnotation, Claims, Desired, Family, Kind, NamespaceReference, PublishedService, Selection,
    ServicePort, ServiceRef,
};

/// The most Services that are named in a selector or read one by one. For more of them, all slices of the namespace or
/// all Services of the cluster are listed. It keeps the request line below the limits of proxies.
pub(super) const MAX_NAMED: usize = 40;

impl Kubernetes {
    /// The selected headless Services, annotated or not; all of the cluster if those are many.
    ///
    /// # Errors
    /// Returns an error if one of them could not be read.
    pub async fn headless_services(&self, selection: &Selection) -> Result<Vec<Service>, Error> {
        let list = async |namespace: Option<&str>| self.list_headless(namespace).await;
        let get = async |service: &ServiceRef| Ok(self.service(service).await?.filter(is_headless));
        read_selected(selection, list, get).await
    }

    async fn list_headless(&self, namespace: Option<&str>) -> Result<Vec<Service>, Error> {
        let all = |name| List::all(Kind::Service, namespace, name);
        let keep = |service: Service| is_headless(&service).then(|| without_labels(service));
        let mut list = all("the headless Services");
        list.params.field_selector = Some("spec.clusterIP=None".to_owned());
        match self.list(&list, keep).await {
            // Servers before Kubernetes 1.31 refuse the selector with 400.
            Err(error) if error.is_status(400) => self.list(&all("the Services"), keep).await,
            services => services,
        }
    }

    /// One Service, headless or not.
    ///
    /// # Errors
    /// Returns an error on any reply but the Service or a 404 of the API server.
    pub async fn service(&self, service: &ServiceRef) -> Result<Option<Service>, Error> {
        match self.get_of::<Service>(Kind::Service, service, Status::is_not_found).await? {
            Some(found) if found.metadata.name != service.name => {
                let other = Status::failure("the answer is another object", "NotTheService");
                let action = format!("get Service {service}");
                Err(Error::new(action, kube::Error::Api(other.boxed())))
            }
            found => Ok(found.map(without_labels)),
        }
    }
}

/// The selected objects, by lists of their namespaces and one by one; all of the cluster if those are many.
pub(super) async fn read_selected<T>(
    selection: &Selection,
    list: impl AsyncFn(Option<&str>) -> Result<Vec<T>, Error>,
    get: impl AsyncFn(&ServiceRef) -> Result<Option<T>, Error>,
) -> Result<Vec<T>, Error> {
    match selection {
        Selection::Only { namespaces, services, .. }
            if namespaces.len() + services.len() <= MAX_NAMED =>
        {
            let lists = namespaces.iter().map(|namespace| list(Some(namespace)));
            let single = services.iter().map(|service| get(service));
            let (lists, single) = tokio::try_join!(try_join_all(lists), try_join_all(single))?;
            Ok(lists.into_iter().flatten().chain(single.into_iter().flatten()).collect())
        }
        _ => list(None).await,
    }
}

pub fn is_headless(service: &Service) -> bool {
    service.spec.cluster_ip.as_deref() == Some("None")
}

/// Drops the labels, which are not used, to save memory.
fn without_labels(mut service: Service) -> Service {
    service.metadata.labels.clear();
    service
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

/// The desired state of headless Services; the endpoints are unread.
pub fn desired(services: &[Service], reading: &AnnotationSettings) -> Desired {
    let mut desired = Desired::default();
    for service in services {
        let name = service.metadata.name();
        match annotated(service, reading) {
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
    Some(published(service, claims))
}

/// A Service with these claims, from its own object alone.
pub(super) fn published(
    service: &Service,
    claims: Result<Claims, Vec<BadAnnotation>>,
) -> PublishedService {
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
        export: None,
    }
}

/// The API server gives a headless Service without a selector both families, also in a cluster that has one.
fn families(service: &Service) -> BTreeSet<Family> {
    let stated = service.spec.ip_families.iter().filter(|_| !service.spec.selector.is_empty());
    stated.filter_map(|family| Family::parse(family)).collect()
}
