//! What is read of a cluster: which endpoints are registered, however the API server tells of them. Of a cluster that
//! cannot be read whole nothing is changed, the others are served, and the report says what would help.

use cloud_map_sync::actions::explain::Explanation;
use cloud_map_sync::function::Function;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::fleet::{Fleet, annotated, give_pods, web_of};
use crate::run::{converge, converged, held_back, plan, problem, report, said_of, sync};
use testbed::ROLE_ARN;
use testbed::function::invoke;
use testbed::kubernetes::{Fault, FaultKind, Headless, Pod, RequestLine};

/// A slice of `shop/web` as somebody writes it by hand.
fn slice(name: &str, addresses: &[impl AsRef<str>]) -> Value {
    let endpoint = |address: &str| json!({ "addresses": [address], "conditions": {} });
    let endpoints: Vec<Value> = addresses.iter().map(|it| endpoint(it.as_ref())).collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "name": name, "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"},
        },
        "endpoints": endpoints, "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    })
}

#[tokio::test]
async fn address_with_leading_zeros_is_a_line_and_its_instance_stays() {
    let fleet = Fleet::start().await;
    fleet.service(annotated("web", "prod", "web").without_selector());
    let put = |first: &str| fleet.cluster.put(slice("web-0", &[first, "10.1.0.6"]));
    let function = fleet.function().await;
    put("10.1.0.5");
    converge(&fleet, &function).await;
    put("010.001.000.005");

    let report = converge(&fleet, &function).await;

    assert_eq!(held_back(&report), ["AddressMalformed"], "{report}");
    let line = said_of(&report, "AddressMalformed");
    assert!(line.contains("\"010.001.000.005\"") && line.contains("as 10.1.0.5"), "{line}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.1.0.5", "10.1.0.6"]);

    put("10.1.0.7");
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.1.0.6", "10.1.0.7"]);
}

/// Kubernetes takes host names in place of addresses, for consumers other than Services (istio 34995).
#[tokio::test]
async fn slices_of_host_names_are_one_line_and_explained() {
    let fleet = Fleet::start().await;
    fleet.service(annotated("web", "prod", "web").without_selector());
    let mut names = slice("web-0", &["db-0.example.com", "db-1.example.com"]);
    names["addressType"] = "FQDN".into();
    fleet.cluster.put(names);
    let function = fleet.function().await;

    let report = converge(&fleet, &function).await;

    assert_eq!(held_back(&report), ["AddressTypeFqdn"], "{report}");
    let line = said_of(&report, "AddressTypeFqdn");
    assert!(line.contains("addressType FQDN") && line.contains("IPv4 or IPv6"), "{line}");
    let explain = json!({"action": "explain", "namespace": "shop", "service": "web"});
    let answer = invoke(&function, &explain).await.response.expect("an explanation");
    let said = Explanation::deserialize(answer).expect("of this release").to_string();
    assert!(!said.contains("created with the first instance"), "{said}");
    for line in [
        "all EndpointSlices have addressType FQDN",
        "! endpoint   db-0.example.com (ready): not registered: endpoints in EndpointSlices of addressType FQDN are not published",
        "! held back  shop/web (AddressTypeFqdn)",
        "problems found",
    ] {
        assert!(said.contains(line), "{line}\n{said}");
    }
}

/// 600 slices of three endpoints: two pages of 500.
#[tokio::test]
async fn slices_and_services_of_several_pages_are_read_to_the_end() {
    let fleet = Fleet::start().await;
    fleet.service(annotated("web", "prod", "web").without_selector());
    for index in 0..600 {
        let address = |last| format!("10.{}.{}.{last}", 1 + index / 256, index % 256);
        fleet.cluster.put(slice(&format!("web-{index}"), &[1, 2, 3].map(address)));
        fleet.web(&format!("small-{index}"), "prod", &[]);
    }
    fleet.web("zz-last", "prod", &["10.9.9.9"]);
    fleet.cluster.forget_requests();

    let report = plan(&fleet.function().await).await;

    assert_eq!(report.counts.registered, 1001, "{:?}", report.counts);
    assert!(report.to_string().contains("1000 of 1800 instances fit"), "{report}");
    let requests = fleet.cluster.requests();
    let continued = requests.iter().filter(|request| request.query.contains("continue="));
    assert!(continued.count() >= 2, "{requests:?}");
}

#[tokio::test]
async fn slices_of_many_namespaces_are_one_list_of_the_cluster() {
    for (namespaces, lists) in [(10, 10), (300, 1)] {
        let fleet = Fleet::start().await;
        for index in 0..namespaces {
            let namespace = format!("team-{index}");
            let name = format!("web-{index}");
            fleet.service(Headless::new(&namespace, &name).claim(&name, "prod"));
            let address = format!("10.0.{}.{}", index / 250, index % 250 + 1);
            fleet.cluster.pods(&namespace, &name, &[Pod::new("pod", &address)]);
            // Of the same name as a Service of another namespace, and not annotated.
            let other = format!("web-{}", index + 1);
            fleet.service(Headless::new(&namespace, &other));
            fleet.cluster.pods(&namespace, &other, &[Pod::new("other", "10.9.9.9")]);
        }
        let function = fleet.function().await;
        let report = converge(&fleet, &function).await;
        assert_eq!(report.counts.registered, namespaces, "{:?}", report.counts);
        fleet.cluster.forget_requests();

        sync(&function).await;

        let requests = fleet.cluster.requests();
        let is_first_page = |it: &&RequestLine| !it.query.contains("continue=");
        let of_slices = requests.iter().filter(|it| it.path.ends_with("/endpointslices"));
        assert_eq!(of_slices.filter(is_first_page).count(), lists, "{namespaces} namespaces");
        assert!(requests.len() < 12, "{} requests", requests.len());
    }
}

#[tokio::test]
async fn list_whose_continue_token_expires_is_begun_again() {
    let fleet = Fleet::start().await;
    for index in 0..501 {
        fleet.web(&format!("small-{index}"), "prod", &[]);
    }
    fleet.web("zz-last", "prod", &["10.9.9.9"]);
    fleet.cluster.fail(Fault::once("/api/v1/services", FaultKind::Expired410OnContinue));

    let report = plan(&fleet.function().await).await;

    assert_eq!((report.ok, report.counts.registered), (true, 1), "{:?}", report.counts);
    let statuses: Vec<_> = fleet.cluster.requests().into_iter().map(|it| it.status).collect();
    assert_eq!(statuses[..4], [200, 410, 200, 200]);
}

#[tokio::test]
async fn server_before_kubernetes_1_31_is_read_without_the_field_selector() {
    let fleet = Fleet::start().await;
    fleet.cluster.set_minor_version(30);
    fleet.web("web", "prod", &["10.0.1.1"]);
    fleet.service(annotated("balanced", "prod", "balanced").cluster_ip("10.100.0.7"));
    fleet.pods("balanced", &["10.0.1.2"]);

    let report = converge(&fleet, &fleet.function().await).await;

    assert_eq!(report.counts.registered, 1, "{report}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
}

#[tokio::test]
async fn server_without_endpoint_slices_is_read_through_v1_endpoints() {
    let fleet = Fleet::start().await;
    fleet.cluster.serve_slices(false);
    fleet.service(annotated("web", "prod", "web").annotate("cloudmap.controller/port", "http"));
    let pods = [
        Pod::new("web-0", "10.0.1.1"),
        Pod::new("web-1", "10.0.1.2").not_ready(),
        Pod::new("web-2", "10.0.1.3").terminating(),
    ];
    fleet.cluster.pods("shop", "web", &pods);
    fleet.web("cart", "prod", &["10.0.2.1"]);
    let function = converged(&fleet).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1"]);
    assert_eq!(fleet.values("prod", "web", "AWS_INSTANCE_PORT"), ["8080"]);

    fleet.cluster.delete_service("shop", "cart");
    fleet.pods("web", &["10.0.1.4"]);
    converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.4"]);
    assert_eq!(fleet.instances("prod", "cart").len(), 0);
}

/// The endpoints controller leaves out addresses beyond the thousandth, and slices mirrored from its list say so, too.
#[tokio::test]
async fn list_that_the_cluster_cuts_short_registers_and_takes_nothing_out() {
    let fleet = Fleet::start().await;
    fleet.service(annotated("web", "prod", "web").without_selector());
    let put = |addresses: [&str; 2], is_cut: bool| {
        let mut slice = slice("web-0", &addresses);
        if is_cut {
            let annotations = json!({ "endpoints.kubernetes.io/over-capacity": "truncated" });
            slice["metadata"]["annotations"] = annotations;
        }
        fleet.cluster.put(slice);
    };
    let function = fleet.function().await;
    put(["10.0.1.1", "10.0.1.2"], false);
    converge(&fleet, &function).await;

    put(["10.0.1.2", "10.0.1.3"], true);
    let report = converge(&fleet, &function).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.1.2", "10.0.1.3"]);
    assert_eq!(held_back(&report), ["EndpointsTruncated"], "{report}");
}

const SERVICES: &str = "/api/v1/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices";

/// `web` of blue with two pods and of green with one, registered; blue's are now one fewer, so a
/// run that believes half an answer would take something out.
async fn two_clusters() -> (Fleet, Function) {
    let (fleet, green) = Fleet::with_green().await;
    fleet.web("web", "prod", &["10.0.1.1", "10.0.1.2"]);
    web_of(&green, "web", "prod", &["10.0.2.1"]);
    let function = converged(&fleet).await;
    fleet.pods("web", &["10.0.1.1"]);
    give_pods(&green, "web", &["10.0.2.2"]);
    (fleet, function)
}

/// Blue is not read, and green is served.
async fn blue_is_left_alone(fleet: &Fleet, function: &Function, helps: &str) {
    let report = sync(function).await;
    assert!(!report.ok && report.counts.unreadable == 1, "{report}");
    let problem = problem(&report, "blue");
    assert!(problem.contains(helps), "{problem:?} lacks {helps:?}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.1.2", "10.0.2.2"], "{helps}");
}

async fn heals(fleet: &Fleet, function: &Function) {
    converge(fleet, function).await;
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.2.2"]);
}

#[tokio::test]
async fn slices_that_cannot_be_read_lose_no_instance() {
    let (fleet, function) = two_clusters().await;
    for (kind, helps) in [
        (FaultKind::Status(500), "500"),
        (FaultKind::Status(403), "deploy/rbac.yaml"),
        (FaultKind::NotJson, "of the cluster"),
    ] {
        fleet.cluster.fail(Fault::always(SLICES, kind));
        blue_is_left_alone(&fleet, &function, helps).await;
        fleet.cluster.clear_faults();
    }
    heals(&fleet, &function).await;
}

#[tokio::test]
async fn server_that_fails_at_the_second_look_loses_no_instance() {
    let (fleet, function) = two_clusters().await;
    fleet.cluster.refuse("/api/v1/namespaces/shop/services/web", 500);
    let report = report(&function, &json!({"action": "sync", "cluster": "blue"})).await;
    assert!(!report.ok && report.counts.failed == 1, "{report}");
    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.1", "10.0.1.2", "10.0.2.1"]);
}

/// Without their zones, and perhaps without pods that are terminating, all instances would be written anew.
#[tokio::test]
async fn not_found_on_slices_that_discovery_lists_is_no_reason_to_read_v1_endpoints() {
    let (fleet, function) = two_clusters().await;
    let before = fleet.instances("prod", "web");
    fleet.cluster.fail(Fault::once(SLICES, FaultKind::Status(404)));
    blue_is_left_alone(&fleet, &function, "404").await;
    let after = fleet.instances("prod", "web");
    let same = before.iter().filter(|(id, it)| after.get(*id) == Some(it));
    assert_eq!(same.count(), 2, "green's alone is replaced");
    let asked = |path: &str| {
        let requests = fleet.cluster.requests().into_iter();
        requests.filter(|request| request.path.ends_with(path)).count()
    };
    assert_eq!((asked("/apis"), asked("/endpoints/web")), (1, 0));

    fleet.cluster.fail(Fault::once(SLICES, FaultKind::Status(404)));
    blue_is_left_alone(&fleet, &function, "404").await;
    assert_eq!(asked("/apis"), 1, "discovery is asked once a process");
    heals(&fleet, &function).await;
}

/// A cluster without the group `discovery.k8s.io` says so in the list of its groups, and nowhere else.
#[tokio::test]
async fn discovery_that_fails_or_lists_nothing_loses_no_instance() {
    for kind in [FaultKind::Status(404), FaultKind::Status(500), FaultKind::NotJson] {
        let (fleet, function) = two_clusters().await;
        fleet.cluster.refuse(SLICES, 404);
        fleet.cluster.fail(Fault::always("/apis", kind));
        blue_is_left_alone(&fleet, &function, "list the API groups").await;
        fleet.cluster.clear_faults();
        heals(&fleet, &function).await;
    }
}

#[tokio::test]
async fn overload_that_ends_is_healed_by_waiting_as_the_server_asks() {
    let (fleet, function) = two_clusters().await;
    fleet.cluster.fail(Fault::once(SERVICES, FaultKind::RetryAfter(1)));
    fleet.cluster.fail(Fault::once(SLICES, FaultKind::Status(503)));
    heals(&fleet, &function).await;
}

#[tokio::test]
async fn list_whose_later_pages_fail_or_keep_expiring_loses_no_instance() {
    let expired = FaultKind::Expired410OnContinue;
    for (kind, helps) in [(FaultKind::SecondPageFails, "500"), (expired, "410")] {
        let (fleet, function) = two_clusters().await;
        for index in 0..500 {
            fleet.web(&format!("a-{index}"), "prod", &[]);
        }
        fleet.cluster.fail(Fault::always(SERVICES, kind));
        blue_is_left_alone(&fleet, &function, helps).await;
    }
}

#[tokio::test]
async fn server_of_another_authority_is_not_talked_to() {
    let (fleet, _) = two_clusters().await;
    fleet.sandbox.use_sockets();
    fleet.cluster.serve_other_certificate();
    fleet.cluster.forget_requests();
    let function = fleet.function().await;

    blue_is_left_alone(&fleet, &function, "certificate").await;

    assert_eq!(fleet.cluster.requests(), []);
    fleet.cluster.serve_own_certificate();
    heals(&fleet, &function).await;
}

#[tokio::test]
async fn report_names_the_access_entry_that_a_role_lacks() {
    let (fleet, function) = two_clusters().await;
    fleet.cluster.revoke(ROLE_ARN);
    blue_is_left_alone(&fleet, &function, "access entry").await;
    fleet.cluster.grant(ROLE_ARN, &["system:authenticated"]);
    blue_is_left_alone(&fleet, &function, "deploy/rbac.yaml").await;
    fleet.cluster.grant(ROLE_ARN, &["cloud-map-sync"]);
    heals(&fleet, &function).await;
}

#[tokio::test]
async fn cluster_that_eks_does_not_tell_of_loses_no_instance() {
    let (fleet, _) = two_clusters().await;
    let eks = &fleet.sandbox.aws().eks;
    let arn = fleet.sandbox.cluster_arn("blue");
    eks.deny(&arn, true);
    blue_is_left_alone(&fleet, &fleet.function().await, "AccessDeniedException").await;
    eks.deny(&arn, false);
    eks.set_status(&arn, "CREATING");
    blue_is_left_alone(&fleet, &fleet.function().await, "CREATING").await;
    eks.delete(&arn);
    blue_is_left_alone(&fleet, &fleet.function().await, "has no cluster \"blue\"").await;
    eks.register(&fleet.cluster);
    heals(&fleet, &fleet.function().await).await;
}

#[tokio::test]
async fn token_that_is_refused_once_is_tried_again_with_a_new_connection() {
    let (fleet, function) = two_clusters().await;
    fleet.cluster.fail(Fault::once(SERVICES, FaultKind::Status(401)));
    fleet.sandbox.aws().forget_requests();

    heals(&fleet, &function).await;

    let requests = fleet.sandbox.aws().requests();
    let described = requests.iter().filter(|request| request.operation == "DescribeCluster");
    assert_eq!(described.count(), 1);
}

/// A new cluster under the old name has another address and another authority.
#[tokio::test]
async fn cluster_made_again_under_its_name_is_found_where_it_is_now() {
    let (fleet, function) = two_clusters().await;
    let identity = fleet.cluster.identity();
    fleet.cluster.stop();
    let new = fleet.sandbox.add_cluster(identity, ROLE_ARN).await;
    web_of(&new, "web", "prod", &["10.0.1.7"]);

    converge(&fleet, &function).await;

    assert_eq!(fleet.addresses("prod", "web"), ["10.0.1.7", "10.0.2.2"]);
}
