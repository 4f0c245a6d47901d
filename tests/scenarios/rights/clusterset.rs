//! The rights of exports and imports, in a clusterset of `blue` and `green`.

use cloud_map_sync::clusterset::id::slice;
use cloud_map_sync::model::clusterset::ClusterId;
use cloud_map_sync::model::{Family, ServiceRef};
use serde_json::Value;

use super::play::{Case, denied};
use super::rbac::{case, message_about};
use crate::faults::play::Stage;
use crate::faults::situation::{MULTI_CLUSTER, Situation, clusterset};
use crate::multi_cluster::{exported, foreign_slice, pods};
use testbed::kubernetes::{ClusterIp, KubernetesServer, Right};

const MCS: &str = "multicluster.x-k8s.io";
const SLICES: &str = "discovery.k8s.io";

fn situation(name: &'static str, change: fn(&Stage)) -> Situation {
    let new = Situation::new(name, change);
    Situation { before: clusterset, settings: MULTI_CLUSTER, ..new }
}

/// `green` exports one name more.
fn exported_by_green() -> Situation {
    situation("an export more", |stage| mail(&stage.green, "10.0.2.9"))
}

/// A slice of somebody has the name of the one that `blue` is to create.
fn slice_in_the_way() -> Situation {
    situation("an export more, with a slice in the way", |stage| {
        mail(&stage.green, "10.0.2.9");
        let green = ClusterId::parse("green").expect("a cluster id");
        let name = slice(&ServiceRef::new("shop", "mail"), &green, Family::V4, 1);
        stage.fleet.cluster.put(foreign_slice(&name));
    })
}

fn exported_by_blue() -> Situation {
    situation("an export of its own more", |stage| mail(&stage.fleet.cluster, "10.0.1.9"))
}

fn mail(cluster: &KubernetesServer, address: &str) {
    let service = ClusterIp::new("shop", "mail").port_of("TCP", "http", 80, 8080);
    exported(cluster, service, &[address], "2026-01-04T00:00:00Z");
}

/// `green`'s pods are others, so `blue`'s import has other endpoints.
fn other_pods() -> Situation {
    situation("other pods", |stage| pods(&stage.green, "web", &["10.0.2.1", "10.0.2.2"]))
}

/// `green` exports a port more.
fn other_port() -> Situation {
    situation("other port", |stage| {
        let api = ClusterIp::new("shop", "api").port_of("TCP", "http", 80, 8080);
        stage.green.service(api.port_of("TCP", "admin", 90, 9090));
        pods(&stage.green, "api", &["10.0.2.5"]);
    })
}

/// `blue`'s pods of an exported Service are others.
fn own_pods() -> Situation {
    situation("own pods", |stage| {
        pods(&stage.fleet.cluster, "web", &["10.0.1.1", "10.0.1.2", "10.0.1.3"]);
    })
}

fn unexported() -> Situation {
    situation("an export less", |stage| _ = stage.green.unexport("shop", "api"))
}

/// `green`'s pods of `web` are of another family's slice no more: the slice of its endpoints goes.
fn unexported_web() -> Situation {
    situation("one exporter less", |stage| _ = stage.green.unexport("shop", "web"))
}

/// The import of `api` went and left its Service and its slices, as `kubectl delete --cascade=orphan` does.
fn left_behind() -> Situation {
    situation("left behind", |stage| {
        let blue = &stage.fleet.cluster;
        let of_api = |object: &Value| object["metadata"]["ownerReferences"][0]["name"] == "api";
        let kinds = ["services", "endpointslices"].into_iter();
        let left = kinds.flat_map(|plural| blue.objects(plural, "shop")).filter(of_api);
        let left: Vec<Value> = left.collect();
        assert_eq!(left.len(), 2, "{left:?}");
        stage.green.unexport("shop", "api");
        blue.delete("serviceimports", "shop", "api");
        for mut object in left {
            object["metadata"]["ownerReferences"] = Value::Null;
            blue.put(object);
        }
    })
}

/// A message about a Service of `blue`.
fn told(name: &'static str, situation: fn() -> Situation, cause: fn(&Stage) -> Value) -> Situation {
    Situation { name, cause, ..situation() }
}

pub fn cases() -> Vec<(Right, Case)> {
    let about_web = |_: &Stage| message_about("web");
    let about_mail = |_: &Stage| message_about("mail");
    vec![
        case(("list", "serviceexports", MCS), other_pods(), "deploy/multi-cluster"),
        case(
            ("get", "serviceexports", MCS),
            told("own pods, by a message", own_pods, about_web),
            "shop/web",
        ),
        case(("patch", "serviceexports/status", MCS), exported_by_blue(), "shop/mail"),
        case(("get", "clusterproperties", "about.k8s.io"), other_pods(), "clusterset.k8s.io"),
        case(("list", "namespaces", ""), other_pods(), "deploy/multi-cluster"),
        case(
            ("get", "namespaces", ""),
            told("an export by a message", exported_by_blue, about_mail),
            "namespace shop",
        ),
        case(("list", "serviceimports", MCS), other_pods(), "deploy/multi-cluster"),
        case(
            ("get", "serviceimports", MCS),
            told("own pods, by a message", own_pods, about_web),
            "shop/web",
        ),
        case(("create", "serviceimports", MCS), exported_by_green(), "mail"),
        case(("patch", "serviceimports", MCS), other_port(), "api"),
        case(("delete", "serviceimports", MCS), unexported(), "api"),
        case(("patch", "serviceimports/status", MCS), exported_by_green(), "mail"),
        case(("create", "services", ""), exported_by_green(), "derived-"),
        case(("patch", "services", ""), other_port(), "derived-"),
        case(("delete", "services", ""), left_behind(), "derived-"),
        case(("create", "endpointslices", SLICES), exported_by_green(), "imported-"),
        case(("get", "endpointslices", SLICES), slice_in_the_way(), "imported-"),
        case(("patch", "endpointslices", SLICES), other_pods(), "imported-"),
        case(("delete", "endpointslices", SLICES), unexported_web(), "imported-"),
    ]
}

#[test]
fn right_of_a_member_that_is_denied() {
    denied(&cases().into_iter().map(|(_, case)| case).collect::<Vec<_>>());
}
