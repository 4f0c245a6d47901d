//! The instances of AWS's controller for a member: its export waits until they are gone, and no adoption takes them.

use std::sync::Arc;

use insta::assert_snapshot;

use super::world::{A, World, foreign, lines_of, pod, service, with};
use crate::model::attributes::PORT;
use crate::model::{
    Attributes, ClusterId, ClustersetId, Export, ExportedPort, ExportedService, Flow, ImportType,
    Member, Properties, Protocol, Selection, Timestamp,
};
use crate::publish::plan::Adoption;

const CREATED: Timestamp = Timestamp::constant(1_767_225_600, 0);

fn member() -> Member {
    Member {
        cluster: ClusterId::parse("blue").expect("an id"),
        clusterset: ClustersetId::parse("shop-set").expect("an id"),
    }
}

/// `http/web` is exported, with port 80 that leads to 8080 of these pods.
fn exported<const N: usize>(addresses: [&str; N]) -> World {
    let pods = addresses.map(|address| {
        let mut pod = pod("one", address);
        pod.ports = Arc::new([("http".to_owned(), 8080)].into());
        pod
    });
    let mut web = service("http/web", "http/web").ready(pods);
    let Member { cluster, clusterset } = member();
    let port = |name: &str, number| ExportedPort {
        name: name.to_owned(),
        protocol: Protocol::Tcp,
        number,
        app_protocol: None,
    };
    let export = Export {
        cluster,
        created: CREATED,
        kind: ImportType::ClusterSetIp,
        ports: vec![port("http", 80)],
        families: Vec::new(),
        properties: Some(Properties::default()),
    };
    let targets = [("http".to_owned(), "8080".to_owned())].into();
    web.annotated.export =
        Some(Arc::new(ExportedService { clusterset, export, targets, is_of_aws: false }));
    let mut world = World::of(web);
    world.0.owner.flow = Flow::Exports;
    world
}

/// An instance as AWS's controller registers it for blue.
fn of_aws(address: &str) -> Attributes {
    let attributes = [
        (PORT, "8080"),
        ("CLUSTER_ID", "blue"),
        ("CLUSTERSET_ID", "shop-set"),
        ("ENDPOINT_PORT_NAME", "http"),
        ("ENDPOINT_PROTOCOL", "TCP"),
        ("HOSTNAME", ""),
        ("K8S_CONTROLLER", "aws-cloud-map-mcs-controller-for-k8s 0.3.1"),
        ("READY", "true"),
        ("SERVICE_EXPORT_CREATION_TIMESTAMP", "1767225600000"),
        ("SERVICE_PORT", "80"),
        ("SERVICE_PORT_NAME", "http"),
        ("SERVICE_PROTOCOL", "TCP"),
        ("SERVICE_TARGET_PORT", "8080"),
        ("SERVICE_TYPE", "ClusterSetIP"),
    ];
    attributes.into_iter().fold(foreign(address), |all, (key, value)| with(all, key, value))
}

#[test]
fn export_waits_and_nothing_under_its_name_changes() {
    let world = exported(["10.0.0.1", "10.0.0.2"]).http(
        "web",
        [("tcp-10_0_0_1-8080", of_aws("10.0.0.1")), ("tcp-10_0_0_9-8080", of_aws("10.0.0.9"))],
    );
    assert_snapshot!(world.planned(), @r#"! http/web http/web: 2 instances under this name have the cluster's id and no marks, as AWS's controller registers them: give the cluster another id, or deregister them (AnotherController)"#);
}

/// Each is an instance of AWS's controller but for one attribute.
#[test]
fn only_complete_unmarked_instances_of_the_member_hold_the_export_back() {
    let cases = [
        ("tcp-10_0_0_1-8080", of_aws("10.0.0.1"), true),
        ("any-id", with(of_aws("10.0.0.1"), "K8S_CONTROLLER", "my-own"), true),
        ("tcp-10_0_0_1-8080", with(of_aws("10.0.0.1"), "READY", "false"), true),
        ("tcp-10_0_0_1-8080", with(of_aws("10.0.0.1"), "CLUSTER_ID", "green"), false),
        ("tcp-10_0_0_1-8080", with(of_aws("10.0.0.1"), "CLUSTERSET_ID", "another"), false),
        ("tcp-10_0_0_1-8080", with(of_aws("10.0.0.1"), PORT, "70000"), false),
        ("tcp-10_0_0_1-8080", with(of_aws("10.0.0.1"), "cloud-map-sync/schema", "1"), false),
        ("tcp-10_0_0_1-8080", with(of_aws("10.0.0.1"), "ECS_SERVICE_NAME", "web"), false),
        ("3f2504e0-4f89-41d3-9a0c-0305e82c3301", of_aws("10.0.0.1"), false),
        ("by-hand", with(foreign("10.0.0.1"), "CLUSTER_ID", "blue"), false),
    ];
    for (id, attributes, expected) in cases {
        let world = exported(["10.0.0.1"]).http("web", [(id, attributes.clone())]);
        let waits = world.planned().contains("(AnotherController)");
        assert_eq!(waits, expected, "{attributes:?}");
    }
}

#[test]
fn annotated_services_leave_the_instances_of_exports_alone() {
    let world = World::of(service("shop/web", "http/web").ready([pod("one", "10.0.0.1")]))
        .http("web", [("a", with(of_aws("10.0.0.1"), PORT, ""))]);
    let mut of_aws = of_aws("10.0.0.1");
    of_aws.remove(PORT);
    let world = world.http("web", [("a", of_aws)]);
    let observed = world.observed(&Selection::Everything);
    let adopted = lines_of(&Adoption { owner: None }.plan(&observed));
    assert_snapshot!(adopted, @"! shop/web http/web: instance a is not adopted: it belongs to a ServiceExport (NotAdopted)");
}

#[test]
fn address_that_is_never_published_is_not_exported() {
    let world = exported(["10.0.0.1", "127.0.0.1"]).http("web", []);
    let of_ipv4 = exported(["10.0.0.1", "fd00::1"]).cloud_map("http/web", A, []);
    assert_snapshot!(of_ipv4.planned(), @"http/web: register http/web address-10-0-0-1-7633c81226: 10.0.0.1 port 8080 (pod one)");
    assert_snapshot!(world.planned(), @r"
    http/web: register http/web tcp-10-0-0-1-8080-881e6b3812: 10.0.0.1 port 8080 (pod one)
    ! http/web http/web: address 127.0.0.1 is not published: it is loopback, link-local, multicast, unspecified or IPv4-mapped (NotPublishable)
    ");
}
