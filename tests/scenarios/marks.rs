//! What is repaired on an instance of ours, what is carried over, and what is no difference.

use crate::fleet::{Attributes, Fleet, annotated, attributes};
use crate::run::{converge, settled, sync, writes};
use testbed::cloud_map::{RecordType, ServiceKind};

/// A converged world of one instance with a port, changed by `edit` behind the function's back;
/// what the instance was, and what a further sync made of it.
async fn after(edit: impl FnOnce(&mut Attributes)) -> (Fleet, Attributes, Attributes) {
    let fleet = Fleet::start().await;
    fleet.service(annotated("web", "prod", "web").annotate("cloudmap.controller/port", "http"));
    fleet.pods("web", &["10.0.1.1"]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    let (id, before) = fleet.instance("prod", "web");
    let service = fleet.cloud_map.find_service("prod", "web").expect("created");
    let mut edited = before.clone();
    edit(&mut edited);
    fleet.put(&service, &id, &edited);
    fleet.cloud_map.forget_calls();
    sync(&function).await;
    let (same_id, now) = fleet.instance("prod", "web");
    assert_eq!(same_id, id);
    (fleet, before, now)
}

#[tokio::test]
async fn drift_in_marks_zone_region_and_port_is_repaired_in_place() {
    for (key, value) in [
        ("cloud-map-sync/service", "gone"),
        ("cloud-map-sync/namespace", "elsewhere"),
        ("cloud-map-sync/pod", "another-pod"),
        ("AVAILABILITY_ZONE", "eu-central-1c"),
        ("REGION", "us-east-1"),
        ("AWS_INSTANCE_PORT", "9"),
        ("AWS_INSTANCE_IPV6", "fd00::9"),
    ] {
        let (fleet, before, now) =
            after(|attributes| _ = attributes.insert(key.to_owned(), value.to_owned())).await;
        assert_eq!(now, before, "{key}");
        assert_eq!(writes(&fleet), ["RegisterInstance web"], "{key}");
    }
}

#[tokio::test]
async fn attributes_that_went_missing_come_back() {
    for key in ["cloud-map-sync/pod", "AVAILABILITY_ZONE", "REGION", "AWS_INSTANCE_PORT"] {
        let (_, before, now) = after(|attributes| _ = attributes.remove(key)).await;
        assert_eq!(now, before, "{key}");
    }
}

#[tokio::test]
async fn attribute_that_somebody_added_is_no_difference() {
    let (fleet, _, now) =
        after(|attributes| _ = attributes.insert("weight".into(), "10".into())).await;
    assert_eq!(now["weight"], "10");
    assert!(writes(&fleet).is_empty());
}

#[tokio::test]
async fn attributes_that_somebody_added_are_carried_over_on_a_rewrite() {
    let (_, before, now) = after(|attributes| {
        attributes.insert("weight".into(), "10".into());
        attributes.insert("REGION".into(), "us-east-1".into());
    })
    .await;
    let mut expected = before;
    expected.insert("weight".into(), "10".into());
    assert_eq!(now, expected);
}

/// Cloud Map takes `aws_instance_ipv4`, and does not document its effect.
#[tokio::test]
async fn another_spelling_beside_our_key_is_no_difference_and_not_sent_again() {
    let misspelled = [("aws_instance_ipv4", "10.0.9.9"), ("Aws_Instance_Port", "9")];
    let (fleet, _, now) = after(|all| all.extend(attributes(&misspelled))).await;
    assert_eq!(now["aws_instance_ipv4"], "10.0.9.9");
    assert!(writes(&fleet).is_empty(), "{:?}", writes(&fleet));

    let (fleet, before, now) = after(|all| {
        all.extend(attributes(&misspelled));
        all.extend(attributes(&[("aws_team", "x"), ("REGION", "us-east-1")]));
    })
    .await;
    assert_eq!(now, before);
    assert_eq!(writes(&fleet), ["RegisterInstance web"]);
    settled(&fleet, &fleet.function().await).await;
}

#[tokio::test]
async fn another_spelling_in_place_of_our_key_is_read_as_that_key() {
    for (address, expected) in [("10.0.1.1", 0), ("10.0.9.9", 1)] {
        let (fleet, before, now) = after(|all| {
            all.remove("AWS_INSTANCE_IPV4");
            all.insert("aws_instance_ipv4".into(), address.into());
        })
        .await;
        assert_eq!(writes(&fleet), vec!["RegisterInstance web"; expected], "{address}");
        assert_eq!(now == before, expected == 1, "{address}: {now:?}");
        settled(&fleet, &fleet.function().await).await;
    }
}

#[tokio::test]
async fn higher_schema_alone_is_no_difference() {
    let (fleet, _, now) = after(|attributes| {
        attributes.extend(self::attributes(&[
            ("cloud-map-sync/schema", "7"),
            ("cloud-map-sync/later", "x"),
        ]));
    })
    .await;
    assert_eq!((now["cloud-map-sync/schema"].as_str(), writes(&fleet).len()), ("7", 0));
}

#[tokio::test]
async fn rewrite_keeps_a_higher_schema_and_its_unknown_marks() {
    let (_, before, now) = after(|attributes| {
        attributes.extend(self::attributes(&[
            ("cloud-map-sync/schema", "7"),
            ("cloud-map-sync/later", "x"),
            ("AVAILABILITY_ZONE", "eu-central-1c"),
        ]));
    })
    .await;
    let mut expected = before;
    expected.extend(attributes(&[("cloud-map-sync/schema", "7"), ("cloud-map-sync/later", "x")]));
    assert_eq!(now, expected);
}

/// Cloud Map never changes the attribute after the registration, so it says nothing of today; and a
/// registration starts the health anew, of a pod that is ready.
#[tokio::test]
async fn initial_health_is_no_difference_and_a_rewrite_makes_no_ready_pod_unhealthy() {
    let fleet = Fleet::start().await;
    let kind = ServiceKind::Dns { records: vec![(RecordType::A, 60)], custom_health: true };
    let service = fleet.cloud_map.service(&fleet.dns, "web", kind);
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    let mut instance = fleet.ours("web", "10.0.1.1");
    instance.insert("AWS_INIT_HEALTH_STATUS".into(), "UNHEALTHY".into());
    fleet.put(&service, "mine", &instance);
    let function = fleet.function().await;

    let report = converge(&fleet, &function).await;
    assert_eq!((report.counts.unchanged, report.counts.rewritten), (1, 0), "{report}");

    let mut drifted = instance.clone();
    drifted.insert("REGION".into(), "us-east-1".into());
    fleet.put(&service, "mine", &drifted);
    let report = converge(&fleet, &function).await;
    assert_eq!(report.counts.rewritten, 1, "{report}");
    instance.insert("AWS_INIT_HEALTH_STATUS".into(), "HEALTHY".into());
    assert_eq!(fleet.instance("prod.local", "web").1, instance);
    assert_eq!(fleet.cloud_map.health(&service)["mine"], "HEALTHY");
}
