//! Settings that stand in Parameter Store: read when the binary starts, or the reason for which it does
//! not.

use crate::lambda::Lambda;
use testbed::Sandbox;
use testbed::function::event;
use testbed::kubernetes::{Headless, Pod};
use testbed::runtime_api::Failure;

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
        let claim =
            Headless::new("shop", service).annotate("cloudmap.controller/hostname", service);
        let kubernetes = sandbox.kubernetes(cluster);
        kubernetes.service(claim.annotate("cloudmap.controller/namespace", "prod"));
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

async fn refusal(sandbox: &Sandbox) -> Failure {
    let (status, mut init_errors, log) = start(sandbox).await.end().await;
    assert_eq!((status, init_errors.len()), (Some(1), 1), "{log}");
    assert!(log.contains("the function ends: "), "{log}");
    init_errors.remove(0)
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

    let clusters = report["clusters"].as_array().expect("a list");
    assert_eq!(clusters.len(), 11, "{report}");
    assert_eq!(report["counts"]["registered"], 2, "web of blue and of green: {report}");
    assert_eq!(report["counts"]["unreadable"], 9, "{report}");
    let held_back = report.to_string().matches("NotAllowed").count();
    assert_eq!(held_back, 1, "cart of blue: {report}");
    let asked = sandbox.aws().requests().into_iter().map(|request| request.operation);
    let asked: Vec<_> = asked.filter(|operation| operation.starts_with("GetParam")).collect();
    assert_eq!(asked, ["GetParameter", "GetParametersByPath", "GetParametersByPath"]);
}

#[tokio::test]
async fn parameters_that_cannot_be_read_keep_the_function_from_starting_and_the_cause_is_reported()
{
    let sandbox = sandbox().await;
    sandbox.parameter(&format!("{CLUSTERS}blue"), "blue");
    sandbox.aws().parameter_store.allow(POLICY);

    let missing = refusal(&sandbox).await;
    assert_eq!(missing.error_type, "UnreadableSettings");
    assert!(missing.error_message.contains("the parameter /cloud-map-sync/name-policy"));
    assert!(missing.error_message.contains("ParameterNotFound"), "{}", missing.error_message);

    sandbox.parameter(POLICY, ONLY_WEB);
    let denied = refusal(&sandbox).await;
    assert_eq!(denied.error_type, "UnreadableSettings");
    let said = denied.error_message;
    for word in [CLUSTERS, "AccessDeniedException", "ssm:GetParametersByPath on resource"] {
        assert!(said.contains(word), "{word} in {said}");
    }
}
