//! What is planned from hostile input: a cluster and a Cloud Map with services of each kind, and the rules for each change
//! of the plan and for each line of what is held back.

use std::sync::Arc;

use super::rules::{assert_instance, assert_instance_id, assert_line, assert_service_name};
use crate::model::{
    Attributes, CloudMapService, ClusterArn, Desired, Flow, Marks, Namespace, NamespaceKind, Owner,
    Records, Registry, Selection, ServiceKey, ServiceKind, ServiceRef, Timestamp,
};
use crate::publish::plan::{Change, Extent, Observation, Plan, plan};

/// The longest line, in characters: one line may list the twenty names that a Service may ask for.
const LONGEST_LINE: usize = 6_000;
const ARN: &str = "arn:aws:eks:eu-central-1:111122223333:cluster/blue";
const REGISTRY: &str = "arn:aws:servicediscovery:eu-central-1:111122223333";

pub fn owner() -> Owner {
    let cluster = ClusterArn::parse(ARN).expect("an ARN");
    Owner { id: "cloud-map-sync".into(), cluster, flow: Flow::Annotations }
}

pub fn web() -> ServiceRef {
    ServiceRef::new("shop", "web")
}

/// An instance of ours, at an address.
pub fn ours(address: &str) -> Attributes {
    let mut attributes = Marks { service: web(), pod: Some("web-1".into()) }.write(&owner());
    attributes.insert("AWS_INSTANCE_IPV4", address);
    attributes
}

/// An HTTP namespace and a DNS namespace, each with a service `web` that has these instances.
pub fn registry(kind: ServiceKind, instances: &[(String, Attributes)]) -> Registry {
    let mut registry = Registry::default();
    let kinds =
        [("http", NamespaceKind::Http, ServiceKind::Http), ("dns", NamespaceKind::Dns, kind)];
    for (name, kind, of_service) in kinds {
        let id = format!("ns-{name}");
        let arn = Some(format!("{REGISTRY}:namespace/ns-{name}"));
        let http_name = None;
        let owner = None;
        let namespace =
            Namespace { id: id.clone(), arn, name: name.into(), kind, http_name, owner };
        registry.namespaces.insert(id.clone(), namespace);
        let arn = format!("{REGISTRY}:service/srv-{name}");
        let mut service = CloudMapService::created(arn, "web", of_service);
        service.instances = Some(instances.iter().cloned().collect());
        registry.services.insert(ServiceKey { namespace: id, name: "web".into() }, service);
    }
    registry
}

pub const KINDS: [ServiceKind; 4] = [
    ServiceKind::Http,
    ServiceKind::Dns(Records { a: true, aaaa: false, srv: false, cname: false }),
    ServiceKind::Dns(Records { a: true, aaaa: true, srv: false, cname: false }),
    ServiceKind::Dns(Records { a: false, aaaa: false, srv: true, cname: false }),
];

/// The plan of a full sync, whose changes and lines keep the rules. Returns the number of instances that it writes.
pub fn assert_planned(desired: Desired, registry: Registry) -> usize {
    let now = Timestamp::constant(1_795_258_260, 0);
    let read = Observation::new(owner(), Arc::default(), now, registry);
    let read = Observation { extent: Extent::Everything, desired, ..read };
    let observed = read.decided(&Selection::Everything);
    let Plan { changes, held_back, .. } = plan(&observed);
    for line in &held_back {
        assert_line(&line.reason, LONGEST_LINE);
    }
    let changes = changes.values().flatten();
    changes.map(|change| usize::from(assert_change(change, &observed))).sum()
}

/// Whether the change writes an instance.
fn assert_change(change: &Change, observation: &Observation) -> bool {
    assert_line(&change.detail(), LONGEST_LINE);
    let key = &change.place().key;
    let present = |id: &String| {
        observation.registry.instances(key).find(|(it, _)| *it == id).map(|(_, found)| found)
    };
    match change {
        Change::Register { instance, attributes, .. } => {
            assert!(present(instance).is_none(), "over another instance");
            assert_instance_id(instance);
            assert_written(attributes);
            true
        }
        Change::Rewrite { instance, attributes, .. } => {
            let present = present(instance).expect("an instance");
            assert!(owner().owns(present), "{instance}");
            assert_written(attributes);
            true
        }
        Change::Deregister { instance, .. } => {
            assert!(owner().owns(present(instance).expect("an instance")), "{instance}");
            false
        }
        Change::CreateService { place, .. } => {
            assert_service_name(&place.name);
            false
        }
        Change::CreateNamespace { .. } | Change::UpdateService { .. } | Change::Note { .. } => {
            false
        }
    }
}

/// Whatever an annotation says, the marks are those of this cluster and of the Service.
fn assert_written(attributes: &Attributes) {
    assert_instance(attributes);
    assert!(owner().owns(attributes), "{attributes:?}");
    assert_eq!(owner().service_of(attributes), Some(web()), "{attributes:?}");
}
