//! A cluster that the function serves is the only source of what it exports: what Cloud Map lacks, refuses, shows late or has
//! lost changes no import of it, whichever run looks.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    LATER, Members, condition, exported, exported_at, imported, in_full, pods, service, web,
};
use crate::run::{report, sync, sync_of};
use testbed::cloud_map::{Fault, FaultKind};
use testbed::kubernetes::{self, KubernetesServer};

const EXPORTS: &str = "/apis/multicluster.x-k8s.io/v1beta1";

fn everything() -> Value {
    json!({ "action": "sync" })
}

fn ip_of(cluster: &KubernetesServer, name: &str) -> Value {
    cluster.service_import("shop", name).expect("an import")["spec"]["ips"].clone()
}

impl Members {
    /// blue exports `web`, which Cloud Map does not take.
    async fn with_web_that_cloud_map_does_not_take() -> Self {
        let members = Self::start().await;
        members.converge().await;
        let settings = [("CREATE_NAMESPACES", "false")];
        let function = members.serving("blue,green", &settings).await;
        let members = Self { function, ..members };
        exported(&members.blue, web(), &["10.0.0.1"]);
        sync(&members.function).await;
        assert_eq!(condition(&members.blue, "web", "Ready"), "False Failed");
        members.assert_imported("web", "blue 10.0.0.1:8080", "Cloud Map has none of it");
        members
    }
}

#[tokio::test]
async fn export_that_cloud_map_does_not_take_stays_while_its_cluster_cannot_be_read() {
    let members = Members::with_web_that_cloud_map_does_not_take().await;
    let ip = ip_of(&members.green, "web");
    let away = kubernetes::Fault::always("/", kubernetes::FaultKind::Status(503));
    members.blue.fail(away);

    for scope in [everything(), sync_of("green", "web")] {
        let report = report(&members.function, &scope).await;
        assert_eq!(imported(&members.green, "web"), "blue 10.0.0.1:8080", "{}", in_full(&report));
    }

    assert_eq!(ip_of(&members.green, "web"), ip);
}

#[tokio::test]
async fn export_that_cloud_map_does_not_take_stays_in_messages_about_a_neighbour() {
    let members = Members::with_web_that_cloud_map_does_not_take().await;
    let ip = ip_of(&members.green, "web");
    members.clock.advance(Duration::from_mins(6));

    let report = report(&members.function, &sync_of("green", "web")).await;

    members.assert_imported("web", "blue 10.0.0.1:8080", &in_full(&report));
    assert_eq!(ip_of(&members.green, "web"), ip);
}

#[tokio::test]
async fn pods_that_cloud_map_still_has_come_back_by_no_message_about_a_neighbour() {
    let members = Members::in_step(&["10.0.0.1"]).await;
    exported_at(&members.green, web(), &["10.1.0.1"], LATER);
    members.converge().await;
    for operation in ["RegisterInstance", "DeregisterInstance"] {
        members.fleet.cloud_map.inject(Fault::on(operation, FaultKind::AccessDenied).always());
    }
    pods(&members.blue, "web", &["10.0.0.2"]);

    for scope in [everything(), sync_of("green", "web"), everything()] {
        members.clock.advance(Duration::from_mins(6));
        let report = report(&members.function, &scope).await;
        let living = "blue 10.0.0.2:8080, green 10.1.0.1:8080";
        members.assert_imported("web", living, &format!("{scope}: {}", in_full(&report)));
    }
}

#[tokio::test]
async fn maximum_of_registrations_limits_no_import_whether_the_cluster_can_be_read_or_not() {
    let policy = r#"[{"clusters": ["*"], "kubernetesNamespaces": ["*"], "cloudMapNamespaces": ["*"], "names": ["*"], "maxInstances": 2}]"#;
    let members = Members::start().await;
    let function = members.serving("blue,green", &[("NAME_POLICY", policy)]).await;
    let four = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"];
    exported(&members.blue, web(), &four);
    sync(&function).await;
    let all = imported(&members.green, "web");
    assert_eq!(all, "blue 10.0.0.1:8080 10.0.0.2:8080 10.0.0.3:8080 10.0.0.4:8080");
    members.blue.refuse(EXPORTS, 503);

    for scope in [everything(), sync_of("green", "web")] {
        let report = report(&function, &scope).await;
        assert_eq!(imported(&members.green, "web"), all, "{}", in_full(&report));
    }
}

#[tokio::test]
async fn records_that_somebody_deletes_end_no_import_of_a_served_cluster() {
    let members = Members::in_step(&["10.0.0.1"]).await;
    exported(&members.blue, service("cart"), &["10.0.0.2"]);
    members.converge().await;
    let cloud_map = &members.fleet.cloud_map;
    let records = cloud_map.service_id("clusterset.shop-set", "blue");
    cloud_map.instances(&records).into_keys().for_each(|id| cloud_map.withdraw(&records, &id));

    for process in ["the same", "a new one"] {
        let new = members.serving("blue,green", &[]).await;
        let function = if process == "the same" { &members.function } else { &new };
        for scope in [everything(), sync_of("green", "web")] {
            let report = report(function, &scope).await;
            let why = format!("{process}, {scope}: {}", in_full(&report));
            members.assert_imported("web", "blue 10.0.0.1:8080", &why);
            members.assert_imported("cart", "blue 10.0.0.2:8080", &why);
        }
    }
}

/// Its id is not known then, and a part of an import may be its own.
#[tokio::test]
async fn part_of_a_cluster_without_a_record_stays_while_the_cluster_does_not_answer() {
    let members = Members::in_step(&["10.0.0.1"]).await;
    let cloud_map = &members.fleet.cloud_map;
    let records = cloud_map.service_id("clusterset.shop-set", "blue");
    cloud_map.instances(&records).into_keys().for_each(|id| cloud_map.withdraw(&records, &id));
    members.blue.fail(kubernetes::Fault::always("/", kubernetes::FaultKind::Status(503)));
    let process = members.serving("blue,green", &[]).await;

    for scope in [everything(), sync_of("green", "web")] {
        let report = report(&process, &scope).await;
        assert_eq!(imported(&members.green, "web"), "blue 10.0.0.1:8080", "{}", in_full(&report));
    }
}

/// Nine clusters: more than are read side by side.
#[tokio::test(start_paused = true)]
async fn own_pods_of_a_cluster_are_its_own_in_messages_about_any_of_nine() {
    let many = super::many::Many::start(9, &["shop"], &[]).await;
    for (index, cluster) in many.clusters.iter().enumerate() {
        exported(cluster, web(), &[&format!("10.{index}.0.1")]);
    }
    many.converge().await;
    let denied = Fault::on("RegisterInstance", FaultKind::AccessDenied);
    many.fleet.cloud_map.inject(denied.always());
    pods(&many.clusters[8], "web", &["10.8.0.2"]);

    for cluster in ["c8", "c0"] {
        let report = report(&many.function, &sync_of(cluster, "web")).await;
        let imported = super::imported_from(&many.clusters[8], "web");
        assert_eq!(imported["c8"], ["10.8.0.2:8080".to_owned()].into(), "{}", in_full(&report));
    }
}

/// A right is missing, or the API server refuses one list.
#[tokio::test]
async fn exports_go_on_while_the_imports_of_their_cluster_cannot_be_read() {
    for status in [403, 500] {
        let members = Members::in_step(&["10.0.0.1"]).await;
        members.blue.refuse("/apis/multicluster.x-k8s.io/v1beta1/serviceimports", status);
        let of_name = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/serviceimports";
        members.blue.refuse(of_name, status);
        pods(&members.blue, "web", &["10.0.0.2"]);

        let report = sync(&members.function).await;

        assert_eq!(super::obstacles(&report, "blue"), ["Unreadable"], "{}", in_full(&report));
        assert_eq!(members.fleet.addresses("shop", "web"), ["10.0.0.2"], "{}", in_full(&report));
        assert_eq!(imported(&members.green, "web"), "blue 10.0.0.2:8080");
        assert_eq!(imported(&members.blue, "web"), "blue 10.0.0.1:8080");
        pods(&members.blue, "web", &["10.0.0.3"]);
        members.sync_service("blue", "web").await;
        assert_eq!(members.fleet.addresses("shop", "web"), ["10.0.0.3"]);
        assert_eq!(imported(&members.green, "web"), "blue 10.0.0.3:8080");
    }
}

/// More clusters than are published side by side, so that the last ones begin when the first have created what all need.
#[tokio::test(start_paused = true)]
async fn first_sync_of_many_clusters_that_export_the_same_names_is_good() {
    let many = super::many::Many::start(12, &["shop"], &[]).await;
    for (index, cluster) in many.clusters.iter().enumerate() {
        for name in ["web", "api", "cart"] {
            exported(cluster, service(name), &[&format!("10.{index}.0.1")]);
        }
    }

    let report = sync(&many.function).await;

    assert!(report.ok, "{report}");
    let created = many.fleet.cloud_map.count("CreateService");
    assert_eq!(created, 3 + 12, "one for each name, and for the records of each cluster");
    many.assert_settled().await;
}
