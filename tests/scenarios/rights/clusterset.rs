//! The rights of exports and imports, in a clusterset of `blue` and `green`.

use cloud_map_sync::clusterset::id::slice;
use cloud_map_sync::model::{ClusterId, Family, ServiceRef};
use serde_json::Value;

use super::play::{Case, denied};
use super::rbac::case;
use crate::multi_cluster::{exported_at, foreign_slice};
use crate::queue::batch_about;
use crate::worlds::faults::situation::{BOOKS, GREEN_BOOKS, GREEN_MAIL, Situation};
use testbed::kubernetes::{ClusterIp, KubernetesServer, Right};

const MCS: &str = "multicluster.x-k8s.io";
const SLICES: &str = "discovery.k8s.io";

/// `green` exports one name more.
fn exported_by_green() -> Situation {
    Situation::of_exports("an export more", |scene| news(&scene.green, "10.0.2.9"))
}

/// A slice of somebody has the name of the one that `blue` is to create.
fn slice_in_the_way() -> Situation {
    Situation::of_exports("an export more, with a slice in the way", |scene| {
        news(&scene.green, "10.0.2.9");
        let green = ClusterId::parse("green").expect("a cluster id");
        let name = slice(&ServiceRef::new("shop", "news"), &green, Family::V4, 1);
        scene.fleet.cluster.put(foreign_slice(&name));
    })
}

fn exported_by_blue() -> Situation {
    Situation::of_exports("an export of its own more", |scene| {
        news(&scene.fleet.cluster, "10.0.1.9");
    })
}

fn news(cluster: &KubernetesServer, address: &str) {
    let service = ClusterIp::new("shop", "news").port_of("TCP", "http", 80, 8080);
    exported_at(cluster, service, &[address], "2026-01-04T00:00:00Z");
}

/// `green`'s pods are others, so `blue`'s import has other endpoints.
fn other_pods() -> Situation {
    Situation::of_exports("other pods", |scene| {
        scene.change_exporter(GREEN_BOOKS, |it| it.pods = Some([1, 2].into()));
    })
}

/// `green` exports a port more.
fn other_port() -> Situation {
    Situation::of_exports("other port", |scene| {
        scene.change_exporter(GREEN_MAIL, |it| it.has_more_ports = true);
    })
}

/// `blue`'s pods of an exported Service are others.
fn own_pods() -> Situation {
    Situation::of_exports("own pods", |scene| {
        scene.change_exporter(BOOKS, |it| it.pods = Some([1, 2, 3].into()));
    })
}

fn unexported() -> Situation {
    Situation::of_exports("an export less", |scene| {
        scene.change_exporter(GREEN_MAIL, |it| it.is_exported = false);
    })
}

/// One exporter of two ends its export: the slice of its endpoints goes.
fn one_of_two_unexported() -> Situation {
    Situation::of_exports("one exporter less", |scene| {
        scene.change_exporter(GREEN_BOOKS, |it| it.is_exported = false);
    })
}

/// The import of `mail` went and left its Service and its slices, as `kubectl delete --cascade=orphan` does.
fn left_behind() -> Situation {
    Situation::of_exports("left behind", |scene| {
        let of_mail = |object: &Value| object["metadata"]["ownerReferences"][0]["name"] == "mail";
        let blue = scene.fleet.cluster.clone();
        let kinds = ["services", "endpointslices"].into_iter();
        let left = kinds.flat_map(|plural| blue.objects(plural, "shop")).filter(of_mail);
        let left: Vec<Value> = left.collect();
        assert_eq!(left.len(), 2, "{left:?}");
        scene.change_exporter(GREEN_MAIL, |it| it.is_exported = false);
        blue.delete("serviceimports", "shop", "mail");
        for mut object in left {
            object["metadata"]["ownerReferences"] = Value::Null;
            blue.put(object);
        }
    })
}

/// A message about a Service of `blue`.
fn caused_by(name: &'static str, situation: fn() -> Situation, cause: fn() -> Value) -> Situation {
    Situation { name, cause, ..situation() }
}

pub fn cases() -> Vec<(Right, Case)> {
    vec![
        case(("list", "serviceexports", MCS), other_pods(), "deploy/multi-cluster"),
        case(
            ("get", "serviceexports", MCS),
            caused_by("own pods, by a message", own_pods, || batch_about("blue", "books")),
            "shop/books",
        ),
        case(("patch", "serviceexports/status", MCS), exported_by_blue(), "shop/news"),
        case(("get", "clusterproperties", "about.k8s.io"), other_pods(), "clusterset.k8s.io"),
        case(("list", "namespaces", ""), other_pods(), "deploy/multi-cluster"),
        case(
            ("get", "namespaces", ""),
            caused_by("an export by a message", exported_by_blue, || batch_about("blue", "news")),
            "namespace shop",
        ),
        case(("list", "serviceimports", MCS), other_pods(), "deploy/multi-cluster"),
        case(
            ("get", "serviceimports", MCS),
            caused_by("own pods, by a message", own_pods, || batch_about("blue", "books")),
            "shop/books",
        ),
        case(("create", "serviceimports", MCS), exported_by_green(), "news"),
        case(("patch", "serviceimports", MCS), other_port(), "mail"),
        case(("delete", "serviceimports", MCS), unexported(), "mail"),
        case(("patch", "serviceimports/status", MCS), exported_by_green(), "news"),
        case(("create", "services", ""), exported_by_green(), "derived-"),
        case(("patch", "services", ""), other_port(), "derived-"),
        case(("delete", "services", ""), left_behind(), "derived-"),
        case(("create", "endpointslices", SLICES), exported_by_green(), "imported-"),
        case(("get", "endpointslices", SLICES), slice_in_the_way(), "imported-"),
        case(("patch", "endpointslices", SLICES), other_pods(), "imported-"),
        case(("delete", "endpointslices", SLICES), one_of_two_unexported(), "imported-"),
    ]
}

#[test]
fn right_of_a_member_that_is_denied() {
    denied(&cases().into_iter().map(|(_, case)| case).collect::<Vec<_>>());
}
