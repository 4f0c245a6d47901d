//! Lists: pages are cut before they are filtered, and names in a DNS namespace conflict regardless of case.

use serde_json::json;

use super::super::{Behaviour, NamespaceKind, RecordType, ServiceKind};
use super::{call, cloud_map, dns_service, done, http_service, refused};

#[tokio::test]
async fn a_filtered_list_has_empty_pages_that_lead_on() {
    let map = cloud_map();
    let (shop, other) =
        (map.namespace("shop", NamespaceKind::Http), map.namespace("other", NamespaceKind::Http));
    map.service(&shop, "web", ServiceKind::Http);
    (0..250).for_each(|number| drop(map.service(&other, &format!("s{number}"), ServiceKind::Http)));
    let (mut found, mut empty, mut token) = (0, 0, json!(null));
    loop {
        let filters = json!([{ "Name": "NAMESPACE_ID", "Values": [shop] }]);
        let page =
            done(&map, "ListServices", json!({ "Filters": filters, "NextToken": token })).await;
        let services = page["Services"].as_array().expect("a list").len();
        found += services;
        empty += usize::from(services == 0 && page["NextToken"].is_string());
        token = page["NextToken"].clone();
        if token.is_null() {
            break;
        }
    }
    assert_eq!((found, map.count("ListServices")), (1, 3));
    assert!(empty >= 1, "one service is on one of three pages");
}

#[tokio::test]
async fn a_page_limit_makes_pages_of_a_small_registry() {
    let map = cloud_map();
    let web = http_service(&map, "web");
    for id in ["a", "b", "c"] {
        map.instance(&web, id, &[]);
    }
    map.behave(Behaviour { page_limit: 2, ..Behaviour::default() });
    let first = done(&map, "ListInstances", json!({ "ServiceId": web })).await;
    let second =
        done(&map, "ListInstances", json!({ "ServiceId": web, "NextToken": first["NextToken"] }))
            .await;
    assert_eq!(
        (first["Instances"].as_array().map(Vec::len), &second["Instances"][0]["Id"]),
        (Some(2), &json!("c"))
    );
    let foreign = json!({ "NextToken": first["NextToken"] });
    assert_eq!(refused(&map, "ListServices", foreign).await, "InvalidInput");
}

#[tokio::test]
async fn names_that_differ_by_case_collide_in_dns_only() {
    let map = cloud_map();
    let web = dns_service(&map, &[RecordType::A]);
    let (corp, shop) = (
        map.find_namespace("corp.local").expect("seeded"),
        map.namespace("shop", NamespaceKind::Http),
    );
    map.service(&shop, "web", ServiceKind::Http);
    done(&map, "CreateService", json!({ "Name": "WEB", "NamespaceId": shop })).await;
    let (status, answer) =
        call(&map, "CreateService", json!({ "Name": "WEB", "NamespaceId": corp, "Type": "HTTP" }))
            .await;
    assert_eq!(
        (status, &answer["__type"], &answer["ServiceId"]),
        (400, &json!("ServiceAlreadyExists"), &json!(web))
    );
}

#[tokio::test]
async fn a_dns_namespace_wants_records_or_the_type_http_and_an_http_namespace_no_records() {
    let map = cloud_map();
    let (corp, shop) = (
        map.namespace("corp.local", NamespaceKind::DnsPrivate),
        map.namespace("shop", NamespaceKind::Http),
    );
    let records = json!({ "DnsRecords": [{ "Type": "A", "TTL": 60 }] });
    for wrong in [
        json!({ "Name": "a", "NamespaceId": corp }),
        json!({ "Name": "a", "NamespaceId": corp, "Type": "HTTP", "DnsConfig": records }),
        json!({ "Name": "a", "NamespaceId": shop, "DnsConfig": records }),
    ] {
        assert_eq!(refused(&map, "CreateService", wrong.clone()).await, "InvalidInput", "{wrong}");
    }
    let created =
        done(&map, "CreateService", json!({ "Name": "a", "NamespaceId": corp, "Type": "HTTP" }))
            .await;
    assert_eq!(created["Service"]["Type"], "HTTP");
}

#[tokio::test]
async fn an_arn_serves_as_id_only_in_its_own_account() {
    let map = cloud_map();
    let web = http_service(&map, "web");
    let service = done(&map, "GetService", json!({ "Id": web })).await["Service"].clone();
    let arn = service["Arn"].as_str().expect("an ARN");
    assert_eq!(done(&map, "GetService", json!({ "Id": arn })).await["Service"], service);
    let elsewhere = arn.replace("111122223333", "444455556666");
    assert_eq!(refused(&map, "GetService", json!({ "Id": elsewhere })).await, "ServiceNotFound");
}
