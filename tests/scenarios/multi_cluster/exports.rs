//! The instances of exports in Cloud Map.

use cloud_map_sync::cloud_map::LocalHost;

use super::{Members, exported, web};
use testbed::cloud_map::Behaviour;
use testbed::kubernetes::Pod;

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
