//! Converts Kubernetes objects into the input of the plan: annotated Services and their endpoints.

use std::collections::{BTreeMap, BTreeSet};

use super::annotation;
use super::endpoint_slices::Endpoints;
use super::endpoints;
use super::object::Service;
use crate::model::{
    Desired, Endpoint, Family, NamespaceReference, PublishedService, ServicePort, ServiceRef,
};

/// The annotation of an Endpoints object whose addresses are truncated (value `truncated`). Before Kubernetes 1.22 its
/// value was `warning`, and nothing was truncated.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// The settings for reading annotations in one cluster.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The prefix of our annotations.
    pub prefix: String,
    /// The Cloud Map namespace of Services without a namespace annotation; `None`: the name of the Kubernetes
    /// namespace.
    pub default_namespace: Option<NamespaceReference>,
}

/// The desired state of headless Services; the endpoints are unread.
pub fn desired(services: &[Service], reading: &Reading) -> Desired {
    let mut desired = Desired::default();
    for service in services {
        let name = ServiceRef::new(&service.metadata.namespace, &service.metadata.name);
        match annotated(service, reading) {
            Some(annotated) => _ = desired.services.insert(name, annotated),
            None => _ = desired.unannotated.insert(name),
        }
    }
    desired
}

/// Converts a headless Service; `None` if it is not annotated.
pub fn annotated(service: &Service, reading: &Reading) -> Option<PublishedService> {
    let Service { metadata, spec } = service;
    let own = || NamespaceReference::NameOrId(metadata.namespace.clone());
    let namespace = reading.default_namespace.clone().unwrap_or_else(own);
    let claims = annotation::claims(&metadata.annotations, &reading.prefix, &namespace)?;
    let created = metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
    let ports = spec.ports.iter().filter_map(|port| {
        let number = u16::try_from(port.port?).ok()?;
        Some(ServicePort { name: port.name.clone(), number })
    });
    Some(PublishedService {
        uid: metadata.uid.clone(),
        created,
        claims,
        ports: ports.collect(),
        families: families(service),
        endpoints: None,
        truncated: false,
        export: None,
    })
}

/// The endpoints of a Service, from its slices or its Endpoints object.
pub fn all_endpoints(read: &Endpoints) -> Vec<Endpoint> {
    match read {
        Endpoints::Slices(slices) => endpoints::from_slices(slices),
        Endpoints::Core(core) => endpoints::from_core(core),
    }
}

/// Whether the cluster has truncated the endpoints.
pub fn is_truncated(read: &Endpoints) -> bool {
    match read {
        Endpoints::Slices(slices) => {
            slices.iter().any(|it| is_over_capacity(Some(&it.metadata.annotations)))
        }
        Endpoints::Core(core) => is_over_capacity(core.metadata.annotations.as_ref()),
    }
}

/// The endpoints controller truncates at 1,000 addresses and annotates the object. Slices have no such limit, but a
/// slice that is mirrored from an Endpoints object has its annotations.
fn is_over_capacity(annotations: Option<&BTreeMap<String, String>>) -> bool {
    let capacity = annotations.and_then(|all| all.get(OVER_CAPACITY));
    capacity.is_some_and(|capacity| capacity == "truncated")
}

/// The API server gives a headless Service without a selector both families, also in a cluster that has one.
fn families(service: &Service) -> BTreeSet<Family> {
    let stated = service.spec.ip_families.iter().filter(|_| !service.spec.selector.is_empty());
    stated.filter_map(|family| Family::parse(family)).collect()
}
