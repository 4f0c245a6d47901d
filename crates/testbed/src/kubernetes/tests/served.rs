//! What is served, and to whom.

use serde_json::json;

use super::client::{Cluster, MCS, import};

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
