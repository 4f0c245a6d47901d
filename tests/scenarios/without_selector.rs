//! Headless Services without a selector, whose slices another program writes. The API server gives them both families, also
//! in a cluster that has one.

use serde_json::{Value, json};

use crate::endpoints::slice;
use crate::fleet::{Fleet, annotated, give_pods};
use crate::run::{converge, held_back, plan, said_of, settled, sync, sync_service};
use testbed::cloud_map::RecordType::{self, A, Aaaa};

/// `shop/web` claims `web` in `prod.local`, with an endpoint at each of these addresses.
async fn written_by_hand(addresses: &[&str]) -> Fleet {
    let fleet = Fleet::start().await;
    fleet.service(annotated("web", "prod.local", "web").without_selector());
    for (index, address) in addresses.iter().enumerate() {
        put(&fleet, &format!("web-{index}"), address, &json!({}));
    }
    fleet
}

fn put(fleet: &Fleet, name: &str, address: &str, conditions: &Value) {
    let mut slice = slice("web", name, &[address.to_owned()], conditions);
    slice["addressType"] = if address.contains(':') { "IPv6" } else { "IPv4" }.into();
    fleet.cluster.put(slice);
}

fn records(fleet: &Fleet) -> Vec<(RecordType, i64)> {
    fleet.view("prod.local", "web").dns.expect("DNS records").records
}

/// An A+AAAA service that the function has left behind under the name, empty, with the tag of this owner.
fn left_behind(fleet: &Fleet, owner: &str) -> String {
    let service = fleet.dns_service("web", &[A, Aaaa]);
    fleet.cloud_map.tag(&service, "cloud-map-sync/owner", owner);
    service
}

#[tokio::test]
async fn records_of_a_new_service_are_of_the_family_of_the_endpoints() {
    for (address, expected) in [("10.0.1.1", A), ("fd00::1", Aaaa)] {
        let fleet = written_by_hand(&[address]).await;

        let report = converge(&fleet, &fleet.function().await).await;

        assert_eq!((held_back(&report).len(), report.counts.registered), (0, 1), "{report}");
        assert_eq!(records(&fleet), [(expected, 60)], "{address}");
    }
}

#[tokio::test]
async fn nothing_is_created_until_an_endpoint_is_ready() {
    let fleet = written_by_hand(&[]).await;
    let function = fleet.function().await;
    for not_ready in [false, true] {
        if not_ready {
            put(&fleet, "web-0", "fd00::1", &json!({"ready": false}));
        }
        let report = converge(&fleet, &function).await;
        assert_eq!((report.counts.created, held_back(&report).len()), (0, 0), "{report}");
    }
    put(&fleet, "web-0", "fd00::1", &json!({"ready": true}));
    converge(&fleet, &function).await;
    assert_eq!(records(&fleet), [(Aaaa, 60)]);
}

#[tokio::test]
async fn empty_service_of_ours_that_fits_no_endpoint_is_deleted_and_created_anew() {
    let fleet = written_by_hand(&["10.0.1.1"]).await;
    left_behind(&fleet, "cloud-map-sync");
    let function = fleet.function_with(&[("DELETE_EMPTY_SERVICES", "true")]).await;

    let planned = plan(&function).await;
    assert!(planned.to_string().contains("- delete     prod.local/web"), "{planned}");

    let report = sync(&function).await;
    assert!(report.ok && report.counts.deleted == 1, "{report}");
    assert!(said_of(&report, "RecordTypeMismatch").contains("with A records"), "{report}");

    let report = sync(&function).await;
    assert_eq!((report.counts.created, held_back(&report).len()), (1, 0), "{report}");
    assert_eq!(fleet.addresses("prod.local", "web"), ["10.0.1.1"]);
    settled(&fleet, &function).await;
}

#[tokio::test]
async fn without_the_setting_the_line_has_the_command_that_deletes_the_service() {
    let fleet = written_by_hand(&["10.0.1.1"]).await;
    let service = left_behind(&fleet, "cloud-map-sync");
    let function = fleet.function().await;

    for report in [converge(&fleet, &function).await, sync_service(&function, "web").await] {
        assert_eq!(held_back(&report), ["RecordTypeMismatch"], "{report}");
        let line = said_of(&report, "RecordTypeMismatch");
        let command = "aws servicediscovery delete-service --region eu-central-1 --id ";
        assert!(line.contains(&format!("{command}{service};")), "{line}");
    }
    assert_eq!(fleet.cloud_map.count("RegisterInstance"), 0);

    fleet.cloud_map.remove_service(&service);
    converge(&fleet, &function).await;
    assert_eq!(
        (records(&fleet), fleet.addresses("prod.local", "web")),
        (vec![(A, 60)], vec!["10.0.1.1".to_owned()])
    );
}

#[tokio::test]
async fn service_of_another_owner_or_with_another_claimant_is_not_deleted() {
    let deleting = [("DELETE_EMPTY_SERVICES", "true")];
    for case in ["another owner", "another cluster", "an instance"] {
        let fleet = written_by_hand(&["10.0.1.1"]).await;
        let owner = if case == "another owner" { "team-a" } else { "cloud-map-sync" };
        let service = left_behind(&fleet, owner);
        match case {
            "another cluster" => {
                let green = fleet.green().await;
                green.service(annotated("web", "prod.local", "web"));
                give_pods(&green, "web", &[]);
            }
            "an instance" => {
                let both = [("AWS_INSTANCE_IPV4", "10.9.0.1"), ("AWS_INSTANCE_IPV6", "fd00::9")];
                fleet.cloud_map.instance(&service, "theirs", &both);
            }
            _ => {}
        }

        let report = sync(&fleet.function_with(&deleting).await).await;

        assert_eq!(held_back(&report), ["RecordTypeMismatch"], "{case}: {report}");
        assert_eq!(fleet.cloud_map.count("DeleteService"), 0, "{case}");
    }
}
