//! Instances of others become ours where a person asks for it: which ones, without a gap, and no others
//! ever. The stand-in lets a test name the instances that may be taken; any further one fails the test.

use cloud_map_sync::function::Function;
use cloud_map_sync::report::Report;
use serde_json::json;

use crate::fleet::{Attributes, Fleet, attributes};
use crate::run::{converge, held_back, report, settled, writes};
use testbed::cloud_map::{Fault, FaultKind, RecordType};

/// `web` with three pods in an A service that somebody made, with an ECS task and three instances by hand: two of them at
/// pods of `web`, which may be taken, one at another address. The function and the service's id come with it.
async fn by_hand() -> (Fleet, Function, String) {
    let fleet = Fleet::start().await;
    let service = fleet.ecs_service("web", "10.0.1.3");
    fleet.put(&service, "hand-1", &hand_made("10.0.1.1"));
    fleet.put(&service, "hand-2", &hand_made("10.0.1.2"));
    fleet.put(&service, "hand-9", &hand_made("10.0.9.9"));
    fleet.web("web", "prod.local", &["10.0.1.1", "10.0.1.2", "10.0.1.3"]);
    fleet.cloud_map.allow_adoption(&[(&service, "hand-1"), (&service, "hand-2")]);
    let function = fleet.function().await;
    (fleet, function, service)
}

fn hand_made(address: &str) -> Attributes {
    attributes(&[("AWS_INSTANCE_IPV4", address), ("weight", "10")])
}

/// What this release writes, with what stood there before.
fn adopted(fleet: &Fleet, address: &str) -> Attributes {
    let mut attributes = fleet.ours("web", address);
    attributes.insert("weight".into(), "10".into());
    attributes
}

async fn adopt(function: &Function) -> Report {
    report(function, &json!({ "action": "adopt", "confirm": true })).await
}

#[tokio::test]
async fn without_the_word_confirm_an_adoption_is_its_plan() {
    let (fleet, function, service) = by_hand().await;
    let before = fleet.cloud_map.instances(&service);

    let planned = report(&function, &json!({ "action": "adopt" })).await;

    assert_eq!((planned.counts.adopted, fleet.cloud_map.writes()), (2, 0), "{planned}");
    assert_eq!(held_back(&planned), ["NotAdopted"; 2], "{planned}");
    assert!(planned.to_string().contains("adopt      hand-1  10.0.1.1: of no known owner"));
    assert_eq!(fleet.cloud_map.instances(&service), before);
}

#[tokio::test]
async fn instances_at_pods_of_the_service_become_ours_under_their_ids_and_nothing_else_is_touched()
{
    let (fleet, function, service) = by_hand().await;
    let others = fleet.dns_service("others", &[RecordType::A]);
    fleet.put(&others, "hand", &hand_made("10.0.1.1"));

    let report = adopt(&function).await;

    assert!(report.ok, "{report}");
    assert_eq!(writes(&fleet), ["RegisterInstance web"; 2], "there is no gap");
    let instances = fleet.cloud_map.instances(&service);
    assert_eq!(instances["hand-1"], adopted(&fleet, "10.0.1.1"));
    assert_eq!(instances["hand-2"], adopted(&fleet, "10.0.1.2"));
    assert_eq!(instances["hand-9"], hand_made("10.0.9.9"));
    assert_eq!(instances.len(), 4);
}

#[tokio::test]
async fn adoption_that_cloud_map_refuses_leaves_ours_beside_the_instance() {
    let (fleet, function) = Fleet::in_step("web", "prod.local", &["10.0.1.1"]).await;
    let service = fleet.cloud_map.service_id("prod.local", "web");
    fleet.put(&service, "hand-1", &hand_made("10.0.1.1"));
    fleet.cloud_map.allow_adoption(&[(&service, "hand-1")]);
    let before = fleet.cloud_map.instances(&service);
    let refused = FaultKind::Error(400, "InvalidInput", "said by a test");
    fleet.cloud_map.inject(Fault::on("RegisterInstance", refused).always());

    let report = adopt(&function).await;

    assert_eq!(held_back(&report), ["InvalidInput"], "{report}");
    assert_eq!(fleet.cloud_map.instances(&service), before, "{report}");
}

/// The tool that a migration starts from has usually been beside us for a while.
#[tokio::test]
async fn adopted_instance_takes_the_place_of_ours_beside_it() {
    let (fleet, function, service) = by_hand().await;
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod.local", "web").len(), 7);

    let report = adopt(&function).await;

    assert!(report.ok, "{report}");
    let [register, deregister] = ["RegisterInstance web", "DeregisterInstance web"];
    assert_eq!(writes(&fleet), [register, register, deregister, deregister]);
    let left = fleet.cloud_map.instances(&service);
    assert_eq!(left.keys().filter(|id| id.starts_with("hand-")).count(), 3);
    settled(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod.local", "web").len(), 5);
}

/// The first look at the instance fails, and while the call is made again somebody writes to it.
#[tokio::test]
async fn instance_that_changes_between_plan_and_call_is_left_alone() {
    let (fleet, function, service) = by_hand().await;
    fleet.cloud_map.inject(Fault::on("GetInstance", FaultKind::ServerError).instance("hand-2"));
    let changed = attributes(&[("AWS_INSTANCE_IPV4", "10.0.1.2"), ("weight", "20")]);

    let (report, ()) = tokio::join!(adopt(&function), async {
        while !fleet.cloud_map.calls().iter().any(|call| call.status == 500) {
            tokio::task::yield_now().await;
        }
        fleet.put(&service, "hand-2", &changed);
    });

    assert_eq!((report.ok, report.counts.adopted), (true, 1), "{report}");
    assert!(report.to_string().contains("hand-2 is not adopted: it was changed"), "{report}");
    assert_eq!(fleet.cloud_map.instances(&service)["hand-2"], changed);
}

#[tokio::test]
async fn instance_that_the_last_look_does_not_show_is_a_failed_change_and_taken_by_the_next_adoption()
 {
    let (fleet, function, _) = by_hand().await;
    fleet.cloud_map.inject(Fault::on("GetInstance", FaultKind::Empty).instance("hand-2"));

    let report = adopt(&function).await;

    assert_eq!((report.ok, report.counts.adopted, report.counts.failed), (false, 1, 1), "{report}");
    assert!(report.to_string().contains("response has no field Instance"), "{report}");
    assert_eq!(adopt(&function).await.counts.adopted, 1);
}
