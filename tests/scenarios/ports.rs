//! Which port an instance carries: the target port behind the Service's port that is annotated.

use crate::fleet::{Fleet, annotated};
use crate::run::{converge, held_back, said_of};
use testbed::cloud_map::RecordType::A;
use testbed::kubernetes::{Headless, Pod};

/// A Service `web` with ports `http` 80 -> 8080 and `grpc` 90 -> 9090, annotated with `port`.
fn web(namespace: &str, port: &str) -> Headless {
    Headless::new("shop", "web")
        .port_to("http", 80, 8080)
        .port_to("grpc", 90, 9090)
        .annotate("cloudmap.controller/hostname", "web")
        .annotate("cloudmap.controller/namespace", namespace)
        .annotate("cloudmap.controller/port", port)
}

fn ports(fleet: &Fleet, namespace: &str) -> Vec<String> {
    fleet.values(namespace, "web", "AWS_INSTANCE_PORT")
}

#[tokio::test]
async fn port_is_named_by_name_or_by_the_services_number_and_written_as_its_target() {
    for (port, expected) in [("http", "8080"), ("80", "8080"), ("90", "9090"), (" grpc ", "9090")] {
        let fleet = Fleet::start().await;
        fleet.service(web("prod", port));
        fleet.pods("web", &["10.0.1.1"]);
        converge(&fleet, &fleet.function().await).await;
        assert_eq!(ports(&fleet, "prod"), [expected], "{port}");
    }
}

#[tokio::test]
async fn address_records_carry_no_port_so_the_first_is_kept_as_attribute_and_it_is_said() {
    let fleet = Fleet::start().await;
    fleet.dns_service("web", &[A]);
    fleet.service(web("prod.local", "grpc,http"));
    fleet.pods("web", &["10.0.1.1", "10.0.1.2"]);

    let report = converge(&fleet, &fleet.function().await).await;

    assert_eq!(ports(&fleet, "prod.local"), ["9090", "9090"]);
    assert_eq!(held_back(&report), ["PortNotServed"], "{report}");
}

#[tokio::test]
async fn named_target_port_may_differ_from_pod_to_pod() {
    let fleet = Fleet::start().await;
    fleet.service(
        annotated("web", "prod", "web")
            .port_to("metrics", 80, "metrics")
            .annotate("cloudmap.controller/port", "metrics"),
    );
    let pods = [("10.0.1.1", 9100), ("10.0.1.2", 9200)].map(|(address, port)| {
        Pod::new(&format!("web-{port}"), address).container_port("metrics", port)
    });
    fleet.cluster.pods("shop", "web", &pods);

    converge(&fleet, &fleet.function().await).await;

    let instances = fleet.instances("prod", "web").into_values();
    let pairs: Vec<_> = instances
        .map(|it| format!("{} {}", it["AWS_INSTANCE_IPV4"], it["AWS_INSTANCE_PORT"]))
        .collect();
    assert_eq!(pairs, ["10.0.1.1 9100", "10.0.1.2 9200"]);
}

#[tokio::test]
async fn pods_on_the_host_network_share_an_address_and_are_distinguished_by_port() {
    for (port, expected) in [("metrics", 2), ("", 1)] {
        let fleet = Fleet::start().await;
        fleet.service(annotated("web", "prod", "web").port_to("metrics", 80, "metrics"));
        fleet.annotate("web", "port", port);
        let pods = [9100, 9200].map(|port| {
            Pod::new(&format!("web-{port}"), "10.0.1.1").container_port("metrics", port)
        });
        fleet.cluster.pods("shop", "web", &pods);

        let report = converge(&fleet, &fleet.function().await).await;

        assert_eq!(fleet.instances("prod", "web").len(), expected, "{port:?}: {report}");
    }
}

#[tokio::test]
async fn port_that_the_service_does_not_have_is_held_back_and_what_is_registered_stays() {
    let fleet = Fleet::start().await;
    fleet.service(web("prod", "http"));
    fleet.pods("web", &["10.0.1.1"]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    fleet.annotate("web", "port", "admin");

    let report = converge(&fleet, &function).await;

    assert_eq!(held_back(&report), ["NoSuchPort"], "{report}");
    assert!(said_of(&report, "NoSuchPort").contains("http (80), grpc (90)"), "{report}");
    assert_eq!(ports(&fleet, "prod"), ["8080"]);
}

#[tokio::test]
async fn port_added_later_to_an_address_service_becomes_an_attribute_in_place() {
    let fleet = Fleet::start().await;
    fleet.service(web("prod.local", "http"));
    fleet.annotate("web", "port", "");
    fleet.pods("web", &["10.0.1.1"]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    fleet.annotate("web", "port", "http");

    let report = converge(&fleet, &function).await;

    assert_eq!(report.counts.rewritten, 1, "{report}");
    assert_eq!(held_back(&report), ["PortNotServed"], "{report}");
    assert_eq!(ports(&fleet, "prod.local"), ["8080"]);
}
