//! Levers for a migration: how many instances a Service registers, whether it registers any, and what
//! they carry besides.

use std::collections::BTreeSet;

use crate::fleet::{Fleet, annotated};
use crate::run::{converge, held_back, plan, sync};
use testbed::kubernetes::Headless;

const PODS: [&str; 5] = ["10.0.1.1", "10.0.1.2", "10.0.1.3", "10.0.1.4", "10.0.1.5"];

fn web(annotations: &[(&str, &str)]) -> Headless {
    let service = annotated("web", "prod.local", "web");
    annotations.iter().fold(service, |service, (name, value)| {
        service.annotate(&format!("cloudmap.controller/{name}"), value)
    })
}

async fn fleet(annotations: &[(&str, &str)], pods: &[&str]) -> Fleet {
    let fleet = Fleet::start().await;
    fleet.ecs_service("web", "10.0.9.1");
    fleet.service(web(annotations));
    fleet.pods("web", pods);
    fleet
}

#[tokio::test]
async fn service_that_is_not_published_is_withdrawn_and_keeps_its_claim() {
    let fleet = fleet(&[], &PODS[..2]).await;
    fleet.service(annotated("web2", "prod.local", "web").created("2027-01-01T00:00:00Z"));
    fleet.pods("web2", &["10.0.2.1"]);
    let function = fleet.function().await;
    sync(&function).await;

    fleet.service(web(&[("publish", "false")]));
    let planned = plan(&function).await.to_string();
    assert!(planned.contains("publish of the Service is false"), "{planned}");
    let report = converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.9.1"]);
    assert_eq!(held_back(&report), ["DomainConflict"], "{report}");

    fleet.service(web(&[("publish", "true")]));
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.1", "10.0.1.2", "10.0.9.1"]);
}

#[tokio::test]
async fn service_that_is_never_published_creates_nothing() {
    let fleet = Fleet::start().await;
    fleet.service(web(&[("publish", "false")]));
    fleet.pods("web", &PODS);
    converge(&fleet, &fleet.function().await).await;
    assert_eq!(fleet.cloud_map.find_service("prod.local", "web"), None);
}

#[tokio::test]
async fn at_most_so_many_instances_are_registered_and_the_same_ones_stay() {
    let fleet = fleet(&[("max-instances", "2")], &PODS[..3]).await;
    let function = fleet.function().await;
    let ours = || -> BTreeSet<String> {
        let addresses = fleet.addresses("prod.local", "web").into_iter();
        addresses.filter(|address| address != "10.0.9.1").collect()
    };
    let report = converge(&fleet, &function).await;
    let first = ours();
    assert_eq!((first.len(), held_back(&report)), (2, vec!["MaxInstances"]), "{report}");

    fleet.pods("web", &PODS);
    converge(&fleet, &function).await;
    assert_eq!(ours(), first, "present ones come first");

    fleet.service(web(&[("max-instances", "1")]));
    let planned = plan(&function).await.to_string();
    assert!(planned.contains("it exceeds max-instances of the Service"), "{planned}");
    converge(&fleet, &function).await;
    assert!(ours().len() == 1 && ours().is_subset(&first));

    let gone = ours().pop_first().expect("one");
    let rest: Vec<&str> = PODS.into_iter().filter(|address| *address != gone).collect();
    fleet.pods("web", &rest);
    converge(&fleet, &function).await;
    assert!(ours().len() == 1 && !ours().contains(&gone), "another takes its place");
}

#[tokio::test]
async fn annotated_attributes_are_set_changed_and_taken_away_and_others_stay() {
    let fleet = fleet(&[("attributes", "team=shop, tier=front")], &PODS[..1]).await;
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    let service = fleet.cloud_map.find_service("prod.local", "web").expect("seeded");
    let ours = || {
        let instances = fleet.cloud_map.instances(&service).into_iter();
        let mut ours = instances.filter(|(_, it)| it.contains_key("cloud-map-sync/owner"));
        ours.next().expect("registered")
    };
    let (id, mut attributes) = ours();
    assert_eq!((attributes["team"].as_str(), attributes["tier"].as_str()), ("shop", "front"));
    assert_eq!(attributes["cloud-map-sync/attributes"], "team,tier");

    attributes.insert("note".into(), "added by hand".into());
    let changed: Vec<(&str, &str)> =
        attributes.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    fleet.cloud_map.instance(&service, &id, &changed);
    fleet.service(web(&[("attributes", "team=search")]));
    converge(&fleet, &function).await;
    let (_, attributes) = ours();
    assert_eq!(
        (attributes["team"].as_str(), attributes["note"].as_str()),
        ("search", "added by hand")
    );
    assert!(!attributes.contains_key("tier"));

    fleet.service(web(&[]));
    converge(&fleet, &function).await;
    let (_, attributes) = ours();
    assert!(!attributes.contains_key("team") && attributes.contains_key("note"));
    assert!(!attributes.contains_key("cloud-map-sync/attributes"));
}

#[tokio::test]
async fn attributes_beyond_cloud_maps_limits_are_never_sent() {
    let fleet = fleet(&[], &PODS[..1]).await;
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    let service = fleet.cloud_map.find_service("prod.local", "web").expect("seeded");
    let instances = fleet.cloud_map.instances(&service);
    let (id, attributes) = instances.iter().find(|(id, _)| id.starts_with("ip-")).expect("ours");
    let extra: Vec<String> = (0..20).map(|number| format!("added-{number}")).collect();
    let mut attributes: Vec<(&str, &str)> =
        attributes.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    attributes.extend(extra.iter().map(|key| (key.as_str(), "by hand")));
    fleet.cloud_map.instance(&service, id, &attributes);

    fleet.service(web(&[("attributes", "a=1,b=2,c=3,d=4")]));
    let report = converge(&fleet, &function).await;
    assert_eq!(held_back(&report), ["AttributeLimit"], "{report}");
    assert!(report.ok, "{report}");
}

#[tokio::test]
async fn lever_that_cannot_be_read_moves_nothing() {
    let fleet = fleet(&[], &PODS[..2]).await;
    let function = fleet.function().await;
    sync(&function).await;
    for (name, value) in
        [("publish", "no"), ("max-instances", "none"), ("attributes", "AWS_INSTANCE_IPV4=10.9.9.9")]
    {
        fleet.service(web(&[(name, value)]));
        let report = converge(&fleet, &function).await;
        assert_eq!(held_back(&report), ["BadAnnotation"], "{name}");
        assert_eq!(fleet.addresses("prod.local", "web").len(), 3, "{name}");
    }
}
