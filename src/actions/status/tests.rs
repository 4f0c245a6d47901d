use std::collections::BTreeSet;

use super::*;
use crate::model::{
    Attributes, CloudMapService, ClusterArn, Flow, Marks, Namespace, NamespaceKind, Owner,
    Registry, ServiceKey, ServiceKind, ServiceRef, Timestamp,
};

const BLUE: &str = "arn:aws:eks:eu-central-1:111122223333:cluster/blue";
/// The time of the status.
const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);
const GREEN: &str = "arn:aws:eks:eu-central-1:111122223333:cluster/green";

fn of_cluster(owner: &str, cluster: &str) -> Attributes {
    let cluster = ClusterArn::parse(cluster).expect("an ARN");
    let owner = Owner { id: owner.to_owned(), cluster, flow: Flow::Annotations };
    Marks { service: ServiceRef::new("shop", "web"), pod: None }.write(&owner)
}

fn attributes(pairs: &[(&str, &str)]) -> Attributes {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// `web` with instances of every kind of party, and an unreadable `cart`.
fn registry() -> Registry {
    let namespace = Namespace { kind: NamespaceKind::Http, ..Namespace::missing("prod") };
    let mut web = CloudMapService::created("arn".to_owned(), "web", ServiceKind::Http);
    let task = attributes(&[("ECS_CLUSTER_NAME", "legacy"), ("ECS_SERVICE_NAME", "web")]);
    let mut like_a_task = of_cluster("team-a", BLUE);
    like_a_task.extend(&task);
    let instances = [
        ("a", like_a_task),
        ("b", of_cluster("team-a", BLUE)),
        ("c", of_cluster("team-a", GREEN)),
        ("d", of_cluster("team-b", BLUE)),
        ("e", task),
        ("0123456789abcdef0123456789abcdef", attributes(&[("AWS_INSTANCE_IPV4", "10.0.0.1")])),
        ("f", attributes(&[("appmesh.k8s.aws/pod", "x")])),
        ("g", attributes(&[("cloud-map-sync/owner", "team-a")])),
        ("h", Attributes::new()),
    ];
    let instances = instances.map(|(id, attributes)| (id.to_owned(), attributes));
    web.instances = Some(instances.into_iter().collect());
    let mut cart = CloudMapService::created("arn".to_owned(), "cart", ServiceKind::Http);
    cart.instances = None;
    cart.unreadable = Some("throttled".to_owned());
    let services = [web, cart].map(|it| (ServiceKey::new(&namespace, &it.name), it));
    let namespaces = [(namespace.id.clone(), namespace)].into();
    Registry { services: services.into(), namespaces, ..Registry::default() }
}

fn status(clusters: &[&str]) -> Status {
    let clusters = clusters.iter().map(|it| (*it).to_owned()).collect();
    Status::new("team-a", clusters, vec![RegistryStatus::new(None, &registry(), false, NOW)])
}

#[test]
fn each_kind_of_party_has_a_column() {
    insta::assert_snapshot!(status(&[BLUE]).to_string(), @r"
    SERVICE    TYPE  THIS CLUSTER  OTHER CLUSTERS  ECS  OTHER TOOLS  UNKNOWN
    prod/cart  HTTP  -             -               -    -            -
      ! not read   throttled
    prod/web   HTTP  2             3               2    1            1
    2 services, incomplete: 2 this cluster, 3 other clusters, 2 ECS, 1 other tools, 1 unknown
    ");
}

#[test]
fn the_wide_table_names_each_of_them() {
    let wide = format!("{:#}", status(&[BLUE, GREEN]));
    let shares: BTreeSet<&str> =
        wide.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    let expected = [
        "1 of ECS",
        "1 of ECS service legacy/web",
        "1 of another cluster, with broken marks",
        "1 of cluster blue (team-b)",
        "1 of cluster green (team-a)",
        "1 of an unknown party",
        "1 of the App Mesh controller",
        "2 of cluster blue (team-a)",
    ];
    assert_eq!(shares, BTreeSet::from(expected));
    let sum = "3 these clusters, 2 other clusters, 2 ECS, 1 other tools, 1 unknown\n";
    assert!(wide.ends_with(sum), "{wide}");
}

#[test]
fn an_unreadable_cloud_map_is_reported_and_not_shown_as_empty() {
    let unreadable = RegistryStatus::unreadable(Some("in eu-west-1".to_owned()), "denied".into());
    let status = Status::new("team-a", Vec::new(), vec![unreadable]);
    assert!(!status.ok);
    insta::assert_snapshot!(status.to_string(), @r"
    Cloud Map in eu-west-1
    ! not read: denied
    0 services, incomplete: no instances
    ");
}

/// A Cloud Map service in an HTTP namespace.
fn add(registry: &mut Registry, namespace: &str, name: &str, instances: &[(&str, Attributes)]) {
    let namespace = Namespace { kind: NamespaceKind::Http, ..Namespace::missing(namespace) };
    let mut service = CloudMapService::created("arn".to_owned(), name, ServiceKind::Http);
    let instances = instances.iter().map(|(id, it)| ((*id).to_owned(), it.clone()));
    service.instances = Some(instances.collect());
    registry.services.insert(ServiceKey::new(&namespace, name), service);
    registry.namespaces.insert(namespace.id.clone(), namespace);
}

/// An instance of `shop/<name>` with the attributes of AWS's controller.
fn exported(cluster: &str, address: &str, port: &str, ready: &str) -> Attributes {
    attributes(&[
        ("AWS_INSTANCE_IPV4", address),
        ("AWS_INSTANCE_PORT", port),
        ("CLUSTER_ID", cluster),
        ("CLUSTERSET_ID", "shop-set"),
        ("ENDPOINT_PORT_NAME", ""),
        ("ENDPOINT_PROTOCOL", "TCP"),
        ("READY", ready),
        ("SERVICE_EXPORT_CREATION_TIMESTAMP", "1767225600000"),
        ("SERVICE_PORT", "80"),
        ("SERVICE_PORT_NAME", ""),
        ("SERVICE_PROTOCOL", "TCP"),
        ("SERVICE_TARGET_PORT", "8080"),
        ("SERVICE_TYPE", "ClusterSetIP"),
    ])
}

fn of_blue(instance: &Attributes) -> Attributes {
    let cluster = ClusterArn::parse(BLUE).expect("an ARN");
    let owner = Owner { id: "team-a".to_owned(), cluster, flow: Flow::Exports };
    let mut marked = Marks { service: ServiceRef::new("shop", "web"), pod: None }.write(&owner);
    marked.extend(instance);
    marked
}

/// `blue` with records of itself and of `web`, an unusable one, and `api` without a record; `amber` of AWS's controller.
fn clusterset() -> Registry {
    let mut registry = Registry::default();
    let record = |key: &str, value: &str| of_blue(&attributes(&[(key, value)]));
    let mut cluster = record("cloud-map-sync/clusterset", "shop-set");
    cluster.insert("cloud-map-sync/heartbeat", "2025-12-31T23:57:00Z");
    let export =
        r#"{"created":"2025-01-01T00:00:00Z","ipFamilies":["IPv4"],"ports":[],"type":"Headless"}"#;
    let web = ServiceRef::new("shop", "web");
    let records = [
        ("cluster", cluster),
        (&crate::clusterset::id::export_record(&web), record("cloud-map-sync/export", export)),
        ("export-0", record("cloud-map-sync/export", "{")),
    ];
    add(&mut registry, "clusterset.shop-set", "blue", &records);
    let of_web = [
        ("a", of_blue(&exported("blue", "10.0.0.1", "8080", "true"))),
        ("b", of_blue(&exported("blue", "10.0.0.1", "9090", "true"))),
        ("c", exported("amber", "10.2.0.1", "8080", "true")),
        ("d", exported("amber", "10.2.0.2", "8080", "false")),
    ];
    add(&mut registry, "shop", "web", &of_web);
    let without_record = of_blue(&exported("blue", "10.0.0.9", "8080", "true"));
    add(&mut registry, "shop", "api", &[("e", without_record)]);
    registry
}

#[test]
fn each_member_of_a_clusterset_has_a_row_and_records_are_no_services() {
    let registry = RegistryStatus::new(None, &clusterset(), false, NOW);
    let status = Status::new("team-a", vec![BLUE.to_owned()], vec![registry]);
    assert!(status.ok);
    insta::assert_snapshot!(format!("{status:#}"), @r"
    SERVICE   TYPE  THIS CLUSTER  OTHER CLUSTERS  ECS  OTHER TOOLS  UNKNOWN
    shop/api  HTTP  1             -               -    -            -
        1 of cluster blue (team-a)
    shop/web  HTTP  2             -               -    -            2
        2 of cluster blue (team-a)
        2 of an unknown party
    clusterset shop-set
    MEMBER  CONTROLLER        HEARTBEAT  EXPORTS  READY ENDPOINTS
    amber   AWS's controller  -          1        1
    blue    team-a            3m ago     1        1
      ! records    the record export-0 of cluster blue (shop/web) cannot be used: its id is not that of the Service in its marks
        arn:aws:eks:eu-central-1:111122223333:cluster/blue
    2 services: 3 this cluster, 2 unknown
    ");
}

#[test]
fn member_whose_records_were_not_read_makes_the_status_incomplete() {
    let mut registry = clusterset();
    let service = registry.services.values_mut().find(|it| it.name == "blue").expect("records");
    service.instances = None;
    service.unreadable = Some("throttled".to_owned());
    let read = RegistryStatus::new(None, &registry, false, NOW);
    let status = Status::new("team-a", Vec::new(), vec![read]);
    assert!(!status.ok);
    let blue = &status.registries[0].clustersets[0].members[1];
    assert_eq!((blue.unread, blue.exports, blue.problems.len()), (true, 0, 1));
}

#[test]
fn task_of_ecs_without_its_cluster_is_of_the_default_one() {
    let mut registry = registry();
    let service = registry.services.values_mut().find(|it| it.name == "web").expect("web");
    let task = attributes(&[("ECS_SERVICE_NAME", "web")]);
    service.instances = Some([("a".to_owned(), task)].into_iter().collect());
    let status = RegistryStatus::new(None, &registry, false, NOW);
    let web = status.services.iter().find(|it| it.name == "web").expect("web");
    assert_eq!(web.instances[0].name.as_deref(), Some("default/web"));
}
