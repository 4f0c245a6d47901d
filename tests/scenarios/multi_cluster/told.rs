//! What people are shown about exports and imports: `status`, the plan's table, conditions' messages and Events.

use cloud_map_sync::actions::status::{RunBy, Status};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{CREATED, LATER, Members, condition, exported_at, message_of, pods, web};
use crate::run::{plan, purge, sync};
use testbed::function::invoke;
use testbed::kubernetes::{ClusterIp, Export, KubernetesServer};

async fn status(members: &Members) -> Status {
    members.fleet.cloud_map.forget_calls();
    let answer = invoke(&members.function, &json!({"action": "status"})).await;
    assert_eq!(members.fleet.cloud_map.writes(), 0);
    Status::deserialize(answer.response.expect("a status")).expect("of this release")
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
}

#[tokio::test]
async fn member_that_was_purged_is_not_in_the_status() {
    let members = Members::in_step(&["10.0.0.1"]).await;
    let green = members.fleet.sandbox.cluster_arn("green");
    assert!(purge(&members.function, &green).await.ok);

    let status = status(&members).await;

    assert!(members.fleet.cloud_map.find_service("clusterset.shop-set", "green").is_some());
    let listed = status.registries[0].clustersets[0].members.iter();
    assert_eq!(listed.map(|it| &*it.member).collect::<Vec<_>>(), ["blue"], "{status}");
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
    assert!(
        said.contains("    ! Conflict   shop/web (PortConflict): Conflicting ports."),
        "{said}"
    );
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
    let told = [
        "NoService ServiceExport lost: There is no Service of this name.".to_owned(),
        format!("PortConflict ServiceExport web: {conflict}"),
    ];
    let mut of_blue = events(&members.blue);
    of_blue.sort();
    assert_eq!(of_blue, told);
    assert_eq!(events(&members.green), told[1..]);
}

#[tokio::test]
async fn labels_that_no_object_can_have_are_reported_in_ready() {
    let members = Members::start().await;
    members.blue.service(web());
    pods(&members.blue, "web", &["10.0.0.1"]);
    let export = Export::new("shop", "web").created(CREATED);
    let export = export.labels(&[("team", "shop"), ("a b", "x")]).annotations(&[("x/y/z", "1")]);
    members.blue.put(export.into());

    let report = members.converge().await;

    assert_eq!(condition(&members.blue, "web", "Ready"), "True Exported");
    let said = "labels \"a b\" and annotations \"x/y/z\" are left out of imports: no Kubernetes object can have them";
    assert_eq!(message_of(&members.blue, "web", "Ready"), said);
    assert!(report.to_string().contains(said), "{report}");
    let import = members.green.service_import("shop", "web").expect("an import");
    assert_eq!(import["metadata"]["labels"]["team"], "shop");
    assert_eq!(import["metadata"]["labels"]["a b"], Value::Null);
}
