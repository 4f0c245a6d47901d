//! How the binary starts, and the error of each invocation while its settings cannot be used.
//!
//! Settings in Parameter Store are read by the first invocation.
//!
//! The binary against the sandbox's Kubernetes API: every kind of payload in, every kind of answer out
//! of one process.

use std::process::Command;

use serde_json::json;

use crate::lambda::Lambda;
use crate::world::World;
use testbed::Sandbox;
use testbed::function::event;
use testbed::kubernetes::{Headless, KubernetesServer, Pod};
use testbed::programs;
use testbed::runtime_api::Failure;

#[test]
fn binary_outside_lambda_says_in_one_line_how_to_try_it_and_ends_with_2() {
    let output =
        Command::new(programs::function()).env_clear().output().expect("the binary starts");

    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("`cargo run --example sandbox`"), "{said}");
}

#[tokio::test]
async fn settings_with_mistakes_fail_the_invocation_with_an_error_that_names_each() {
    let variables = [("POLICY", "upsert"), ("DRY_RUN", "maybe")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));

    let mut lambda = Lambda::start(&variables).await;
    let failure = lambda.invoke(event("direct-sync")).await.expect_err("the settings are invalid");

    let log = lambda.log();
    assert_eq!(failure.error_type, "InvalidSettings");
    for variable in ["CLUSTERS", "POLICY", "DRY_RUN"] {
        let example = format!("(example: {variable}=");
        assert!(failure.error_message.contains(&example), "{}", failure.error_message);
        assert!(log.contains(&example), "{log}");
    }
}

const CLUSTERS: &str = "/cloud-map-sync/clusters/";
const POLICY: &str = "/cloud-map-sync/name-policy";

/// Only `web` may be claimed.
const ONLY_WEB: &str = r#"[{"clusters": ["*"], "kubernetesNamespaces": ["shop"],
    "cloudMapNamespaces": ["prod"], "names": ["web"]}]"#;

/// Two clusters with a Service `web` each; in `blue` there is a Service `cart`, too.
async fn sandbox() -> Sandbox {
    let sandbox = Sandbox::start().await.cluster("blue").await.cluster("green").await;
    let http = testbed::cloud_map::NamespaceKind::Http;
    sandbox.cloud_map().namespace("prod", http);
    for (cluster, service, address) in
        [("blue", "web", "10.0.1.1"), ("blue", "cart", "10.0.1.2"), ("green", "web", "10.0.1.3")]
    {
        let kubernetes = sandbox.kubernetes(cluster);
        kubernetes.service(Headless::new("shop", service).claim(service, "prod"));
        kubernetes.pods("shop", service, &[Pod::new(&format!("{service}-0"), address)]);
    }
    sandbox
}

/// The binary with both settings in Parameter Store.
async fn start(sandbox: &Sandbox) -> Lambda {
    let mut variables = sandbox.environment();
    variables.extend([
        ("CLUSTERS".to_owned(), format!("ssm:{CLUSTERS}")),
        ("NAME_POLICY".to_owned(), format!("ssm:{POLICY}")),
    ]);
    Lambda::start(&variables).await
}

async fn refusal(lambda: &mut Lambda) -> Failure {
    let failure = lambda.invoke(event("direct-sync")).await.expect_err("no settings");
    assert!(lambda.log().contains(&failure.error_message), "{}", lambda.log());
    failure
}

#[tokio::test]
async fn clusters_of_a_path_and_a_policy_of_a_parameter_are_what_the_function_obeys() {
    let sandbox = sandbox().await;
    // Two pages, blue on the first and green on the second.
    let blue = format!(r#"{{"cluster": "{}"}}"#, sandbox.cluster_arn("blue"));
    sandbox.parameter(&format!("{CLUSTERS}blue"), &blue);
    for number in 1..=9 {
        let gone = format!("arn:aws:eks:eu-central-1:111122223333:cluster/gone-{number}");
        sandbox.parameter(&format!("{CLUSTERS}gone-{number}"), &gone);
    }
    sandbox.parameter(&format!("{CLUSTERS}green"), "green\n");
    sandbox.parameter(&format!("{CLUSTERS}deeper/red"), "red");
    sandbox.parameter(POLICY, ONLY_WEB);
    sandbox.aws().parameter_store.allow(CLUSTERS);
    sandbox.aws().parameter_store.allow(POLICY);

    let mut lambda = start(&sandbox).await;
    let report = lambda.invoke(event("direct-sync")).await.expect("a report");

    assert_eq!(report["clusters"].as_array().expect("a list").len(), 11, "{report}");
    assert_eq!(report["counts"]["registered"], 2, "web of blue and of green: {report}");
    assert_eq!(report["counts"]["unreadable"], 9, "{report}");
    assert_eq!(report.to_string().matches("NotAllowed").count(), 1, "cart of blue: {report}");
    let asked = sandbox.aws().requests().into_iter().map(|request| request.operation);
    let asked: Vec<_> = asked.filter(|operation| operation.starts_with("GetParam")).collect();
    assert_eq!(asked, ["GetParameter", "GetParametersByPath", "GetParametersByPath"]);
}

#[tokio::test]
async fn parameters_that_cannot_be_read_fail_invocations_until_they_can_be_read() {
    let sandbox = sandbox().await;
    sandbox.parameter(&format!("{CLUSTERS}blue"), "blue");
    sandbox.aws().parameter_store.allow(POLICY);

    let mut lambda = start(&sandbox).await;
    let missing = refusal(&mut lambda).await;
    assert_eq!(missing.error_type, "UnreadableSettings");
    assert!(missing.error_message.contains("the parameter /cloud-map-sync/name-policy"));
    assert!(missing.error_message.contains("ParameterNotFound"), "{}", missing.error_message);

    sandbox.parameter(POLICY, ONLY_WEB);
    let denied = refusal(&mut lambda).await;
    assert_eq!(denied.error_type, "UnreadableSettings");
    let said = denied.error_message;
    for word in [CLUSTERS, "AccessDeniedException", "ssm:GetParametersByPath on resource"] {
        assert!(said.contains(word), "{word} in {said}");
    }

    sandbox.aws().parameter_store.allow(CLUSTERS);
    let report = lambda.invoke(event("direct-sync")).await.expect("a report");
    assert_eq!(report["counts"]["registered"], 1, "web of blue: {report}");
}

/// A world whose cluster `blue` is a stand-in, with the Service `shop/web` and one pod of it.
pub async fn stand_in() -> (World, KubernetesServer) {
    let world = World::start().await;
    world.sandbox.clone().cluster("blue").await;
    let blue = world.sandbox.kubernetes("blue");
    blue.service(Headless::new("shop", "web").claim("web", "prod.local"));
    blue.pods("shop", "web", &[Pod::new("web-a", "10.0.1.1")]);
    (world, blue)
}

#[tokio::test]
async fn one_process_serves_schedule_queue_and_person_and_describes_the_cluster_once() {
    let (world, blue) = stand_in().await;
    let mut lambda = world.lambda(&[]).await;

    let answer = lambda.invoke(event("schedule-eventbridge-rule")).await.expect("served");
    assert_eq!((&answer["ok"], &answer["counts"]["registered"]), (&json!(true), &json!(1)));

    blue.pods("shop", "web", &[Pod::new("web-a", "10.0.1.1"), Pod::new("web-b", "10.0.1.2")]);
    let answer = lambda.invoke(event("sqs-mixed-batch")).await;
    assert_eq!(answer, Ok(json!({"batchItemFailures": []})));
    assert_eq!(world.addresses("prod.local", "web"), ["10.0.1.1", "10.0.1.2"]);
    let log = lambda.log();
    assert!(log.contains("c127efef-796c-4db8-adad-b89a5a8e1ec2"), "the bad record\n{log}");
    assert!(!log.contains("checkout scaled to 3"), "its body\n{log}");

    let report = lambda.invoke(event("direct-sync")).await.expect("served");
    let place = &report["clusters"][0]["services"][0];
    assert_eq!((&place["name"], &place["unchanged"]), (&json!("web"), &json!(2)), "{report}");

    let requests = world.sandbox.aws().requests();
    let described = requests.iter().filter(|request| request.operation == "DescribeCluster");
    assert_eq!(described.count(), 1, "{requests:?}");
    world.assert_that_the_ecs_task_is_unchanged();
}
