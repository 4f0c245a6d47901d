//! Converts a `ServiceExport` and its Service into the input of the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::endpoint_slices::{Endpoints, SERVICE_NAME, SliceList};
use super::export_object::{
    ConditionObject, ExportObject, ExportedPortObject, ExportedServiceObject,
};
use super::{Error, Kubernetes};
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

/// The longest list of names in a selector, in bytes of the request line, which proxies limit to 8 KB.
const LONGEST: usize = 4000;
/// A comma in a request line.
const COMMA: usize = "%2C".len();
/// With more lists than this, all slices but those of imports are listed.
const MOST: usize = 8;
/// The label of slices that names their writer.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

impl Kubernetes {
    /// The endpoints of exported Services. A Service without endpoints has an empty entry.
    ///
    /// # Errors
    /// Returns an error if one of the lists could not be read completely.
    pub async fn exported_endpoints(
        &self,
        services: &BTreeSet<ServiceRef>,
    ) -> Result<BTreeMap<ServiceRef, Endpoints>, Error> {
        self.endpoints_by(services, lists(services)).await
    }
}

fn lists(services: &BTreeSet<ServiceRef>) -> Vec<SliceList> {
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

fn selector(names: &[&str]) -> String {
    match names {
        [name] => format!("{SERVICE_NAME}={name}"),
        names => format!("{SERVICE_NAME} in ({})", names.join(",")),
    }
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
