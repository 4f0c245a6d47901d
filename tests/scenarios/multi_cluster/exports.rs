//! The instances of exports in Cloud Map.

use cloud_map_sync::cloud_map::LocalHost;
use serde_json::Value;

use super::{Members, condition, exported, web};
use crate::fleet::annotated;
use testbed::cloud_map::Behaviour;
use testbed::kubernetes::{ClusterIp, Export, Pod};

const CREATED: &str = "2026-01-01T00:00:00Z";

/// An ECS task or any other client of Cloud Map, by the command of the README.
#[tokio::test]
async fn any_client_discovers_the_ready_endpoints_of_all_members_and_no_record() {
    let members = Members::start().await;
    members
        .fleet
        .cloud_map
        .behave(Behaviour { discovery_on_any_host: true, ..Behaviour::default() });
    exported(&members.blue, web(), &["10.0.0.1"], CREATED);
    exported(&members.green, web(), &["10.1.0.1"], CREATED);
    members.converge().await;
    let pods = [Pod::new("web-a", "10.0.0.1"), Pod::new("web-b", "10.0.0.2").not_ready()];
    members.blue.pods("shop", "web", &pods);
    members.converge().await;

    let client = aws_sdk_servicediscovery::Client::new(&members.fleet.sandbox.sdk_config().await);
    let found = client.discover_instances().namespace_name("shop").service_name("web");
    let found = found.customize().interceptor(LocalHost).send().await.expect("an answer");
    let addresses = found.instances().iter().map(|it| {
        let attributes = it.attributes().expect("attributes");
        attributes.get("AWS_INSTANCE_IPV4").map_or("a record", String::as_str)
    });
    let mut addresses: Vec<&str> = addresses.collect();
    addresses.sort_unstable();
    assert_eq!(addresses, ["10.0.0.1", "10.1.0.1"]);
}

#[tokio::test]
async fn annotated_service_and_export_under_one_name_leave_each_other_alone() {
    let members = Members::start().await;
    members.fleet.service(annotated("api", "shop", "web"));
    members.fleet.pods("api", &["10.0.0.9"]);
    exported(&members.blue, web(), &["10.0.0.1"], CREATED);

    members.converge().await;

    assert_eq!(members.fleet.addresses("shop", "web"), ["10.0.0.1", "10.0.0.9"]);
    members.blue.unexport("shop", "web");
    members.converge().await;
    assert_eq!(members.fleet.addresses("shop", "web"), ["10.0.0.9"]);
}

#[tokio::test]
async fn export_that_never_had_an_instance_says_why() {
    let members = Members::start().await;
    let named = ClusterIp::new("shop", "named").spec("type", "ExternalName");
    let mut named = Value::from(named.spec("externalName", "example.com"));
    for field in ["selector", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
        named["spec"].as_object_mut().expect("a spec").remove(field);
    }
    members.blue.service(named);
    for name in ["named", "absent"] {
        members.blue.put(Export::new("shop", name).created(CREATED).into());
    }

    members.converge().await;

    let conditions = |name| ["Valid", "Ready"].map(|kind| condition(&members.blue, name, kind));
    assert_eq!(conditions("named"), ["False InvalidServiceType", "False Failed"]);
    assert_eq!(conditions("absent"), ["False NoService", "False Pending"]);
    assert_eq!(members.green.objects("serviceimports", "shop"), [Value::Null; 0]);

    members.blue.put(Export::new("shop", "late").created(CREATED).into());
    members.sync_service("blue", "late").await;
    assert_eq!(conditions("late"), ["False NoService", "False Pending"]);
}
