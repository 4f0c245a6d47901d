//! Kubernetes objects into what the plan compares: annotated Services, and their endpoints.

use std::collections::{BTreeMap, BTreeSet};

use super::annotation;
use super::endpoints;
use super::object::Service;
use super::read::Endpoints;
use crate::model::{
    AnnotatedService, Desired, Endpoint, Family, NamespaceReference, ServicePort, ServiceRef,
};

/// What the endpoints controller notes on an Endpoints object that lacks addresses. Before Kubernetes
/// 1.22 it said `warning` there, and cut nothing.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// How annotations are read in one cluster.
#[derive(Clone, Debug)]
pub struct Reading {
    /// What our annotations begin with.
    pub prefix: String,
    /// The Cloud Map namespace of Services that name none; none: the Kubernetes namespace's name.
    pub default_namespace: Option<NamespaceReference>,
}

/// What headless Services ask for, the endpoints of the annotated ones still unread.
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

/// A headless Service as the plan sees it; `None` where it is not annotated.
pub fn annotated(service: &Service, reading: &Reading) -> Option<AnnotatedService> {
    let Service { metadata, spec } = service;
    let own = || NamespaceReference::NameOrId(metadata.namespace.clone());
    let namespace = reading.default_namespace.clone().unwrap_or_else(own);
    let claims = annotation::claims(&metadata.annotations, &reading.prefix, &namespace)?;
    let created = metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
    let ports = spec.ports.iter().filter_map(|port| {
        let number = u16::try_from(port.port?).ok()?;
        Some(ServicePort { name: port.name.clone(), number })
    });
    Some(AnnotatedService {
        uid: metadata.uid.clone(),
        created,
        claims,
        ports: ports.collect(),
        families: families(service),
        endpoints: None,
        truncated: false,
    })
}

/// The endpoints in what was read of a Service.
pub fn all_endpoints(read: &Endpoints) -> Vec<Endpoint> {
    match read {
        Endpoints::Slices(slices) => endpoints::of_slices(slices),
        Endpoints::Core(core) => endpoints::of_core(core),
    }
}

/// Whether the endpoints that were read are a part of them only.
pub fn is_truncated(read: &Endpoints) -> bool {
    match read {
        Endpoints::Slices(slices) => {
            slices.iter().any(|it| is_over_capacity(Some(&it.metadata.annotations)))
        }
        Endpoints::Core(core) => is_over_capacity(core.metadata.annotations.as_ref()),
    }
}

/// The endpoints controller stops at 1,000 addresses and says so. Slices have no such limit, but those
/// mirrored from an Endpoints object carry its annotations.
fn is_over_capacity(annotations: Option<&BTreeMap<String, String>>) -> bool {
    let capacity = annotations.and_then(|all| all.get(OVER_CAPACITY));
    capacity.is_some_and(|capacity| capacity == "truncated")
}

fn families(service: &Service) -> BTreeSet<Family> {
    let families = service.spec.ip_families.iter();
    families
        .filter_map(|family| match family.as_str() {
            "IPv4" => Some(Family::V4),
            "IPv6" => Some(Family::V6),
            _ => None,
        })
        .collect()
}
