//! The verbs of tests and a real client of Kubernetes, with the function's own token.

use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_async::time::SharedTimeSource;
use cloud_map_sync::eks::token::TokenSource;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use super::client::import;
use crate::clock::TokioTime;
use crate::kubeconfig::kubeconfig;
use crate::kubernetes::{Export, Fault, FaultKind, KubernetesServer};
use crate::{REGION, Sandbox};

async fn client(sandbox: &Sandbox, server: &KubernetesServer) -> kube::Client {
    let key = sandbox.access_key();
    let token = Some(key.session_token.clone());
    let credentials = Credentials::new(&key.id, &key.secret, token, None, "tests");
    let credentials = SharedCredentialsProvider::new(credentials);
    let source = TokenSource::new("blue", REGION, credentials, SharedTimeSource::new(TokioTime));
    let mut file = kubeconfig(std::slice::from_ref(server));
    file["users"][0]["user"]["token"] = source.token().await.expect("a token").into();
    let file: Kubeconfig = serde_json::from_value(file).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(file, &options).await.expect("a configuration");
    config.proxy_url = None;
    kube::Client::try_from(config).expect("a client")
}

fn api(client: &kube::Client, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("multicluster.x-k8s.io", "v1beta1", kind);
    Api::namespaced_with(client.clone(), "shop", &ApiResource::from_gvk(&kind))
}

fn code<T: std::fmt::Debug>(answer: Result<T, kube::Error>) -> u16 {
    match answer.expect_err("a refusal") {
        kube::Error::Api(status) => status.code,
        error => panic!("{error}"),
    }
}

#[tokio::test]
async fn the_api_is_refused_until_its_roles_are_bound_and_unknown_without_its_definitions() {
    let sandbox = Sandbox::start().await.cluster("blue").await;
    let server = sandbox.kubernetes("blue");
    let client = client(&sandbox, &server).await;
    let exports = api(&client, "ServiceExport");
    assert_eq!(code(exports.get("web").await), 403);

    server.serve_multi_cluster();
    server.put(
        Export::new("shop", "web").labels(&[("a", "b")]).created("2026-01-02T03:04:05Z").into(),
    );
    let found = exports.get("web").await.expect("an export");
    assert_eq!(found.data["spec"]["exportedLabels"]["a"], "b");
    assert!(server.unexport("shop", "web"));
    assert_eq!(code(exports.get("web").await), 404);

    server.cluster_property("clusterset.k8s.io", "blue");
    let uri = "/apis/about.k8s.io/v1alpha1/clusterproperties/clusterset.k8s.io";
    let request = http::Request::get(uri).body(Vec::new()).expect("a request");
    let property: Value = client.request(request).await.expect("a property");
    assert_eq!(property["spec"]["value"], "blue");

    server.bind_multi_cluster_roles(&["cloud-map-sync-import"]);
    assert_eq!(code(exports.get("web").await), 403);
    server.bind_multi_cluster_roles(&["cloud-map-sync-export"]);
    server.serve_multi_cluster_versions(&[]);
    let answer = exports.get("web").await;
    assert!(matches!(&answer, Err(kube::Error::Api(it)) if it.code == 404), "{answer:?}");
}

#[tokio::test]
async fn a_client_creates_patches_and_deletes_an_import() {
    let sandbox = Sandbox::start().await.cluster("blue").await;
    let server = sandbox.kubernetes("blue");
    server.serve_multi_cluster();
    let client = client(&sandbox, &server).await;
    let imports = api(&client, "ServiceImport");
    let mut object = import("web");
    object["apiVersion"] = "multicluster.x-k8s.io/v1beta1".into();
    object["kind"] = "ServiceImport".into();
    let object: DynamicObject = serde_json::from_value(object).expect("an object");
    let creation =
        PostParams { field_manager: Some("cloud-map-sync".into()), ..Default::default() };
    assert_eq!(code(imports.create(&creation, &object).await), 404);
    server.namespace("shop");
    server.fail(Fault::once("/apis/multicluster", FaultKind::Status(500)).of_method("PATCH"));
    let created = imports.create(&creation, &object).await.expect("a new import");
    let version = created.metadata.resource_version.clone().expect("a version");

    let manager = PatchParams::apply("cloud-map-sync");
    let patch = json!({
        "metadata": {"resourceVersion": version}, "spec": {"ips": ["10.96.0.9"]},
    });
    assert_eq!(code(imports.patch("web", &manager, &Patch::Merge(&patch)).await), 500);
    imports.patch("web", &manager, &Patch::Merge(&patch)).await.expect("a patch");
    assert_eq!(code(imports.patch("web", &manager, &Patch::Merge(&patch)).await), 409);
    let status = json!({"status": {"clusters": [{"cluster": "blue"}]}});
    imports.patch_status("web", &manager, &Patch::Merge(&status)).await.expect("a status");
    let stored = server.service_import("shop", "web").expect("the import");
    assert_eq!(
        (&stored["spec"]["ips"][0], &stored["status"]),
        (&json!("10.96.0.9"), &status["status"])
    );
    assert_eq!(stored["metadata"]["managedFields"][0]["manager"], "cloud-map-sync");

    let deletion = |uid: Option<String>| {
        let preconditions = Preconditions { uid, resource_version: None };
        DeleteParams { preconditions: Some(preconditions), ..Default::default() }
    };
    assert_eq!(code(imports.delete("web", &deletion(Some("other".into()))).await), 409);
    imports.delete("web", &deletion(created.metadata.uid)).await.expect("a deletion");
    assert_eq!(server.objects("serviceimports", "shop"), [Value::Null; 0]);
}

#[tokio::test]
async fn a_client_applies_the_status_of_an_export() {
    let sandbox = Sandbox::start().await.cluster("blue").await;
    let server = sandbox.kubernetes("blue");
    server.serve_multi_cluster();
    server.export("shop", "web");
    let exports = api(&client(&sandbox, &server).await, "ServiceExport");
    let condition = json!({
        "type": "Valid", "status": "True", "reason": "Valid", "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": 1,
    });
    let patch = json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport",
        "metadata": {"name": "web"}, "status": {"conditions": [condition]},
    });
    let manager = PatchParams::apply("cloud-map-sync").force();
    exports.patch_status("web", &manager, &Patch::Apply(&patch)).await.expect("a status");
    let stored = server.service_export("shop", "web").expect("the export");
    assert_eq!(stored["status"]["conditions"], json!([condition]));
    assert_eq!(stored["metadata"]["managedFields"][0]["operation"], "Apply");

    server.terminate_namespace("shop");
    server.enforce_admission(None);
    let object: DynamicObject = serde_json::from_value(json!({
        "metadata": {"name": "web"}, "spec": {"type": "Headless", "ports": []},
    }))
    .expect("an object");
    let exports = api(&client(&sandbox, &server).await, "ServiceImport");
    assert_eq!(code(exports.create(&PostParams::default(), &object).await), 403);
}
