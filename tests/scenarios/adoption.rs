//! Instances of others become ours where a person asks for it: which ones, without a gap, and no others
//! ever. The stand-in lets a test name the instances that may be taken; any further one fails the test.

use cloud_map_sync::function::Function;
use cloud_map_sync::report::Report;
use serde_json::{Value, json};

use crate::fleet::{Attributes, Fleet, annotated, attributes, give_pods};
use crate::queue::{batch, failures, message};
use crate::run::{converge, held_back, report, said_of, settled, writes};
use testbed::cloud_map::{Fault, FaultKind, RecordType, ServiceKind};
use testbed::function::invoke;

const TASK: &str = "0123456789abcdef0123456789abcdef";

/// `web` with three pods in an A service that somebody made, with an ECS task and three instances by
/// hand: two of them at pods of `web`, one at another address. The service's id comes with it.
async fn by_hand() -> (Fleet, String) {
    let fleet = Fleet::start().await;
    let service = fleet.ecs_service("web", "10.0.1.3");
    fleet.put(&service, "hand-1", &hand_made("10.0.1.1"));
    fleet.put(&service, "hand-2", &hand_made("10.0.1.2"));
    fleet.put(&service, "hand-9", &hand_made("10.0.9.9"));
    fleet.web("web", "prod.local", &["10.0.1.1", "10.0.1.2", "10.0.1.3"]);
    (fleet, service)
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
    let (fleet, service) = by_hand().await;
    let before = fleet.cloud_map.instances(&service);
    let function = fleet.function().await;

    let planned = report(&function, &json!({ "action": "adopt" })).await;

    assert_eq!((planned.counts.adopted, fleet.cloud_map.writes()), (2, 0), "{planned}");
    assert_eq!(held_back(&planned), ["NotAdopted"; 2], "{planned}");
    assert!(planned.to_string().contains("adopt      hand-1  10.0.1.1: of no known owner"));
    assert_eq!(fleet.cloud_map.instances(&service), before);
}

#[tokio::test]
async fn instances_at_pods_of_the_service_become_ours_under_their_ids_and_nothing_else_is_touched()
{
    let (fleet, service) = by_hand().await;
    let others = fleet.cloud_map.service(&fleet.dns, "others", a_records());
    fleet.put(&others, "hand", &hand_made("10.0.1.1"));
    let function = fleet.function().await;
    fleet.cloud_map.allow_adoption(&[(&service, "hand-1"), (&service, "hand-2")]);

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
async fn adopted_instance_has_the_keys_of_aws_as_we_spell_them_and_no_unknown_one() {
    let fleet = Fleet::start().await;
    let service = fleet.dns_service("web", &[RecordType::A]);
    let misspelled = [("aws_instance_ipv4", "10.0.1.1"), ("aws_team", "x"), ("weight", "10")];
    fleet.put(&service, "hand", &attributes(&misspelled));
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    let function = fleet.function().await;
    fleet.cloud_map.allow_adoption(&[(&service, "hand")]);

    let report = adopt(&function).await;

    assert!(report.ok, "{report}");
    assert_eq!(fleet.cloud_map.instances(&service)["hand"], adopted(&fleet, "10.0.1.1"));
    settled(&fleet, &function).await;
}

#[tokio::test]
async fn sync_after_an_adoption_finds_the_adopted_as_they_should_be() {
    let (fleet, service) = by_hand().await;
    fleet.cloud_map.withdraw(&service, TASK);
    fleet.pods("web", &["10.0.1.1", "10.0.1.2"]);
    let function = fleet.function().await;
    fleet.cloud_map.allow_adoption(&[(&service, "hand-1"), (&service, "hand-2")]);
    adopt(&function).await;

    settled(&fleet, &function).await;
    fleet.pods("web", &["10.0.1.2"]);
    converge(&fleet, &function).await;

    let left: Vec<String> = fleet.cloud_map.instances(&service).into_keys().collect();
    assert_eq!(left, ["hand-2", "hand-9"], "an adopted instance goes with its pod");
}

#[tokio::test]
async fn every_instance_that_stays_is_named_with_its_reason() {
    let (fleet, service) = by_hand().await;
    fleet.green().await;
    let mut green = fleet.ours("web", "10.0.1.1");
    let arn = fleet.sandbox.cluster_arn("green");
    green.insert("cloud-map-sync/cluster".into(), arn);
    fleet.put(&service, "of-green", &green);
    let planned = report(&fleet.function().await, &json!({ "action": "adopt" })).await;
    let text = planned.to_string();
    for line in [
        "instance hand-9 is not adopted: the Service has no ready endpoint",
        "instance 0123456789abcdef0123456789abcdef is not adopted: it is a task of ECS",
        "instance of-green is not adopted: it is marked as another cluster's",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[tokio::test]
async fn instance_that_may_be_a_task_of_ecs_is_never_adopted() {
    let fleet = Fleet::start().await;
    let service = fleet.cloud_map.service(&fleet.dns, "web", a_records());
    let addresses = ["10.0.1.1", "10.0.1.2", "10.0.1.3", "10.0.1.4"];
    let [first, second, third, fourth] = addresses;
    let tasks = fleet.ecs_tasks(&service, [first, second, third]);
    let unknown = "7d444840-9dc0-11d1-b245-5ffdce74fad2";
    fleet.put(&service, unknown, &hand_made(fourth));
    fleet.web("web", "prod.local", &addresses);
    let function = fleet.function().await;

    let report = adopt(&function).await;

    assert_eq!((report.counts.adopted, fleet.cloud_map.writes()), (0, 0), "{report}");
    assert_eq!(held_back(&report), ["NotAdopted"; 4], "{report}");
    let text = report.to_string();
    for task in tasks {
        let line = format!("instance {task} is not adopted: it is a task of ECS");
        assert!(text.contains(&line), "{line}: {text}");
    }
    let line = format!("instance {unknown} is not adopted: it may be a task of ECS");
    assert!(text.contains(&line), "{line}: {text}");
}

/// The tool that a migration starts from has usually been beside us for a while.
#[tokio::test]
async fn adopted_instance_takes_the_place_of_ours_beside_it() {
    let (fleet, service) = by_hand().await;
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod.local", "web").len(), 7);
    fleet.cloud_map.allow_adoption(&[(&service, "hand-1"), (&service, "hand-2")]);
    fleet.cloud_map.forget_calls();

    let report = adopt(&function).await;

    assert!(report.ok, "{report}");
    let [register, deregister] = ["RegisterInstance web", "DeregisterInstance web"];
    assert_eq!(writes(&fleet), [register, register, deregister, deregister]);
    let left = fleet.cloud_map.instances(&service);
    assert_eq!(left.keys().filter(|id| id.starts_with("hand-")).count(), 3);
    settled(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod.local", "web").len(), 5);
}

#[tokio::test]
async fn adoption_in_one_cluster_leaves_what_another_could_take() {
    let fleet = Fleet::start().await;
    let green = fleet.green().await;
    let service = fleet.cloud_map.service(&fleet.dns, "web", a_records());
    fleet.put(&service, "blue-pod", &hand_made("10.0.1.1"));
    fleet.put(&service, "green-pod", &hand_made("10.0.2.1"));
    fleet.web("web", "prod.local", &["10.0.1.1"]);
    green.service(annotated("web", "prod.local", "web"));
    give_pods(&green, "web", &["10.0.2.1"]);
    let function = fleet.function().await;
    fleet.cloud_map.allow_adoption(&[(&service, "green-pod")]);

    let payload = json!({ "action": "adopt", "cluster": "green", "confirm": true });
    let report = report(&function, &payload).await;

    assert_eq!(report.counts.adopted, 1, "{report}");
    let instances = fleet.cloud_map.instances(&service);
    let arn = fleet.sandbox.cluster_arn("green");
    assert_eq!(instances["green-pod"]["cloud-map-sync/cluster"], arn);
    assert_eq!(instances["blue-pod"], hand_made("10.0.1.1"));
}

#[tokio::test]
async fn dry_run_and_a_policy_that_rewrites_nothing_adopt_nothing() {
    let (fleet, _) = by_hand().await;
    let planned = adopt(&fleet.function_with(&[("DRY_RUN", "true")]).await).await;
    assert_eq!(planned.counts.adopted, 2, "{planned}");
    let refused = adopt(&fleet.function_with(&[("POLICY", "create-only")]).await).await;
    assert!(said_of(&refused, "Policy").contains("adopt hand-1"), "{refused}");
    assert_eq!(fleet.cloud_map.writes(), 0);
}

/// The first look at the instance fails, and while the call is made again somebody writes to it.
#[tokio::test]
async fn instance_that_changes_between_plan_and_call_is_left_alone() {
    let (fleet, service) = by_hand().await;
    let function = fleet.function().await;
    fleet.cloud_map.allow_adoption(&[(&service, "hand-1"), (&service, "hand-2")]);
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
    let (fleet, service) = by_hand().await;
    let function = fleet.function().await;
    fleet.cloud_map.allow_adoption(&[(&service, "hand-1"), (&service, "hand-2")]);
    fleet.cloud_map.inject(Fault::on("GetInstance", FaultKind::Empty).instance("hand-2"));

    let report = adopt(&function).await;

    assert_eq!((report.ok, report.counts.adopted, report.counts.failed), (false, 1, 1), "{report}");
    assert!(report.to_string().contains("response has no field Instance"), "{report}");
    assert_eq!(adopt(&function).await.counts.adopted, 1);
}

/// What the stand-in says where the function would take one instance more than it may.
#[tokio::test]
async fn adoption_of_one_instance_more_would_be_seen() {
    let (fleet, service) = by_hand().await;
    fleet.cloud_map.allow_adoption(&[(&service, "hand-1")]);
    adopt(&fleet.function().await).await;
    let violations = fleet.cloud_map.take_violations();
    assert!(violations[0].contains("hand-2"), "{violations:?}");
    assert!(!violations.iter().any(|violation| violation.contains("hand-1")), "{violations:?}");
}

#[tokio::test]
async fn message_of_a_queue_adopts_nothing() {
    let (fleet, _) = by_hand().await;
    let body: Value = json!({ "action": "adopt", "cluster": "blue", "confirm": true });
    let answer = invoke(&fleet.function().await, &batch(&[message("a", &body)])).await;
    assert_eq!(answer.report.as_ref().expect("a report").dropped[0].reason, "action_not_allowed");
    assert_eq!((failures(&answer).len(), fleet.cloud_map.writes()), (0, 0));
}

fn a_records() -> ServiceKind {
    ServiceKind::Dns { records: vec![(RecordType::A, 60)], custom_health: false }
}
