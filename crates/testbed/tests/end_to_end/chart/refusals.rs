//! What the chart refuses, each in one line that says what would be right; and that it and the program agree on which
//! settings can be used.

use cloud_map_forwarder::ForwarderSettings;
use serde_json::{Value, json};

use super::tools::{CHART, RELEASE, Tools, container, objects};

/// Values that the chart takes.
pub fn good() -> Value {
    json!({
        "queueUrl": "https://sqs.eu-central-1.amazonaws.com/111122223333/cloud-map-sync",
        "cluster": "blue",
        "image": {"repository": "111122223333.dkr.ecr.eu-central-1.amazonaws.com/cloud-map-forwarder"},
    })
}

/// The good values with another one at a path of names.
fn with(path: &str, value: Value) -> Value {
    let mut values = good();
    let (place, name) = path.rsplit_once('/').unwrap_or(("", path));
    let place = if place.is_empty() { String::new() } else { format!("/{place}") };
    if values.pointer(&place).is_none() {
        values[&place[1..]] = json!({});
    }
    values.pointer_mut(&place).expect("a map")[name] = value;
    values
}

/// What Helm says of values that the chart refuses.
async fn refusal(tools: &Tools, values: &Value) -> String {
    let refused = tools.template(RELEASE, values).await;
    let refused = refused.expect_err(&format!("not refused: {values}"));
    // Helm's own words, whatever the error is, and of a map where the chart has none.
    let is_helms =
        |line: &str| line.starts_with("Use --debug flag") || line.starts_with("level=INFO");
    let is_said = |line: &&str| !line.is_empty() && !is_helms(line);
    let lines: Vec<&str> = refused.lines().filter(is_said).collect();
    assert_eq!(lines.len(), 1, "one line says it: {refused}");
    lines[0].split_once("): ").unwrap_or_else(|| panic!("{refused}")).1.to_owned()
}

#[tokio::test]
async fn every_value_that_cannot_be_used_is_refused_in_one_line_that_says_what_would_be_right() {
    let Some(tools) = Tools::build().await else { return };
    let rows = [
        ("queueUrl", json!("")),
        ("queueUrl", json!("cloud-map-sync")),
        ("queueUrl", json!("https://sqs.eu-central-1.amazonaws.com/111122223333/q.fifo")),
        ("queueUrl", json!("https://sqs.internal/111122223333/q")),
        ("queueUrl", json!(7)),
        ("region", json!("Frankfurt")),
        ("cluster", json!(null)),
        ("cluster", json!("blue green")),
        ("cluster", json!(2024)),
        ("annotationPrefix", json!("Upper/")),
        ("multiCluster", json!(false)),
        ("multiCluster", json!("yes")),
        ("logLevel", json!("verbose")),
        ("queueURL", json!("https://sqs.eu-central-1.amazonaws.com/111122223333/q")),
        ("enabled", json!("false")),
        ("extraEnv", json!({"HTTPS_PROXY": "http://proxy.internal:3128"})),
        ("extraEnv", json!([{"name": "NUMBER", "value": 1}])),
        ("extraEnv", json!([{"name": "CLUSTER", "value": "green"}])),
        ("extraEnv", json!([{"name": "PROBE_PORT", "value": "9090"}])),
        ("image", json!("forwarder")),
        ("image/name", json!("forwarder")),
        ("image/repository", json!("")),
        ("image/repository", json!("https://example.com/forwarder:1")),
        ("image/tag", json!(1.5)),
        ("image/tag", json!("a b")),
        ("image/digest", json!("0123")),
        ("image/pullPolicy", json!("Sometimes")),
        ("image/pullSecrets", json!("registry")),
        ("image/pullSecrets", json!(["registry"])),
        ("image/pullSecrets", json!([{"name": "registry"}, {"Name": "registry"}])),
        ("image/pullSecrets", json!([{"name": 7}])),
        ("replicas", json!(0)),
        ("replicas", json!("two")),
        ("serviceAccount/create", json!(false)),
        ("serviceAccount/name", json!("Forwarder")),
        ("serviceAccount/annotations", json!("role")),
        ("podDisruptionBudget/enabled", json!("false")),
        ("networkPolicy/enabled", json!(1)),
        ("networkPolicy/extraIngress", json!(true)),
        ("networkPolicy/extraEgress", json!({})),
        ("resources/request", json!({})),
        ("podLabels", json!({"app.kubernetes.io/name": "mine"})),
        ("priorityClassName", json!(true)),
        ("nodeSelector", json!("arm64")),
        ("tolerations", json!({})),
    ];
    let mut lines = Vec::new();
    for (path, value) in rows {
        lines.push(refusal(&tools, &with(path, value)).await);
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    queueUrl is not set: give it the output QueueUrl of the function's stack, such as https://sqs.eu-central-1.amazonaws.com/111122223333/cloud-map-sync
    queueUrl "cloud-map-sync" is not the URL of an SQS queue: it would be such as https://sqs.eu-central-1.amazonaws.com/111122223333/cloud-map-sync
    queueUrl "https://sqs.eu-central-1.amazonaws.com/111122223333/q.fifo" is a FIFO queue: give it the output QueueUrl of the function's stack, a standard queue
    queueUrl "https://sqs.internal/111122223333/q" contains no Region: set region, such as eu-central-1
    queueUrl is 7 and not text: give it in quotes in a file, or with --set-string
    region "Frankfurt" is not an AWS Region: it would be such as eu-central-1
    cluster is not set: give it this cluster's name or ARN as in the function's setting CLUSTERS, such as blue
    cluster "blue green" is not the name or ARN of an EKS cluster: it would be such as blue or arn:aws:eks:eu-central-1:111122223333:cluster/blue
    cluster is 2024 and not text: give it in quotes in a file, or with --set-string
    annotationPrefix "Upper/" is not a lower-case DNS name with a slash at its end: it would be such as cloudmap.controller/
    multiCluster is false and not text: give it in quotes in a file, or with --set-string
    multiCluster "yes" is not one of off, on, export, import
    logLevel "verbose" is not one of error, warn, info, debug, trace
    queueURL is no value of this chart: use one of enabled, queueUrl, cluster, annotationPrefix, multiCluster, region, logLevel, extraEnv, image, replicas, serviceAccount, podDisruptionBudget, networkPolicy, resources, podLabels, podAnnotations, priorityClassName, nodeSelector, tolerations, affinity
    enabled is false: it would be true or false, without quotes
    extraEnv is map[HTTPS_PROXY:http://proxy.internal:3128]: it would be a list, such as []
    extraEnv has map[name:NUMBER value:1]: as in Kubernetes each would be a map with a name, and a value in quotes or valueFrom, such as {name: HTTPS_PROXY, value: "http://proxy.internal:3128"}
    extraEnv has CLUSTER, which the chart sets itself: use the value cluster
    extraEnv has PROBE_PORT: leave it out, since the probes ask port 8080
    image is not a map: give it one or more of repository, tag, digest, pullPolicy, pullSecrets
    image.name is no value of this chart: use one of repository, tag, digest, pullPolicy, pullSecrets
    image.repository is not set: only the chart of a release has it; give it the image that you have built, such as 111122223333.dkr.ecr.eu-central-1.amazonaws.com/cloud-map-forwarder
    image.repository "https://example.com/forwarder:1" is not a repository: it has neither a scheme nor a tag, such as 111122223333.dkr.ecr.eu-central-1.amazonaws.com/cloud-map-forwarder
    image.tag is 1.5 and not text: give it in quotes in a file, or with --set-string
    image.tag "a b" is not a tag: it would be such as 0.1.0
    image.digest "0123" is not a digest: it would be sha256: and 64 hexadecimal digits
    image.pullPolicy "Sometimes" is not one of Always, IfNotPresent, Never
    image.pullSecrets is registry: it would be a list, such as []
    image.pullSecrets has registry: as in Kubernetes each would be a map with the name of a Secret, such as {name: registry}
    image.pullSecrets has map[Name:registry]: as in Kubernetes each would be a map with the name of a Secret, such as {name: registry}
    image.pullSecrets has map[name:7]: as in Kubernetes each would be a map with the name of a Secret, such as {name: registry}
    replicas 0 is not a number from 1 to 99: two are enough for any cluster
    replicas two is not a number from 1 to 99: two are enough for any cluster
    serviceAccount.name is not set: with serviceAccount.create false, name the ServiceAccount that exists
    serviceAccount.name "Forwarder" is not a name of Kubernetes: it would be such as cloud-map-forwarder
    serviceAccount.annotations is role: it would be a map, such as {}
    podDisruptionBudget.enabled is false: it would be true or false, without quotes
    networkPolicy.enabled is 1: it would be true or false, without quotes
    networkPolicy.extraIngress is true: it would be a list, such as []
    networkPolicy.extraEgress is map[]: it would be a list, such as []
    resources.request is no value of this chart: use one of requests, limits, claims
    podLabels has app.kubernetes.io/name, which the chart sets itself: use a label that is none of app.kubernetes.io/instance, app.kubernetes.io/managed-by, app.kubernetes.io/name, app.kubernetes.io/version, helm.sh/chart
    priorityClassName is true and not text: give it in quotes in a file, or with --set-string
    nodeSelector is arm64: it would be a map, such as {}
    tolerations is map[]: it would be a list, such as []
    "#);
}

#[tokio::test]
async fn the_chart_takes_and_refuses_the_settings_that_the_program_does() {
    let Some(tools) = Tools::build().await else { return };
    let rows = [
        ("queueUrl", "https://sqs.us-gov-west-1.amazonaws.com/111122223333/q", true),
        ("queueUrl", "https://sqs.cn-north-1.amazonaws.com.cn/111122223333/q", true),
        ("queueUrl", "https://vpce-0a1.sqs.eu-west-1.vpce.amazonaws.com/111122223333/q", true),
        ("queueUrl", "https://us-east-2.queue.amazonaws.com/111122223333/q", true),
        ("queueUrl", "https://sqs-fips.us-east-1.amazonaws.com/111122223333/q", true),
        ("queueUrl", "https://sqs.eu-west-1.amazonaws.com/111122223333", false),
        ("queueUrl", "https://sqs.eu-west-1.amazonaws.com/account/q", false),
        ("queueUrl", "https://sqs.eu-west-1.amazonaws.com/111122223333/q/more", false),
        ("queueUrl", "http://sqs.eu-west-1.amazonaws.com/111122223333/q", false),
        ("queueUrl", "https://sqs.eu-west-1.amazonaws.com/111122223333/q.fifo", false),
        ("queueUrl", "https://queue.amazonaws.com/111122223333/q", false),
        ("queueUrl", "https://sqs.internal/111122223333/q", false),
        ("cluster", "Blue_2", true),
        ("cluster", "arn:aws-us-gov:eks:us-gov-west-1:111122223333:cluster/blue", true),
        ("cluster", "blü", false),
        ("annotationPrefix", "discovery.example.com/", true),
        ("annotationPrefix", "-a/", false),
        ("annotationPrefix", "a..b/", false),
        ("annotationPrefix", "a_b/", false),
        ("multiCluster", "export", true),
        ("multiCluster", "import", true),
        ("multiCluster", "ON", false),
    ];
    let defaults = variables(&tools, &good()).await.expect("good values");
    for (name, value, is_usable) in rows {
        let rendered = variables(&tools, &with(name, json!(value))).await;
        assert_eq!(rendered.is_ok(), is_usable, "the chart: {name} {value}");
        let variable = match name {
            "queueUrl" => "QUEUE_URL",
            "cluster" => "CLUSTER",
            "annotationPrefix" => "ANNOTATION_PREFIX",
            _ => "MULTI_CLUSTER",
        };
        let read = ForwarderSettings::read(|asked| match rendered.as_ref().unwrap_or(&defaults) {
            _ if asked == variable => Some(value.to_owned()),
            given => given.iter().find(|(name, _)| name == asked).map(|(_, text)| text.clone()),
        });
        assert_eq!(read.is_ok(), is_usable, "the program: {name} {value}");
    }
    // A Region of its own is for a URL without one.
    let mut values = with("queueUrl", json!("https://sqs.internal/111122223333/q"));
    values["region"] = json!("eu-central-1");
    assert!(variables(&tools, &values).await.is_ok());
}

#[tokio::test]
async fn values_reach_kubernetes_as_they_were_given() {
    let Some(tools) = Tools::build().await else { return };
    // YAML reads each of these names as a number or a boolean if it is not in quotes.
    let mut values = good();
    values["priorityClassName"] = json!("true");
    values["serviceAccount"] = json!({"name": "1e3"});
    values["image"]["pullSecrets"] = json!([{"name": "registry"}, {"name": "2024"}]);
    values["podLabels"] = json!({"team": "7"});
    let arguments = ["template", "2024", CHART, "--namespace", "1000", "--values", "-"];
    let objects = objects(&tools.helm(&arguments, &values).await.expect("good values"));
    for object in &objects {
        let metadata = &object["metadata"];
        assert_eq!(metadata["labels"]["app.kubernetes.io/instance"], "2024", "{object}");
        let is_of_cluster = object["kind"].as_str().is_some_and(|it| it.starts_with("Cluster"));
        let namespace = if is_of_cluster { Value::Null } else { json!("1000") };
        assert_eq!(metadata["namespace"], namespace, "{object}");
    }
    let one = |kind: &str| objects.iter().find(|it| it["kind"] == kind).expect("an object");
    assert_eq!(one("ServiceAccount")["metadata"]["name"], "1e3");
    let subject = json!({"kind": "ServiceAccount", "name": "1e3", "namespace": "1000"});
    assert_eq!(one("ClusterRoleBinding")["subjects"], json!([subject]));
    let pod = &one("Deployment")["spec"]["template"];
    assert_eq!(pod["metadata"]["labels"]["team"], "7");
    assert_eq!(pod["spec"]["serviceAccountName"], "1e3");
    assert_eq!(pod["spec"]["priorityClassName"], "true");
    assert_eq!(pod["spec"]["imagePullSecrets"], json!([{"name": "registry"}, {"name": "2024"}]));
}

/// The environment of the rendered pods.
async fn variables(tools: &Tools, values: &Value) -> Result<Vec<(String, String)>, String> {
    let objects = tools.template(RELEASE, values).await?;
    let env = container(&objects)["env"].as_array().expect("variables");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    Ok(env.iter().map(|it| (text(&it["name"]), text(&it["value"]))).collect())
}
