//! The action `status`: who has instances in each Cloud Map service, told without a write.

use serde_json::{Value, json};

use crate::fleet::{Fleet, attributes, web_of};
use crate::run::sync;
use testbed::ROLE_ARN;
use testbed::cloud_map::{Fault, FaultKind, RecordType, ServiceKind};
use testbed::function::invoke;

/// `web` of blue and of green beside a task of ECS and an instance by hand.
async fn shared_name() -> Fleet {
    let fleet = Fleet::start().await;
    let green = fleet.green().await;
    let service = fleet.ecs_service("web", "10.0.9.1");
    fleet.put(&service, "by-hand", &attributes(&[("AWS_INSTANCE_IPV4", "10.0.8.1")]));
    fleet.web("web", "prod.local", &["10.0.1.1", "10.0.1.2"]);
    web_of(&green, "web", "prod.local", &["10.0.2.1"]);
    sync(&fleet.function().await).await;
    fleet.cloud_map.forget_calls();
    fleet
}

async fn status(fleet: &Fleet, command: Value) -> Value {
    let answer = invoke(&fleet.function().await, &command).await;
    answer.response.expect("a status")
}

#[tokio::test]
async fn status_tells_everybody_apart_and_writes_nothing() {
    let fleet = shared_name().await;
    let [blue, green] = ["blue", "green"].map(|name| fleet.sandbox.cluster_arn(name));

    let status = status(&fleet, json!({"action": "status", "cluster": "blue"})).await;

    assert_eq!((&status["ok"], &status["clusters"]), (&json!(true), &json!([blue])), "{status}");
    let services = status["registries"][0]["services"].as_array().expect("services");
    let [web] = services.as_slice() else { panic!("{status}") };
    assert_eq!((&web["namespace"], &web["name"]), (&json!("prod.local"), &json!("web")));
    let owner = "cloud-map-sync";
    let shares = json!([
        {"by": "cluster", "name": blue, "owner": owner, "count": 2},
        {"by": "cluster", "name": green, "owner": owner, "count": 1},
        {"by": "ecs", "name": "legacy/web", "count": 1},
        {"by": "unknown", "count": 1},
    ]);
    assert_eq!(web["instances"], shares);
    assert_eq!(fleet.cloud_map.writes(), 0);
}

#[tokio::test]
async fn status_is_reported_while_no_cluster_answers() {
    let fleet = shared_name().await;
    fleet.cluster.revoke(ROLE_ARN);
    let status = status(&fleet, json!({"action": "status"})).await;
    assert_eq!(status["ok"], true, "{status}");
    assert_eq!(status["clusters"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn a_service_that_cannot_be_read_is_reported_and_the_others_are_counted() {
    let fleet = shared_name().await;
    fleet.cloud_map.inject(Fault::on("ListInstances", FaultKind::AccessDenied));
    let status = status(&fleet, json!({"action": "status"})).await;
    assert_eq!(status["ok"], false, "{status}");
    let web = &status["registries"][0]["services"][0];
    assert!(web["unreadable"].as_str().is_some_and(|it| it.contains("AccessDenied")), "{web}");
}

#[tokio::test]
async fn status_of_what_was_created_has_empty_services_with_our_tag() {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    fleet.web("cart", "prod.local", &["10.0.1.2"]);
    sync(&fleet.function().await).await;
    // Of others: one by hand, and one whose description alone says that it is ours.
    let kind = ServiceKind::Dns { records: vec![(RecordType::A, 60)], custom_health: false };
    fleet.cloud_map.service(&fleet.dns, "mail", kind);
    let cart = fleet.cloud_map.find_service("prod.local", "cart").expect("created");
    fleet.cloud_map.tag(&cart, "cloud-map-sync/owner", "team-b");
    for name in ["web", "cart"] {
        fleet.cluster.delete_service("shop", name);
    }
    sync(&fleet.function().await).await;
    fleet.cloud_map.forget_calls();

    let created = status(&fleet, json!({"action": "status", "created": true})).await;

    let services = created["registries"][0]["services"].as_array().expect("services");
    let [web] = services.as_slice() else { panic!("{created}") };
    let id = fleet.cloud_map.find_service("prod.local", "web").expect("created");
    let delete = format!("aws servicediscovery delete-service --region eu-central-1 --id {id}");
    assert_eq!((&web["name"], &web["delete"]), (&json!("web"), &json!(delete)));
    // A call for each that has our description, and none for the others.
    assert_eq!(fleet.cloud_map.count("ListTagsForResource"), 2);
    assert_eq!(fleet.cloud_map.writes(), 0);
}

/// The order of docs/upgrading.md, with more instances than the guard lets go at once.
#[tokio::test]
async fn leaving_for_good_removes_all_that_was_created_and_nothing_else() {
    let fleet = Fleet::start().await;
    let ecs = fleet.ecs_service("legacy", "10.0.9.1");
    let names: Vec<String> = (1..=12).map(|number| format!("web-{number}")).collect();
    for (name, last) in names.iter().zip(1..) {
        fleet.web(name, "prod.local", &[&format!("10.0.1.{last}")]);
    }
    let function = fleet.function_with(&[("DELETE_EMPTY_SERVICES", "true")]).await;
    sync(&function).await;
    assert_eq!(fleet.cloud_map.services(&fleet.dns).len(), 13);

    for name in &names {
        fleet.annotate(name, "hostname", "");
    }
    sync(&function).await;
    assert_eq!(fleet.cloud_map.services(&fleet.dns).len(), 13, "the guard holds the loss");
    for action in [json!({"action": "confirm", "cluster": "blue"}), json!({"action": "cleanup"})] {
        let answer = invoke(&function, &action).await;
        assert!(answer.report.is_some_and(|report| report.ok), "{action}");
    }

    let left = status(&fleet, json!({"action": "status", "created": true})).await;
    assert_eq!((&left["ok"], &left["registries"][0]["services"]), (&json!(true), &json!([])));
    let services = fleet.cloud_map.services(&fleet.dns);
    assert_eq!(services.iter().map(|it| &it.id).collect::<Vec<_>>(), [&ecs]);
}
