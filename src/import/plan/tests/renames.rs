//! Ports that change their name: kube-proxy finds the target port of an endpoint by the name of the Service's port, so
//! the slices have both names meanwhile.

use insta::assert_snapshot;

use super::cluster::Cluster;
use super::world::{World, after};

fn web(ports: &str) -> World {
    World::with_ports(ports).exported("green", "10.0.0.1")
}

/// The lines of a sync. Checks that no port is lost meanwhile that exists before and after the sync.
fn renamed(before: &str, later: &str) -> String {
    let mut cluster = after(&web(before));
    let world = web(later);
    let plan = world.plan(&cluster);
    let first = cluster.reachable();
    let mut states: Vec<Cluster> = Vec::new();
    cluster.carry_out(&plan, |state| states.push(state.clone()));
    let last = cluster.reachable();
    assert_eq!(last.len(), world.merged.as_ref().map_or(0, |merged| merged.ports.len()));
    for kept in first.intersection(&last) {
        assert!(states.iter().all(|state| state.reachable().contains(kept)), "{kept}");
    }
    assert_eq!(world.planned(&cluster), "nothing");
    super::world::described(&plan)
}

#[test]
fn port_that_changes_its_name_has_both_names_meanwhile() {
    let cases = [
        ("renamed", "http:80", "web:80"),
        ("unnamed, named when another one comes", ":80", "tcp-80:80 https:443"),
        ("named, unnamed when the other one goes", "tcp-80:80 https:443", ":80"),
        ("its name passes to another port", "http:80", "web:80 http:8080"),
    ];
    let expected = "\
        ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, ports\n\
        ~ ServiceImport web: ports\n\
        ~ Service derived-isrlchlhrq: ports\n\
        ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, ports";
    for (case, before, later) in cases {
        assert_eq!(renamed(before, later), expected, "{case}");
    }
}

#[test]
fn name_that_passes_to_the_only_port_waits() {
    assert_snapshot!(renamed("http:80", "http:81"), @"
    ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, ports
    ~ ServiceImport web: ports
    ~ Service derived-isrlchlhrq: ports
    ");
}

#[test]
fn order_of_ports_is_no_difference_of_the_service() {
    assert_snapshot!(renamed("a:80 b:81", "b:81 a:80"), @"~ ServiceImport web: ports");
}

/// No slice can have both names meanwhile: for a moment a port leads to the target of the other port.
#[test]
fn ports_that_exchange_their_names_have_the_right_ones_at_the_end() {
    let mut cluster = after(&web("a:80 b:81"));
    let reachable = cluster.reachable();
    assert_snapshot!(web("b:80 a:81").synced(&mut cluster), @"
    ~ ServiceImport web: ports
    ~ Service derived-isrlchlhrq: ports
    ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, ports
    ");
    assert_eq!(cluster.reachable(), reachable);
}

#[test]
fn slice_that_comes_while_a_port_is_renamed_has_both_names_meanwhile() {
    let mut cluster = after(&web("http:80"));
    let world = web("web:80").exported("red", "10.0.0.2");
    assert_snapshot!(world.synced(&mut cluster), @r"
    ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, ports
    + EndpointSlice imported-isrlchlhrq-a893d503-1: IPv4 of red, 1 in
    ~ ServiceImport web: ports
    ~ Service derived-isrlchlhrq: ports
    ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, ports
    ~ EndpointSlice imported-isrlchlhrq-a893d503-1: IPv4 of red, ports
    ~ ServiceImport web status: Ready True/Ready, from green, red
    ");
}
