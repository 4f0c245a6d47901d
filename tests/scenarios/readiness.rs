//! What stays registered of a Service whose pods end or are not ready: nothing by default, what serves
//! or what was there last where the annotations say so.

use crate::fleet::{Fleet, annotated};
use crate::run::{converge, held_back, plan};
use testbed::kubernetes::{Headless, Pod};

fn web(annotations: &[(&str, &str)]) -> Headless {
    let service = annotated("web", "prod", "web");
    annotations.iter().fold(service, |service, (name, value)| {
        service.annotate(&format!("cloudmap.controller/{name}"), value)
    })
}

/// Two pods of `web`, the first as told.
fn first_of_two(fleet: &Fleet, change: impl Fn(Pod) -> Pod) {
    let first = change(Pod::new("web-0", "10.0.1.1"));
    fleet.cluster.pods("shop", "web", &[first, Pod::new("web-1", "10.0.1.2")]);
}

async fn registered(annotations: &[(&str, &str)]) -> (Fleet, cloud_map_sync::function::Function) {
    let fleet = Fleet::start().await;
    fleet.service(web(annotations));
    first_of_two(&fleet, |pod| pod);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.1.2"]);
    (fleet, function)
}

#[tokio::test]
async fn terminating_pod_that_stopped_serving_goes_though_not_ready_ones_are_published() {
    let (fleet, function) = registered(&[("terminating", "keep-serving")]).await;
    fleet.service(web(&[("terminating", "keep-serving")]).publish_not_ready());
    first_of_two(&fleet, |pod| pod.terminating().not_ready());
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.2"]);
}

#[tokio::test]
async fn last_instances_stay_while_none_is_ready_where_the_service_says_so() {
    let (fleet, function) = registered(&[("when-none-ready", "keep")]).await;
    fleet.cluster.pods("shop", "web", &[Pod::new("web-0", "10.0.1.1").not_ready()]);
    let planned = plan(&function).await.to_string();
    assert!(planned.contains("no endpoint is ready; 2 instances stay"), "{planned}");
    let report = converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.1.2"]);
    assert_eq!(held_back(&report), ["NoneReady"], "{report}");

    fleet.pods("web", &["10.0.1.7"]);
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.7"], "a ready one takes their place");

    fleet.pods("web", &[]);
    fleet.service(web(&[]));
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), [""; 0], "by default the name is empty");
}

#[tokio::test]
async fn plan_that_empties_a_name_says_so_and_one_that_leaves_anybody_does_not() {
    let emptied = "no instance is left under this name";
    let (fleet, function) = registered(&[]).await;
    fleet.pods("web", &["10.0.1.2"]);
    assert!(!plan(&function).await.to_string().contains(emptied));
    fleet.pods("web", &[]);
    let planned = plan(&function).await;
    assert!(planned.to_string().contains(emptied), "{planned}");
    let json = serde_json::to_value(&planned).expect("a report");
    assert_eq!(
        (&json["clusters"][0]["services"][0]["emptied"], &json["counts"]["emptied"]),
        (&true.into(), &1.into())
    );
    let service = fleet.cloud_map.find_service("prod", "web").expect("created");
    fleet.ecs_task(&service, "0123456789abcdef0123456789abcdef", "10.0.9.1");
    let report = converge(&fleet, &function).await.to_string();
    assert!(!report.contains(emptied), "{report}");
}

#[tokio::test]
async fn last_instances_go_with_their_service() {
    let (fleet, function) = registered(&[("when-none-ready", "keep")]).await;
    fleet.pods("web", &[]);
    converge(&fleet, &function).await;
    fleet.cluster.delete_service("shop", "web");
    let planned = plan(&function).await.to_string();
    assert!(planned.contains("no instance is left under this name"), "{planned}");
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), [""; 0]);
}

#[tokio::test]
async fn service_renamed_while_none_is_ready_keeps_its_old_name_until_the_new_one_is_served() {
    let (fleet, function) = registered(&[("when-none-ready", "keep")]).await;
    fleet.pods("web", &[]);
    let renamed =
        annotated("web", "prod", "www").annotate("cloudmap.controller/when-none-ready", "keep");
    fleet.service(renamed);
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.1.2"]);
    fleet.pods("web", &["10.0.1.7"]);
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "www"), ["10.0.1.7"]);
    assert_eq!(fleet.addresses("prod", "web"), [""; 0]);
}
