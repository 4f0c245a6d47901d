//! The action `doctor` in a clusterset: what is missing is told with what to do, without a write.

use cloud_map_sync::actions::CheckOutcome;
use cloud_map_sync::actions::doctor::Checkup;
use serde::Deserialize;
use serde_json::json;

use super::{CREATED, Members, Said, web};
use crate::run::sync;
use testbed::kubernetes::{Export, Policy};

/// The ClusterRoles of deploy/rbac-multi-cluster.yaml.
const EXPORT_ROLE: &str = "cloud-map-sync-export";
const IMPORT_ROLE: &str = "cloud-map-sync-import";

/// The checkup of `blue` with these settings beside those of the members.
async fn doctor(members: &Members, settings: &[(&str, &str)]) -> Checkup {
    let function = members.serving("blue,green", settings).await;
    let answer = members.ask(&function, &json!({"action": "doctor", "cluster": "blue"})).await;
    Checkup::deserialize(answer).expect("of this release")
}

/// The names of the checks that failed.
fn failed(checkup: &Checkup) -> Vec<&str> {
    let checks = checkup.clusters.iter().flat_map(|cluster| &cluster.checks);
    let failed = checks.filter(|check| check.outcome == CheckOutcome::Failed);
    failed.map(|check| &*check.name).collect()
}

#[tokio::test]
async fn member_that_has_all_it_needs_is_well() {
    let members = Members::in_step(&["10.0.0.1"]).await;

    let checkup = doctor(&members, &[]).await;

    assert!(checkup.ok, "{checkup}");
    checkup.assert_says(&[
            "  = crds       serves about.k8s.io/v1alpha1, multicluster.x-k8s.io/v1alpha1, multicluster.x-k8s.io/v1beta1",
            "  = crds       ServiceImports declare endpointSliceObjects",
            "  = rbac       may get, list serviceexports of multicluster.x-k8s.io",
            "  = rbac       may patch serviceexports/status of multicluster.x-k8s.io",
            "  = rbac       may get, list namespaces of the core group",
            "  = rbac       may get, list, create, patch, delete serviceimports of multicluster.x-k8s.io",
            "  = rbac       may patch serviceimports/status of multicluster.x-k8s.io",
            "  = rbac       may create, patch, delete services of the core group",
            "  = rbac       may create, patch, delete endpointslices of discovery.k8s.io",
            "  = rbac       may get clusterproperties cluster.clusterset.k8s.io of about.k8s.io",
            "  = rbac       may get clusterproperties clusterset.k8s.io of about.k8s.io",
            "  = admission  the API server keeps the function to its own objects",
            "  = clusterset member blue of shop-set",
            "  = imports    has 1 ServiceImport",
            "  = exports    1 ServiceExport of at most 999",
            "  ~ network    not tested: pods of the other members must reach the pods of this cluster at TCP 8080",
            "  = quota      clusterset.shop-set has 3 records of all members; the default quota of a namespace is 2000",
        ]);
}

#[tokio::test]
async fn admission_policy_that_is_not_in_force_is_a_note() {
    let members = Members::in_step(&["10.0.0.1"]).await;
    members.blue.enforce_admission(None);

    let checkup = doctor(&members, &[]).await;

    assert!(checkup.ok, "{checkup}");
    checkup.assert_says(&[
        "  ~ admission  the API server lets the function write Services, EndpointSlices and ServiceImports of others",
        "    try: kubectl apply -k deploy/multi-cluster (Kubernetes 1.30 or newer)",
    ]);
    members.blue.bind_multi_cluster_roles(&[EXPORT_ROLE]);
    let checkup = doctor(&members, &[]).await;
    checkup.assert_says(&["  ~ admission  not tested: cannot try to create serviceimports"]);
    let checkup = doctor(&members, &[("MULTI_CLUSTER", "export")]).await;
    assert!(!checkup.to_string().contains("admission"), "{checkup}");
}

#[tokio::test]
async fn admission_policy_of_an_earlier_release_fails_its_check() {
    let members = Members::start().await;
    let former = Policy { judges_label_alone: true, ..Policy::default() };
    members.blue.enforce_admission(Some(former));

    let checkup = doctor(&members, &[]).await;

    assert_eq!(failed(&checkup), ["admission"], "{checkup}");
    checkup.assert_says(&[
        "  ! admission  the API server lets the function add endpoints to any Service, by an EndpointSlice",
        "    fix: kubectl apply -k deploy/multi-cluster",
    ]);
    let excluding = Policy { excluded: vec!["default".to_owned()], ..Policy::default() };
    members.blue.enforce_admission(Some(excluding));
    let checkup = doctor(&members, &[]).await;
    let kept = "  = admission  the API server keeps the function to its own objects";
    checkup.assert_says(&[kept]);
}

#[tokio::test]
async fn rights_are_those_of_the_enabled_direction() {
    let members = Members::in_step(&["10.0.0.1"]).await;
    members.blue.bind_multi_cluster_roles(&[EXPORT_ROLE]);
    let checkup = doctor(&members, &[("MULTI_CLUSTER", "export")]).await;
    assert!(checkup.ok, "{checkup}");
    assert!(!checkup.to_string().contains("serviceimports of"), "{checkup}");

    let checkup = doctor(&members, &[]).await;
    checkup.assert_says(&[
        "  ! rbac       may not get, list, create, patch, delete serviceimports of",
        "  ! rbac       may not create, patch, delete services of the core group",
        "  ! clusterset Unreadable: cannot list the ",
        "    fix: kubectl apply -k deploy/multi-cluster",
    ]);
    members.blue.bind_multi_cluster_roles(&[IMPORT_ROLE]);
    let checkup = doctor(&members, &[]).await;
    checkup.assert_says(&[
        "  ! rbac       may not get, list serviceexports of multicluster.x-k8s.io",
        "  ! rbac       may not patch serviceexports/status of multicluster.x-k8s.io",
        "  ! exports    Unreadable: ",
    ]);
    let checkup = doctor(&members, &[("MULTI_CLUSTER", "import")]).await;
    assert!(checkup.ok, "{checkup}");
}

#[tokio::test]
async fn definitions_that_are_missing_or_old_are_reported_with_the_command() {
    let members = Members::start().await;
    members.blue.declare_slice_objects(false);
    let checkup = doctor(&members, &[]).await;
    assert!(checkup.ok, "{checkup}");
    let old = "  ~ crds       ServiceImports do not declare status.endpointSliceObjects";
    checkup.assert_says(&[old, "    try: CRDS=https://raw.githubusercontent.com/kubernetes-sigs"]);
    for versions in [&[][..], &["v1alpha1"]] {
        members.blue.serve_multi_cluster_versions(versions);
        let checkup = doctor(&members, &[]).await;
        assert_eq!(failed(&checkup), ["crds"], "{checkup}");
        let missing = "  ! crds       multicluster.x-k8s.io/v1beta1 is not served";
        checkup.assert_says(&[missing, "    fix: CRDS=https://raw.githubusercontent.com/"]);
    }
}

#[tokio::test]
async fn identity_namespace_and_another_holder_of_the_id_are_reported() {
    let members = Members::start().await;
    let checkup = doctor(&members, &[("CREATE_NAMESPACES", "false")]).await;
    assert_eq!(failed(&checkup), ["exports"], "{checkup}");
    let line =
        "  ! exports    Namespace: the Cloud Map namespace clusterset.shop-set for the records";
    checkup.assert_says(&[line]);

    members.blue.cluster_property("cluster.clusterset.k8s.io", "eu.blue");
    let checkup = doctor(&members, &[]).await;
    assert!(checkup.ok, "{checkup}");
    checkup.assert_says(&["  ~ clusterset the cluster id eu.blue has two labels: CoreDNS has no"]);

    members.converge().await;
    members.blue.cluster_property("cluster.clusterset.k8s.io", "green");
    let checkup = doctor(&members, &[]).await;
    checkup.assert_says(&["  ! exports    ClusterIdTaken: the id green belongs to cluster arn:"]);

    members.blue.cluster_property("cluster.clusterset.k8s.io", "a.b.c");
    let checkup = doctor(&members, &[]).await;
    assert_eq!(failed(&checkup), ["clusterset"], "{checkup}");
    checkup.assert_says(&["  ! clusterset InvalidIdentity: the ClusterProperty cluster.clusters"]);
}

#[tokio::test]
async fn signs_of_awss_controller_are_reported() {
    let members = Members::start().await;
    members.blue.cluster_property("cluster.clusterset.k8s.io", "amber");
    members.of_amber("cart", "10.2.0.1");
    let checkup = doctor(&members, &[]).await;
    let line =
        "  ~ clusterset 1 instance under the cluster id amber without our marks: AWS's controller";
    checkup.assert_says(&[line]);

    members.blue.service(web());
    let export =
        Export::new("shop", "web").finalizer("multicluster.k8s.aws/service-export-finalizer");
    members.blue.put(export.into());
    let checkup = doctor(&members, &[]).await;
    assert_eq!(failed(&checkup), ["exports"], "{checkup}");
    checkup.assert_says(&["  ! exports    AnotherController: the AWS Cloud Map MCS Controller"]);
}

#[tokio::test]
async fn export_that_is_not_published_is_named() {
    let members = Members::start().await;
    members.blue.put(Export::new("shop", "lost").created(CREATED).into());
    let checkup = doctor(&members, &[]).await;
    assert!(checkup.ok, "{checkup}");
    checkup.assert_says(&[
        "  ~ exports    shop/lost is not exported: There is no Service of this name.",
        "    try: kubectl cloudmap explain service/lost -n shop",
    ]);
}

#[tokio::test]
async fn cluster_that_takes_no_part_is_asked_nothing_and_what_it_left_is_reported() {
    let members = Members::with_web(&["10.0.0.1"]).await;
    let checkup = doctor(&members, &[("MULTI_CLUSTER", "off")]).await;
    assert!(checkup.ok && !checkup.to_string().contains("clusterset"), "{checkup}");
    assert!(!checkup.to_string().contains("crds"), "{checkup}");
    sync(&members.function).await;
    let checkup = doctor(&members, &[("MULTI_CLUSTER", "off")]).await;
    let left = "  ~ clusterset MULTI_CLUSTER is off for this cluster, and its records under the id blue stay in Cloud Map, with 1 export";
    checkup.assert_says(&[
        left,
        "    try: switch it on again, or end it: {\"action\":\"purge\",\"cluster\":\"arn",
    ]);
}
