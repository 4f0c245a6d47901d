//! The verbs of the function's ClusterRoles in `deploy/rbac.yaml` and `deploy/multi-cluster/rbac.yaml`: each is withdrawn
//! in `blue`, whose server then refuses it with RBAC's own words.

use std::collections::BTreeSet;

use serde_json::Value;

use super::play::{Case, denied, one_more};
use super::{assert_same, clusterset};
use crate::queue::batch_about;
use crate::worlds::faults::situation::{CART, PAY, Situation, shop};
use crate::worlds::play::Scene;
use testbed::kubernetes::Right;

const ROLES: [&str; 2] = [
    include_str!("../../../deploy/rbac.yaml"),
    include_str!("../../../deploy/multi-cluster/rbac.yaml"),
];

/// `list services of multicluster.x-k8s.io`
fn text(Right { group, resource, verb }: &Right) -> String {
    format!("{verb} {resource} of {group:?}")
}

/// The rights in the manifests.
fn given() -> BTreeSet<String> {
    let documents = ROLES.iter().flat_map(|role| {
        let all: Vec<Value> = serde_saphyr::from_multiple(role).expect("YAML of the deployment");
        all
    });
    let rules = documents.filter(|it| it["kind"] == "ClusterRole");
    let rules = rules.flat_map(|role| role["rules"].as_array().cloned().expect("rules"));
    rules.flat_map(|rule| rights(&rule)).map(|right| text(&right)).collect()
}

fn rights(rule: &Value) -> Vec<Right> {
    let texts = |key: &str| -> Vec<String> {
        let all = rule[key].as_array().expect("a list").iter();
        all.map(|it| it.as_str().expect("a text").to_owned()).collect()
    };
    let mut all = Vec::new();
    for group in texts("apiGroups") {
        for resource in texts("resources") {
            for verb in texts("verbs") {
                all.push(Right { group: group.clone(), resource: resource.clone(), verb });
            }
        }
    }
    all
}

/// A right that is withdrawn in `blue`.
pub fn case(
    (verb, resource, group): (&str, &str, &str),
    situation: Situation,
    thing: &'static str,
) -> (Right, Case) {
    let group = group.to_owned();
    let resource = resource.to_owned();
    let verb = verb.to_owned();
    let right = Right { group, resource, verb };
    let Right { group, resource, verb } = &right;
    let refusal = format!("cannot {verb} resource \"{resource}\" in API group \"{group}\"");
    let withdrawn = right.clone();
    let case = Case {
        right: refusal,
        situation,
        deny: Box::new(move |scene| scene.fleet.cluster.withdraw(&withdrawn)),
        allow: Box::new(|scene| scene.fleet.cluster.give_back()),
        thing,
    };
    (right, case)
}

/// A server that does not serve `EndpointSlices`.
fn of_endpoints() -> Situation {
    let before = |scene: &mut Scene| {
        scene.fleet.cluster.serve_slices(false);
        shop(scene);
        scene.remove(CART);
        scene.remove(PAY);
    };
    Situation { name: "one pod more, by Endpoints", before, ..one_more() }
}

fn cases() -> Vec<(Right, Case)> {
    let about_web = Situation {
        name: "one pod more, by a message",
        cause: || batch_about("blue", "web"),
        ..one_more()
    };
    vec![
        case(("list", "services", ""), one_more(), "deploy/rbac.yaml"),
        case(("get", "services", ""), about_web, "Service shop/web"),
        case(("list", "endpointslices", "discovery.k8s.io"), one_more(), "deploy/rbac.yaml"),
        case(("get", "endpoints", ""), of_endpoints(), "Service shop/web"),
        case(("create", "events", "events.k8s.io"), one_more(), "Service shop/cart"),
    ]
}

#[test]
fn every_verb_of_the_roles_has_a_case() {
    let all = cases().into_iter().chain(clusterset::cases());
    let played = all.map(|(right, _)| text(&right));
    assert_same(&given(), &played.collect());
}

#[test]
fn right_in_a_cluster_that_is_denied() {
    denied(&cases().into_iter().map(|(_, case)| case).collect::<Vec<_>>());
}
