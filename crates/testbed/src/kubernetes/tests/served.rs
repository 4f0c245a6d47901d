//! What is served, and to whom.

use serde_json::{Value, json};

use super::client::{Cluster, MCS, import};
use crate::kubernetes::access::User;

fn group_names(cluster: &mut Cluster) -> Vec<String> {
    let (_, groups) = cluster.get("/apis");
    let groups = groups["groups"].as_array().expect("groups").iter();
    groups.filter_map(|group| group["name"].as_str().map(ToOwned::to_owned)).collect()
}

#[test]
fn nothing_of_the_api_is_there_until_it_is_served() {
    let mut cluster = Cluster::new();
    cluster.world.multi_cluster = crate::kubernetes::multi_cluster::MultiCluster::default();
    for path in [
        format!("{MCS}/serviceexports"),
        format!("{MCS}/serviceimports/web"),
        "/apis/about.k8s.io/v1alpha1/clusterproperties".to_owned(),
        "/apis/multicluster.x-k8s.io/v1beta1".to_owned(),
        "/openapi/v3/apis/multicluster.x-k8s.io/v1beta1".to_owned(),
    ] {
        assert_eq!(cluster.get(&path), (404, json!("404 page not found\n")), "{path}");
    }
    assert_eq!(group_names(&mut cluster), ["discovery.k8s.io", "events.k8s.io"]);
}

#[test]
fn groups_and_versions_are_those_that_are_served() {
    let mut cluster = Cluster::new();
    assert_eq!(
        group_names(&mut cluster),
        ["discovery.k8s.io", "events.k8s.io", "multicluster.x-k8s.io", "about.k8s.io"]
    );
    let preferred = |cluster: &mut Cluster| {
        cluster.get("/apis/multicluster.x-k8s.io").1["preferredVersion"]["version"].clone()
    };
    assert_eq!(preferred(&mut cluster), "v1beta1");
    cluster.world.multi_cluster.versions = vec!["v1alpha1"];
    assert_eq!(preferred(&mut cluster), "v1alpha1");
    assert_eq!(cluster.get(&format!("{MCS}/serviceimports")).0, 404);
}

#[test]
fn an_object_is_shown_in_the_version_that_is_asked_for() {
    let mut cluster = Cluster::new();
    cluster.created(&format!("{MCS}/serviceimports"), &import("web"));
    let older = MCS.replace("v1beta1", "v1alpha1");
    for (base, version) in [(MCS, "v1beta1"), (older.as_str(), "v1alpha1")] {
        let version = format!("multicluster.x-k8s.io/{version}");
        assert_eq!(cluster.get(&format!("{base}/serviceimports/web")).1["apiVersion"], version);
        let (_, list) = cluster.get(&format!("{base}/serviceimports"));
        assert_eq!(
            (&list["apiVersion"], &list["kind"]),
            (&json!(version), &json!("ServiceImportList"))
        );
        assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    }
}

#[test]
fn the_openapi_document_tells_whether_slice_objects_are_declared() {
    let mut cluster = Cluster::new();
    let declared = |cluster: &mut Cluster| {
        let (_, document) = cluster.get("/openapi/v3/apis/multicluster.x-k8s.io/v1beta1");
        let schemas = document["components"]["schemas"].clone();
        let import = &schemas["io.x-k8s.multicluster.v1beta1.ServiceImport"];
        assert_eq!(import["x-kubernetes-group-version-kind"][0]["kind"], "ServiceImport");
        import["properties"]["status"]["properties"]["endpointSliceObjects"].clone()
    };
    assert_eq!(declared(&mut cluster)["type"], "string");
    cluster.world.multi_cluster.declares_slice_objects = false;
    assert_eq!(declared(&mut cluster), Value::Null);
}

#[test]
fn the_function_may_do_what_its_roles_grant() {
    let mut cluster = Cluster::new();
    let imports = format!("{MCS}/serviceimports");
    assert_eq!(cluster.create(&imports, &import("web")).0, 201);
    cluster.function = User::in_group("cloud-map-sync", Vec::new());
    for (method, path) in [
        ("GET", imports.as_str()),
        ("POST", &imports),
        ("DELETE", "/api/v1/namespaces/shop/services/web"),
        ("GET", "/api/v1/namespaces"),
    ] {
        let (status, body) = cluster.send(method, path, "", &json!({}));
        assert_eq!((status, &body["reason"]), (403, &json!("Forbidden")), "{method} {path}");
    }
    assert_eq!(cluster.send("GET", "/api/v1/namespaces/shop/services", "", &Value::Null).0, 200);
}
