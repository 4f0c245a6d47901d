//! The required members of a request, the limits of an instance's attributes, and damaged replies.

use axum::body::to_bytes;
use serde_json::{Map, Value, json};

use super::super::{
    Behaviour, CloudMap, Fault, FaultKind, NamespaceKind, OtherCase, Quotas, RecordType,
    ServiceKind,
};
use super::{
    call, cloud_map, dns_service, done, http_service, refused, register, registration, request,
    send,
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

#[tokio::test]
async fn the_records_of_a_service_say_which_attributes_it_needs() {
    let map = cloud_map();
    let (v4, v6, port) = ("AWS_INSTANCE_IPV4", "AWS_INSTANCE_IPV6", "AWS_INSTANCE_PORT");
    for (records, good, bad) in [
        (vec![RecordType::A], json!({ v4: "10.0.0.1" }), json!({ v6: "::1" })),
        (
            vec![RecordType::A, RecordType::Aaaa],
            json!({ v4: "10.0.0.1", v6: "::1" }),
            json!({ v4: "10.0.0.1" }),
        ),
        (vec![RecordType::Srv], json!({ v6: "::1", port: "80" }), json!({ v6: "::1" })),
        (vec![RecordType::Srv], json!({ v4: "10.0.0.1", port: "1" }), json!({ port: "80" })),
        (
            vec![RecordType::Cname],
            json!({ "AWS_INSTANCE_CNAME": "x.example" }),
            json!({ v4: "10.0.0.1" }),
        ),
        (
            vec![RecordType::A],
            json!({ v4: "10.0.0.1", port: "80" }),
            json!({ v4: "10.0.0.1", port: "0" }),
        ),
        (vec![RecordType::A], json!({ v4: "10.0.0.1" }), json!({ v4: "10.0.0.256" })),
    ] {
        let web = dns_service(&map, &records);
        assert_eq!(
            refused(&map, "RegisterInstance", registration(&web, "a", &bad)).await,
            "InvalidInput",
            "{bad}"
        );
        done(&map, "RegisterInstance", registration(&web, "a", &good)).await;
    }
}

#[tokio::test]
async fn thirty_custom_attributes_and_five_thousand_characters_are_the_most() {
    let map = cloud_map();
    let web = http_service(&map, "web");
    let attributes = |count: usize, value: &str| -> Value {
        (0..count)
            .map(|number| (format!("k{number:03}"), json!(value)))
            .collect::<Map<_, _>>()
            .into()
    };
    let mut full = attributes(30, "");
    full["AWS_INSTANCE_PORT"] = json!("80");
    done(&map, "RegisterInstance", registration(&web, "full", &full)).await;
    done(&map, "RegisterInstance", registration(&web, "long", &attributes(5, &"v".repeat(996))))
        .await;
    let mut too_long = attributes(5, &"v".repeat(996));
    too_long["k000"] = json!("v".repeat(997));
    for wrong in [attributes(31, ""), too_long, json!({"k": "é"}), json!({"k": "v".repeat(1025)})]
    {
        assert_eq!(
            refused(&map, "RegisterInstance", registration(&web, "wrong", &wrong)).await,
            "InvalidInput"
        );
    }
}

/// A public service with A records and a health check of Route 53; its id.
fn checked_service(map: &CloudMap, kind: NamespaceKind) -> String {
    let namespace = map.namespace("example.com", kind);
    let records = vec![(RecordType::A, 60)];
    let kind = match kind {
        NamespaceKind::Http => ServiceKind::Http,
        _ => ServiceKind::Dns { records, custom_health: false },
    };
    let service = map.service(&namespace, "web", kind);
    map.dress(&service, "checked", &json!({ "Type": "TCP", "FailureThreshold": 1 }));
    service
}

/// The words in which a registration is refused.
async fn words(map: &CloudMap, service: &str, attributes: Value) -> String {
    let (status, answer) =
        call(map, "RegisterInstance", registration(service, "a", &attributes)).await;
    assert_eq!(
        (status, &answer["__type"]),
        (400, &json!("InvalidInput")),
        "{attributes}: {answer}"
    );
    answer["Message"].as_str().expect("words").to_owned()
}

#[tokio::test]
async fn a_registration_is_refused_in_the_recorded_words() {
    let map = cloud_map();
    let (http, dns) = (http_service(&map, "web"), dns_service(&map, &[RecordType::A]));
    let checked = checked_service(&map, NamespaceKind::DnsPublic);
    let (v4, port) = ("AWS_INSTANCE_IPV4", "AWS_INSTANCE_PORT");
    let rows = [
        (
            &http,
            json!({ "aws_my_attr": "v" }),
            "Invalid attribute: [aws_my_attr]. [aws_] prefix is reserved for AWS attributes.",
        ),
        (
            &http,
            json!({ "AWS_INIT_HEALTH_STATUS": "UNKNOWN" }),
            "No enum constant com.amazon.route53.autonaming.model.InitHealthStatus.UNKNOWN",
        ),
        (
            &http,
            json!({ "AWS_EC2_INSTANCE_ID": "i-0123", port: "80" }),
            "Invalid combination of attributes received. AWS_EC2_INSTANCE_ID is not supported with [AWS_INSTANCE_PORT].",
        ),
        (
            &dns,
            json!({ "AWS_ALIAS_DNS_NAME": "lb.example" }),
            "ALIAS instance can be registered only in services with WEIGHTED routing policy",
        ),
        (&dns, json!({}), "Required attribute(s) AWS_INSTANCE_IPV4 are missing."),
        (
            &checked,
            json!({ v4: "203.0.113.7" }),
            "A port must be supplied in order to register this instance.",
        ),
        (
            &checked,
            json!({ v4: "10.0.0.1", port: "80" }),
            "IPv4 address 10.0.0.1 is forbidden for healthChecks",
        ),
    ];
    for (service, attributes, expected) in rows {
        assert_eq!(words(&map, service, attributes).await, expected);
    }
    done(
        &map,
        "RegisterInstance",
        registration(&http, "a", &json!({ "AWS_INIT_HEALTH_STATUS": "HEALTHY" })),
    )
    .await;
}

#[tokio::test]
async fn networks_that_a_check_refuses_are_a_dial() {
    let map = cloud_map();
    let checked = checked_service(&map, NamespaceKind::Http);
    let at = |address: &str| json!({ "AWS_INSTANCE_IPV4": address, "AWS_INSTANCE_PORT": "80" });
    let refused = ["10.255.0.1", "172.31.0.1", "192.168.9.9", "192.0.2.255"];
    for address in refused {
        assert!(words(&map, &checked, at(address)).await.contains(address));
    }
    for (index, address) in ["172.32.0.1", "100.64.0.1", "203.0.113.7"].into_iter().enumerate() {
        let id = format!("free-{index}");
        done(&map, "RegisterInstance", registration(&checked, &id, &at(address))).await;
    }
    let checks_refuse_addresses_in_http = false;
    map.behave(Behaviour { checks_refuse_addresses_in_http, ..Behaviour::default() });
    done(&map, "RegisterInstance", registration(&checked, "http", &at("10.0.0.1"))).await;
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
async fn a_request_is_checked_before_anything_is_looked_up() {
    let map = cloud_map();
    let (unknown, long) = ("srv-aaaaaaaaaaaaaaaa", "x".repeat(1025));
    for (operation, wrong) in [
        ("CreateService", json!({ "Name": "a", "NamespaceId": "ns-a", "Description": long })),
        ("UpdateService", json!({ "Id": unknown, "Service": { "Description": long } })),
        ("UpdateHttpNamespace", json!({ "Id": "ns-a", "Namespace": { "Description": long } })),
        ("GetInstance", json!({ "ServiceId": unknown, "InstanceId": long })),
        ("DeregisterInstance", json!({ "ServiceId": unknown, "InstanceId": long })),
        ("ListInstances", json!({ "ServiceId": unknown, "MaxResults": 0 })),
        ("GetInstancesHealthStatus", json!({ "ServiceId": unknown, "Instances": [] })),
        (
            "UpdateInstanceCustomHealthStatus",
            json!({ "ServiceId": unknown, "InstanceId": "a", "Status": "UNKNOWN" }),
        ),
        ("UpdateServiceAttributes", json!({ "ServiceId": unknown, "Attributes": { "k": long } })),
        ("DeleteServiceAttributes", json!({ "ServiceId": unknown, "Attributes": [] })),
    ] {
        assert_eq!(refused(&map, operation, wrong).await, "InvalidInput", "{operation}");
    }
    let named = json!({ "NamespaceName": "n", "ServiceName": "s", "HealthStatus": "FINE" });
    let answer = send(&map, request("data-x", "DiscoverInstances", &named)).await.1;
    assert_eq!(answer["__type"], "InvalidInput");
}

#[tokio::test(start_paused = true)]
async fn an_ec2_instance_reads_back_with_the_address_that_the_service_found() {
    let map = cloud_map();
    let web = http_service(&map, "web");
    register(&map, &web, "a", json!({ "AWS_EC2_INSTANCE_ID": "i-0123" })).await;
    assert!(map.instances(&web)["a"].contains_key("AWS_INSTANCE_IPV4"));
    let with_more = json!({ "AWS_EC2_INSTANCE_ID": "i-0123", "more": "" });
    assert_eq!(
        refused(&map, "RegisterInstance", registration(&web, "b", &with_more)).await,
        "InvalidInput"
    );
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
