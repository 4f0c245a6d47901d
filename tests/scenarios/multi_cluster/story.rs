//! One export and its import, from the beginning to the end, and what people are shown about exports and imports:
//! `status`, the plan's table, conditions' messages and Events.

use std::time::Duration;

use cloud_map_sync::actions::status::{RunBy, Status};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    CREATED, DERIVED, LATER, Members, RECORD, condition, exported, exported_at, imported,
    message_of, obstacles, pods, service, slices, web,
};
use crate::run::{plan, purge, sync};
use testbed::cloud_map::{Fault, FaultKind, RecordType, ServiceKind};
use testbed::kubernetes::{ClusterIp, Export, KubernetesServer};

#[tokio::test]
async fn export_becomes_an_import_in_every_member_and_the_next_sync_writes_nothing() {
    let members = Members::with_web(&["10.0.0.1", "10.0.0.2"]).await;
    let Members { blue, green, fleet, .. } = &members;

    members.converge().await;

    for cluster in [blue, green] {
        assert_eq!(imported(cluster, "web"), "blue 10.0.0.1:8080 10.0.0.2:8080");
        let import = cluster.service_import("shop", "web").expect("an import");
        assert_eq!(import["spec"]["type"], "ClusterSetIP");
        assert_eq!(import["spec"]["ports"][0]["port"], 80);
        assert_eq!(import["status"]["clusters"][0]["cluster"], "blue");
        let derived = cluster.service_object("shop", DERIVED).expect("a Service");
        assert_eq!(import["spec"]["ips"][0], derived["spec"]["clusterIP"]);
        let slice = &slices(cluster, "web")[0];
        assert_eq!(slice["metadata"]["labels"]["kubernetes.io/service-name"], DERIVED);
    }
    assert_eq!(condition(blue, "web", "Valid"), "True Valid");
    assert_eq!(condition(blue, "web", "Ready"), "True Exported");
    assert_eq!(condition(blue, "web", "Conflict"), "False NoConflicts");
    assert_eq!(fleet.addresses("shop", "web"), ["10.0.0.1", "10.0.0.2"]);
    let records = fleet.instances("clusterset.shop-set", "blue");
    assert_eq!(records.keys().collect::<Vec<_>>(), ["cluster", RECORD]);
}

#[tokio::test]
async fn namespace_of_records_that_a_run_created_is_known_to_the_next_one() {
    let members = Members::start().await;
    // A remembered namespace without services would be looked for again.
    members.of_amber("cart", "10.2.0.1");
    members.fleet.dns_service("old", &[RecordType::A]);
    members.fleet.cloud_map.service(&members.fleet.http, "old", ServiceKind::Http);
    exported(&members.blue, web(), &["10.0.0.1"]);
    sync(&members.function).await;

    let report = sync(&members.function).await;

    let obstacles = ["blue", "green"].map(|cluster| obstacles(&report, cluster));
    assert_eq!(obstacles.concat(), [""; 0], "{report}");
}

#[tokio::test]
async fn pod_that_goes_leaves_the_imports_and_one_that_comes_is_added_to_them() {
    let members = Members::in_step(&["10.0.0.1", "10.0.0.2"]).await;
    pods(&members.blue, "web", &["10.0.0.2", "10.0.0.3"]);

    let report = members.sync_service("blue", "web").await;

    assert!(report.ok, "{report}");
    members.assert_imported("web", "blue 10.0.0.2:8080 10.0.0.3:8080", "");
    members.assert_settled().await;
}

#[tokio::test]
async fn service_scaled_to_zero_keeps_its_import_and_ip_and_one_unexported_loses_all() {
    let members = Members::in_step(&["10.0.0.1"]).await;
    let Members { blue, green, fleet, .. } = &members;
    let ip = || green.service_import("shop", "web").map(|import| import["spec"]["ips"].clone());
    let before = ip();
    pods(blue, "web", &[]);

    members.converge().await;

    assert_eq!(imported(green, "web"), "");
    assert_eq!(ip(), before);
    blue.unexport("shop", "web");
    members.converge().await;
    for cluster in [blue, green] {
        assert_eq!(cluster.service_import("shop", "web"), None);
        assert_eq!(cluster.service_object("shop", DERIVED), None);
        assert!(slices(cluster, "web").is_empty());
    }
    let records = fleet.instances("clusterset.shop-set", "blue");
    assert_eq!(records.keys().collect::<Vec<_>>(), ["cluster"]);
}

/// Of the first sync only the records of the members are awaited.
#[tokio::test]
async fn imports_of_new_members_do_not_wait_for_their_registrations() {
    let members = Members::with_web(&["10.0.0.1"]).await;
    exported(&members.green, service("new"), &["10.1.0.1"]);
    let late = FaultKind::Late(Duration::from_hours(1));
    members.fleet.cloud_map.inject(Fault::on("RegisterInstance", late).after(2).times(10));

    members.until_imported("blue 10.0.0.1:8080").await;

    assert_eq!(condition(&members.blue, "web", "Ready"), "none");
}

async fn status(members: &Members) -> Status {
    let answer = members.ask(&members.function, &json!({"action": "status"})).await;
    Status::deserialize(answer).expect("of this release")
}

/// Reason, regarded object and note of every Event in `shop`.
fn events(cluster: &KubernetesServer) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let events = cluster.events("shop");
    let events = events.iter().map(|event| {
        let regarding = &event["regarding"];
        let object = format!("{} {}", text(&regarding["kind"]), text(&regarding["name"]));
        format!("{} {object}: {}", text(&event["reason"]), text(&event["note"]))
    });
    events.collect()
}

#[tokio::test]
async fn status_has_each_member_with_who_runs_it_its_heartbeat_exports_and_endpoints() {
    let members = Members::with_web(&["10.0.0.1", "10.0.0.2"]).await;
    let amber = members.of_amber("cart", "10.2.0.1");
    members.converge().await;

    let status = status(&members).await;

    assert!(status.ok, "{status}");
    let [registry] = status.registries.as_slice() else { panic!("{status}") };
    let [clusterset] = registry.clustersets.as_slice() else { panic!("{status}") };
    let rows: Vec<_> = clusterset
        .members
        .iter()
        .map(|it| (it.member.as_str(), it.run_by, it.exports, it.ready_endpoints))
        .collect();
    let expected = [
        ("amber", RunBy::McsController, 1, 1),
        ("blue", RunBy::Installation, 1, 2),
        ("green", RunBy::Installation, 0, 0),
    ];
    assert_eq!((clusterset.clusterset.as_str(), rows.as_slice()), ("shop-set", &expected[..]));
    let [amber_row, blue, _] = clusterset.members.as_slice() else { panic!("{status}") };
    assert_eq!((&amber_row.owner, &amber_row.age), (&None, &None));
    assert_eq!(blue.owner.as_deref(), Some("cloud-map-sync"));
    assert!(blue.age.as_ref().is_some_and(|age| age.ends_with('s')), "{blue:?}");
    let services: Vec<_> = registry.services.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(services, ["cart", "web"], "records are no services");
    assert_eq!(members.fleet.cloud_map.instances(&amber).len(), 1);
    // One that was purged is not among them.
    assert!(purge(&members.function, "green").await.ok);
    let status = self::status(&members).await;
    assert!(members.fleet.cloud_map.find_service("clusterset.shop-set", "green").is_some());
    let listed = status.registries[0].clustersets[0].members.iter();
    assert_eq!(listed.map(|it| &*it.member).collect::<Vec<_>>(), ["amber", "blue"], "{status}");
}

#[tokio::test]
async fn plan_shows_exports_imports_and_slices_and_counts_them() {
    let members = Members::with_web(&["10.0.0.1", "10.0.0.2"]).await;

    let planned = plan(&members.function).await;

    let said = planned.to_string();
    for line in [
        "    + export     shop/web\n",
        "    + import     shop/web  ClusterSetIP, http:80/TCP\n",
        "    + service    shop/derived-isrlchlhrq  IPv4, http:80/TCP\n",
        "    + slice      shop/imported-isrlchlhrq-ac321fb1-1  IPv4 of blue, 2 in\n",
        "    ~ status     shop/web  Ready True/Ready, from blue\n",
    ] {
        assert!(said.contains(line), "{line}\n{said}");
    }
    assert_eq!(planned.counts.imported, 10, "{said}");
    assert!(said.contains(", 10 to write in clusters;"), "{said}");

    members.converge().await;
    pods(&members.blue, "web", &["10.0.0.2", "10.0.0.3"]);
    let other = ClusterIp::new("shop", "web").port_of("TCP", "admin", 81, 8081);
    exported_at(&members.green, other, &["10.1.0.1"], LATER);
    let said = sync(&members.function).await.to_string();
    let slice = "    ~ slice      shop/imported-isrlchlhrq-ac321fb1-1  IPv4 of blue, 1 in 1 out\n";
    assert!(said.contains(slice), "{said}");
    let conflict = "    ! remark     shop/web (PortConflict): Conflicting ports.";
    assert!(said.contains(conflict), "{said}");
    members.green.unexport("shop", "web");
    let said = sync(&members.function).await.to_string();
    assert!(said.contains("    - export     shop/web\n"), "{said}");
}

#[tokio::test]
async fn condition_that_turns_bad_is_an_event_on_the_export_once() {
    let members = Members::in_step(&["10.0.0.1"]).await;
    assert_eq!(events(&members.blue), Vec::<String>::new());
    let other = ClusterIp::new("shop", "web").port_of("TCP", "admin", 81, 8081);
    exported_at(&members.green, other, &["10.1.0.1"], LATER);
    members.blue.put(Export::new("shop", "lost").created(CREATED).into());

    for _ in 0..3 {
        sync(&members.function).await;
    }

    let conflict = message_of(&members.blue, "web", "Conflict");
    let expected = [
        "NoService ServiceExport lost: There is no Service of this name.".to_owned(),
        format!("PortConflict ServiceExport web: {conflict}"),
    ];
    let mut of_blue = events(&members.blue);
    of_blue.sort();
    assert_eq!(of_blue, expected);
    assert_eq!(events(&members.green), expected[1..]);
}
