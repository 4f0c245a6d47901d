//! The slices of an import: their endpoints, and the slice that each endpoint is in.

use insta::assert_snapshot;
use serde_json::json;

use super::cluster::Cluster;
use super::world::{BOTH, World, after, endpoint, fields, many, ports, slices};
use crate::import::plan::Kind;
use crate::import::plan::present_objects::Addresses;
use crate::model::Protocol;

fn web(cluster: &str, addresses: &str) -> World {
    World::with_ports("http:80").families(&BOTH).exported(cluster, addresses)
}

#[test]
fn each_cluster_family_and_set_of_ports_has_its_own_slices() {
    let mut world = World::with_ports("http:80 https:443").families(&BOTH);
    world = world.exported("green", "10.0.0.1 fd00::1").exported("red", "10.0.0.2");
    world.endpoints_mut("red").push(endpoint("10.0.0.3", &ports("https:443")));
    let mut cluster = Cluster::default();
    assert_snapshot!(world.synced(&mut cluster), @"
    + ServiceImport web: ClusterSetIP, http:80/TCP https:443/TCP
    + Service derived-isrlchlhrq: IPv4 IPv6, http:80/TCP https:443/TCP
    + EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 1 in
    + EndpointSlice imported-isrlchlhrq-7ed16806-1: IPv6 of green, 1 in
    + EndpointSlice imported-isrlchlhrq-a893d503-1: IPv4 of red, 1 in
    + EndpointSlice imported-isrlchlhrq-a893d503-2: IPv4 of red, 1 in
    ~ ServiceImport web: ips
    ~ ServiceImport web status: Ready True/Ready, from green, red
    ");
    assert_snapshot!(slices(&cluster), @"
    imported-isrlchlhrq-7ed16806-1: fd00::1
    imported-isrlchlhrq-8de69181-1: 10.0.0.1
    imported-isrlchlhrq-a893d503-1: 10.0.0.2
    imported-isrlchlhrq-a893d503-2: 10.0.0.3
    ");
}

#[test]
fn endpoint_has_node_only_from_the_own_cluster_and_zone_only_from_nearby() {
    let mut world = web("blue", "10.0.0.1").exported("green", "10.0.0.2");
    world.merged_mut().properties.traffic_distribution = Some("PreferSameZone".to_owned());
    for name in ["blue", "green"] {
        let endpoint = &mut world.endpoints_mut(name)[0];
        endpoint.node = Some("ip-10-0-0-9".into());
        endpoint.zone = Some("eu-central-1a".into());
        endpoint.hostname = Some("web-0".into());
    }
    world.endpoints_mut("green")[0].ready = false;
    let cluster = after(&world);
    let slices = cluster.objects.iter().filter(|((kind, _), _)| *kind == Kind::EndpointSlice);
    let slices = slices.map(|(_, slice)| {
        let mut slice = slice.clone();
        slice["metadata"]["uid"].take();
        slice["metadata"]["resourceVersion"].take();
        fields(&slice)
    });
    assert_snapshot!(slices.collect::<Vec<_>>().join("\n"), @r#"
    addressType "IPv4"
    apiVersion "discovery.k8s.io/v1"
    endpoints [{"addresses":["10.0.0.2"],"conditions":{"ready":false,"serving":false,"terminating":false},"hostname":"web-0"}]
    kind "EndpointSlice"
    metadata.labels {"cloud-map-sync/owner":"cloud-map-sync","endpointslice.kubernetes.io/managed-by":"cloud-map-sync","kubernetes.io/service-name":"derived-isrlchlhrq","multicluster.kubernetes.io/service-name":"web","multicluster.kubernetes.io/source-cluster":"green"}
    metadata.name "imported-isrlchlhrq-8de69181-1"
    metadata.namespace "shop"
    metadata.ownerReferences [{"apiVersion":"multicluster.x-k8s.io/v1beta1","kind":"ServiceImport","name":"web","uid":"uid-1"}]
    metadata.resourceVersion null
    metadata.uid null
    ports [{"name":"http","port":8080,"protocol":"TCP"}]
    addressType "IPv4"
    apiVersion "discovery.k8s.io/v1"
    endpoints [{"addresses":["10.0.0.1"],"conditions":{"ready":true,"serving":true,"terminating":false},"hints":{"forZones":[{"name":"eu-central-1a"}]},"hostname":"web-0","nodeName":"ip-10-0-0-9","zone":"eu-central-1a"}]
    kind "EndpointSlice"
    metadata.labels {"cloud-map-sync/owner":"cloud-map-sync","endpointslice.kubernetes.io/managed-by":"cloud-map-sync","kubernetes.io/service-name":"derived-isrlchlhrq","multicluster.kubernetes.io/service-name":"web","multicluster.kubernetes.io/source-cluster":"blue"}
    metadata.name "imported-isrlchlhrq-ac321fb1-1"
    metadata.namespace "shop"
    metadata.ownerReferences [{"apiVersion":"multicluster.x-k8s.io/v1beta1","kind":"ServiceImport","name":"web","uid":"uid-1"}]
    metadata.resourceVersion null
    metadata.uid null
    ports [{"name":"http","port":8080,"protocol":"TCP"}]
    "#);
}

#[test]
fn hostname_or_address_that_would_break_a_slice_is_left_out() {
    let mut world = web("green", "10.0.0.1 127.0.0.1 169.254.0.1 ::1 ::ffff:10.0.0.1");
    world.endpoints_mut("green")[0].hostname = Some("Web_0".into());
    let cluster = after(&world);
    assert_snapshot!(slices(&cluster), @"imported-isrlchlhrq-8de69181-1: 10.0.0.1");
    let hostname = &cluster.object(Kind::EndpointSlice)["endpoints"][0]["hostname"];
    assert_eq!(*hostname, json!(null));
}

#[test]
fn endpoint_serves_only_the_ports_that_it_has() {
    let mut world = World::with_ports("http:80 https:443").exported("green", "");
    let other_protocol = ports("udp!http:80");
    world.endpoints_mut("green").push(endpoint("10.0.0.1", &ports("other:80")));
    world.endpoints_mut("green").push(endpoint("10.0.0.2", &other_protocol));
    let cluster = after(&world);
    assert_snapshot!(slices(&cluster), @"imported-isrlchlhrq-8de69181-1: 10.0.0.1");
    let ports = &cluster.object(Kind::EndpointSlice)["ports"];
    assert_eq!(*ports, json!([{"name": "http", "protocol": "TCP", "port": 8080}]));
}

#[test]
fn headless_import_without_ports_has_slices_without_ports() {
    let cluster = after(&World::with_ports("").headless().exported("green", "10.0.0.1"));
    assert_eq!(cluster.object(Kind::EndpointSlice)["ports"], json!([]));
    assert_snapshot!(slices(&cluster), @"imported-isrlchlhrq-8de69181-1: 10.0.0.1");
}

#[test]
fn address_with_two_targets_of_one_port_is_in_two_slices() {
    let mut world = web("green", "10.0.0.1");
    let mut other = endpoint("10.0.0.1", &ports("http:80"));
    other.ports.insert((Protocol::Tcp, 80), 9090);
    world.endpoints_mut("green").push(other);
    assert_snapshot!(slices(&after(&world)), @"
    imported-isrlchlhrq-8de69181-1: 10.0.0.1
    imported-isrlchlhrq-8de69181-2: 10.0.0.1
    ");
}

/// The ports of each slice, as `name->number`.
fn ports_of_slices(cluster: &Cluster) -> String {
    let lines = cluster.present().slices.into_iter().map(|slice| {
        let ports = slice.ports.iter().map(|port| format!("{}->{}", port.name, port.number));
        format!("{}: {}", slice.endpoints.len(), ports.collect::<Vec<_>>().join(" "))
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn headless_import_has_each_endpoint_with_the_exporters_names_of_ports_it_lacks() {
    let served = |import: &str, own: &str| {
        let mut world = World::with_ports(import).headless().exported("green", "");
        world.endpoints_mut("green").push(endpoint("10.0.0.1", &ports(own)));
        world.name_ports("green", own);
        ports_of_slices(&after(&world))
    };
    let cases = [
        ("http:80", "web:80", "1: http->8080"),
        ("http:80", "admin:81", "1: admin->8081"),
        ("http:80", "web:80 admin:81", "1: admin->8081 http->8080"),
        // The name is the import's for another port.
        ("http:80", "web:80 http:81", "1: http->8080 tcp-81->8081"),
        (
            "http:80 tcp-81:82",
            "web:80 tcp-81:82 http:81",
            "1: http->8080 tcp-81->8082 tcp-81-x->8081",
        ),
        ("http:80", "", "1: "),
        ("", "", "1: "),
    ];
    for (import, own, expected) in cases {
        assert_eq!(served(import, own), expected, "{import:?} {own:?}");
    }
}

#[test]
fn hints_are_the_zones_of_all_distributions_that_prefer_what_is_near() {
    let hints = |distribution: &str| {
        let mut world = web("blue", "10.0.0.1");
        world.merged_mut().properties.traffic_distribution = Some(distribution.to_owned());
        world.endpoints_mut("blue")[0].zone = Some("eu-central-1a".into());
        after(&world).object(Kind::EndpointSlice)["endpoints"][0]["hints"].clone()
    };
    let zone = json!({"forZones": [{"name": "eu-central-1a"}]});
    for distribution in ["PreferClose", "PreferSameZone", "PreferSameNode"] {
        assert_eq!(hints(distribution), zone, "{distribution}");
    }
    assert_eq!(hints("Other"), json!(null));
}

#[test]
fn slice_has_at_most_100_endpoints() {
    let mut cluster = Cluster::default();
    assert_snapshot!(web("green", &many(0, 250)).synced(&mut cluster), @"
    + ServiceImport web: ClusterSetIP, http:80/TCP
    + Service derived-isrlchlhrq: IPv4 IPv6, http:80/TCP
    + EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 100 in
    + EndpointSlice imported-isrlchlhrq-8de69181-2: IPv4 of green, 100 in
    + EndpointSlice imported-isrlchlhrq-8de69181-3: IPv4 of green, 50 in
    ~ ServiceImport web: ips
    ~ ServiceImport web status: Ready True/Ready, from green
    ");
}

#[test]
fn endpoints_stay_where_they_are_and_new_ones_fill_the_first_room() {
    let mut cluster = after(&web("green", &many(0, 250)));
    // The first slice loses ten and the second five; twelve are new.
    let kept = [many(10, 90), many(105, 145), many(400, 12)].join(" ");
    assert_snapshot!(web("green", &kept).synced(&mut cluster), @"
    ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 10 in 10 out
    ~ EndpointSlice imported-isrlchlhrq-8de69181-2: IPv4 of green, 2 in 5 out
    ");
}

#[test]
fn slice_without_endpoints_is_deleted_and_its_number_used_again() {
    let mut cluster = after(&web("green", &many(0, 250)));
    let second_gone = [many(0, 100), many(200, 50)].join(" ");
    assert_snapshot!(web("green", &second_gone).synced(&mut cluster), @"- EndpointSlice imported-isrlchlhrq-8de69181-2: IPv4 of green, 100 out");
    let back = [many(0, 100), many(200, 50), many(400, 120)].join(" ");
    assert_snapshot!(web("green", &back).synced(&mut cluster), @"
    ~ EndpointSlice imported-isrlchlhrq-8de69181-3: IPv4 of green, 50 in
    + EndpointSlice imported-isrlchlhrq-8de69181-2: IPv4 of green, 70 in
    ");
}

#[test]
fn replaced_endpoints_take_the_room_of_the_former_ones() {
    let mut cluster = after(&web("green", &many(0, 100)));
    assert_snapshot!(web("green", &many(100, 100)).synced(&mut cluster), @"~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 100 in 100 out");
}

#[test]
fn endpoint_that_moves_away_takes_up_room_until_it_has_moved() {
    let mut cluster = after(&web("green", &many(0, 100)).exported("red", "10.0.0.1"));
    let moved = many(0, 1);
    let world = web("green", &many(1, 100)).exported("red", &format!("10.0.0.1 {moved}"));
    assert_snapshot!(world.synced(&mut cluster), @"
    + EndpointSlice imported-isrlchlhrq-8de69181-2: IPv4 of green, 1 in
    ~ EndpointSlice imported-isrlchlhrq-a893d503-1: IPv4 of red, 1 in
    ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 1 out
    ");
}

#[test]
fn target_port_of_all_endpoints_changes_in_place() {
    let mut cluster = after(&web("green", "10.0.0.1 10.0.0.2"));
    let mut world = web("green", "10.0.0.1 10.0.0.2 10.0.0.3");
    for endpoint in world.endpoints_mut("green") {
        endpoint.ports.insert((Protocol::Tcp, 80), 9090);
    }
    assert_snapshot!(world.synced(&mut cluster), @"~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 1 in, ports");
}

#[test]
fn target_port_of_some_endpoints_changes_by_another_slice() {
    let mut cluster = after(&web("green", "10.0.0.1 10.0.0.2"));
    let mut world = web("green", "10.0.0.1 10.0.0.2");
    world.endpoints_mut("green")[0].ports.insert((Protocol::Tcp, 80), 9090);
    assert_snapshot!(world.synced(&mut cluster), @"
    + EndpointSlice imported-isrlchlhrq-8de69181-2: IPv4 of green, 1 in
    ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 1 out
    ");
}

#[test]
fn addresses_of_another_writer_stay_as_they_are_written() {
    let cases: [(&[&str], bool); 5] = [
        (&["10.0.0.1"], true),
        (&["fd00::1"], true),
        (&["FD00::1"], false),
        (&["10.0.0.1", "10.0.0.2"], false),
        (&["name.example"], false),
    ];
    for (texts, is_one) in cases {
        let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
        let addresses = Addresses::of(texts.clone());
        assert_eq!(matches!(addresses, Addresses::One(_)), is_one, "{texts:?}");
        assert_eq!(addresses.texts(), texts);
    }
}

#[test]
fn slice_with_an_address_that_another_one_has_changes_no_ports_in_place() {
    let world =
        World::with_ports("http:80").exported("green", "10.0.0.1").exported("red", "10.0.0.1");
    let mut cluster = after(&world);
    let change = |mut world: World| {
        let endpoint = &mut world.endpoints_mut("green")[0];
        endpoint.ports.values_mut().for_each(|port| *port += 1);
        world
    };
    assert_snapshot!(change(world).synced(&mut cluster), @r"
    + EndpointSlice imported-isrlchlhrq-8de69181-2: IPv4 of green, 1 in
    - EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 1 out
    ");
    let alone = World::with_ports("http:80").exported("green", "10.0.0.1");
    let mut cluster = after(&alone);
    assert_snapshot!(change(alone).synced(&mut cluster), @"~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, ports");
}
