//! The actions of the function's role in `template.yaml`.

use std::collections::BTreeSet;

use serde_json::json;

use super::play::{ALONE, Case, denied, one_less, one_more};
use super::{assert_same, queue, route_53, settings};
use crate::worlds::faults::situation::{API, PAY, PROD, READER, Situation, WEB, shop};
use crate::worlds::play::Scene;
use crate::worlds::world::Reference;
use testbed::cloud_map::{FaultKind, NamespaceKind, ServiceKind};
use testbed::function::invoke;

const TEMPLATE: &str = include_str!("../../../template.yaml");
/// A policy of the same role, for those who want it.
const HEALTH_CHECKS: &str = include_str!("../../../deploy/health-checks.yaml");

/// The actions that Lambda uses with the role, before the function runs or without it: the function cannot report them.
const OF_LAMBDA: [&str; 13] = [
    "logs:CreateLogStream",
    "logs:PutLogEvents",
    "xray:PutTraceSegments",
    "xray:PutTelemetryRecords",
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

/// The actions of the role's statements, in the order of the template.
fn given() -> BTreeSet<String> {
    let start = TEMPLATE.find("\n  FunctionRole:\n").expect("the role") + 1;
    let lines = TEMPLATE[start..].lines();
    let role = lines.enumerate().take_while(|(index, line)| {
        let is_next =
            line.starts_with("  ") && !line.starts_with("   ") && !line.starts_with("  #");
        *index == 0 || !is_next
    });
    let role = role.map(|(_, line)| line).chain(HEALTH_CHECKS.lines());
    let words = role.flat_map(|line| {
        let is_comment = line.trim_start().starts_with('#');
        let text = if is_comment { "" } else { line };
        text.split(|it: char| " ,[]-".contains(it)).filter(|it| is_action(it))
    });
    words.map(str::to_owned).collect()
}

/// `service:Action`
fn is_action(word: &str) -> bool {
    let Some((service, action)) = word.split_once(':') else { return false };
    let is_service = service.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit());
    let is_name = action.bytes().all(|it| it.is_ascii_alphanumeric());
    is_service && is_name && action.starts_with(|it: char| it.is_ascii_uppercase())
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

/// The health of one pod has changed.
fn other_health() -> Situation {
    let before = |scene: &mut Scene| {
        scene.claim(WEB, "web", PROD, &[1, 2]);
        scene.change(WEB, |it| it.claim.reports_health = true);
    };
    let new = Situation::new("other health", |scene| scene.change(WEB, |it| it.ready(1, false)));
    Situation { before, settings: ALONE, ..new }
}

/// The last instance of a service that the function created goes.
fn emptied() -> Situation {
    let settings = &[("CLUSTERS", "blue"), ("DELETE_EMPTY_SERVICES", "true")];
    Situation { settings, ..Situation::new("an empty service", |scene| scene.remove(PAY)) }
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

fn refused(right: &'static str) -> FaultKind {
    let text = match right {
        "servicediscovery:TagResource" => {
            "User: arn:aws:sts::111122223333:assumed-role/cloud-map-sync/cloud-map-sync is not \
             authorized to perform: servicediscovery:TagResource on resource: * because no \
             identity-based policy allows the servicediscovery:TagResource action"
        }
        _ => unreachable!("{right}"),
    };
    FaultKind::Error(400, "AccessDeniedException", text)
}

fn tagged(operation: &'static str, situation: Situation, thing: &'static str) -> Case {
    let right = "servicediscovery:TagResource";
    Case::of_fault(right.to_owned(), operation, refused(right), situation, thing)
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
    vec![describe("blue", one_more()), describe("amber", Situation::dead_cluster()), assume]
}

fn reads() -> Vec<Case> {
    vec![
        Case::of_call("ListNamespaces", one_more(), "namespaces"),
        Case::of_call("ListServices", one_more(), "services of"),
        unread(),
        Case::of_call("ListTagsForResource", Situation::ttl(), "prod.local/pay"),
        Case::of_call("GetService", several_namespaces(), "service-"),
        Case::of_call("GetInstance", one_to_adopt(), "hand-1"),
        Case::of_call("GetInstancesHealthStatus", Situation::custom_health(), "prod/web"),
        Case::of_call("DiscoverInstances", several_namespaces(), "prod"),
    ]
}

fn writes() -> Vec<Case> {
    vec![
        Case::of_call("RegisterInstance", one_more(), "10-0-1-3"),
        Case::of_call("DeregisterInstance", one_less(), "10-0-1-2"),
        Case::of_call("GetOperation", one_more(), "10-0-1-3"),
        Case::of_call("CreateService", new_name(), "prod/team"),
        Case::of_call("UpdateService", Situation::ttl(), "prod.local/pay"),
        Case::of_call("DeleteService", emptied(), "prod.local/pay"),
        Case::of_call("CreateHttpNamespace", new_namespace(), "team"),
        Case::of_call("GetNamespace", namespace_of_another_party(), "team"),
        Case::of_call("UpdateInstanceCustomHealthStatus", other_health(), "prod/web"),
        tagged("CreateService", new_name(), "prod/team"),
        tagged("CreateHttpNamespace", new_namespace(), "team"),
    ]
}

/// The actions for a note for which no instance has room. Many lines tell of the note.
const OF_NOTES: [&str; 3] = [
    "servicediscovery:GetServiceAttributes",
    "servicediscovery:UpdateServiceAttributes",
    "servicediscovery:DeleteServiceAttributes",
];

#[tokio::test]
async fn note_on_a_cloud_map_service_that_is_denied() {
    for right in OF_NOTES {
        let fleet = crate::fleet::Fleet::start().await;
        let pods = ["10.0.1.1", "10.0.1.2", "10.0.1.3"];
        fleet.web("web", "prod", &pods);
        fleet.web("cart", "prod", &["10.0.2.1"]);
        let settings = [("CLUSTERS", "blue"), ("GUARD_MINIMUM", "1"), ("GUARD_SHARE", "10")];
        let function = fleet.function_with(&settings).await;
        crate::run::converge(&fleet, &function).await;
        for name in ["web", "cart"] {
            fleet.fill("prod", name);
            fleet.pods(name, &[]);
        }
        let operation = right.split_once(':').expect("a right").1;
        if operation.starts_with("Delete") {
            crate::run::sync(&function).await;
            fleet.web("web", "prod", &pods);
            fleet.web("cart", "prod", &["10.0.2.1"]);
        }
        fleet.cloud_map.deny(operation);

        let report = crate::run::sync(&function).await;

        let text = report.to_string();
        assert!(text.contains(&format!("not authorized to perform: {right}")), "{right}: {text}");
        assert_eq!(report.ok, operation.starts_with("Get"), "a held loss is no failure: {text}");
        assert_eq!(fleet.addresses("prod", "web"), pods, "{right}");
        fleet.cloud_map.heal();
        assert!(crate::run::sync(&function).await.ok, "{right}");
        crate::run::settled(&fleet, &function).await;
    }
}

#[test]
fn every_action_of_the_role_has_a_case() {
    let cases = [reads(), writes(), clusters()].concat_rights();
    let elsewhere =
        [&route_53::RIGHTS[..], &queue::RIGHTS, &settings::RIGHTS, &OF_LAMBDA, &OF_NOTES];
    let elsewhere = elsewhere.into_iter().flatten().map(|right| (*right).to_owned());
    assert_same(&given(), &cases.into_iter().chain(elsewhere).collect());
}

trait Rights {
    fn concat_rights(self) -> BTreeSet<String>;
}

impl<const N: usize> Rights for [Vec<Case>; N] {
    fn concat_rights(self) -> BTreeSet<String> {
        self.into_iter().flatten().map(|case| case.right).collect()
    }
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

/// The action `explain` writes no log: its answer has the line.
#[tokio::test]
async fn explanation_without_the_right_to_discover_says_so() {
    let fleet = crate::fleet::Fleet::start().await;
    fleet.web("web", "prod", &["10.0.1.1"]);
    let function = fleet.function().await;
    crate::run::converge(&fleet, &function).await;
    let behaviour =
        testbed::cloud_map::Behaviour { discovery_on_any_host: true, ..Default::default() };
    fleet.cloud_map.behave(behaviour);
    fleet.cloud_map.deny("DiscoverInstances");
    let ask =
        json!({ "action": "explain", "cluster": "blue", "namespace": "shop", "service": "web" });

    let answer = invoke(&function, &ask).await.response.expect("an answer").to_string();

    assert_eq!(answer.matches("servicediscovery:DiscoverInstances").count(), 1, "{answer}");
    fleet.cloud_map.heal();
    let answer = invoke(&function, &ask).await.response.expect("an answer").to_string();
    assert!(!answer.contains("not authorized"), "{answer}");
}
