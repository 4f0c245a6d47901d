//! Several Services of one cluster that share a name: the endpoints of all are found under it, and
//! each takes out its own.

use serde_json::json;

use crate::fleet::{Fleet, annotated};
use crate::queue::{batch, failures, message};
use crate::run::{converge, held_back, plan, said_of, settled, sync, sync_service, writes};
use testbed::cloud_map::Behaviour;
use testbed::function::invoke;

const OLD: &str = "2026-01-01T00:00:00Z";
const YOUNG: &str = "2026-06-01T00:00:00Z";

/// `old` and `young` share `prod/web`, each with these pods.
async fn sharing(old: &[&str], young: &[&str]) -> Fleet {
    let fleet = Fleet::start().await;
    for (service, created, pods) in [("old", OLD, old), ("young", YOUNG, young)] {
        let shared =
            annotated(service, "prod", "web").annotate("cloudmap.controller/claim", "shared");
        fleet.service(shared.created(created));
        fleet.pods(service, pods);
    }
    fleet
}

/// The Services in the marks under `prod/web`, sorted by the addresses of their instances.
fn marked(fleet: &Fleet) -> Vec<String> {
    let instances = fleet.instances("prod", "web").into_values();
    let mut marks: Vec<(String, String)> = instances
        .map(|it| (it["AWS_INSTANCE_IPV4"].clone(), it["cloud-map-sync/service"].clone()))
        .collect();
    marks.sort();
    marks.into_iter().map(|(address, service)| format!("{service} {address}")).collect()
}

/// Two places become free, one of each, and two of the older wait for them.
#[tokio::test]
async fn those_who_share_a_name_in_a_full_namespace_exchange_their_pods_in_one_sync() {
    let fleet = sharing(&["10.0.1.1", "10.0.1.2"], &["10.0.2.1", "10.0.2.2"]).await;
    let full = Behaviour { instances_per_namespace: 4, ..Behaviour::default() };
    fleet.cloud_map.behave(full);
    let function = fleet.function().await;
    converge(&fleet, &function).await;
    fleet.pods("old", &["10.0.1.1", "10.0.1.3", "10.0.1.4"]);
    fleet.pods("young", &["10.0.2.3"]);
    fleet.cloud_map.forget_calls();

    let report = converge(&fleet, &function).await;

    let expected = ["old 10.0.1.1", "old 10.0.1.3", "old 10.0.1.4", "young 10.0.2.3"];
    assert_eq!(marked(&fleet), expected, "{report}");
    assert_eq!(held_back(&report), [""; 0], "{report}");
}

#[tokio::test]
async fn one_that_goes_takes_out_its_own_instances_and_leaves_the_others() {
    for how in ["deleted", "unannotated", "withdrawn", "scaled to none"] {
        let fleet = sharing(&["10.0.1.1"], &["10.0.1.2"]).await;
        let function = fleet.function().await;
        converge(&fleet, &function).await;
        match how {
            "deleted" => _ = fleet.cluster.delete_service("shop", "old"),
            "unannotated" => fleet.annotate("old", "hostname", ""),
            "withdrawn" => fleet.annotate("old", "publish", "false"),
            _ => fleet.pods("old", &[]),
        }
        fleet.cloud_map.forget_calls();
        let report = sync(&function).await;
        assert!(report.ok, "{how}: {report}");
        assert_eq!(writes(&fleet), ["DeregisterInstance web"], "{how}");
        assert_eq!(marked(&fleet), ["young 10.0.1.2"], "{how}");
    }
}

#[tokio::test]
async fn plan_names_who_keeps_a_name_from_being_shared() {
    let fleet = sharing(&["10.0.1.1"], &["10.0.1.2"]).await;
    fleet.annotate("young", "claim", "exclusive");
    let report = plan(&fleet.function().await).await;
    let said = said_of(&report, "DomainConflict");
    assert!(said.contains("Service shop/old of this cluster holds the name"), "{said}");
    assert!(said.ends_with("claim: shared; without it: shop/young"), "{said}");
}

#[tokio::test]
async fn needs_that_do_not_fit_together_are_reported_and_the_older_decides() {
    let fleet = sharing(&["10.0.1.1"], &["10.0.1.2"]).await;
    for service in ["old", "young"] {
        fleet.annotate(service, "namespace", "prod.local");
    }
    fleet.annotate("young", "port", "http");
    let function = fleet.function().await;

    let report = sync(&function).await;

    assert_eq!(held_back(&report), ["PortNotServed", "SharedName"], "{report}");
    assert!(said_of(&report, "SharedName").contains("Service shop/old"), "{report}");
    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.1", "10.0.1.2"]);
    settled(&fleet, &function).await;
}

#[tokio::test]
async fn message_about_one_of_them_creates_the_service_and_touches_nothing_of_the_other() {
    let fleet = sharing(&["10.0.1.1"], &["10.0.1.2"]).await;
    let function = fleet.function().await;
    let about = |service: &str| {
        let scope = json!({ "cluster": "blue", "namespace": "shop", "service": service });
        batch(&[message("a", &scope)])
    };
    let answer = invoke(&function, &about("young")).await;
    assert_eq!(failures(&answer), [""; 0]);
    assert_eq!(writes(&fleet), ["CreateService web", "RegisterInstance web"]);
    assert_eq!(marked(&fleet), ["young 10.0.1.2"]);
    invoke(&function, &about("old")).await;
    for service in ["old", "young"] {
        fleet.pods(service, &["10.0.1.3"]);
    }
    fleet.cloud_map.forget_calls();

    // The new pod is of both: the older registers it.
    sync_service(&function, "young").await;
    assert_eq!(marked(&fleet), ["old 10.0.1.1", "young 10.0.1.2"]);
    sync_service(&function, "old").await;
    assert_eq!(marked(&fleet), ["young 10.0.1.2", "old 10.0.1.3"]);
    converge(&fleet, &function).await;
    assert_eq!(marked(&fleet), ["old 10.0.1.3"]);
}
