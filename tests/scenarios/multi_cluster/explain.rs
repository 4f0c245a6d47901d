//! The action `explain` for a name that is exported, imported, annotated, or several of these.

use cloud_map_sync::actions::explain::Explanation;
use cloud_map_sync::function::Function;
use serde::Deserialize;
use serde_json::json;

use super::{
    CLUSTER_ID, CREATED, LATER, Members, Said, exported, exported_at, foreign_import, in_full,
    obstacle_lines, pods, service, web,
};
use crate::fleet::{ips, refs};
use crate::run::{report, sync, sync_of};
use testbed::kubernetes::{ClusterIp, Export, Pod, Policy};

/// The explanation of a Service of `shop`, or of the namespace before its name.
pub async fn explain(members: &Members, cluster: &str, name: &str) -> Explanation {
    explain_by(members, &members.function, cluster, name).await
}

/// The same by another process of the function, or with other settings.
pub async fn explain_by(
    members: &Members,
    function: &Function,
    cluster: &str,
    name: &str,
) -> Explanation {
    let (namespace, name) = name.split_once('/').unwrap_or(("shop", name));
    let question =
        json!({"action": "explain", "cluster": cluster, "namespace": namespace, "service": name});
    let answer = members.ask(function, &question).await;
    Explanation::deserialize(answer).expect("of this release")
}

#[tokio::test]
async fn export_that_is_as_it_should_be_has_no_problems() {
    let members = Members::in_step(&["10.0.0.1"]).await;

    for cluster in ["blue", "green"] {
        let explanation = explain(&members, cluster, "web").await;
        assert!(explanation.ok, "{explanation}");
        explanation.assert_says(&[
            "= import     ClusterSetIP, 10.96.0.",
            "= exporter   blue (run by cloud-map-sync), since 2026-01-01T00:00:00Z (",
            "= endpoint   10.0.0.1 port 8080 of blue (web-10-0-0-1): in the import",
            "no problems found",
        ]);
    }
    explain(&members, "blue", "web").await.assert_says(&[
        "= service    clusterIP is 10.96.0.",
        "shop/web",
        "= export     the instances of the export",
        "= endpoint   10.0.0.1 (web-10-0-0-1, ready): registered as tcp-10-0-0-1-8080-",
        "= discovery  returns 1 UNKNOWN of this cluster and none of other owners",
        "clusterset shop-set, member blue",
        "= export     Valid True (Valid)",
        "= export     Ready True (Exported)",
        "= export     Conflict False (NoConflicts)",
    ]);
    explain(&members, "green", "web").await.assert_says(&[
        "= service    none of this name in this cluster",
        "= export     no ServiceExport of",
    ]);
}

#[tokio::test]
async fn imports_that_cannot_be_read_are_a_problem_and_not_a_cluster_that_only_exports() {
    let members = Members::in_step(&["10.0.0.1"]).await;
    members.green.refuse("/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/serviceimports", 403);

    let explanation = explain(&members, "green", "web").await;

    assert!(!explanation.ok, "{explanation}");
    explanation.assert_says(&["! obstacle   (Unreadable): cannot get serviceimports shop/web"]);
    assert!(!explanation.to_string().contains("does not import"), "{explanation}");
}

#[tokio::test]
async fn each_exporter_has_what_it_decides_and_each_port_its_clusters() {
    let members = Members::with_web(&["10.0.0.1"]).await;
    let other = ClusterIp::new("shop", "web").port_of("TCP", "admin", 81, 8081);
    exported_at(&members.green, other, &["10.1.0.1"], LATER);
    members.of_amber("web", "10.2.0.1");
    members.converge().await;

    let explanation = explain(&members, "green", "web").await;

    assert!(!explanation.ok, "{explanation}");
    // amber's timestamp is that of 2026-01-01, and it has the smaller id.
    explanation.assert_says(&[
        "! export     Conflict True (PortConflict): Conflicting ports.",
        "~ note       port http 80/TCP leads to amber, blue alone",
        "~ note       port admin 81/TCP leads to green alone",
        "= exporter   amber (run by AWS's controller), since 2026-01-01T00:00:00Z (",
        "= endpoint   10.2.0.1 port 8080 of amber: in the import",
        "= endpoint   10.0.0.1 port 8080 of blue (web-10-0-0-1): in the import",
        "= endpoint   10.1.0.1 port 8081 of green (web-10-1-0-1): in the import",
        "problems found: see the lines with !",
    ]);
    let clusterset = explanation.clusterset.as_ref().expect("a clusterset");
    let decided: Vec<(&str, String)> =
        clusterset.exporters.iter().map(|it| (it.member.as_str(), it.decides.join(", "))).collect();
    let rest =
        "session affinity, internal traffic policy, traffic distribution, labels, annotations";
    let expected = [
        ("amber", "type, port http 80/TCP, IP families".to_owned()),
        ("blue", rest.to_owned()),
        ("green", "port admin 81/TCP".to_owned()),
    ];
    assert_eq!(decided, expected, "{explanation}");
}

#[tokio::test]
async fn conflict_of_others_is_reported_where_the_name_is_only_imported() {
    let members = Members::start().await;
    let admin = ClusterIp::new("shop", "web").port_of("TCP", "admin", 81, 8081);
    exported_at(&members.blue, admin, &["10.0.0.1"], LATER);
    members.of_amber("web", "10.2.0.1");
    members.converge().await;
    let explanation = explain(&members, "green", "web").await;
    assert!(!explanation.ok);
    explanation.assert_says(&["! conflict   PortConflict: Conflicting ports. Using \"http 80"]);
    let explanation = explain(&members, "blue", "web").await.to_string();
    assert!(!explanation.contains("! conflict"), "{explanation}");
}

#[tokio::test]
async fn endpoint_that_is_not_in_the_import_has_the_reason() {
    let members = Members::with_web(&["10.0.0.1", "10.0.0.2"]).await;
    let service = members.of_amber("web", "10.2.0.1");
    members.of_amber("web", "169.254.1.1");
    members.converge().await;
    let instances = members.fleet.cloud_map.instances(&service);
    let mut portless = instances["tcp-10_2_0_1-8080"].clone();
    portless.insert("AWS_INSTANCE_IPV4".to_owned(), "10.2.0.2".to_owned());
    portless.remove("SERVICE_PORT");
    members.fleet.put(&service, "tcp-10_2_0_2-8080", &portless);
    let pods = [
        Pod::new("web-10-0-0-1", "10.0.0.1"),
        Pod::new("web-10-0-0-2", "10.0.0.2").not_ready(),
        Pod::new("c", "10.0.0.3"),
        Pod::new("d", "10.0.0.4").terminating(),
    ];
    members.blue.pods("shop", "web", &pods);

    let explanation = explain(&members, "blue", "web").await;

    explanation.assert_says(&[
            "= endpoint   10.0.0.1 port 8080 of blue (web-10-0-0-1): in the import",
            "- endpoint   10.0.0.2 port 8080 of blue (web-10-0-0-2): in the import, and a sync would remove it: its pod is not ready",
            "+ endpoint   10.0.0.3 port 8080 of blue (c): a sync would add it to the import",
            "+ endpoint   10.0.0.4 port 8080 of blue (d): a sync would add it to the import",
            "= endpoint   10.2.0.1 port 8080 of amber: in the import",
            "! endpoint   10.2.0.2 port 8080 of amber: not in the import: it lacks the attribute SERVICE_PORT",
            "! endpoint   169.254.1.1 port 8080 of amber: not in the import: its address is loopback",
        ]);
    assert!(!explanation.ok);
}

#[tokio::test]
async fn endpoint_that_the_merge_leaves_out_has_the_reason() {
    let members = Members::start().await;
    exported_at(&members.blue, web(), &["10.0.0.1"], "2025-01-01T00:00:00Z");
    let clash = ClusterIp::new("shop", "web").port_of("TCP", "http", 8080, 8080);
    exported_at(&members.green, clash, &["10.1.0.1"], LATER);
    let service = members.of_amber("web", "10.2.0.1");
    members.converge().await;
    let instances = members.fleet.cloud_map.instances(&service);
    let mut other = instances["tcp-10_2_0_1-8080"].clone();
    other.remove("AWS_INSTANCE_IPV4");
    other.insert("AWS_INSTANCE_IPV6".to_owned(), "2001:db8::1".to_owned());
    members.fleet.put(&service, "six", &other);
    let green = instances.values().find(|it| it["CLUSTER_ID"] == "green").expect("green's");
    let mut without_record = green.clone();
    without_record.insert("CLUSTER_ID".to_owned(), "red".to_owned());
    without_record.insert("AWS_INSTANCE_IPV4".to_owned(), "10.3.0.1".to_owned());
    members.fleet.put(&service, "red", &without_record);

    let explanation = explain(&members, "blue", "web").await;

    explanation.assert_says(&[
            "= endpoint   10.2.0.1 port 8080 of amber: in the import",
            "! endpoint   2001:db8::1 port 8080 of amber: not in the import: the import has no IPv6",
            "! endpoint   10.1.0.1 port 8080 of green (web-10-1-0-1): not in the import: no port of the import leads to it",
            "! endpoint   10.3.0.1 port 8080 of red (web-10-1-0-1): not in the import: its cluster has no record of the export",
        ]);
}

#[tokio::test]
async fn service_that_is_annotated_and_exported_is_registered_twice() {
    let members = Members::start().await;
    members.fleet.web("web", "shop", &["10.0.0.1"]);
    members.blue.put(Export::new("shop", "web").created(CREATED).into());
    members.converge().await;

    let explanation = explain(&members, "blue", "web").await;

    assert!(explanation.ok, "{explanation}");
    assert_eq!(explanation.names.len(), 2);
    explanation.assert_says(&[
            "~ note       the Service is annotated and exported: it is registered for both, as shop/web and as shop/web, so clients discover each pod twice",
            "= claim      this Service holds the name",
            "= export     the instances of the export",
            "= import     Headless",
        ]);
}

#[tokio::test]
async fn export_without_a_service_or_a_namespace_says_so() {
    let members = Members::start().await;
    members.blue.put(Export::new("shop", "lost").created(CREATED).into());
    let first = explain(&members, "blue", "lost").await;
    first.assert_says(&["! note       a sync would write Valid False (NoService): There is no"]);
    sync(&members.function).await;
    let explanation = explain(&members, "blue", "lost").await;
    assert!(!explanation.ok, "{explanation}");
    explanation.assert_says(&["! export     Valid False (NoService): There is no Service"]);

    members.blue.namespace("other");
    exported(&members.blue, ClusterIp::new("other", "api").port("h", 80), &[]);
    sync(&members.function).await;
    let explanation = explain(&members, "green", "other/api").await;
    explanation.assert_says(&["= import     none: the cluster has no namespace other"]);
}

#[tokio::test]
async fn what_stops_the_clusterset_and_what_holds_back_an_import_are_reported() {
    let members = Members::start().await;
    members.green.put(foreign_import("web"));
    exported(&members.blue, web(), &["10.0.0.1"]);
    sync(&members.function).await;

    let explanation = explain(&members, "green", "web").await;

    assert!(!explanation.ok);
    explanation.assert_says(&[
        "! held back  shop/web (ForeignObject): ServiceImport shop/web is not ours",
        "! endpoint   10.0.0.1 port 8080 of blue (web-10-0-0-1): not in the import: see the lines",
    ]);
    members.green.serve_multi_cluster_versions(&[]);
    let members = Members { function: members.serving("blue,green", &[]).await, ..members };
    let explanation = explain(&members, "green", "web").await;
    explanation.assert_says(&["! obstacle   (NoMultiClusterApi): the cluster does not serve"]);
    assert!(!explanation.ok);
}

#[tokio::test]
async fn service_that_is_only_annotated_has_no_part_in_the_clusterset() {
    let members = Members::start().await;
    members.fleet.web("api", "shop", &["10.0.0.1"]);
    members.converge().await;
    let explanation = explain(&members, "blue", "api").await;
    assert!(explanation.ok && explanation.clusterset.is_none(), "{explanation}");
    members.blue.cluster_property(CLUSTER_ID, "a.b.c");
    let explanation = explain(&members, "blue", "api").await;
    explanation.assert_says(&["! obstacle   (InvalidIdentity): ", "no problems found"]);
}

#[tokio::test]
async fn part_of_a_member_that_the_guard_holds_stays() {
    let members = Members::start().await;
    let addresses = ips("10.2.0", 1..=16);
    members.amber("web", &refs(&addresses));
    members.converge().await;
    members.amber("web", &[]);
    sync(&members.function).await;

    let explanation = explain(&members, "green", "web").await;

    assert!(!explanation.ok);
    explanation.assert_says(&[
        "= service    none of this name in this cluster",
        "! held back  shop/web (Guard)",
        "~ endpoint   10.2.0.1 of amber: stays in the import for now: its cluster has it no more",
    ]);
    assert!(!explanation.to_string().contains("a sync would"), "{explanation}");
}

#[tokio::test]
async fn part_of_a_member_that_was_not_read_stays() {
    let members = Members::with_web(&["10.0.0.1"]).await;
    exported_at(&members.green, web(), &["10.1.0.1"], LATER);
    members.converge().await;
    let exports = "/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/serviceexports";
    members.green.refuse(exports, 503);

    let explanation = explain(&members, "blue", "web").await;

    assert!(!explanation.ok);
    explanation.assert_says(&[
        "! not read   the exports of green: its endpoints in the import stay as they are",
        "~ endpoint   10.1.0.1 of green: stays in the import: the exports of its cluster could not",
    ]);
}

/// Another cluster holds its id: nothing is imported here, and nothing leaves the imports.
#[tokio::test]
async fn cluster_that_only_imports_has_the_obstacle_of_its_run() {
    let members = Members::in_step(&["10.0.0.1"]).await;
    members.green.cluster_property(CLUSTER_ID, "blue");
    let importing = r#"["blue", {"cluster": "green", "multiCluster": "import"}]"#;
    let function = members.serving(importing, &[]).await;

    let explanation = explain_by(&members, &function, "green", "web").await;
    let mut plan = sync_of("green", "web");
    plan["action"] = json!("plan");
    let planned = report(&function, &plan).await;

    let full = sync(&function).await;
    let [full] = obstacle_lines(&full, "green")[..] else { panic!("{}", in_full(&full)) };
    assert_eq!(full.code, "ClusterIdTaken");
    explanation.assert_says(&["! obstacle   (ClusterIdTaken): the id blue belongs to cluster"]);
    assert!(!explanation.to_string().contains("UnfamiliarRegistry"), "{explanation}");
    let [line] = obstacle_lines(&planned, "green")[..] else { panic!("{}", in_full(&planned)) };
    assert!(full.text.starts_with(&line.text), "{}", in_full(&planned));
}

#[tokio::test]
async fn import_that_a_sync_would_not_change_is_explained_without_a_promise() {
    let members = Members::in_step(&["10.0.0.1"]).await;
    exported(&members.blue, service("cart"), &["10.0.0.3"]);
    members.green.put(foreign_import("mail"));
    exported(&members.blue, service("mail"), &["10.0.0.4"]);
    pods(&members.blue, "web", &["10.0.0.2"]);
    let frozen = members.serving("blue,green", &[("POLICY", "upsert-only")]).await;

    let explanations = [
        explain_by(&members, &frozen, "green", "web").await,
        explain_by(&members, &frozen, "green", "cart").await,
        explain(&members, "green", "mail").await,
    ];

    explanations[0].assert_says(&[
        "! obstacle   (Policy): POLICY=upsert-only keeps the imports of this cluster as they are",
        "~ endpoint   10.0.0.1 of blue: stays in the import for now: its cluster has it no more",
        "! endpoint   10.0.0.2 port 8080 of blue (web-10-0-0-2): not in the import: see the lines",
    ]);
    explanations[1]
        .assert_says(&["= import     none, and a sync would not make it: see the lines"]);
    explanations[2]
        .assert_says(&["= import     none, and a sync would not make it: see the lines"]);
    for explanation in explanations {
        let said = explanation.to_string();
        assert!(!explanation.ok && !said.contains("a sync would make"), "{said}");
        assert!(!said.contains("a sync would remove"), "{said}");
    }
}

#[tokio::test]
async fn import_in_an_excluded_namespace_is_explained_without_a_promise() {
    let members = Members::with_web(&["10.0.0.1"]).await;
    let excluding = Policy { excluded: vec!["shop".to_owned()] };
    members.green.enforce_admission(Some(excluding));
    sync(&members.function).await;

    let explanation = explain(&members, "green", "web").await;

    explanation.assert_says(&[
        "= import     none, and a sync would not make it: see the lines",
        "! held back  shop/web (NamespaceExcluded): ",
    ]);
}

/// The exporter that was not read may be the only one.
#[tokio::test]
async fn name_that_an_unread_cluster_may_export_is_not_explained_as_exported_by_none() {
    let members = Members::start().await;
    members.converge().await;
    members.fleet.web("api", "shop", &["10.0.0.1"]);
    exported_at(&members.green, service("cart"), &["10.1.0.1"], LATER);
    members.green.refuse("/apis/multicluster.x-k8s.io/v1beta1/namespaces/shop/serviceexports", 503);

    for name in ["cart", "api"] {
        let explanation = explain(&members, "blue", name).await;

        explanation.assert_says(&[
            "= import     none, and it is not known whether a member exports the name: see the lines",
            "! not read   the exports of green: its endpoints in the import stay as they are",
        ]);
        let said = explanation.to_string();
        assert!(!said.contains("no member exports"), "{said}");
        assert!(!said.contains("not found in the cluster"), "{said}");
        // An annotated Service may be all that there is.
        assert_eq!(explanation.ok, name == "api", "{said}");
    }
}
