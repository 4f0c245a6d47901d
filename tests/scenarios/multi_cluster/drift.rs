//! Drift by event of what a member has in Cloud Map: its endpoints, and the records of its exports.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use super::{Members, exported, imported, service, sources, web};
use crate::drift::change_of;
use crate::queue::{batch, failures, message};
use crate::run::sync;
use testbed::function::invoke;

const CREATED: &str = "2026-01-01T00:00:00Z";

/// Another party deregisters the first instance of a service whose id begins so; the function hears of it.
async fn deregister(members: &Members, service: &str, form: &str) {
    let cloud_map = &members.fleet.cloud_map;
    let mut ids = cloud_map.instances(service).into_keys();
    let id = ids.find(|id| id.starts_with(form)).expect("an instance");
    cloud_map.withdraw(service, &id);
    let mut event = change_of("sqs-drift-instance", service, members.clock.clock().now());
    event["detail"]["requestParameters"]["instanceId"] = json!(id);
    let answer = invoke(&members.function, &batch(&[message("drift", &event)])).await;
    assert_eq!(failures(&answer), [""; 0]);
}

fn exports(members: &Members, service: &str) -> usize {
    let ids = members.fleet.cloud_map.instances(service).into_keys();
    ids.filter(|id| id.starts_with("export-")).count()
}

#[tokio::test]
async fn deregistered_endpoint_and_record_are_registered_again_and_imports_stay() {
    let members = Members::start().await;
    exported(&members.blue, web(), &["10.0.0.1", "10.0.0.2"], CREATED);
    members.converge().await;
    members.clock.advance(Duration::from_mins(1));
    let find = |namespace: &str, name: &str| {
        members.fleet.cloud_map.find_service(namespace, name).expect("the service")
    };
    let (endpoints, records) = (find("shop", "web"), find("clusterset.shop-set", "blue"));
    let all = sources([("blue", &["10.0.0.1:8080", "10.0.0.2:8080"])]);

    deregister(&members, &endpoints, "tcp-").await;
    assert_eq!(members.fleet.cloud_map.instances(&endpoints).len(), 2);
    assert_eq!(imported(&members.green, "web"), all);

    exported(&members.blue, service("cart"), &["10.0.0.3"], CREATED);
    members.converge().await;
    members.clock.advance(Duration::from_mins(1));
    members.fleet.cloud_map.forget_calls();
    deregister(&members, &records, "export-").await;
    assert_eq!(exports(&members, &records), 2);
    // Only the export whose record it was is looked at.
    let asked = members.fleet.cloud_map.calls().into_iter().filter_map(|call| call.service);
    let asked: BTreeSet<String> = asked.collect();
    let of_exports = [&endpoints, &find("shop", "cart")].map(|it| asked.contains(it));
    assert_eq!(of_exports.into_iter().filter(|it| *it).count(), 1, "{asked:?}");
    assert_eq!(imported(&members.green, "web"), all);

    // The other party is at it again.
    members.clock.advance(Duration::from_secs(20));
    deregister(&members, &records, "export-").await;
    assert_eq!(exports(&members, &records), 1);
    sync(&members.function).await;
    assert_eq!(exports(&members, &records), 2);
    members.assert_settled().await;
}
