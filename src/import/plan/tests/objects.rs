//! The contents of the ServiceImport and the derived Service, and the objects of other owners.

use insta::assert_snapshot;
use serde_json::json;

use super::cluster::Cluster;
use super::world::{BOTH, World, after, failed, fields, ports};
use crate::import::plan::{Kind, OwnerLabel, Stage};
use crate::model::{Family, InternalTrafficPolicy, Properties, SessionAffinity};

fn web() -> World {
    World::with_ports("http:80 udp!dns:53").exported("green", "10.0.0.1").exported("blue", "")
}

fn texts(pairs: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn with_properties() -> World {
    let mut world = web().families(&[Family::V6, Family::V4]);
    world.merged_mut().ports[0].app_protocol = Some("kubernetes.io/h2c".to_owned());
    world.merged_mut().properties = Properties {
        session_affinity: SessionAffinity::ClientIp(None),
        internal_traffic_policy: InternalTrafficPolicy::Local,
        traffic_distribution: Some("PreferClose".to_owned()),
        labels: texts(&[
            ("team", "shop"),
            ("cloud-map-sync/owner", "another"),
            ("on call", "us"),
            ("who", "all of us"),
        ]),
        annotations: texts(&[("docs", "https://example.org"), ("a, b", "")]),
    };
    world
}

#[test]
fn service_import_has_all_that_is_exported() {
    assert_snapshot!(fields(after(&with_properties()).object(Kind::ServiceImport)), @r#"
    apiVersion "multicluster.x-k8s.io/v1beta1"
    kind "ServiceImport"
    metadata.annotations {"cloud-map-sync/exported-annotations":"docs","cloud-map-sync/exported-labels":"team","docs":"https://example.org","multicluster.kubernetes.io/derived-service":"derived-isrlchlhrq"}
    metadata.labels {"cloud-map-sync/owner":"cloud-map-sync","team":"shop"}
    metadata.name "web"
    metadata.namespace "shop"
    metadata.resourceVersion "5"
    metadata.uid "uid-1"
    spec.internalTrafficPolicy "Local"
    spec.ipFamilies ["IPv6","IPv4"]
    spec.ips ["fd00:96::2","10.96.0.3"]
    spec.ports [{"appProtocol":"kubernetes.io/h2c","name":"http","port":80,"protocol":"TCP"},{"name":"dns","port":53,"protocol":"UDP"}]
    spec.sessionAffinity "ClientIP"
    spec.trafficDistribution "PreferClose"
    spec.type "ClusterSetIP"
    status.clusters [{"cluster":"blue"},{"cluster":"green"}]
    status.conditions [{"lastTransitionTime":"2026-11-01T12:00:00Z","message":"the import is complete; with internalTrafficPolicy Local its IP leads to pods of the client's own node alone","reason":"Ready","status":"True","type":"Ready"}]
    status.endpointSliceObjects "Present"
    "#);
}

#[test]
fn derived_service_has_no_selector_and_no_label_of_the_api() {
    assert_snapshot!(fields(after(&with_properties()).object(Kind::Service)), @r#"
    apiVersion "v1"
    kind "Service"
    metadata.labels {"cloud-map-sync/owner":"cloud-map-sync"}
    metadata.name "derived-isrlchlhrq"
    metadata.namespace "shop"
    metadata.ownerReferences [{"apiVersion":"multicluster.x-k8s.io/v1beta1","kind":"ServiceImport","name":"web","uid":"uid-1"}]
    metadata.resourceVersion "2"
    metadata.uid "uid-2"
    spec.clusterIPs ["fd00:96::2","10.96.0.3"]
    spec.internalTrafficPolicy "Local"
    spec.ipFamilies ["IPv6","IPv4"]
    spec.ipFamilyPolicy "PreferDualStack"
    spec.ports [{"appProtocol":"kubernetes.io/h2c","name":"http","port":80,"protocol":"TCP","targetPort":80},{"name":"dns","port":53,"protocol":"UDP","targetPort":53}]
    spec.sessionAffinity "ClientIP"
    spec.sessionAffinityConfig {"clientIP":{"timeoutSeconds":10800}}
    spec.trafficDistribution "PreferClose"
    spec.type "ClusterIP"
    "#);
}

#[test]
fn properties_of_a_later_export_replace_the_earlier_ones() {
    let mut cluster = after(&with_properties());
    let mut world = web().families(&[Family::V6, Family::V4]);
    world.merged_mut().properties.labels = texts(&[("tier", "front")]);
    assert_snapshot!(world.synced(&mut cluster), @"
    ~ Service derived-isrlchlhrq: internalTrafficPolicy, ports, sessionAffinity, sessionAffinityConfig, trafficDistribution
    ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, ports
    ~ ServiceImport web: annotations.cloud-map-sync/exported-annotations, annotations.cloud-map-sync/exported-labels, annotations.docs, labels.team, labels.tier, internalTrafficPolicy, ports, sessionAffinity, trafficDistribution
    ~ ServiceImport web status: Ready True/Ready, from blue, green
    ");
    let labels = &cluster.object(Kind::ServiceImport)["metadata"]["labels"];
    assert_eq!(*labels, json!({"cloud-map-sync/owner": "cloud-map-sync", "tier": "front"}));
}

#[test]
fn fields_of_other_writers_stay() {
    let mut cluster = after(&web());
    for object in cluster.objects.values_mut() {
        object["metadata"]["labels"]["argocd"] = json!("x");
        object["metadata"]["annotations"]["note"] = json!("y");
        object["metadata"]["finalizers"] = json!(["example.org/wait"]);
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "uid-0"});
        if let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() {
            owners.push(other);
        }
    }
    let import = cluster.object_mut(Kind::ServiceImport);
    let condition = json!({
        "type": "Programmed", "status": "True", "reason": "Done", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 3,
    });
    import["status"]["conditions"].as_array_mut().expect("conditions").push(condition.clone());
    assert_eq!(web().planned(&cluster), "nothing");
    let mut world = web().exported("red", "10.0.0.9");
    world.merged_mut().ports.extend(ports("https:443"));
    world.sync(&mut cluster);
    world.failures =
        vec![failed(Kind::EndpointSlice, "x", Stage::AddEndpoints, "connection refused")];
    world.sync(&mut cluster);
    for object in cluster.objects.values().filter(|it| it["metadata"]["finalizers"].is_array()) {
        assert_eq!(object["metadata"]["labels"]["argocd"], "x");
        assert_eq!(object["metadata"]["annotations"]["note"], "y");
    }
    assert_eq!(cluster.object(Kind::ServiceImport)["status"]["conditions"][1], condition);
}

#[test]
fn own_fields_that_another_writer_changed_are_repaired() {
    let mut cluster = after(&web());
    let service = cluster.object_mut(Kind::Service);
    service["spec"]["selector"] = json!({"app": "web"});
    service["spec"]["sessionAffinity"] = json!("ClientIP");
    service["metadata"]["ownerReferences"] = json!([]);
    let import = cluster.object_mut(Kind::ServiceImport);
    import["spec"]["ips"] = json!(["10.0.0.7"]);
    import["metadata"]["annotations"]["multicluster.kubernetes.io/derived-service"] = json!("x");
    let slice = cluster.object_mut(Kind::EndpointSlice);
    slice["endpoints"][0]["conditions"]["serving"] = json!(false);
    slice["metadata"]["labels"]["kubernetes.io/service-name"] = json!("web");
    assert_snapshot!(web().synced(&mut cluster), @"
    ~ Service derived-isrlchlhrq: selector, sessionAffinity, ownerReferences
    ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 1 changed, labels.kubernetes.io/service-name
    ~ ServiceImport web: annotations.multicluster.kubernetes.io/derived-service, ips
    ");
    assert_eq!(cluster.object(Kind::Service)["spec"]["selector"], json!(null));
}

#[test]
fn values_that_this_function_never_writes_are_overwritten() {
    let odd = |world: &World| {
        let mut cluster = after(world);
        let spec = &mut cluster.object_mut(Kind::ServiceImport)["spec"];
        spec["type"] = json!("Gateway");
        spec["ips"] = json!(["none"]);
        spec["ipFamilies"] = json!(["IPv5"]);
        cluster
    };
    let mut cluster = odd(&web());
    cluster.object_mut(Kind::EndpointSlice)["addressType"] = json!("FQDN");
    assert_snapshot!(web().synced(&mut cluster), @"
    + EndpointSlice imported-isrlchlhrq-8de69181-2: IPv4 of green, 1 in
    ~ ServiceImport web: ipFamilies, type, ips
    - EndpointSlice imported-isrlchlhrq-8de69181-1: FQDN of green, 1 out
    ");
    let headless = web().headless();
    assert_snapshot!(headless.synced(&mut odd(&headless)), @"~ ServiceImport web: ipFamilies, ips, type");
}

#[test]
fn objects_of_another_owner_are_left_alone() {
    let foreign = |kind: Kind| {
        let mut cluster = after(&web());
        let object = cluster.object_mut(kind);
        object["metadata"]["labels"]["cloud-map-sync/owner"] = json!("another");
        cluster
    };
    let mut import = foreign(Kind::ServiceImport);
    let mut service = foreign(Kind::Service);
    assert_snapshot!(web().planned(&import), @"! OtherOwner: ServiceImport shop/web has the label of the OWNER_ID another");
    assert_snapshot!(web().planned(&service), @"! OtherOwner: Service shop/derived-isrlchlhrq has the label of the OWNER_ID another");
    // Its name is not needed.
    assert_snapshot!(web().headless().planned(&service), @"
    ~ ServiceImport web: annotations.multicluster.kubernetes.io/derived-service, ips, type
    ~ EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, labels.kubernetes.io/service-name
    ");
    // Another number is free.
    assert_snapshot!(web().planned(&foreign(Kind::EndpointSlice)), @"+ EndpointSlice imported-isrlchlhrq-8de69181-2: IPv4 of green, 1 in");
    let gone = web().unexported("green").unexported("blue");
    assert_snapshot!(gone.planned(&service), @"- ServiceImport web: no cluster exports it; the last were blue, green");
    assert_snapshot!(gone.planned(&import), @"
    - Service derived-isrlchlhrq: no import uses it
    - EndpointSlice imported-isrlchlhrq-8de69181-1: IPv4 of green, 1 out
    ");
    service.collect_garbage();
    import.collect_garbage();
}

#[test]
fn import_of_another_installation_is_foreign() {
    let cluster = after(&web());
    let world = World { owner: OwnerLabel::new("team/a"), ..web() };
    assert_snapshot!(world.planned(&cluster), @"! OtherOwner: ServiceImport shop/web has the label of the OWNER_ID cloud-map-sync");
}

#[test]
fn primary_family_stays_and_a_second_one_comes_and_goes() {
    let mut cluster = after(&web());
    assert_snapshot!(web().families(&[Family::V6, Family::V4]).synced(&mut cluster), @"
    ~ Service derived-isrlchlhrq: ipFamilies, ipFamilyPolicy
    ~ ServiceImport web: ipFamilies, ips
    ");
    assert_snapshot!(spec(&cluster), @r#"["IPv6","IPv4"] ["fd00:96::6","10.96.0.3"]; ["IPv4","IPv6"] ["10.96.0.3","fd00:96::6"] "PreferDualStack""#);
    assert_snapshot!(web().families(&[Family::V6]).synced(&mut cluster), @"~ ServiceImport web: ipFamilies, ips");
    assert_snapshot!(spec(&cluster), @r#"["IPv6"] ["fd00:96::6"]; ["IPv4","IPv6"] ["10.96.0.3","fd00:96::6"] "PreferDualStack""#);
    assert_snapshot!(web().synced(&mut cluster), @"
    ~ ServiceImport web: ipFamilies, ips
    ~ Service derived-isrlchlhrq: ipFamilies, ipFamilyPolicy
    ");
    assert_snapshot!(spec(&cluster), @r#"["IPv4"] ["10.96.0.3"]; ["IPv4"] ["10.96.0.3"] "SingleStack""#);
}

/// The families and IPs of the import, then of the Service.
fn spec(cluster: &Cluster) -> String {
    let import = &cluster.object(Kind::ServiceImport)["spec"];
    let service = &cluster.object(Kind::Service)["spec"];
    let [families, ips] = [&import["ipFamilies"], &import["ips"]];
    let of_service = [&service["ipFamilies"], &service["clusterIPs"], &service["ipFamilyPolicy"]];
    let [own, cluster_ips, policy] = of_service;
    format!("{families} {ips}; {own} {cluster_ips} {policy}")
}

#[test]
fn families_that_the_cluster_lacks_are_left_out() {
    let mut world = web().families(&BOTH);
    world.available = vec![Family::V6];
    assert_snapshot!(world.synced(&mut Cluster::default()), @"
    + ServiceImport web: ClusterSetIP, http:80/TCP dns:53/UDP
    + Service derived-isrlchlhrq: IPv6, http:80/TCP dns:53/UDP
    ~ ServiceImport web: ips
    ~ ServiceImport web status: Ready True/Ready, from blue, green
    ");
    world.available = vec![Family::V4];
    assert_snapshot!(spec(&after(&world)), @r#"["IPv4"] ["10.96.0.3"]; ["IPv4"] ["10.96.0.3"] "SingleStack""#);
}

#[test]
fn export_that_names_no_family_takes_the_primary_one() {
    let world = web().families(&[]);
    assert_snapshot!(spec(&after(&world)), @r#"["IPv4"] ["10.96.0.3"]; ["IPv4"] ["10.96.0.3"] "SingleStack""#);
    let mut cluster = after(&web().families(&BOTH));
    assert_eq!(world.planned(&cluster), "nothing");
    world.sync(&mut cluster);
}

#[test]
fn cluster_without_the_families_gets_no_ip() {
    let mut world = web().families(&[Family::V6]);
    world.available = vec![Family::V4];
    assert_snapshot!(world.synced(&mut Cluster::default()), @"
    + ServiceImport web: ClusterSetIP, http:80/TCP dns:53/UDP
    ~ ServiceImport web status: Ready False/IPFamilyNotSupported, from blue, green
    ! IPFamilyNotSupported: the exports have IPv6, and this cluster has IPv4: the import has no IP
    ");
    // Clients may have the IP of a Service that is there.
    let mut cluster = after(&web());
    assert_snapshot!(world.synced(&mut cluster), @"
    ~ ServiceImport web: ipFamilies, ips
    ~ ServiceImport web status: Ready False/IPFamilyNotSupported, from blue, green
    ! IPFamilyNotSupported: the exports have IPv6, and this cluster has IPv4: the import has no IP
    ");
    assert_snapshot!(spec(&cluster), @r#"["IPv6"] null; ["IPv4"] ["10.96.0.3"] "SingleStack""#);
    world.available = Vec::new();
    assert_eq!(world.plan(&cluster).held_back.len(), 1);
}

#[test]
fn failed_change_is_shown_in_the_status_until_it_succeeds() {
    let mut cluster = after(&web());
    let name = "imported-isrlchlhrq-8de69181-1";
    let failure = failed(Kind::EndpointSlice, name, Stage::AddEndpoints, "services is forbidden");
    let failed = World { failures: vec![failure], ..web() };
    assert_snapshot!(failed.synced(&mut cluster), @"~ ServiceImport web status: Ready False/Pending, from blue, green");
    let mut later = web();
    later.now = "2026-11-01T13:00:00Z".parse().expect("a time");
    let conditions =
        |cluster: &Cluster| cluster.object(Kind::ServiceImport)["status"]["conditions"].to_string();
    assert_snapshot!(conditions(&cluster), @r#"[{"lastTransitionTime":"2026-11-01T12:00:00Z","message":"services is forbidden","reason":"Pending","status":"False","type":"Ready"}]"#);
    later.sync(&mut cluster);
    assert_snapshot!(conditions(&cluster), @r#"[{"lastTransitionTime":"2026-11-01T13:00:00Z","message":"the import is complete","reason":"Ready","status":"True","type":"Ready"}]"#);
}

#[test]
fn field_that_the_crd_does_not_declare_is_not_written() {
    let mut world = web();
    world.crd_has_slice_objects = false;
    let mut cluster = after(&world);
    assert_eq!(cluster.object(Kind::ServiceImport)["status"]["endpointSliceObjects"], json!(null));
    assert_snapshot!(web().synced(&mut cluster), @"~ ServiceImport web status: Ready True/Ready, from blue, green");
}
