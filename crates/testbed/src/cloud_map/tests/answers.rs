//! The required members of a request, the limits of an instance's attributes, and damaged replies.

use axum::body::to_bytes;
use serde_json::json;

use super::super::{Behaviour, Fault, FaultKind, OtherCase, Quotas, RecordType};
use super::{
    call, cloud_map, dns_service, done, http_service, register, registration, request, send,
};

#[tokio::test]
async fn a_request_needs_a_signature_in_scope_and_the_protocols_headers() {
    let map = cloud_map();
    let mut seen = Vec::new();
    for (header, value) in [
        ("authorization", ""),
        (
            "authorization",
            "AWS4-HMAC-SHA256 Credential=AK/1/us-west-2/servicediscovery/aws4_request",
        ),
        (
            "authorization",
            "AWS4-HMAC-SHA256 Credential=AK/1/us-east-1/servicediscovery/aws4_request, SignedHeaders=host, Signature=0",
        ),
        ("content-type", "application/json"),
        ("x-amz-target", "ListNamespaces"),
    ] {
        let mut request = request("localhost", "ListNamespaces", &json!({}));
        request.headers_mut().insert(header, value.parse().expect("a header"));
        seen.push(send(&map, request).await.1["__type"].as_str().unwrap_or_default().to_owned());
    }
    assert_eq!(
        seen,
        [
            "MissingAuthenticationTokenException",
            "IncompleteSignatureException",
            "InvalidSignatureException",
            "UnknownOperationException",
            "UnknownOperationException",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn known_key_in_other_letters_is_a_dial() {
    let (lower, upper) = ("aws_instance_ipv4", "AWS_INSTANCE_IPV4");
    let both = json!({ lower: "10.0.0.1", upper: "10.0.0.2" });
    for (known_key_in_other_case, of_both, of_a) in [
        (OtherCase::AnyAttribute, vec![upper, lower], false),
        (OtherCase::TheKnownOne, vec![upper], true),
    ] {
        let map = cloud_map();
        map.behave(Behaviour { known_key_in_other_case, ..Behaviour::default() });
        let (http, dns) = (http_service(&map, "web"), dns_service(&map, &[RecordType::A]));
        register(&map, &http, "a", both.clone()).await;
        let stored = map.instances(&http)["a"].clone();
        assert!(stored.keys().eq(&of_both) && stored[upper] == "10.0.0.2", "{stored:?}");
        let lower = registration(&dns, "a", &json!({ lower: "10.0.0.1" }));
        assert_eq!(call(&map, "RegisterInstance", lower).await.0 == 200, of_a);
    }
}

#[tokio::test]
async fn statuses_of_the_model_are_a_dial() {
    for (statuses_of_the_model, expected) in [(false, 400), (true, 404)] {
        let map = cloud_map();
        map.behave(Behaviour { statuses_of_the_model, ..Behaviour::default() });
        let gone = json!({ "ServiceId": http_service(&map, "web"), "InstanceId": "gone" });
        let (status, answer) = call(&map, "GetInstance", gone).await;
        assert_eq!((status, &answer["__type"]), (expected, &json!("InstanceNotFound")));
    }
}

#[tokio::test]
async fn both_throttles_answer_as_their_plane_does() {
    let map = cloud_map();
    http_service(&map, "web");
    let quotas =
        Some(Quotas::none().limit("ListServices", 1.0, 1.0).limit("DiscoverInstances", 1.0, 0.0));
    map.behave(Behaviour { quotas, ..Behaviour::default() });
    done(&map, "ListServices", json!({})).await;
    let (status, answer) = call(&map, "ListServices", json!({})).await;
    assert_eq!(
        (status, &answer["__type"], &answer["message"]),
        (400, &json!("ThrottlingException"), &json!("Rate exceeded"))
    );
    let named = json!({ "NamespaceName": "shop", "ServiceName": "web" });
    let (status, answer) = send(&map, request("data-x", "DiscoverInstances", &named)).await;
    assert_eq!((status, &answer["__type"]), (400, &json!("RequestLimitExceeded")));
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_leaves_its_effect_and_a_refused_call_none() {
    let map = cloud_map();
    let web = http_service(&map, "web");
    for (instance, kind) in [
        ("done-500", FaultKind::FailAfterEffect),
        ("done-lost", FaultKind::DropAfterEffect),
        ("done-cut", FaultKind::Cut),
        ("not-500", FaultKind::ServerError),
        ("not-reset", FaultKind::Reset),
    ] {
        map.inject(Fault::on("RegisterInstance", kind).instance(instance));
        let register =
            request("localhost", "RegisterInstance", &registration(&web, instance, &json!({})));
        let response = map.answer(register).await;
        let whole = to_bytes(response.into_body(), usize::MAX).await.is_ok();
        assert_eq!(whole, instance.ends_with("500"), "{instance}");
    }
    tokio::time::sleep(super::Duration::from_secs(1)).await;
    assert!(map.instances(&web).keys().eq(["done-500", "done-cut", "done-lost"]));
    let statuses: Vec<u16> = map.calls().iter().map(|call| call.status).collect();
    assert_eq!(statuses, [500, 0, 200, 500, 0]);
}
