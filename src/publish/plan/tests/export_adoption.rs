//! The instances of AWS's controller for a member: its export waits for their adoption, and all of them are adopted.

use std::sync::Arc;

use insta::assert_snapshot;

use super::world::{A, World, foreign, lines_of, named, pod, service, with, written};
use crate::model::attributes::{EC2_INSTANCE, PORT};
use crate::model::{
    Attributes, ClusterId, ClustersetId, Export, ExportedPort, ExportedService, Flow, ImportType,
    Member, Properties, Protocol, Selection, Timestamp,
};
use crate::publish::plan::{Adoption, ExportAdoption, Plan, Policy, Rules};

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
    web.annotated.export = Some(Arc::new(ExportedService { clusterset, export, targets }));
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

fn adoption(world: &World) -> Plan {
    let observed = world.observed(&Selection::Everything);
    let recorded = observed.to_adopt(&member());
    ExportAdoption { member: member(), recorded }.plan(&observed)
}

#[test]
fn export_waits_and_nothing_under_its_name_changes() {
    let world = exported(["10.0.0.1", "10.0.0.2"]).http(
        "web",
        [("tcp-10_0_0_1-8080", of_aws("10.0.0.1")), ("tcp-10_0_0_9-8080", of_aws("10.0.0.9"))],
    );
    assert_snapshot!(world.planned(), @r#"! http/web http/web: 2 instances under this name have the cluster's id and no marks, as AWS's controller registers them; the export waits for {"action":"adopt","cluster":"arn:aws:eks:eu-central-1:111122223333:cluster/blue"} (NotAdopted)"#);
}

/// Each is an instance of AWS's controller but for one attribute.
#[test]
fn only_complete_unmarked_instances_of_the_member_are_adopted_and_hold_the_export_back() {
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
        let is_adopted = written(&adoption(&world), "http/web").contains_key(id);
        let waits = world.planned().contains("(NotAdopted)");
        assert_eq!((is_adopted, waits), (expected, expected), "{attributes:?}");
    }
}

#[test]
fn adopted_instance_is_as_the_next_sync_wants_it() {
    let world = exported(["10.0.0.1"])
        .http("web", [("tcp-10_0_0_1-8080", with(of_aws("10.0.0.1"), "team", "shop"))]);
    let adopted = written(&adoption(&world), "http/web").remove("tcp-10_0_0_1-8080");
    let adopted = adopted.expect("it is adopted");
    assert_eq!(adopted.get("HOSTNAME"), None);
    let kept = ["team", "K8S_CONTROLLER", "cloud-map-sync/exporter", "cloud-map-sync/pod"];
    let kept = kept.map(|key| adopted.get(key));
    let controller = "aws-cloud-map-mcs-controller-for-k8s 0.3.1";
    assert_eq!(kept, ["shop", controller, "cloud-map-sync", "one"].map(Some));
    let after = exported(["10.0.0.1"]).http("web", [("tcp-10_0_0_1-8080", adopted)]);
    assert_eq!(after.planned(), "");
    assert_eq!(lines_of(&adoption(&after)), "");
}

/// No other writer deregisters them any more.
#[test]
fn instances_that_no_endpoint_asks_for_are_adopted_and_removed_by_the_next_sync() {
    let world = exported(["10.0.0.1"])
        .http("web", [("a", of_aws("10.0.0.1")), ("b", with(of_aws("10.0.0.9"), "READY", "false"))])
        .http("gone", [("c", of_aws("10.0.0.8"))]);
    let plan = adoption(&world);
    assert_snapshot!(lines_of(&plan), @"
    http/gone: adopt http/gone c: 10.0.0.8 port 8080: of the AWS MCS controller, which must not run any more
    http/web: adopt http/web a: 10.0.0.1 port 8080: of the AWS MCS controller, which must not run any more; HOSTNAME  -> nothing, REGION nothing -> eu-central-1
    http/web: adopt http/web b: 10.0.0.9 port 8080: of the AWS MCS controller, which must not run any more
    ");
    let [web, gone] = ["http/web", "http/gone"].map(|place| written(&plan, place));
    let [a, b, c] = [web["a"].clone(), web["b"].clone(), gone["c"].clone()];
    assert_eq!(b.get("READY"), Some("false"));
    let after = exported(["10.0.0.1"]).http("web", [("a", a), ("b", b)]).http("gone", [("c", c)]);
    assert_snapshot!(after.planned(), @"
    http/gone: deregister http/gone c: 10.0.0.8 port 8080: Service http/gone is gone, or no longer exported
    http/web: deregister http/web b: 10.0.0.9 port 8080: no ready endpoint has this address and port
    ");
}

/// With our marks and without a record they would count for no member.
#[test]
fn instances_of_an_export_without_a_record_stay() {
    let world = exported(["10.0.0.1"]).http("web", [("a", of_aws("10.0.0.1"))]);
    let observed = world.observed(&Selection::Everything);
    assert_eq!(observed.to_adopt(&member()), [named("http/web")].into());
    let none = ExportAdoption { member: member(), recorded: [].into() };
    assert_eq!(lines_of(&none.plan(&observed)), "");
}

#[test]
fn what_cannot_have_our_marks_is_reported() {
    let many = (0..20).fold(of_aws("10.0.0.1"), |all, it| with(all, &format!("key-{it}"), "x"));
    for (attributes, reason) in [
        (with(of_aws("10.0.0.1"), EC2_INSTANCE, "i-0123"), "Cloud Map allows no marks together"),
        (many, "with our marks it would have 39 attributes"),
    ] {
        let world = exported(["10.0.0.1"]).http("web", [("a", attributes)]);
        let planned = lines_of(&adoption(&world));
        assert!(planned.starts_with("! http/web http/web: instance a is not adopted"), "{planned}");
        assert!(planned.contains(reason), "{planned}");
    }
    let world = exported(["10.0.0.1"]).http("web", [("a", of_aws("10.0.0.1"))]);
    let policy = Policy::CreateOnly;
    let planned = lines_of(&adoption(&world.under(Rules { policy, ..Rules::default() })));
    assert!(
        planned.contains("POLICY=create-only does not allow this: adopt a in http/web"),
        "{planned}"
    );
}

#[test]
fn annotated_services_leave_the_instances_of_exports_alone_if_these_are_adopted_too() {
    let world = World::of(service("shop/web", "http/web").ready([pod("one", "10.0.0.1")]))
        .http("web", [("a", with(of_aws("10.0.0.1"), PORT, ""))]);
    let mut of_aws = of_aws("10.0.0.1");
    of_aws.remove(PORT);
    let world = world.http("web", [("a", of_aws)]);
    let adopted = |exports| {
        let observed = world.observed(&Selection::Everything);
        lines_of(&Adoption { owner: None, exports }.plan(&observed))
    };
    assert!(adopted(false).starts_with("shop/web: adopt http/web a"), "{}", adopted(false));
    assert_snapshot!(adopted(true), @"! shop/web http/web: instance a is not adopted: it belongs to a ServiceExport (NotAdopted)");
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
