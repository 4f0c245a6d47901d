//! The action `doctor` in a clusterset: each thing that is missing is reported with its mend, without a write.

use cloud_map_sync::actions::CheckOutcome;
use cloud_map_sync::actions::doctor::Checkup;
use serde::Deserialize;
use serde_json::json;

use super::{CLUSTER_ID, CREATED, Members, Said, exported, web};
use crate::run::sync;
use testbed::aws_controller::FINALIZER;
use testbed::kubernetes::{ClusterIp, Export, Pod, Policy};

/// The ClusterRoles of deploy/rbac-multi-cluster.yaml.
const EXPORT_ROLE: &str = "cloud-map-sync-export";
const IMPORT_ROLE: &str = "cloud-map-sync-import";

/// The checks that fail if only the first is bound.
const FAILING_WITHOUT_IMPORTS: [&str; 6] = ["rbac", "rbac", "rbac", "rbac", "rbac", "clusterset"];

/// The checkup of `blue` with these settings beside those of the members: the failing checks, and beginnings of lines.
async fn assert_doctor(
    members: &Members,
    settings: &[(&str, &str)],
    failing: &[&str],
    beginnings: &[&str],
) -> Checkup {
    let function = members.serving("blue,green", settings).await;
    let answer = members.ask(&function, &json!({"action": "doctor", "cluster": "blue"})).await;
    let checkup = Checkup::deserialize(answer).expect("of this release");
    let checks = checkup.clusters.iter().flat_map(|cluster| &cluster.checks);
    let failed = checks.filter(|check| check.outcome == CheckOutcome::Failed);
    let failed: Vec<&str> = failed.map(|check| &*check.name).collect();
    assert_eq!((failed.as_slice(), checkup.ok), (failing, failing.is_empty()), "{checkup}");
    checkup.assert_says(beginnings);
    checkup
}

#[tokio::test]
async fn member_that_has_all_it_needs_is_well() {
    let members = Members::in_step(&["10.0.0.1"]).await;
    let lines = [
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
    ];
    assert_doctor(&members, &[], &[], &lines).await;
}

#[tokio::test]
async fn cluster_without_a_coredns_to_configure_is_a_note() {
    let auto_mode = "    try: docs/multi-cluster.md, section \"EKS Auto Mode\"";
    for (is_auto, has_coredns, lines) in [
        (false, true, ["  = coredns    CoreDNS runs in the cluster", "cluster "]),
        (false, false, ["  ~ coredns    kube-system/kube-dns has no endpoints", "    try: docs/"]),
        (true, true, ["  ~ coredns    pods on nodes of EKS Auto Mode use the", auto_mode]),
        (true, false, ["  ~ coredns    EKS Auto Mode answers DNS on its nodes", auto_mode]),
    ] {
        let members = Members::in_step(&["10.0.0.1"]).await;
        if is_auto {
            members.fleet.sandbox.aws().eks.enable_auto_mode(&members.blue.identity().arn());
        }
        if has_coredns {
            members.blue.service(ClusterIp::new("kube-system", "kube-dns"));
            members.blue.pods("kube-system", "kube-dns", &[Pod::new("coredns", "10.0.9.9")]);
        }
        assert_doctor(&members, &[], &[], &lines).await;
        let checkup = assert_doctor(&members, &[("MULTI_CLUSTER", "export")], &[], &[]).await;
        assert!(!checkup.to_string().contains("coredns "), "{checkup}");
    }
}

#[tokio::test]
async fn admission_policy_that_is_not_in_force_is_a_note() {
    let members = Members::in_step(&["10.0.0.1"]).await;
    members.blue.enforce_admission(None);
    let lines = [
        "  ~ admission  the API server lets the function write Services, EndpointSlices and ServiceImports of others",
        "    try: kubectl apply -k deploy/multi-cluster (Kubernetes 1.30 or newer)",
    ];
    assert_doctor(&members, &[], &[], &lines).await;
    members.blue.bind_multi_cluster_roles(&[EXPORT_ROLE]);
    let line = "  ~ admission  not tested: cannot try to create serviceimports";
    assert_doctor(&members, &[], &FAILING_WITHOUT_IMPORTS, &[line]).await;
    let checkup = assert_doctor(&members, &[("MULTI_CLUSTER", "export")], &[], &[]).await;
    assert!(!checkup.to_string().contains("admission"), "{checkup}");
}

#[tokio::test]
async fn admission_policy_that_excludes_the_namespace_of_the_probe_is_in_force() {
    let members = Members::start().await;
    let excluding = Policy { excluded: vec!["default".to_owned()] };
    members.blue.enforce_admission(Some(excluding));
    let kept = "  = admission  the API server keeps the function to its own objects";
    assert_doctor(&members, &[], &[], &[kept]).await;
}

#[tokio::test]
async fn rights_are_those_of_the_enabled_direction() {
    let members = Members::in_step(&["10.0.0.1"]).await;
    members.blue.bind_multi_cluster_roles(&[EXPORT_ROLE]);
    let checkup = assert_doctor(&members, &[("MULTI_CLUSTER", "export")], &[], &[]).await;
    assert!(!checkup.to_string().contains("serviceimports of"), "{checkup}");
    let lines = [
        "  ! rbac       may not get, list, create, patch, delete serviceimports of",
        "  ! rbac       may not create, patch, delete services of the core group",
        "  ! clusterset Unreadable: cannot list the ",
        "    fix: kubectl apply -k deploy/multi-cluster",
    ];
    assert_doctor(&members, &[], &FAILING_WITHOUT_IMPORTS, &lines).await;
    members.blue.bind_multi_cluster_roles(&[IMPORT_ROLE]);
    let lines = [
        "  ! rbac       may not get, list serviceexports of multicluster.x-k8s.io",
        "  ! rbac       may not patch serviceexports/status of multicluster.x-k8s.io",
        "  ! exports    Unreadable: ",
    ];
    assert_doctor(&members, &[], &["rbac", "rbac", "exports"], &lines).await;
    assert_doctor(&members, &[("MULTI_CLUSTER", "import")], &[], &[]).await;
}

#[tokio::test]
async fn cluster_that_only_imports_under_a_taken_id_is_reported() {
    let members = Members::in_step(&["10.0.0.1"]).await;
    members.blue.cluster_property(CLUSTER_ID, "green");
    let lines = ["  ! clusterset ClusterIdTaken: "];
    assert_doctor(&members, &[("MULTI_CLUSTER", "import")], &["clusterset"], &lines).await;
}

#[tokio::test]
async fn definitions_that_are_missing_or_old_are_reported_with_the_command() {
    let members = Members::start().await;
    members.blue.declare_slice_objects(false);
    let old = "  ~ crds       ServiceImports do not declare status.endpointSliceObjects";
    let remedy = "    try: CRDS=https://raw.githubusercontent.com/kubernetes-sigs";
    assert_doctor(&members, &[], &[], &[old, remedy]).await;
    for versions in [&[][..], &["v1alpha1"]] {
        members.blue.serve_multi_cluster_versions(versions);
        let missing = "  ! crds       multicluster.x-k8s.io/v1beta1 is not served";
        let fix = "    fix: CRDS=https://raw.githubusercontent.com/";
        assert_doctor(&members, &[], &["crds"], &[missing, fix]).await;
    }
}

#[tokio::test]
async fn identity_namespace_and_another_holder_of_the_id_are_reported() {
    let members = Members::start().await;
    let line =
        "  ! exports    Namespace: the Cloud Map namespace clusterset.shop-set for the records";
    assert_doctor(&members, &[("CREATE_NAMESPACES", "false")], &["exports"], &[line]).await;

    members.blue.cluster_property(CLUSTER_ID, "eu.blue");
    let line = "  ~ clusterset the cluster id eu.blue has two labels: CoreDNS has no";
    assert_doctor(&members, &[], &[], &[line]).await;

    members.converge().await;
    members.blue.cluster_property(CLUSTER_ID, "green");
    let line = "  ! exports    ClusterIdTaken: the id green belongs to cluster arn:";
    assert_doctor(&members, &[], &["exports"], &[line]).await;

    members.blue.cluster_property(CLUSTER_ID, "a.b.c");
    let line = "  ! clusterset InvalidIdentity: the ClusterProperty cluster.clusters";
    assert_doctor(&members, &[], &["clusterset"], &[line]).await;
}

#[tokio::test]
async fn signs_of_awss_controller_are_reported() {
    let members = Members::start().await;
    members.blue.cluster_property(CLUSTER_ID, "amber");
    members.of_amber("cart", "10.2.0.1");
    let lines = [
        "  ! exports    AnotherController: the AWS Cloud Map MCS Controller",
        "  ~ clusterset 1 instance under the cluster id amber without our marks: AWS's controller",
    ];
    assert_doctor(&members, &[], &["exports"], &lines).await;

    members.blue.cluster_property(CLUSTER_ID, "blue");
    exported(&members.blue, web(), &["10.0.0.1"]);
    let export = Export::new("shop", "web").created(CREATED).finalizer(FINALIZER);
    members.blue.put(export.into());
    let line = "  ~ exports    shop/web is not exported: AnotherController: the ServiceExport has the finalizer";
    assert_doctor(&members, &[], &[], &[line]).await;
}

#[tokio::test]
async fn export_that_is_not_published_is_named() {
    let members = Members::start().await;
    members.blue.put(Export::new("shop", "lost").created(CREATED).into());
    let lines = [
        "  ~ exports    shop/lost is not exported: There is no Service of this name.",
        "    try: kubectl cloudmap explain service/lost -n shop",
    ];
    assert_doctor(&members, &[], &[], &lines).await;
}

#[tokio::test]
async fn cluster_that_takes_no_part_is_asked_nothing_and_what_it_left_is_reported() {
    let members = Members::with_web(&["10.0.0.1"]).await;
    let off = [("MULTI_CLUSTER", "off")];
    let checkup = assert_doctor(&members, &off, &[], &[]).await.to_string();
    assert!(!checkup.contains("clusterset") && !checkup.contains("crds"), "{checkup}");
    sync(&members.function).await;
    let lines = [
        "  ~ clusterset MULTI_CLUSTER is off for this cluster, and its records under the id blue stay in Cloud Map, with 1 export",
        "    try: switch it on again, or end it: {\"action\":\"purge\",\"cluster\":\"arn",
    ];
    assert_doctor(&members, &off, &[], &lines).await;
}
