//! The actions of the function's role in `template.yaml`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::play::{ALONE, Case, denied, one_less, one_more};
use super::{assert_same, queue, settings};
use crate::fleet::Fleet;
use crate::worlds::faults::situation::{API, PROD, READER, Situation, WEB, shop};
use crate::worlds::play::Scene;
use crate::worlds::world::Reference;
use testbed::cloud_map::{FaultKind, NamespaceKind, ServiceKind};
use testbed::function::invoke;

const TEMPLATE: &str = include_str!("../../../template.yaml");
/// A policy of the same role, for those who want it.
const HEALTH_CHECKS: &str = include_str!("../../../deploy/health-checks.yaml");

/// The actions that Lambda uses with the role, before the function runs or without it: the function cannot report them.
const OF_LAMBDA: [&str; 12] = [
    "kms:Decrypt",
    "logs:CreateLogStream",
    "logs:PutLogEvents",
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:GetQueueAttributes",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
];

/// The actions of the role's statements.
fn given() -> BTreeSet<String> {
    let [template, health_checks]: [Value; 2] =
        [TEMPLATE, HEALTH_CHECKS].map(|it| serde_saphyr::from_str(it).expect("YAML"));
    let role = &template["Resources"]["FunctionRole"];
    assert!(role.is_object(), "the template has no role");
    [actions(role, false), actions(&health_checks, false)].concat().into_iter().collect()
}

/// All texts below the fields `Action`, on whatever condition.
fn actions(value: &Value, is_action: bool) -> Vec<String> {
    match value {
        Value::String(text) if is_action => vec![text.clone()],
        Value::Array(all) => all.iter().flat_map(|it| actions(it, is_action)).collect(),
        Value::Object(fields) => {
            let is_action = |name: &str| is_action || name == "Action";
            fields.iter().flat_map(|(name, it)| actions(it, is_action(name))).collect()
        }
        _ => Vec::new(),
    }
}

fn new_name() -> Situation {
    let new = Situation::new("a new name", |scene| scene.claim(API, "team", PROD, &[9]));
    Situation { settings: ALONE, ..new }
}

fn one_to_adopt() -> Situation {
    let change = |scene: &mut Scene| scene.give(WEB, &[1]);
    Situation { name: "one to adopt", change, ..Situation::adoption() }
}

fn new_namespace() -> Situation {
    let settings = &[("CLUSTERS", "blue"), ("CREATE_NAMESPACES", "true")];
    let change = |scene: &mut Scene| scene.claim(API, "team", Reference::New, &[9]);
    Situation { settings, ..Situation::new("new namespace", change) }
}

/// Another party creates the namespace at the same time.
fn namespace_of_another_party() -> Situation {
    let wanted = new_namespace();
    let change = |scene: &mut Scene| {
        scene.claim(API, "team", Reference::New, &[9]);
        scene.fleet.cloud_map.begin_namespace("team", NamespaceKind::Http);
    };
    Situation { name: "namespace of another party", change, ..wanted }
}

/// So many namespaces that the services of all are listed at once, and so many services that a new process asks
/// discovery what to read first.
fn several_namespaces() -> Situation {
    let more = one_more();
    let before = |scene: &mut Scene| {
        shop(scene);
        for index in 0..240 {
            let name = format!("team-{}", index % 10);
            let cloud_map = &scene.fleet.cloud_map;
            let made = || cloud_map.namespace(&name, NamespaceKind::Http);
            let namespace = cloud_map.find_namespace(&name).unwrap_or_else(made);
            cloud_map.service(&namespace, &format!("service-{index}"), ServiceKind::Http);
        }
    };
    Situation { name: "several namespaces", before, ..more }
}

/// The role may list the instances of every service but one.
fn unread() -> Case {
    let case = Case::of_call("ListInstances", one_more(), "prod.local/web");
    let deny = |scene: &Scene| {
        let web = scene.fleet.cloud_map.service_id("prod.local", "web");
        scene.fleet.cloud_map.deny_in(&web, "ListInstances");
    };
    Case { deny: Box::new(deny), ..case }
}

fn tagged(operation: &'static str, situation: Situation, thing: &'static str) -> Case {
    let text = "User: arn:aws:sts::111122223333:assumed-role/cloud-map-sync/cloud-map-sync is not \
                authorized to perform: servicediscovery:TagResource on resource: * because no \
                identity-based policy allows the servicediscovery:TagResource action";
    let refused = FaultKind::Error(400, "AccessDeniedException", text);
    let right = "servicediscovery:TagResource".to_owned();
    Case::of_fault(right, operation, refused, situation, thing)
}

fn clusters() -> Vec<Case> {
    let deny = |name: &'static str, denied| {
        move |scene: &Scene| {
            let arn = scene.fleet.sandbox.cluster_arn("blue").replace("/blue", &format!("/{name}"));
            scene.fleet.sandbox.aws().eks.deny(&arn, denied);
        }
    };
    let describe = |name: &'static str, situation| Case {
        right: "eks:DescribeCluster".to_owned(),
        situation,
        deny: Box::new(deny(name, true)),
        allow: Box::new(deny(name, false)),
        thing: name,
    };
    let assume = Case {
        right: "sts:AssumeRole".to_owned(),
        situation: Situation::through_a_role(),
        deny: Box::new(|scene| scene.fleet.sandbox.aws().identities.refuse_role(READER)),
        allow: Box::new(|scene| scene.fleet.sandbox.role(READER, None)),
        thing: READER,
    };
    vec![describe("blue", one_more()), assume]
}

fn reads() -> Vec<Case> {
    vec![
        Case::of_call("ListNamespaces", one_more(), "namespaces"),
        Case::of_call("ListServices", one_more(), "services of"),
        unread(),
        Case::of_call("ListTagsForResource", Situation::ttl(), "prod.local/pay"),
        Case::of_call("GetService", several_namespaces(), "service-"),
        Case::of_call("GetInstance", one_to_adopt(), "hand-1"),
    ]
}

fn writes() -> Vec<Case> {
    vec![
        Case::of_call("RegisterInstance", one_more(), "10-0-1-3"),
        Case::of_call("DeregisterInstance", one_less(), "10-0-1-2"),
        Case::of_call("GetOperation", one_more(), "10-0-1-3"),
        Case::of_call("CreateService", new_name(), "prod/team"),
        Case::of_call("UpdateService", Situation::ttl(), "prod.local/pay"),
        Case::of_call("CreateHttpNamespace", new_namespace(), "team"),
        Case::of_call("GetNamespace", namespace_of_another_party(), "team"),
        tagged("CreateService", new_name(), "prod/team"),
        tagged("CreateHttpNamespace", new_namespace(), "team"),
    ]
}

/// The rights that Cloud Map uses in Route 53 in the caller's name: the call is accepted, and its operation fails with
/// `ACCESS_DENIED`.
const OF_ROUTE_53: [&str; 7] = [
    "route53:ChangeResourceRecordSets",
    "route53:GetHostedZone",
    "route53:ListHostedZonesByName",
    "route53:CreateHealthCheck",
    "route53:GetHealthCheck",
    "route53:UpdateHealthCheck",
    "route53:DeleteHealthCheck",
];

fn of_records() -> [(&'static str, Situation, &'static str); 3] {
    [
        ("RegisterInstance", one_more(), "10-0-1-3"),
        ("DeregisterInstance", one_less(), "10-0-1-2"),
        ("UpdateService", Situation::ttl(), "prod.local/pay"),
    ]
}

#[test]
fn right_in_route_53_that_is_denied_when_the_operation_is_carried_out() {
    // Which right an operation needs is Cloud Map's affair: each is refused to one operation, and several to each.
    let cases = OF_ROUTE_53.into_iter().enumerate().map(|(index, right)| {
        let (operation, situation, thing) = of_records().into_iter().nth(index % 3).expect("one");
        let kind = FaultKind::OperationDenied(right);
        Case::of_fault(right.to_owned(), operation, kind, situation, thing)
    });
    denied(&cases.collect::<Vec<_>>());
}

/// Cloud Map's text names the right as far as is known. If it does not, the line has the way to mend it all the same.
#[test]
fn refusal_of_route_53_names_the_setting_that_gives_the_rights() {
    let cases = of_records().map(|(operation, situation, thing)| {
        let kind = FaultKind::OperationFails("ACCESS_DENIED");
        Case::of_fault("HostedZoneIds".to_owned(), operation, kind, situation, thing)
    });
    denied(&cases);
}

#[test]
fn every_action_of_the_role_has_a_case() {
    let cases = [reads(), writes(), clusters()].into_iter().flatten().map(|case| case.right);
    let elsewhere = [&OF_ROUTE_53[..], &OF_EXPLAIN, &queue::RIGHTS, &settings::RIGHTS, &OF_LAMBDA];
    let elsewhere = elsewhere.into_iter().flatten().map(|right| (*right).to_owned());
    assert_same(&given(), &cases.chain(elsewhere).collect());
}

#[test]
fn read_of_cloud_map_that_is_denied() {
    denied(&reads());
}

#[test]
fn change_in_cloud_map_that_is_denied() {
    denied(&writes());
}

#[test]
fn cluster_that_is_denied() {
    denied(&clusters());
}

/// The right that only the action `explain` needs.
const OF_EXPLAIN: [&str; 1] = ["servicediscovery:DiscoverInstances"];

/// The action `explain` writes no log: its answer has the line.
#[tokio::test]
async fn explanation_without_the_right_to_discover_says_so() {
    let (fleet, function) = Fleet::in_step("web", "prod", &["10.0.1.1"]).await;
    fleet.cloud_map.adjust(|it| it.discovery_on_any_host = true);
    fleet.cloud_map.deny("DiscoverInstances");
    let ask =
        json!({ "action": "explain", "cluster": "blue", "namespace": "shop", "service": "web" });

    let answer = invoke(&function, &ask).await.response.expect("an answer").to_string();

    assert_eq!(answer.matches("servicediscovery:DiscoverInstances").count(), 1, "{answer}");
    fleet.cloud_map.heal();
    let answer = invoke(&function, &ask).await.response.expect("an answer").to_string();
    assert!(!answer.contains("not authorized"), "{answer}");
}
