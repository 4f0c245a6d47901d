//! Converts a `ServiceExport` and its Service into the input of the plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::export_object::{
    ConditionObject, ExportObject, ExportedPortObject, ExportedServiceObject,
};
use crate::model::clusterset::{
    Export, ExportedPort, ExportedService, ImportType, InternalTrafficPolicy, Member, Properties,
    Protocol, SessionAffinity,
};
use crate::model::{
    Attributes, Claim, Claims, Condition, ConditionStatus, Desired, Family, HealthSource,
    NamespaceReference, NotExportable, PortReference, PublishedService, ServiceExport, ServiceName,
    ServicePort, ServiceRef, Timestamp,
};

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
pub fn desired(
    exports: Vec<ExportObject>,
    services: &BTreeMap<ServiceRef, ExportedServiceObject>,
    member: &Member,
) -> Desired {
    let mut desired = Desired::default();
    for object in exports {
        let name = ServiceRef::new(&object.metadata.namespace, &object.metadata.name);
        if !object.metadata.finalizers.is_empty() {
            desired.finalizers.insert(name.clone(), object.metadata.finalizers.clone());
        }
        if object.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let mut export = service_export(object);
        match exportable(services.get(&name)) {
            Ok(service) => match published(&name, &export, service, member) {
                Some(published) => _ = desired.services.insert(name.clone(), published),
                None => export.obstacle = Some(NotExportable::NoService),
            },
            Err(obstacle) => export.obstacle = Some(obstacle),
        }
        desired.exports.insert(name, export);
    }
    desired
}

fn service_export(object: ExportObject) -> ServiceExport {
    let ExportObject { metadata, spec, status } = object;
    let is_exported =
        |(key, _): &(String, String)| !NOT_EXPORTED.iter().any(|it| key.starts_with(it));
    ServiceExport {
        uid: metadata.uid,
        created: metadata.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        generation: metadata.generation,
        labels: spec.exported_labels.into_iter().filter(is_exported).collect(),
        annotations: spec.exported_annotations.into_iter().filter(is_exported).collect(),
        conditions: status.conditions.into_iter().filter_map(condition).collect(),
        obstacle: None,
    }
}

/// `None` if the condition is none of the API, which another writer may have stored.
fn condition(object: ConditionObject) -> Option<Condition> {
    Some(Condition {
        kind: object.r#type,
        status: ConditionStatus::parse(&object.status)?,
        reason: object.reason,
        message: object.message,
        observed_generation: object.observed_generation,
        last_transition_time: object.last_transition_time?.0,
    })
}

fn exportable(
    service: Option<&ExportedServiceObject>,
) -> Result<&ExportedServiceObject, NotExportable> {
    let service = service.ok_or(NotExportable::NoService)?;
    let ExportedServiceObject { metadata, spec } = service;
    let is_derived =
        metadata.name.starts_with("derived-") && metadata.labels.contains_key(OWNER_LABEL);
    match spec.r#type.as_str() {
        _ if metadata.deletion_timestamp.is_some() => Err(NotExportable::NoService),
        "ExternalName" => Err(NotExportable::ExternalName),
        _ if is_derived => Err(NotExportable::Derived),
        _ => Ok(service),
    }
}

/// `None` if the Service's name is not a name in Cloud Map, which Kubernetes does not allow either.
fn published(
    name: &ServiceRef,
    export: &ServiceExport,
    service: &ExportedServiceObject,
    member: &Member,
) -> Option<PublishedService> {
    let spec = &service.spec;
    let ports: Vec<ExportedPort> = spec.ports.iter().map(port).collect();
    let numbers =
        ports.iter().map(|port| ServicePort { name: port.name.clone(), number: port.number });
    let families: Vec<Family> =
        spec.ip_families.iter().filter_map(|it| Family::parse(it)).collect();
    let targets = spec.ports.iter().map(|port| (port.name.clone(), target(port)));
    Some(PublishedService {
        uid: export.uid.clone(),
        created: export.created.as_second(),
        claims: Ok(claims(name, &ports)?),
        ports: numbers.collect(),
        families: families.iter().copied().collect(),
        endpoints: None,
        truncated: false,
        export: Some(Arc::new(ExportedService {
            clusterset: member.clusterset.clone(),
            targets: targets.collect(),
            export: Export {
                cluster: member.cluster.clone(),
                created: export.created,
                kind: kind(service),
                ports,
                families,
                properties: Some(properties(export, service)),
            },
        })),
    })
}

/// An export claims the name of its Service, in the Cloud Map namespace with the name of its Kubernetes namespace.
fn claims(name: &ServiceRef, ports: &[ExportedPort]) -> Option<Claims> {
    let first = ports.first().map(|port| PortReference::Number(port.number));
    Some(Claims {
        names: vec![ServiceName::parse(&name.name).ok()?],
        claim: Claim::Exclusive,
        namespace: NamespaceReference::NameOrId(name.namespace.clone()),
        ttl: None,
        routing_policy: None,
        // A new service in a DNS namespace gets SRV records if there are ports.
        ports: first.into_iter().collect(),
        publish: true,
        attributes: Attributes::new(),
        maximum: None,
        health: HealthSource::Membership,
        keeps_serving: false,
        keeps_last: false,
    })
}

fn kind(service: &ExportedServiceObject) -> ImportType {
    match service.spec.cluster_ip.as_deref() {
        Some("None") => ImportType::Headless,
        _ => ImportType::ClusterSetIp,
    }
}

fn port(port: &ExportedPortObject) -> ExportedPort {
    let protocol = port.protocol.as_deref().and_then(Protocol::parse);
    ExportedPort {
        name: port.name.clone(),
        protocol: protocol.unwrap_or(Protocol::Tcp),
        number: port.port,
        app_protocol: port.app_protocol.clone(),
    }
}

fn target(port: &ExportedPortObject) -> String {
    match &port.target_port {
        Some(IntOrString::Int(number)) if *number != 0 => number.to_string(),
        Some(IntOrString::String(name)) => name.clone(),
        _ => port.port.to_string(),
    }
}

fn properties(export: &ServiceExport, service: &ExportedServiceObject) -> Properties {
    let spec = &service.spec;
    let client_ip = spec.session_affinity_config.as_ref().and_then(|it| it.client_ip.as_ref());
    let session_affinity = match spec.session_affinity.as_deref() {
        Some("ClientIP") => SessionAffinity::ClientIp(client_ip.and_then(|it| it.timeout_seconds)),
        _ => SessionAffinity::None,
    };
    let policy = spec.internal_traffic_policy.as_deref().and_then(InternalTrafficPolicy::parse);
    Properties {
        session_affinity,
        internal_traffic_policy: policy.unwrap_or_default(),
        traffic_distribution: spec.traffic_distribution.clone(),
        labels: export.labels.clone(),
        annotations: export.annotations.clone(),
    }
}
