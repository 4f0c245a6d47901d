//! The chart and the kustomize base are two ways to the same objects, and the chart's version is the program's.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::tools::{BASE, CHART, NAMESPACE, RELEASE, Tools, container};

/// What Helm's charts label their objects with, and nothing looks at here.
const HELMS: [&str; 4] = [
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
];

#[tokio::test]
async fn chart_and_kustomize_base_are_the_same_objects() {
    let Some(tools) = Tools::build().await else { return };
    let base = tools.kustomize(BASE).await.expect("the base");
    let (settings, mut base): (Vec<_>, Vec<_>) =
        base.into_iter().partition(|object| object["kind"] == "ConfigMap");
    let settings = &settings[0]["data"];
    let namespace = base.iter().position(|object| object["kind"] == "Namespace");
    base.swap_remove(namespace.expect("the namespace, which Helm makes itself"));
    let (repository, tag) = image(&base).rsplit_once(':').expect("a tag");
    let values = json!({
        "queueUrl": settings["QUEUE_URL"],
        "cluster": settings["CLUSTER"],
        "image": {"repository": repository, "tag": tag},
    });
    let chart = tools.template(RELEASE, &values).await.expect("the chart");
    let settings = settings.as_object().expect("variables");
    let settings = settings.iter().map(|(name, value)| json!({"name": name, "value": value}));
    let settings: Vec<Value> = settings.collect();
    assert_eq!(by_name(chart, &[]), by_name(base, &settings));
}

#[tokio::test]
async fn versions_of_chart_and_images_are_the_programs() {
    let Some(tools) = Tools::build().await else { return };
    let version = env!("CARGO_PKG_VERSION");
    let shown = tools.helm(&["show", "chart", CHART], &json!({})).await.expect("a chart");
    for line in ["version", "appVersion"] {
        assert!(shown.contains(&format!("\n{line}: {version}\n")), "{shown}");
    }
    let base = tools.kustomize(BASE).await.expect("the base");
    assert!(image(&base).ends_with(&format!(":{version}")), "{}", image(&base));
}

#[tokio::test]
async fn chart_as_a_dependency_installs_nothing_if_it_is_not_enabled() {
    let Some(tools) = Tools::build().await else { return };
    assert_eq!(tools.template(RELEASE, &json!({"enabled": false})).await, Ok(vec![]));
}

#[test]
fn schema_for_editors_has_the_values_of_the_chart() {
    let read = |file: &str| std::fs::read_to_string(format!("{CHART}/{file}")).expect(file);
    let values: Value = serde_saphyr::from_str(&read("values.yaml")).expect("YAML");
    let schema: Value = serde_json::from_str(&read("schema.json")).expect("JSON");
    // Helm gives every chart the values of "global"; and resources may have claims, too.
    let names = |schema: &Value| -> Option<Vec<String>> {
        let names = schema["properties"].as_object()?.keys().cloned();
        Some(names.filter(|name| name != "global" && name != "claims").collect())
    };
    let keys = |value: &Value| value.as_object().map(|it| it.keys().cloned().collect::<Vec<_>>());
    let sorted =
        |names: Option<Vec<String>>| names.map(|it| it.into_iter().collect::<BTreeSet<_>>());
    assert_eq!(sorted(names(&schema)), sorted(keys(&values)));
    for (name, of_value) in schema["properties"].as_object().expect("properties") {
        let Some(known) = names(of_value) else { continue };
        assert_eq!(sorted(Some(known)), sorted(keys(&values[name])), "{name}");
    }
}

#[tokio::test]
async fn chart_of_a_release_needs_no_image_and_has_it_by_its_digest() {
    let Some(tools) = Tools::build().await else { return };
    let dist = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/deploy-tools/dist");
    let digest = format!("sha256:{}", "0a".repeat(32));
    tools.pack(std::path::Path::new(dist)).await;
    let chart = format!("{dist}/cloud-map-forwarder-{}.tgz", env!("CARGO_PKG_VERSION"));
    let mut values = super::refusals::good();
    values.as_object_mut().expect("a map").remove("image");
    let arguments = ["template", RELEASE, &chart, "--values", "-"];
    let rendered = tools.helm(&arguments, &values).await.expect("a chart that is complete");
    let image = format!("image: ghcr.io/example/cloud-map-sync/cloud-map-forwarder@{digest}\n");
    assert!(rendered.contains(&image), "{rendered}");
}

#[tokio::test]
async fn helm_lints_the_chart_without_a_warning() {
    let Some(tools) = Tools::build().await else { return };
    let arguments =
        ["lint", "--strict", "--quiet", CHART, "--namespace", NAMESPACE, "--values", "-"];
    let linted = tools.helm(&arguments, &super::refusals::good()).await;
    assert_eq!(linted.as_deref().map(str::trim), Ok(""));
}

fn image(objects: &[Value]) -> &str {
    container(objects)["image"].as_str().expect("an image")
}

/// The objects by kind and name, without what only Helm adds, and the variables in place of the map that has them.
fn by_name(objects: Vec<Value>, settings: &[Value]) -> BTreeMap<String, Value> {
    let named = objects.into_iter().map(|mut object| {
        without_helms_labels(&mut object);
        let container = object.pointer_mut("/spec/template/spec/containers/0");
        if let Some(container) = container.and_then(Value::as_object_mut) {
            if container.remove("envFrom").is_some() {
                container.insert("env".to_owned(), json!(settings));
            }
            if let Some(env) = container.get_mut("env").and_then(Value::as_array_mut) {
                env.sort_by_key(|it| it["name"].as_str().map(str::to_owned));
            }
        }
        let name = object["metadata"]["name"].as_str().expect("a name");
        (format!("{} {name}", object["kind"].as_str().expect("a kind")), object)
    });
    named.collect()
}

fn without_helms_labels(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for label in HELMS {
                fields.remove(label);
            }
            for field in fields.values_mut() {
                without_helms_labels(field);
            }
            // The base labels its Deployment alone.
            if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
                let is_ours =
                    |labels: &Value| *labels == json!({"app.kubernetes.io/name": RELEASE});
                if metadata.contains_key("name") && metadata.get("labels").is_some_and(is_ours) {
                    metadata.remove("labels");
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(without_helms_labels),
        _ => {}
    }
}
