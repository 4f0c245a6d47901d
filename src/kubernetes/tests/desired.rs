//! Annotated Services from Service objects.

use k8s_openapi::api::core::v1::Endpoints;
use serde_json::{Value, json};

use crate::kubernetes::endpoints::{Endpoints as ServiceEndpoints, from_core};
use crate::kubernetes::object::{EndpointSlice, ObjectMetadata, Service};
use crate::kubernetes::services::{AnnotationSettings, annotated, desired};
use crate::model::{Family, NamespaceReference, ServicePort, ServiceRef};

fn reading(default_namespace: Option<&str>) -> AnnotationSettings {
    let default_namespace = default_namespace.and_then(NamespaceReference::parse);
    AnnotationSettings { prefix: "cloudmap.controller/".to_owned(), default_namespace }
}

fn service(annotations: &Value, spec: &Value) -> Service {
    let metadata = json!({
        "namespace": "shop", "name": "web", "annotations": annotations,
        "creationTimestamp": "2026-11-21T08:00:00Z",
    });
    let service = json!({ "metadata": metadata, "spec": spec });
    serde_json::from_value(service).expect("a Service")
}

#[test]
fn an_annotated_service_is_read_with_age_ports_and_families() {
    let spec = json!({
        "clusterIP": "None",
        "ipFamilies": ["IPv6", "IPv4", "IPv8"],
        "selector": { "app": "web" },
        "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }, { "port": 90 }],
    });
    let service_of =
        |spec: &Value| service(&json!({ "cloudmap.controller/hostname": "web" }), spec);
    let read = annotated(&service_of(&spec), &reading(None)).expect("annotated");
    assert_eq!(read.created, 1_795_248_000);
    assert_eq!(read.families, [Family::V4, Family::V6].into());
    let without = json!({ "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack" });
    let without = annotated(&service_of(&without), &reading(None)).expect("annotated");
    assert!(without.families.is_empty(), "without a selector the API server states both");
    let port = |name: &str, number| ServicePort { name: name.into(), number };
    assert_eq!(read.ports, [port("http", 80), port("", 90)]);
    assert_eq!(read.endpoints, None);
}

#[test]
fn the_cloud_map_namespace_is_the_annotated_then_the_clusters_then_the_kubernetes_one() {
    let cases = [
        (Some("prod.local"), Some("shared"), "prod.local"),
        (None, Some("shared"), "shared"),
        (None, None, "shop"),
    ];
    for (annotation, default, expected) in cases {
        let mut annotations = json!({ "cloudmap.controller/hostname": "web" });
        if let Some(namespace) = annotation {
            annotations["cloudmap.controller/namespace"] = json!(namespace);
        }
        let read = annotated(&service(&annotations, &json!({})), &reading(default));
        let claims = read.expect("annotated").claims.expect("usable");
        assert_eq!(claims.namespace.to_string(), expected);
    }
}

#[test]
fn only_services_annotated_under_our_prefix_are_desired() {
    let annotations = [
        (json!({ "cloudmap.controller/hostname": "web" }), true),
        (json!({ "cloudmap.controller/hostname": "a b" }), true),
        (json!({ "cloudmap.controller/namespace": "prod" }), false),
        (json!({ "other.controller/hostname": "web" }), false),
        (json!({}), false),
    ];
    for (annotations, expected) in annotations {
        let services = [service(&annotations, &json!({}))];
        let names: Vec<ServiceRef> =
            desired(&services, &reading(None)).services.into_keys().collect();
        let web = expected.then(|| ServiceRef::new("shop", "web"));
        assert_eq!(names, web.into_iter().collect::<Vec<_>>(), "{annotations}");
    }
}

#[test]
fn endpoints_that_were_read_are_known_to_be_none() {
    for none in [ServiceEndpoints::default(), from_core(&Endpoints::default())] {
        assert_eq!(none.all, []);
    }
}

#[test]
fn endpoints_are_truncated_if_the_cluster_annotates_it() {
    let annotated = |capacity: &str| {
        json!({
            "annotations": { "endpoints.kubernetes.io/over-capacity": capacity },
        })
    };
    let read = |metadata: Value| {
        let slice = json!({ "metadata": metadata, "addressType": "IPv4", "endpoints": [] });
        let slice: EndpointSlice = serde_json::from_value(slice).expect("an EndpointSlice");
        let other = EndpointSlice { metadata: ObjectMetadata::default(), ..slice.clone() };
        let core = serde_json::from_value(json!({ "metadata": metadata }));
        [[other, slice].into_iter().collect(), from_core(&core.expect("an Endpoints object"))]
    };
    let cases = [(annotated("truncated"), true), (annotated("warning"), false), (json!({}), false)];
    for (metadata, expected) in cases {
        for read in read(metadata.clone()) {
            assert_eq!(read.truncated, expected, "{metadata}");
        }
    }
}
