//! The exporter that decides each property, as people read it.

use super::notation::{exports, merge_all};
use crate::clusterset::merge::{decisions, ports_of_some};
use crate::model::ClusterId;

/// The decisions of each exporter, a line for each, and the ports that some exporters lack.
fn decided(lines: &str) -> Vec<String> {
    let exports = exports(lines);
    let service = merge_all(&exports).service;
    let decisions = decisions(&service, &exports);
    let of = |cluster: &str| {
        let own = decisions.iter().filter(|(_, by)| by.as_str() == cluster);
        let own: Vec<String> = own.map(|(property, _)| property.clone()).collect();
        format!("{cluster}: {}", own.join(", "))
    };
    let clusters = exports.iter().map(|export| of(export.cluster.as_str()));
    let some = ports_of_some(&service, &exports).into_iter().map(|(port, having)| {
        let having: Vec<&str> = having.iter().map(ClusterId::as_str).collect();
        format!("{port} of {}", having.join(", "))
    });
    clusters.chain(some).collect()
}

#[test]
fn oldest_decides_and_each_port_is_of_the_first_that_has_it() {
    let all = decided("blue@1 http:80\ngreen@2 http:80 admin:81");
    assert_eq!(
        all,
        [
            "blue: type, port http 80/TCP, IP families, session affinity, internal traffic policy, \
             traffic distribution, labels, annotations",
            "green: port admin 81/TCP",
            "admin 81/TCP of green",
        ]
    );
}

#[test]
fn exporter_without_a_record_leaves_the_rest_to_the_next() {
    let all = decided("amber@1 AWS http:80\nblue@2 http:80");
    assert_eq!(
        all,
        [
            "amber: type, port http 80/TCP, IP families",
            "blue: session affinity, internal traffic policy, traffic distribution, labels, annotations",
        ]
    );
    assert_eq!(decided("amber@1 AWS http:80"), ["amber: type, port http 80/TCP, IP families"]);
}

#[test]
fn headless_service_has_neither_routing_nor_one_family_to_decide() {
    let all = decided("blue@1 Headless\ngreen@2 Headless v6");
    assert_eq!(all, ["blue: type, labels, annotations", "green: "]);
}

#[test]
fn routing_of_another_type_does_not_count() {
    let all = decided("blue@1 ClusterSetIP AWS\nred@2 Headless\ngreen@3 ClusterSetIP");
    assert_eq!(
        all[1..],
        [
            "red: labels, annotations",
            "green: session affinity, internal traffic policy, traffic distribution",
        ]
    );
}
