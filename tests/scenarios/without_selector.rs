//! Headless Services without a selector, whose slices another program writes. The API server gives them both families, also
//! in a cluster that has one.

use serde_json::{Value, json};

use crate::endpoints::slice;
use crate::fleet::{Fleet, annotated};
use crate::run::{converge, held_back, plan, said_of, settled, sync};
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
