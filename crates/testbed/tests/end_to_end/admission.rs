//! The admission policy for annotations (`deploy/admission.yaml`) on a real API server: it refuses what the function's own
//! parsers refuse, in their words, and admits all else; and the function finds no mistake in what was admitted.

use std::collections::BTreeMap;

use cloud_map_sync::kubernetes::annotation::{DOCUMENTED, claims};
use cloud_map_sync::model::NamespaceReference;
use http::Method;
use serde_json::{Value, json};

use crate::lambda::Lambda;
use crate::real_cluster::RealCluster;
use crate::real_cluster::member::{SERVICES, Wish};
use crate::world::World;

const PREFIX: &str = "cloudmap.controller/";
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/admission.yaml");

/// Values of annotations, good and bad.
fn values() -> Vec<(&'static str, Vec<String>)> {
    vec![
        ("hostname", names()),
        ("namespace", namespaces()),
        ("ttl", texts("0;15;+5;007;2147483647; 60 ;2147483648;-1;;1.5;99999999999999999999;x;1_0")),
        ("routing-policy", texts("MULTIVALUE;WEIGHTED; WEIGHTED;weighted;")),
        ("port", ports()),
        ("publish", texts("true;false;no;")),
        ("max-instances", texts("1;1000;+7;0;1001;x;;00005;12345")),
        ("attributes", attributes()),
        ("terminating", texts("drop;keep-serving;keep")),
        ("when-none-ready", texts("keep;empty;")),
    ]
}

fn names() -> Vec<String> {
    let mut names = texts(
        "web; web ;web, www;Web_1;db.prod.internal;a-b;_x;; ;.;_;a._b._;-a;a-;a..b;a b;é;a/b;web,;\
         web,,www;a.-b.c",
    );
    names.extend([long("a", 63), long("a", 64), format!("{}.{}", long("a", 63), long("b", 63))]);
    names.extend([62, 63].map(|last| format!("{}.{}.c", long("a", 63), long("b", last))));
    names
}

fn ports() -> Vec<String> {
    let mut ports = texts("http;80;http, 9090;080;0;65536;;http,;HTTP;a b;é;123456;00000000000080");
    ports.extend([20, 21].map(|count| vec!["80"; count].join(",")));
    ports
}

fn namespaces() -> Vec<String> {
    let mut namespaces = texts(
        "prod.local;ns-abc; prod ;a b;;é;arn:aws:iam::1:role/x;\
         arn:aws:servicediscovery:eu-central-1:111122223333:namespace/ns-1",
    );
    namespaces.extend([long("n", 1024), long("n", 1025)]);
    namespaces
}

fn attributes() -> Vec<String> {
    let mut attributes = texts(
        "team=shop;team=a,tier=;url=http://a=b; a=1 , b=2 ;team;;=a;te am=a;a=1,a=2;\
         AWS_A=1,team,b=2,REGION=x;AWS_INSTANCE_IPV4=1;aws_instance_ipv4=1;Aws_team=1,aws-team=1;\
         ECS_SERVICE_NAME=1;ECS_CLUSTER_NAME=a,ECS_TASK_DEFINITION_FAMILY=b;\
         ECS_SERVICE_NAMES=1;ECS_CLUSTER_ARN=1;REGION=1;REGION2=1;AVAILABILITY_ZONE=a;cloud-map-sync/owner=1;k= x;k=é;\
         k=a\tb;a=1,;kéy=a",
    );
    attributes.extend([long("k", 255) + "=x", long("k", 256) + "=x"]);
    attributes.extend([1024, 1025].map(|length| format!("k={}", long("v", length))));
    let many = |last: usize| (1..=last).map(|it| format!("{it}=x")).collect::<Vec<_>>().join(",");
    let keys = |each: usize| {
        (0..5).map(|it| format!("{it}{}=x", long("k", each))).collect::<Vec<_>>().join(",")
    };
    attributes.extend([many(20), many(21), keys(202), keys(203), keys(204)]);
    attributes
}

/// Values, with a semicolon between each and the next.
fn texts(all: &str) -> Vec<String> {
    all.split(';').map(str::to_owned).collect()
}

fn long(letter: &str, length: usize) -> String {
    letter.repeat(length)
}

/// A headless Service with the ports 80 (`http`) and 9090.
fn service(name: &str, annotations: &BTreeMap<String, String>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"clusterIP": "None", "selector": {"app": "web"}, "ports": [
            {"name": "http", "port": 80}, {"name": "admin", "port": 9090},
        ]},
    })
}

fn annotated(name: &str, value: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::from([(format!("{PREFIX}hostname"), "web".to_owned())]);
    all.insert(format!("{PREFIX}{name}"), value.to_owned());
    all
}

fn create(service: Value) -> Wish {
    (Method::POST, SERVICES.to_owned(), service)
}

#[tokio::test]
async fn policy_refuses_what_the_parsers_refuse_and_the_function_finds_no_mistake_in_the_rest() {
    let world = World::start().await;
    let Some(cluster) = RealCluster::start(&world, true).await else { return };
    cluster.apply_rbac().await;
    cluster.create_object(SERVICES, service("old", &annotated("ttl", "x"))).await;
    cluster.control_plane.create_from(FILE).await;
    let bad = || create(service("probe", &annotated("ttl", "x")));
    let in_force = async || cluster.verdict(bad()).await.is_some();
    cluster.control_plane.wait_until("for the admission policy", in_force).await;

    let admitted = parsers_and_policy_agree(&cluster).await;
    port_that_the_service_lacks_is_refused(&cluster).await;
    old_mistake_blocks_no_other_change(&cluster).await;
    nothing_else_is_judged(&cluster).await;

    for (index, annotations) in admitted.iter().enumerate() {
        cluster.create_object(SERVICES, service(&format!("admitted-{index}"), annotations)).await;
    }
    let mut lambda: Lambda = world.lambda(&[]).await;
    let report = lambda.invoke(json!({"action": "plan"})).await.expect("a report").to_string();
    assert!(report.contains("admitted-0"), "{report}");
    for mistake in ["BadAnnotation", "NoSuchPort"] {
        assert!(!report.contains(mistake), "{report}");
    }
}

/// Returns the annotations that both accept.
async fn parsers_and_policy_agree(cluster: &RealCluster) -> Vec<BTreeMap<String, String>> {
    let mut admitted = Vec::new();
    let all = values();
    assert_eq!(all.len(), DOCUMENTED.len(), "each annotation is judged");
    for (name, values) in all {
        let examples =
            DOCUMENTED.iter().filter(|it| it.name == name).map(|it| it.example.to_owned());
        for value in values.into_iter().chain(examples) {
            let annotations = annotated(name, &value);
            let default = NamespaceReference::NameOrId("shop".into());
            let parsed = claims(&annotations, PREFIX, &default).expect("annotated");
            let verdict = cluster.verdict(create(service("judged", &annotations))).await;
            match (parsed, verdict) {
                (Ok(_), None) => admitted.push(annotations),
                (Err(mistakes), Some(message)) => {
                    let words = mistakes[0].to_string();
                    assert!(message.contains(&words), "{words}\n{message}");
                }
                (parsed, verdict) => panic!("{name}={value:?}: {parsed:?}, {verdict:?}"),
            }
        }
    }
    admitted
}

async fn port_that_the_service_lacks_is_refused(cluster: &RealCluster) {
    for (ports, expected) in [
        (
            "https",
            "port https is not a port of the Service; the Service has: http (80), admin (9090)",
        ),
        ("http,81", "port 81 is not a port of the Service"),
    ] {
        let verdict = cluster.verdict(create(service("judged", &annotated("port", ports)))).await;
        assert!(verdict.as_ref().is_some_and(|it| it.contains(expected)), "{verdict:?}");
    }
}

async fn old_mistake_blocks_no_other_change(cluster: &RealCluster) {
    let patch = |change: Value| (Method::PATCH, format!("{SERVICES}/old"), change);
    let annotate = |name: &str, value: Value| json!({"metadata": {"annotations": {name: value}}});
    let cases = [
        (json!({"metadata": {"labels": {"team": "a"}}}), true),
        (json!({"spec": {"selector": {"app": "other"}}}), true),
        (annotate("example.com/other", json!("1")), true),
        (annotate("cloudmap.controller/ttl", json!("15")), true),
        (annotate("cloudmap.controller/hostname", json!("www")), false),
        (json!({"spec": {"ports": [{"name": "http", "port": 80}]}}), false),
        // Without a hostname the Service is none of ours.
        (annotate("cloudmap.controller/hostname", Value::Null), true),
    ];
    for (change, passes) in cases {
        let verdict = cluster.verdict(patch(change.clone())).await;
        assert_eq!(verdict.is_none(), passes, "{change}: {verdict:?}");
    }
    cluster.delete_object(SERVICES, "old").await;
}

async fn nothing_else_is_judged(cluster: &RealCluster) {
    let mut annotations = annotated("ttl", "x");
    annotations.remove(&format!("{PREFIX}hostname"));
    assert_eq!(cluster.verdict(create(service("judged", &annotations))).await, None);
    assert_eq!(cluster.verdict(create(service("judged", &BTreeMap::new()))).await, None);
}
