//! How an endpoint fits into a Cloud Map service that exists: by its records, with both families
//! or the one that fits.

use crate::fleet::{Fleet, annotated};
use crate::run::{converge, held_back, said_of};
use testbed::cloud_map::RecordType::{A, Aaaa, Cname};
use testbed::cloud_map::ServiceKind;
use testbed::kubernetes::{Headless, Pod};

fn dual_stack(name: &str, namespace: &str) -> Headless {
    annotated(name, namespace, name).families(&["IPv4", "IPv6"])
}

/// IPv4 address, IPv6 address and port of each instance, with `-` for what it has not.
fn instances(fleet: &Fleet, namespace: &str) -> Vec<String> {
    let keys = ["AWS_INSTANCE_IPV4", "AWS_INSTANCE_IPV6", "AWS_INSTANCE_PORT"];
    let instances = fleet.instances(namespace, "web").into_values();
    let mut texts: Vec<String> = instances
        .map(|attributes| keys.map(|key| attributes.get(key).map_or("-", String::as_str)).join(" "))
        .collect();
    texts.sort();
    texts
}

#[tokio::test]
async fn dual_stack_pod_is_one_instance_with_both_families_in_an_http_service() {
    let fleet = Fleet::start().await;
    fleet.cloud_map.service(&fleet.http, "web", ServiceKind::Http);
    fleet.service(dual_stack("web", "prod"));
    let pods = [
        Pod::new("web-0", "10.0.1.1").address("fd00::1"),
        Pod::new("web-1", "10.0.1.2"),
        Pod::new("web-2", "fd00::3"),
    ];
    fleet.cluster.pods("shop", "web", &pods);

    converge(&fleet, &fleet.function().await).await;

    let expected = ["- fd00::3 -", "10.0.1.1 fd00::1 -", "10.0.1.2 - -"];
    assert_eq!(instances(&fleet, "prod"), expected);
    let ids: Vec<String> = fleet.instances("prod", "web").into_keys().collect();
    assert!(ids[0].starts_with("ip-10-0-1-1-") && ids[2].starts_with("ip-fd00--3-"), "{ids:?}");
}

#[tokio::test]
async fn pod_of_one_family_in_a_service_of_both_is_tried_and_held_back() {
    let fleet = Fleet::start().await;
    fleet.dns_service("web", &[A, Aaaa]);
    fleet.service(dual_stack("web", "prod.local"));
    let pods = [Pod::new("web-0", "10.0.1.1").address("fd00::1"), Pod::new("web-1", "10.0.1.2")];
    fleet.cluster.pods("shop", "web", &pods);

    let report = crate::run::sync(&fleet.function().await).await;

    assert!(report.ok, "{report}");
    assert_eq!(held_back(&report), ["RecordTypeMismatch"], "{report}");
    assert!(said_of(&report, "RecordTypeMismatch").contains("10.0.1.2"));
    assert_eq!(instances(&fleet, "prod.local"), ["10.0.1.1 fd00::1 -"]);
}

#[tokio::test]
async fn pod_of_the_other_family_is_held_back_without_a_call() {
    let fleet = Fleet::start().await;
    fleet.dns_service("web", &[A]);
    fleet.service(dual_stack("web", "prod.local"));
    let pods = [Pod::new("web-0", "10.0.1.1"), Pod::new("web-1", "fd00::2")];
    fleet.cluster.pods("shop", "web", &pods);

    let report = converge(&fleet, &fleet.function().await).await;

    assert_eq!(held_back(&report), ["RecordTypeMismatch"], "{report}");
    assert_eq!(instances(&fleet, "prod.local"), ["10.0.1.1 - -"]);
}

#[tokio::test]
async fn cname_service_takes_no_instance_and_is_held_back() {
    let fleet = Fleet::start().await;
    fleet.dns_service("web", &[Cname]);
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    fleet.web("cart", "prod.local", &["10.0.2.1"]);

    let report = converge(&fleet, &fleet.function().await).await;

    assert_eq!(held_back(&report), ["CnameService"], "{report}");
    assert_eq!(fleet.addresses("prod.local", "cart"), ["10.0.2.1"]);
}

#[tokio::test]
async fn service_that_ecs_service_connect_manages_is_held_back() {
    let fleet = Fleet::start().await;
    let service = fleet.cloud_map.service(&fleet.http, "web", ServiceKind::Http);
    fleet.cloud_map.tag(&service, "AmazonECSManaged", "true");
    fleet.ecs_task(&service, "0123456789abcdef0123456789abcdef", "10.0.9.1");
    fleet.web("web", "prod", &["10.0.1.1"]);

    let report = converge(&fleet, &fleet.function().await).await;

    assert_eq!(held_back(&report), ["ServiceConnect"], "{report}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.9.1"]);
}

#[tokio::test]
async fn addresses_that_no_other_host_can_use_are_never_published() {
    let fleet = Fleet::start().await;
    fleet.service(dual_stack("web", "prod"));
    let addresses = [
        "127.0.0.1",
        "169.254.169.254",
        "224.0.0.1",
        "0.0.0.0",
        "255.255.255.255",
        "::1",
        "fe80::1",
        "ff02::1",
        "::",
        "::ffff:10.0.0.1",
        "10.0.1.1",
    ];
    fleet.pods("web", &addresses);

    let report = converge(&fleet, &fleet.function().await).await;

    assert_eq!(held_back(&report), ["NotPublishable"; 10], "{report}");
    assert_eq!(instances(&fleet, "prod"), ["10.0.1.1 - -"]);
}
