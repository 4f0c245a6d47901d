//! What became of a Service while the function was not running is found from the marks alone, in
//! whatever Cloud Map service its instances lie. Every test goes on with a function that knows nothing.

use cloud_map_sync::function::Function;
use serde_json::json;

use crate::fleet::{Fleet, annotated};
use crate::queue::{batch, failures, message};
use crate::run::{converge, held_back, plan, said_of, settled, sync, writes};
use testbed::cloud_map::{Fault, FaultKind, RecordType};
use testbed::function::invoke;

/// `web` with two pods under `prod/web` and `prod/www`, what is left of an earlier name of it in
/// `prod.local/legacy`, and an ECS task there.
async fn registered() -> Fleet {
    let fleet = Fleet::start().await;
    fleet.service(annotated("web", "prod", "web,www").uid("first"));
    fleet.pods("web", &["10.0.1.1", "10.0.1.2"]);
    converge(&fleet, &fleet.function().await).await;
    let legacy = fleet.dns_service("legacy", &[RecordType::A]);
    fleet.put(&legacy, "left", &fleet.ours("web", "10.0.1.1"));
    fleet.ecs_task(&legacy, "0123456789abcdef0123456789abcdef", "10.0.9.1");
    fleet.cloud_map.forget_calls();
    fleet
}

/// The addresses under the three names.
fn found(fleet: &Fleet) -> [Vec<String>; 3] {
    [("prod", "web"), ("prod", "www"), ("prod.local", "legacy")]
        .map(|(namespace, name)| fleet.addresses(namespace, name))
}

fn end(fleet: &Fleet, how: &str) {
    match how {
        "annotation removed" => fleet.annotate("web", "hostname", ""),
        "deleted" => _ = fleet.cluster.delete_service("shop", "web"),
        "not headless any more" => {
            fleet.cluster.delete_service("shop", "web");
            fleet.service(annotated("web", "prod", "web").cluster_ip("10.100.0.7"));
        }
        _ => {
            fleet.web("cart", "prod", &["10.0.1.5"]);
            for service in ["web", "cart"] {
                fleet.cluster.delete_service("shop", service);
            }
        }
    }
}

const ENDS: [&str; 4] =
    ["annotation removed", "deleted", "not headless any more", "Kubernetes namespace deleted"];

#[tokio::test]
async fn service_that_ended_is_taken_out_of_every_service_in_which_its_marks_are_found() {
    for how in ENDS {
        let fleet = registered().await;
        end(&fleet, how);

        let report = converge(&fleet, &fleet.function().await).await;

        assert_eq!(report.counts.deregistered, 5, "{how}: {report}");
        assert_eq!(found(&fleet), [vec![], vec![], vec!["10.0.9.1"]], "{how}");
    }
}

#[tokio::test]
async fn message_about_a_service_that_ended_takes_it_out_in_that_run() {
    for how in ENDS {
        let fleet = registered().await;
        end(&fleet, how);
        let scope = json!({ "cluster": "blue", "namespace": "shop", "service": "web" });

        let answer = invoke(&fleet.function().await, &batch(&[message("a", &scope)])).await;

        assert_eq!(failures(&answer), [""; 0], "{how}");
        assert_eq!(found(&fleet), [vec![], vec![], vec!["10.0.9.1"]], "{how}");
    }
}

#[tokio::test]
async fn message_about_a_kubernetes_namespace_that_is_gone_takes_its_services_out_in_that_run() {
    let fleet = registered().await;
    end(&fleet, "Kubernetes namespace deleted");
    let batch = batch(&[message("a", &json!({ "cluster": "blue", "namespace": "shop" }))]);
    invoke(&fleet.function().await, &batch).await;
    assert_eq!(found(&fleet), [vec![], vec![], vec!["10.0.9.1"]]);
}

#[tokio::test]
async fn changed_annotation_is_followed_with_the_new_name_whole_first() {
    let fleet = registered().await;
    fleet.annotate("web", "hostname", "api");
    fleet.annotate("web", "namespace", "prod.local");

    let function = fleet.function().await;
    let report = sync(&function).await;

    assert!(report.ok, "{report}");
    let writes = writes(&fleet);
    assert_eq!(writes[..3], ["CreateService api", "RegisterInstance api", "RegisterInstance api"]);
    assert_eq!(writes.len(), 3 + 5, "{writes:?}");
    assert_eq!(found(&fleet), [vec![], vec![], vec!["10.0.9.1"]]);
    assert_eq!(fleet.addresses("prod.local", "api"), ["10.0.1.1", "10.0.1.2"]);
    settled(&fleet, &function).await;
}

/// The UID is in no mark and no id: what the same pods say stays as it is.
#[tokio::test]
async fn service_that_was_made_again_keeps_what_is_right_and_loses_what_is_not() {
    let fleet = registered().await;
    fleet.cluster.delete_service("shop", "web");
    fleet.service(annotated("web", "prod", "web,www").uid("second"));
    fleet.pods("web", &["10.0.1.2", "10.0.1.3"]);

    let report = converge(&fleet, &fleet.function().await).await;

    let counts = report.counts;
    assert_eq!((counts.unchanged, counts.registered, counts.deregistered), (2, 2, 3), "{report}");
    let pods = vec!["10.0.1.2".to_owned(), "10.0.1.3".to_owned()];
    assert_eq!(found(&fleet), [pods.clone(), pods, vec!["10.0.9.1".to_owned()]]);
}

#[tokio::test]
async fn what_lies_outside_the_namespaces_in_scope_is_left_alone() {
    let fleet = registered().await;
    end(&fleet, "deleted");
    let function = fleet.function_with(&[("CLOUD_MAP_NAMESPACES", "prod")]).await;
    sync(&function).await;
    assert_eq!(found(&fleet), [vec![], vec![], vec!["10.0.1.1", "10.0.9.1"]]);
}

/// `web` left `prod/web` for `prod/api`, and `next` asks for the name that it left.
async fn left_to_another() -> (Fleet, Function) {
    let fleet = Fleet::start().await;
    fleet.web("web", "prod", &["10.0.1.1"]);
    converge(&fleet, &fleet.function().await).await;
    fleet.annotate("web", "hostname", "api");
    fleet.service(annotated("next", "prod", "web"));
    fleet.pods("next", &["10.0.1.2"]);
    fleet.cloud_map.forget_calls();
    let function = fleet.function().await;
    (fleet, function)
}

#[tokio::test]
async fn name_that_is_left_to_another_service_changes_hands_when_both_are_found() {
    let (fleet, function) = left_to_another().await;

    let report = sync(&function).await;

    assert!(report.ok, "{report}");
    let writes = writes(&fleet);
    assert_eq!(writes.last().map(String::as_str), Some("DeregisterInstance web"), "{writes:?}");
    assert_eq!(writes.len(), 4, "{writes:?}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.2"]);
    assert_eq!(fleet.addresses("prod", "api"), ["10.0.1.1"]);
    settled(&fleet, &function).await;
}

#[tokio::test]
async fn renamed_service_stays_under_a_name_that_another_took_over_until_its_new_one_is_whole() {
    let (fleet, function) = left_to_another().await;
    let fails = FaultKind::OperationFails("INTERNAL_FAILURE");
    let (id, _) = fleet.instance("prod", "web");
    fleet.cloud_map.inject(Fault::on("RegisterInstance", fails).instance(&id).always());

    let report = sync(&function).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.1.2"], "{report}");
    assert!(said_of(&report, "Waiting").contains("new name of Service shop/web"), "{report}");

    fleet.cloud_map.heal();
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.2"]);
    assert_eq!(fleet.addresses("prod", "api"), ["10.0.1.1"]);
}

#[tokio::test]
async fn plan_says_that_a_service_renamed_to_a_name_of_another_keeps_its_old_one_until_that_ends() {
    let fleet = registered().await;
    fleet.web("other", "prod", &["10.0.1.5"]);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    fleet.annotate("web", "hostname", "other");

    let told = plan(&function).await.to_string();
    let wait =
        "stays until Service shop/other gives up prod/other, the new name of Service shop/web";
    assert_eq!((told.matches(wait).count(), told.matches("emptied").count()), (4, 0), "{told}");
    let report = converge(&fleet, &function).await;
    assert_eq!(held_back(&report).len(), 5, "{report}");

    fleet.cluster.delete_service("shop", "other");
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "other"), ["10.0.1.1", "10.0.1.2"]);
    assert_eq!(found(&fleet), [vec![], vec![], vec!["10.0.9.1"]]);
}
