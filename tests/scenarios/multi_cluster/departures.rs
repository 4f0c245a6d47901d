//! Members that another function serves: Cloud Map is the source of what they export. Nothing of them leaves an import by a
//! list that lacks it alone.

use std::collections::BTreeSet;

use cloud_map_sync::function::Function;
use serde_json::{Value, json};

use super::{
    Members, amber_attributes, amber_id, exported, imported, in_full, part, pods, service, web,
};
use crate::fleet::{ips, refs};
use crate::run::{report, sync, sync_of, synced};
use testbed::cloud_map::{Fault, FaultKind, NamespaceKind, RecordType, ServiceKind};

fn everything() -> Value {
    json!({ "action": "sync" })
}

/// The import of a name with these addresses of blue.
fn blue_at(addresses: &[String]) -> String {
    let endpoints: Vec<String> =
        addresses.iter().map(|address| format!("{address}:8080")).collect();
    format!("blue {}", endpoints.join(" "))
}

/// One function serves blue, which exports `web` and `cart`, and another one green, the importer. AWS's controller exports
/// `mail` from amber.
struct TwoFunctions {
    members: Members,
    of_blue: Function,
    of_green: Function,
}

impl TwoFunctions {
    async fn in_step(web_pods: &[&str]) -> Self {
        let members = Box::pin(Members::start()).await;
        exported(&members.blue, web(), web_pods);
        exported(&members.blue, service("cart"), &["10.0.0.7"]);
        members.amber("mail", &["10.2.0.9"]);
        let of_blue = Box::pin(members.serving("blue", &[])).await;
        let of_green = Box::pin(members.serving("green", &[])).await;
        for function in [&of_blue, &of_green, &of_blue, &of_green] {
            Box::pin(synced(function)).await;
        }
        Self { members, of_blue, of_green }
    }
}

#[tokio::test]
async fn what_a_list_misses_stays_as_long_as_cloud_map_has_it() {
    let two = TwoFunctions::in_step(&["10.0.0.1", "10.0.0.2"]).await;
    let TwoFunctions { members, of_blue, of_green } = &two;
    let cloud_map = &members.fleet.cloud_map;
    let records = cloud_map.service_id("clusterset.shop-set", "blue");
    let web_instances = cloud_map.instances(&cloud_map.service_id("shop", "web"));
    let missed = web_instances.into_keys().chain(cloud_map.instances(&records).into_keys());
    let missed: BTreeSet<String> = missed.chain([amber_id("10.2.0.9")]).collect();
    assert_eq!(missed.len(), 6);
    cloud_map.adjust(|it| it.unlisted = missed);
    members.green.forget_requests();

    let new = members.serving("green", &[]).await;
    for function in [of_green, &new] {
        for scope in [everything(), sync_of("green", "web"), sync_of("green", "mail")] {
            let report = report(function, &scope).await;
            let web = blue_at(&["10.0.0.1".to_owned(), "10.0.0.2".to_owned()]);
            assert_eq!(imported(&members.green, "web"), web, "{scope}: {}", in_full(&report));
            assert_eq!(imported(&members.green, "cart"), "blue 10.0.0.7:8080", "{scope}");
            assert_eq!(imported(&members.green, "mail"), "amber 10.2.0.9:8080", "{scope}");
        }
    }

    assert_eq!(super::writes(&members.green), [""; 0]);
    cloud_map.adjust(|it| it.unlisted.clear());
    pods(&members.blue, "web", &["10.0.0.2"]);
    synced(of_blue).await;
    synced(of_green).await;
    assert_eq!(imported(&members.green, "web"), "blue 10.0.0.2:8080");
}

/// An endpoint has an instance for each of its ports.
#[tokio::test]
async fn port_of_an_endpoint_that_a_list_misses_stays() {
    let members = Box::pin(Members::start()).await;
    let cloud_map = &members.fleet.cloud_map;
    exported(&members.blue, web().port("admin", 8081), &["10.0.0.1"]);
    let of_blue = Box::pin(members.serving("blue", &[])).await;
    let of_green = Box::pin(members.serving("green", &[])).await;
    for function in [&of_blue, &of_green] {
        synced(function).await;
    }
    let before = imported(&members.green, "web");
    let web_instances = cloud_map.instances(&cloud_map.service_id("shop", "web")).into_iter();
    let of_http = web_instances.filter(|(_, attributes)| attributes["SERVICE_PORT_NAME"] == "http");
    let missed: BTreeSet<String> = of_http.map(|(id, _)| id).collect();
    assert_eq!(missed.len(), 1, "{before}");
    cloud_map.adjust(|it| it.unlisted = missed);
    members.green.forget_requests();

    let report = sync(&members.serving("green", &[]).await).await;

    assert_eq!(imported(&members.green, "web"), before, "{}", in_full(&report));
    assert_eq!(super::writes(&members.green), [""; 0]);
}

/// In a DNS namespace all spellings of a name are one name.
#[tokio::test]
async fn export_in_a_dns_service_of_another_spelling_is_imported() {
    let members = Box::pin(Members::start()).await;
    let cloud_map = &members.fleet.cloud_map;
    let namespace = cloud_map.namespace("shop", NamespaceKind::DnsPrivate);
    cloud_map.service(&namespace, "Web", ServiceKind::of_records(&[RecordType::A]));
    exported(&members.blue, web(), &["10.0.0.1"]);
    let of_blue = Box::pin(members.serving("blue", &[])).await;
    let of_green = Box::pin(members.serving("green", &[])).await;
    synced(&of_blue).await;

    let report = synced(&of_green).await;

    assert_eq!(cloud_map.services(&namespace).len(), 1);
    assert_eq!(imported(&members.green, "web"), "blue 10.0.0.1:8080", "{}", in_full(&report));
}

/// Another client may register for a cluster under ids of its own, which cannot be asked for.
#[tokio::test]
async fn endpoint_with_an_id_of_an_unknown_form_stays_while_the_lists_do_not_count_it() {
    let two = TwoFunctions::in_step(&["10.0.0.1"]).await;
    let TwoFunctions { members, of_green, .. } = &two;
    let cloud_map = &members.fleet.cloud_map;
    cloud_map.instance(&members.place("web"), "another", &amber_attributes("10.2.0.1"));
    synced(of_green).await;
    let before = imported(&members.green, "web");
    assert_eq!(before, "amber 10.2.0.1:8080, blue 10.0.0.1:8080");
    cloud_map.adjust(|it| it.uncounted = "shop");

    let report = sync(&members.serving("green", &[]).await).await;

    assert_eq!(imported(&members.green, "web"), before, "{}", in_full(&report));
}

#[tokio::test]
async fn endpoint_stays_while_cloud_map_does_not_say_whether_it_is_gone() {
    let two = TwoFunctions::in_step(&["10.0.0.1", "10.0.0.2"]).await;
    let TwoFunctions { members, of_blue, of_green } = &two;
    pods(&members.blue, "web", &["10.0.0.2"]);
    synced(of_blue).await;
    let denied = Fault::on("GetInstance", FaultKind::AccessDenied).always();
    members.fleet.cloud_map.inject(denied);

    let denied = sync(of_green).await;

    let both = blue_at(&["10.0.0.1".to_owned(), "10.0.0.2".to_owned()]);
    assert_eq!(imported(&members.green, "web"), both, "{}", in_full(&denied));
    let said = in_full(&denied);
    assert!(said.contains("cannot get the instance tcp-10-0-0-1-8080-"), "{said}");
    members.fleet.cloud_map.heal();
    synced(of_green).await;
    assert_eq!(imported(&members.green, "web"), "blue 10.0.0.2:8080");
}

/// The instances stand, and say whose they are.
#[tokio::test]
async fn member_of_which_somebody_deletes_the_records_stays_until_they_are_back() {
    for also_service in [false, true] {
        let two = TwoFunctions::in_step(&["10.0.0.1"]).await;
        let TwoFunctions { members, of_blue, of_green } = &two;
        let cloud_map = &members.fleet.cloud_map;
        let records = cloud_map.service_id("clusterset.shop-set", "blue");
        cloud_map.instances(&records).into_keys().for_each(|id| cloud_map.withdraw(&records, &id));
        if also_service {
            cloud_map.remove_service(&records);
        }

        let new = members.serving("green", &[]).await;
        for function in [of_green, &new] {
            for scope in [everything(), sync_of("green", "web")] {
                let report = report(function, &scope).await;
                let why = format!("{scope}: {}", in_full(&report));
                assert_eq!(imported(&members.green, "web"), "blue 10.0.0.1:8080", "{why}");
                assert_eq!(imported(&members.green, "cart"), "blue 10.0.0.7:8080", "{why}");
            }
        }

        report(of_blue, &json!({ "action": "confirm" })).await;
        pods(&members.blue, "web", &["10.0.0.2"]);
        synced(of_blue).await;
        synced(of_green).await;
        assert_eq!(imported(&members.green, "web"), "blue 10.0.0.2:8080");
    }
}

/// Cloud Map has answered for each of them.
#[tokio::test]
async fn one_service_that_is_scaled_down_far_leaves_its_dead_endpoints_at_once() {
    let thirty = ips("10.0.0", 1..=30);
    let two = TwoFunctions::in_step(&refs(&thirty)).await;
    let TwoFunctions { members, of_blue, of_green } = &two;
    pods(&members.blue, "web", &refs(&thirty[..8]));
    synced(of_blue).await;

    let report = synced(of_green).await;

    assert_eq!(imported(&members.green, "web"), blue_at(&thirty[..8]), "{}", in_full(&report));
    assert_eq!(part(&report, "green").guard, None);
}
