//! How long deciding takes, without any call: `cargo bench -p testbed --bench planning`. A world of annotated Services with
//! ready pods, against an empty Cloud Map (everything is registered) and against one that says all of it; and the
//! `imports` of a `clusterset`.

mod clusterset;
mod imports;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use cloud_map_sync::kubernetes::object::{ObjectMetadata, Service, ServiceFields};
use cloud_map_sync::kubernetes::services::{self, AnnotationSettings};
use cloud_map_sync::model::{
    CloudMapService, ClusterArn, Desired, Endpoint, Flow, Namespace, NamespaceKind, Owner,
    Registry, Selection, ServiceKey, ServiceKind, Timestamp,
};
use cloud_map_sync::publish::plan::{Change, Extent, Observation, Plan, Rules, plan};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

const CLUSTER: &str = "arn:aws:eks:eu-central-1:111122223333:cluster/blue";
const NAMESPACES: usize = 10;

/// An annotated headless Service in one of ten namespaces.
fn service(index: usize) -> Service {
    let namespace = format!("prod-{}", index % NAMESPACES);
    let annotations = [("hostname", format!("web-{index}")), ("namespace", namespace)];
    let annotations = annotations.map(|(key, value)| (format!("cloudmap.controller/{key}"), value));
    let metadata = ObjectMetadata {
        name: format!("web-{index}"),
        namespace: "shop".to_owned(),
        annotations: BTreeMap::from(annotations),
        ..ObjectMetadata::default()
    };
    Service { metadata, spec: ServiceFields::default() }
}

fn endpoint(index: u32) -> Endpoint {
    let ipv4 = Some(Ipv4Addr::from_bits(0x0a00_0000 + index));
    let pod = Some(format!("web-{index}"));
    let zone = Some("eu-central-1a".to_owned());
    Endpoint { pod, ipv4, zone, ready: true, serving: true, ..Endpoint::default() }
}

fn desired(services: usize, pods: usize) -> Desired {
    let services: Vec<Service> = (0..services).map(service).collect();
    let reading =
        AnnotationSettings { prefix: "cloudmap.controller/".to_owned(), default_namespace: None };
    let mut desired = services::desired(&services, &reading);
    let mut addresses = 0..;
    for service in desired.services.values_mut() {
        service.endpoints = Some(addresses.by_ref().take(pods).map(endpoint).collect());
    }
    desired
}

fn namespace(index: usize) -> (String, Namespace) {
    let id = format!("ns-{index}");
    let arn = Some(format!("arn:aws:servicediscovery:eu-central-1:111122223333:namespace/{id}"));
    let name = format!("prod-{index}");
    let kind = NamespaceKind::Http;
    let owner = None;
    let http_name = Some(name.clone());
    (id.clone(), Namespace { id, arn, name, http_name, kind, owner })
}

/// A world in which nothing is registered.
fn nothing_registered(services: usize, pods: usize) -> Observation {
    let namespaces = (0..NAMESPACES).map(namespace).collect();
    let owner = Owner {
        id: "cloud-map-sync".to_owned(),
        cluster: ClusterArn::parse(CLUSTER).expect("an ARN"),
        flow: Flow::Annotations,
    };
    let registry = Registry { namespaces, ..Registry::default() };
    let read = Observation::new(owner, Arc::new(Rules::default()), Timestamp::UNIX_EPOCH, registry);
    Observation { extent: Extent::Everything, desired: desired(services, pods), ..read }
}

fn plan_all(observation: &mut Observation) -> Plan {
    observation.decide(&Selection::Everything);
    plan(observation)
}

/// The same world after all of it was registered.
fn in_step(mut world: Observation) -> Observation {
    for change in plan_all(&mut world).changes.into_values().flatten() {
        let key: ServiceKey = change.place().key.clone();
        let empty = || CloudMapService::created(key.name.clone(), &key.name, ServiceKind::Http);
        let service = world.registry.services.entry(key.clone()).or_insert_with(empty);
        if let Change::Register { instance, attributes, .. } = change {
            service.instances.get_or_insert_default().insert(instance, attributes);
        }
    }
    let plan = plan_all(&mut world);
    let is_quiet = plan.changes.is_empty() && plan.held_back.is_empty();
    assert!(is_quiet, "a world in step needs no change, and all of it has room");
    world
}

fn planning(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("plan");
    group.sample_size(10).measurement_time(Duration::from_secs(5));
    for (services, pods) in [(1_000, 20), (10_000, 50)] {
        let size = format!("{services} x {pods}");
        let mut world = nothing_registered(services, pods);
        group.bench_function(BenchmarkId::new("nothing registered", &size), |it| {
            it.iter(|| plan_all(black_box(&mut world)).changes.len());
        });
        let mut world = in_step(world);
        group.bench_function(BenchmarkId::new("in step", &size), |it| {
            it.iter(|| plan_all(black_box(&mut world)).changes.len());
        });
    }
    group.finish();
}

criterion_group!(benches, imports::imports, planning);
criterion_main!(benches);
