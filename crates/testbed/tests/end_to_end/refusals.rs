//! A real API server that refuses the function: it forbids what RBAC does not allow with 403, and a
//! token that it cannot verify with 401. Either is an error that Lambda's alarms see, and no instance
//! is lost over it.

use cloud_map_sync::actions::doctor::Checkup;
use serde::Deserialize;
use serde_json::json;

use crate::lambda::Lambda;
use crate::real_cluster::RealCluster;
use crate::world::World;
use testbed::ROLE_ARN;
use testbed::cloud_map::Behaviour;
use testbed::function::event;
use testbed::identity::AccessKey;

#[tokio::test]
async fn real_cluster_that_refuses_the_function_loses_no_instance() {
    let world = World::start().await;
    let behaviour = Behaviour { discovery_on_any_host: true, ..Behaviour::default() };
    world.cloud_map.behave(behaviour);
    let Some(cluster) = RealCluster::start(&world, false).await else { return };
    let claim = json!({
        "cloudmap.controller/hostname": "web", "cloudmap.controller/namespace": "prod.local",
    });
    cluster.service("web", &claim, &json!({"clusterIP": "None"})).await;
    cluster.slice("web", &["10.0.1.1"]).await;
    let mut lambda = world.lambda(&[]).await;

    assert_that_the_sync_fails(&world, &mut lambda, &["403", "services is forbidden"]).await;
    assert_eq!(world.addresses("prod.local", "web"), [""; 0]);
    assert_that_the_doctor_finds(&mut lambda, &["! rbac       may not list services"]).await;

    cluster.apply_rbac().await;
    let answer = lambda.invoke(event("schedule-eventbridge-rule")).await.expect("allowed now");
    assert_eq!(answer["counts"]["registered"], 1, "{answer}");
    assert_eq!(world.addresses("prod.local", "web"), ["10.0.1.1"]);
    assert_that_the_doctor_finds(
        &mut lambda,
        &["= rbac       may create events", "all checks passed"],
    )
    .await;

    let mut stranger = world.lambda_as(&unknown_key(&world)).await;
    assert_that_the_sync_fails(&world, &mut stranger, &["401", "Unauthorized"]).await;
    assert_that_the_doctor_finds(&mut stranger, &["! token", "create-access-entry"]).await;
    assert_eq!(world.addresses("prod.local", "web"), ["10.0.1.1"]);

    cluster.control_plane.delete_binding("cloud-map-sync").await;
    let mut lambda = world.lambda(&[]).await;
    assert_that_the_sync_fails(&world, &mut lambda, &["403", "services is forbidden"]).await;
    assert_eq!(world.addresses("prod.local", "web"), ["10.0.1.1"]);
    world.assert_that_the_ecs_task_is_unchanged();
}

/// A key that AWS knows and the cluster's token verifier does not.
fn unknown_key(world: &World) -> AccessKey {
    let lifetime = std::time::Duration::from_hours(1);
    world.sandbox.aws().identities.issue(ROLE_ARN, "cloud-map-sync", lifetime)
}

async fn assert_that_the_sync_fails(world: &World, lambda: &mut Lambda, because: &[&str]) {
    world.cloud_map.forget_calls();
    let outcome = lambda.invoke(event("schedule-eventbridge-rule")).await;
    let failure = outcome.expect_err("a cluster that cannot be read is no success");
    assert_eq!(failure.error_type, "SyncIncomplete", "{failure:?}");
    assert!(failure.error_message.starts_with("1 cluster not read;"), "{failure:?}");
    assert_eq!(world.cloud_map.writes(), 0);
    let log = lambda.log();
    let line = log.lines().find(|line| line.contains("cluster not read, nothing changed"));
    let line = line.unwrap_or_else(|| panic!("a line for the cluster\n{log}"));
    for word in because {
        assert!(line.contains(word), "{word} in {line}");
    }
}

async fn assert_that_the_doctor_finds(lambda: &mut Lambda, lines: &[&str]) {
    let answer = lambda.invoke(json!({"action": "doctor"})).await.expect("a checkup");
    let said = Checkup::deserialize(&answer).expect("of this release").to_string();
    for line in lines {
        assert!(said.contains(line), "{line} in\n{said}");
    }
}
